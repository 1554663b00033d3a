"""The languages of a server: one table for what is listed, asked for and detected."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from operator import itemgetter
from typing import NamedTuple

from mtkit.config.language_codes import PART_OF_SCRIPT, find_language, language_name
from mtkit.corpus.languages import (
    FOREIGN_RATIO,
    LANGID_CODES,
    NO_LANGUAGE,
    is_long_enough,
    rank_languages,
)

_ANDROID_REGION = re.compile(r"-r(?=[a-z]{2}$)")
"""The beginning of a region as Android writes it, such as pt-rBR."""

Ranking = Sequence[tuple[str, float]]
"""Languages and their probabilities, the most probable one first."""


class ClientCodes(NamedTuple):
    """What clients call a language, besides the codes that langcodes knows."""

    deepl: Sequence[str] = ()
    """Target languages that DeepL's clients ask for; empty: the tag of the language."""
    others: Sequence[str] = ()
    """Other codes, and tags with all their codes, unless another language is served by them."""


CLIENT_CODES = {
    "en": ClientCodes(deepl=["EN-GB", "EN-US"]),
    "es": ClientCodes(deepl=["ES", "ES-419"]),
    "nb": ClientCodes(others=["no"]),
    "no": ClientCodes(deepl=["NB"], others=["nb"]),
    "pbt-Arab": ClientCodes(others=["ps"]),
    "pt": ClientCodes(deepl=["PT-BR", "PT-PT"], others=["pb", "brazilian portuguese"]),
    "zh": ClientCodes(deepl=["ZH", "ZH-HANS"], others=["simplified chinese", "mandarin"]),
    "zh-Hant": ClientCodes(others=["zt", "cht", "traditional chinese"]),
}


class ServedLanguages:
    """Languages by all their codes, and by their English names.

    The names of clients are not looked up in the tables of all languages, whose caches would
    grow with them.
    """

    def __init__(self, tags: Iterable[str]) -> None:
        """Take tags of languages; a target tag of a model may be no language."""
        self.names: dict[str, str] = {}
        """Their English names, by their tags."""
        for tag in sorted(tags):
            self.names[tag] = language_name(tag) if find_language(tag) else tag
        self._by_code: dict[str, str] = {}
        # A code keeps its first meaning, so what is certain comes first.
        for tag in self.names:
            self._add(tag, tag)
        for tag, name in self.names.items():
            self._add(tag, name, without_region(tag), *_find_codes(tag))
        for tag in self.names:
            for other in CLIENT_CODES.get(tag, ClientCodes()).others:
                self._add(tag, other, *_find_codes(other))
        for tag in self.names:
            for code, implied in _imply_scripts(tag).items():
                self._add(implied if implied in self.names else "", code)

    def _add(self, tag: str, *codes: str) -> None:
        """Let codes mean a language, unless they mean another one."""
        for code in codes:
            self._by_code.setdefault(code.lower(), tag)

    def find(self, name: str) -> str:
        """Return the tag of the language that a client names; "" if it is not served."""
        code = name.lower()
        standard = _ANDROID_REGION.sub("-", code.replace("_", "-"))
        for known in (code, standard, _drop_region(standard)):
            if known in self._by_code:
                return self._by_code[known]
        return ""


@cache
def without_region(tag: str) -> str:
    """Return the tag of a language without its region: de for de-AT, and zh-Hant for zh-TW."""
    from langcodes import Language

    if find_language(tag) is None:
        return tag
    language = Language.get(tag)
    if language.territory is None:
        return tag
    script = language.maximize().script
    plain = Language.make(language.language, script=script, variants=language.variants)
    return find_language(plain.to_tag()) or tag


def rank_sources(text: str, sources: Sequence[str]) -> tuple[Ranking, str | None]:
    """Return the probabilities of source languages; one that cannot be identified has 0.

    Return also the language of the text if it is almost certainly none of them, else None.
    """
    known = dict(rank_languages(text))
    known["zh-Hant"] = 0.0
    if _is_traditional(text):  # py3langid does not tell the scripts of Chinese apart
        known["zh-Hant"] = known["zh"]
        known["zh"] = 0.0
    can_identify = is_long_enough(text)
    ranking: list[tuple[str, float]] = []
    for tag in sources:
        language = tag.partition("-")[0]
        plain = without_region(tag)  # zh-Hant for zh-TW
        code = plain if plain in known else LANGID_CODES.get(language, language)
        can_identify &= code in known
        ranking.append((tag, known.get(code, 0.0)))
    ranking.sort(key=itemgetter(1), reverse=True)
    detected, probability = max(known.items(), key=itemgetter(1))
    is_served = ranking[0][1] >= FOREIGN_RATIO * probability
    if is_served or not can_identify or detected == NO_LANGUAGE:
        return ranking, None
    return ranking, detected


def _is_traditional(text: str) -> bool:
    """Return whether Chinese text is Traditional: Big5 has more of its characters than GB 2312."""
    return len(text.encode("big5", "ignore")) > len(text.encode("gb2312", "ignore"))


def _find_codes(name: str) -> set[str]:
    """Return all codes of a language: de, deu, ger, de-Latn and deu-Latn for de."""
    from langcodes import Language
    from langcodes.data_dicts import LANGUAGE_REPLACEMENTS, MACROLANGUAGES

    tag = find_language(name)
    if tag is None:
        return set()
    language = Language.get(tag)
    code = language.language or ""
    codes = {code, language.to_alpha3()}
    for other, current in (*LANGUAGE_REPLACEMENTS.items(), *MACROLANGUAGES.items()):
        if current in (code, tag):
            codes.add(other)
    script = language.script or language.maximize().script or ""
    names = set(codes)
    for each in codes:
        names.add(f"{each}-{script}")
        names.add(f"{each}-{PART_OF_SCRIPT.get(script, script)}")
    return {each for each in names if find_language(each) == tag}


def _imply_scripts(tag: str) -> dict[str, str]:
    """Return the languages of codes whose region implies another script: zh-Hant for zh-TW.

    LIKELY_SUBTAGS has a language with a region only if the region changes the script.
    """
    from langcodes.data_dicts import LIKELY_SUBTAGS

    language = tag.partition("-")[0]
    codes = [code for code in _find_codes(language) if "-" not in code]
    tags: dict[str, str] = {}
    for likely in LIKELY_SUBTAGS:
        first, _, region = likely.partition("-")
        is_region = len(region) == len("TW")
        if first == language and is_region:
            for code in codes:
                tags[f"{code}-{region}"] = without_region(likely)
    return tags


def _drop_region(code: str) -> str:
    """Return a code of a client without its region."""
    language, *others = code.split("-")
    kept = [part for part in others if len(part) > len("419")]  # a script or a variant
    return "-".join([language, *kept])
