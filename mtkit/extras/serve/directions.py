"""The directions that a server translates: with one model, or through a pivot language."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from starlette.exceptions import HTTPException

from mtkit.artifacts.runs import default_place
from mtkit.config.language_codes import find_language
from mtkit.decoding.glossary import Glossary, open_glossary
from mtkit.decoding.model_languages import find_model_languages
from mtkit.errors import UserError
from mtkit.extras.serve.codes import ServedLanguages, without_region
from mtkit.models.folder import open_model

_WITH_PAIR = re.compile(r"([\w-]+):([\w-]+)=(.+)")
"""SOURCE:TARGET=PATH, such as en:de=runs/captions."""
AUTO = "auto"
"""By this name, clients ask to detect the language of a text."""
MAX_ECHO = 40
"""How many characters of a client's value a message repeats."""
MAX_NAMED_DIRECTIONS = 20


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

    source: str
    target: str
    legs: tuple[Leg, ...]

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

    @cached_property
    def languages(self) -> ServedLanguages:
        """All languages, by all their codes."""
        return ServedLanguages([*self.sources, *self.targets])

    @property
    def choices(self) -> str:
        """The names of the first 20 directions, for messages."""
        names = [direction.name for direction in self.by_pair.values()]
        return ", ".join(names[:MAX_NAMED_DIRECTIONS])

    @property
    def sources(self) -> list[str]:
        """The source languages, sorted."""
        return sorted({source for source, _ in self.by_pair})

    @property
    def targets(self) -> list[str]:
        """The target languages, sorted."""
        return sorted({target for _, target in self.by_pair})

    def get(self, source: str, target: str) -> ServedDirection | None:
        """Return the direction between two languages that a client names; None if not served."""
        find = self.languages.find
        return self.by_pair.get((find(source), find(target)))

    def find(self, source: str, target: str) -> ServedDirection:
        """Return the direction between two languages that a client names, such as EN and pt-BR."""
        direction = self.get(source, target)
        if direction is None:
            raise self.refuse(f"{source[:MAX_ECHO]!r} to {target[:MAX_ECHO]!r}")
        return direction

    def refuse(self, asked: str) -> HTTPException:
        """Return the refusal of languages, which says what is served."""
        return HTTPException(400, f"languages: {asked} is not served; choose from {self.choices}")


def find_directions(places: Sequence[str]) -> Directions:
    """Return the directions of the models at these places, which may name a pair (en:de=PATH).

    The default place is that of `load`.

    Raises:
        UserError: a model is missing or damaged, its languages are unknown, or two models have the
            same.
    """
    legs: dict[tuple[str, str], Leg] = {}
    for place in places or [str(default_place())]:
        for leg in _find_legs(place):
            pair = (leg.source, leg.target)
            other = legs.setdefault(pair, leg)
            if other is not leg:
                raise UserError(f"{other.place} and {leg.place} both translate {'-'.join(pair)}")
    by_pair = {pair: ServedDirection(*pair, (leg,)) for pair, leg in legs.items()}
    for first in legs.values():
        for second in legs.values():
            pair = (first.source, second.target)
            if first.target == second.source and first.source != second.target:
                by_pair.setdefault(pair, ServedDirection(*pair, (first, second)))
    return Directions(by_pair)


def open_glossaries(
    directions: Directions, named: Sequence[str]
) -> dict[tuple[str, str], Glossary]:
    """Return glossaries such as en:de=terms.tsv, by the languages of the models that use them.

    Raises:
        UserError: no model translates the pair, or the file is no glossary of these languages.
    """
    glossaries: dict[tuple[str, str], Glossary] = {}
    for each in named:
        match = _WITH_PAIR.fullmatch(each)
        if match is None:
            raise UserError(f"--glossary {each}: name its languages, as in en:de={each}")
        source, target, path = match.groups()
        direction = directions.get(source, target)
        if direction is None or len(direction.legs) > 1:
            raise UserError(
                f"--glossary {each}: no model translates {source} to {target}; "
                f"the directions are {directions.choices}"
            )
        pair = (direction.source, direction.target)
        glossaries[pair] = open_glossary(path).directed(pair)
    return glossaries


def _find_legs(place: str) -> list[Leg]:
    """Return the directions of one model, which the user names or its files tell."""
    source = target = None
    path = place
    match = _WITH_PAIR.fullmatch(place)
    if match and not Path(place).exists():
        source, target, path = match.groups()
    known = find_model_languages(open_model(path))
    source = known.source if source is None else find_language(source) or source
    targets = known.targets
    if target is not None:
        named = find_language(target) or target
        is_possible = named in targets or not any(targets.values())
        targets = {named: targets.get(named)} if is_possible else {}
    if source is None or not targets:
        raise UserError(
            f"{place}: the languages of this model are unknown; name source and target, as in "
            f"-m en:de={path}"
        )
    plain_targets = list(map(without_region, targets))
    legs: list[Leg] = []
    for language, tag in targets.items():
        name = without_region(language)
        if plain_targets.count(name) > 1:
            name = language  # whose region tells it from another tag, such as fa-AF from fa
        legs.append(Leg(path, without_region(source), name, tag))
    return legs
