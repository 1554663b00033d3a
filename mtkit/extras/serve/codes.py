"""The languages of a server: one table for what is listed, asked for and detected."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from operator import itemgetter

from mtkit.config.language_codes import MAX_NAME_CHARACTERS, find_language, language_name
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


DEEPL_TARGETS = {"en": ["EN-GB", "EN-US"], "no": ["NB"], "pt": ["PT-BR", "PT-PT"]}
"""Target languages that DeepL's clients ask for, unless it is the tag of the language."""
OTHER_CODES = {"nb": "no", "no": "nb", "pb": "pt", "ps": "pbt-Arab", "zt": "zh-Hant"}
"""Codes of clients, and languages that are served under them unless another one is."""
MAX_LANGUAGE_NAMES = 20_000
"""Most names of languages that are kept in memory; further ones are not looked up."""


class ServedLanguages:
    """Languages by all their codes and names."""

    def __init__(self, tags: Iterable[str]) -> None:
        """Take tags of languages; a target tag of a model may be no language."""
        self.names: dict[str, str] = {}
        """Their English names, by their tags."""
        self._tags: dict[str, str] = {}
        for tag in sorted(tags):
            self.names[tag] = language_name(tag) if find_language(tag) else tag
            self._tags[tag.lower()] = tag
        for tag in self.names:
            self._tags.setdefault(without_region(tag).lower(), tag)

    def find(self, name: str) -> str:
        """Return the tag of the language that a client names; "" if it is not served."""
        code = name[:MAX_NAME_CHARACTERS].lower()
        if code not in self._tags and len(self._tags) < MAX_LANGUAGE_NAMES:
            self._tags[code] = self._look_up(code)
        return self._tags.get(code, "")

    def _look_up(self, code: str) -> str:
        """Return the served tag of a code or name; a region does not matter."""
        tag = find_language(_ANDROID_REGION.sub("-", code.replace("_", "-"))) or code
        plain = without_region(tag)
        candidates = (tag, plain, OTHER_CODES.get(plain, ""))
        served = (self._tags.get(each.lower()) for each in candidates)
        return next(filter(None, served), "")


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
    # py3langid does not tell the scripts of Chinese apart. Big5 has more characters of Traditional
    # text than GB 2312.
    if len(text.encode("big5", "ignore")) > len(text.encode("gb2312", "ignore")):
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
