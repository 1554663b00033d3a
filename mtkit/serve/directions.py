"""The directions that a server translates: with one model, or through a third language."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mtkit.artifacts.runs import SETTINGS, config_of, default_place
from mtkit.config.language_codes import language_name, standard_language
from mtkit.decoding.estimation.estimator import load_estimator
from mtkit.errors import UserError
from mtkit.models.folder import OpenedModel, open_model

_WITH_PAIR = re.compile(r"([\w-]+):([\w-]+)=(.+)")
"""SOURCE:TARGET=PATH, such as en:de=runs/captions."""
OTHER_CODES = {
    **{"iw": "he", "in": "id", "ji": "yi", "nb": "no", "zh-hans": "zh", "zt": "zh-hant"},
    **{"zh-tw": "zh-hant", "zh-hk": "zh-hant", "zh-mo": "zh-hant"},
}
"""Codes of clients, in lower case, that are more than a served code with a region."""


@dataclass(frozen=True)
class Leg:
    """What one model does: it translates from one language into another."""

    place: str
    """The run or the model folder."""
    source: str
    target: str
    """Tags of BCP 47 without regions, such as en."""
    tag: str | None
    """The target tag that the model needs, if any."""


@dataclass(frozen=True)
class ServedDirection:
    """A pair of languages, and the way from one to the other: one leg, or two."""

    legs: tuple[Leg, ...]

    @property
    def source(self) -> str:
        """The source language."""
        return self.legs[0].source

    @property
    def target(self) -> str:
        """The target language."""
        return self.legs[-1].target

    @property
    def name(self) -> str:
        """The pair, such as fr-de."""
        return f"{self.source}-{self.target}"

    @property
    def path(self) -> str:
        """All languages on the way, such as fr-en-de."""
        return "-".join([self.source, *(leg.target for leg in self.legs)])


@dataclass(frozen=True)
class Directions:
    """All directions of a server."""

    by_pair: Mapping[tuple[str, str], ServedDirection]
    names: Mapping[str, str]
    """The English names of all languages."""

    @property
    def sources(self) -> list[str]:
        """The source languages, sorted."""
        return sorted({source for source, _ in self.by_pair})

    def targets_of(self, source: str) -> list[str]:
        """Return the languages into which `source` is translated, sorted."""
        return sorted(target for other, target in self.by_pair if other == source)

    def find_language(self, name: str) -> str:
        """Return the served language that a client names, such as pt for PT-BR; "" if none is.

        The names of clients are not looked up in the tables of all languages, whose caches would
        grow with them.
        """
        code = name.lower().replace("_", "-")
        code = _without_region(OTHER_CODES.get(code, code))
        return next((language for language in self.names if language.lower() == code), "")


def find_directions(places: Sequence[str]) -> Directions:
    """Return the directions of the models at these places, which may name a pair (en:de=PATH).

    The default place is that of `load`.

    Raises:
        UserError: a model is missing or damaged, its languages are unknown, or two models have the
            same.
    """
    by_pair: dict[tuple[str, str], ServedDirection] = {}
    for place in places or [str(default_place())]:
        for leg in _find_legs(place):
            pair = (leg.source, leg.target)
            if pair in by_pair:
                other = by_pair[pair].legs[0].place
                raise UserError(f"{other} and {leg.place} both translate {'-'.join(pair)}")
            by_pair[pair] = ServedDirection((leg,))
    direct = [direction.legs[0] for direction in by_pair.values()]
    for first in direct:
        for second in direct:
            if first.target == second.source and first.source != second.target:
                pair = (first.source, second.target)
                by_pair.setdefault(pair, ServedDirection((first, second)))
    languages = sorted({language for pair in by_pair for language in pair})
    return Directions(by_pair, {language: _name_of(language) for language in languages})


def _find_legs(place: str) -> list[Leg]:
    """Return the directions of one model, which its tags, training data or run tells."""
    match = None if Path(place).exists() else _WITH_PAIR.fullmatch(place)
    source, target, path = (None, None, place) if match is None else match.groups()
    model = open_model(path)
    facts = load_estimator(model.artifact).facts
    if facts is not None:
        sides = facts.statistics.source, facts.statistics.target
        known_source, known_target = (side.declared or side.language for side in sides)
    else:
        known_source = known_target = None
    source = source or known_source or model.config.decoding.sentences
    tags = {_language_of(tag): tag for tag in sorted(model.tokenizer.tags)}
    targets: Mapping[str, str | None] = tags
    if not tags:
        target = target or _language_in_config(model) or known_target
        targets = {} if target is None else {_language_of(target): None}
    elif target is not None:
        targets = {language: tag for language, tag in tags.items() if language == target}
    if source is None or not targets:
        raise UserError(
            f"{place}: the languages of this model are unknown; name source and target, as in "
            f"-m en:de={path}"
        )
    return [Leg(path, _language_of(source), target, tag) for target, tag in targets.items()]


def _language_in_config(model: OpenedModel) -> str | None:
    """Return the target language in the config of the model's run; None if it names none."""
    if (model.run / SETTINGS).is_file():
        with suppress(UserError):  # the config of another version of mtkit
            return config_of(model.run).data.target_language
    return None


def _language_of(name: str) -> str:
    """Return the tag of BCP 47 for a language, without region; other names stay as they are."""
    with suppress(ValueError):
        return _without_region(standard_language(name))
    return name


def _without_region(tag: str) -> str:
    """Return a tag without its region: de for de-AT, zh-Hant for zh-Hant-HK."""
    language, *others = tag.split("-")
    kept = [part for part in others if len(part) > 3]  # a script or a variant
    return "-".join([language, *kept])


def _name_of(language: str) -> str:
    with suppress(ValueError):  # a target tag may be no language
        return language_name(language)
    return language
