"""The directions that a server translates: with one model, or through a pivot language."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from starlette.exceptions import HTTPException

from mtkit.artifacts.runs import default_place
from mtkit.config.language_codes import PART_OF_SCRIPT, find_language, language_name
from mtkit.decoding.model_languages import find_model_languages
from mtkit.errors import UserError
from mtkit.models.folder import open_model

_WITH_PAIR = re.compile(r"([\w-]+):([\w-]+)=(.+)")
"""SOURCE:TARGET=PATH, such as en:de=runs/captions."""
_ANDROID_REGION = re.compile(r"-r(?=[a-z]{2}$)")
"""The beginning of a region as Android writes it, such as pt-rBR."""
AUTO = "auto"
"""By this name, clients ask to detect the language of a text."""
MAX_ECHO = 40
"""How many characters of a client's value a message repeats."""
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
    def names(self) -> dict[str, str]:
        """The English names of all languages, by their codes."""
        names: dict[str, str] = {}
        for code in sorted({*self.sources, *self.targets}):
            # A target tag may be no language.
            names[code] = language_name(code) if find_language(code) else code
        return names

    @property
    def sources(self) -> list[str]:
        """The source languages, sorted."""
        return sorted({source for source, _ in self.by_pair})

    @property
    def targets(self) -> list[str]:
        """The target languages, sorted."""
        return sorted({target for _, target in self.by_pair})

    def targets_of(self, source: str) -> list[str]:
        """Return the languages into which `source` is translated, sorted."""
        return sorted(target for other, target in self.by_pair if other == source)

    def find(self, source: str, target: str) -> ServedDirection:
        """Return the direction between two languages that a client names, such as EN and pt-BR."""
        pair = (self._find_language(source), self._find_language(target))
        if pair not in self.by_pair:
            named = f"{source[:MAX_ECHO]!r} to {target[:MAX_ECHO]!r}"
            choices = ", ".join(direction.name for direction in self.by_pair.values())
            raise HTTPException(400, f"languages: {named} is not served; choose from {choices}")
        return self.by_pair[pair]

    def _find_language(self, name: str) -> str:
        """Return the served language that a client names; "" if there is none.

        The names of clients are not looked up in the tables of all languages, whose caches would
        grow with them.
        """
        code = _ANDROID_REGION.sub("-", name.lower().replace("_", "-"))
        code = _without_region(OTHER_CODES.get(code, code))
        return self._aliases.get(code, "")

    @cached_property
    def _aliases(self) -> dict[str, str]:
        """The served languages by all their codes, in lower case and without regions."""
        aliases = {language.lower(): language for language in self.names}
        for language in self.names:
            for code in _find_codes(language):
                aliases.setdefault(code.lower(), language)
        return aliases


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


def _find_legs(place: str) -> list[Leg]:
    """Return the directions of one model, which the user names or its files tell."""
    match = None if Path(place).exists() else _WITH_PAIR.fullmatch(place)
    source, target, path = (None, None, place) if match is None else match.groups()
    known = find_model_languages(open_model(path))
    source = known.source if source is None else find_language(source) or source
    targets = known.targets
    if target is not None:
        named = find_language(target) or target
        tags = targets if any(targets.values()) else {named: None}
        targets = {language: tag for language, tag in tags.items() if language == named}
    if source is None or not targets:
        raise UserError(
            f"{place}: the languages of this model are unknown; name source and target, as in "
            f"-m en:de={path}"
        )
    if AUTO in map(str.lower, (source, *targets)):
        raise UserError(
            f"{place}: {AUTO} cannot name a language, because it asks for language detection; "
            f"name source and target, as in -m en:de={path}"
        )
    return [
        Leg(path, _without_region(source), _without_region(target), tag)
        for target, tag in targets.items()
    ]


def _find_codes(tag: str) -> set[str]:
    """Return other codes of a language: deu, ger, de-Latn and deu-Latn for de."""
    from langcodes import Language
    from langcodes.data_dicts import MACROLANGUAGES

    if find_language(tag) is None:
        return set()
    language = Language.get(tag)
    code = language.language or ""
    codes = {code}
    codes.add(language.to_alpha3())
    codes.add(language.to_alpha3(variant="B"))
    for member, group in MACROLANGUAGES.items():
        if group == code:
            codes.add(member)
    script = language.script or language.maximize().script or ""
    scripts = {script, PART_OF_SCRIPT.get(script, script)}
    names: set[str] = set()
    if language.script is None:
        names.update(codes)
    for each in codes:
        for other in scripts:
            names.add(f"{each}-{other}")
    return {name for name in names if find_language(name) == tag}


def _without_region(tag: str) -> str:
    """Return a tag without its region: de for de-AT, zh-Hant for zh-Hant-HK."""
    language, *others = tag.split("-")
    kept = [part for part in others if len(part) > 3]  # a script or a variant
    return "-".join([language, *kept])
