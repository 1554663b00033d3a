"""Which language a line is in, as py3langid says, whose model comes with it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

from mtkit.config.languages import language_code

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

TELLING_LETTERS = 24
"""A line of fewer letters says little of its language; one of Asia's counts for three."""
_SCRIPTS = (
    "ARABIC ARMENIAN BENGALI CYRILLIC DEVANAGARI ETHIOPIC GEORGIAN GREEK GUJARATI GURMUKHI HAN "
    "HANGUL HEBREW KANA KANNADA KHMER LAO LATIN MALAYALAM MYANMAR ORIYA SINHALA TAMIL TELUGU "
    "THAI TIBETAN"
)
TELLING_SCRIPTS = frozenset(_SCRIPTS.split())
"""Those that the languages which can be told apart are written in."""
NO_LANGUAGE = "zxx"
"""What py3langid says of what is none."""
VOTING_LINES = 1_000
"""Lines of a side, at most, of which the language is asked."""
FAR_BELOW = 0.05
"""A line is in another language than its side's where that is so much less probable than the best.

Near kin (Danish and Norwegian) are never so far apart in one line, and need not be.
"""
SPELLINGS = {"nb": "no", "fil": "tl"}
"""Languages that are told apart by another code."""
_OF_ASIA = re.compile("[\u0800-\uffff]")
_NOT_LETTERS = re.compile(r"[\W\d_]+")


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    # The one code of three letters where ISO 639-1 has one of two, as it has for all others here.
    identifier.nb_classes = ["ki" if code == "kik" else code for code in identifier.nb_classes]
    return identifier


def known_languages() -> list[str]:
    """Codes that can be told apart, such as `en`."""
    return sorted(_identifier().labels)


def told_as(code: str) -> str:
    """The code by which a language is told apart, if it is."""
    language = language_code(code)
    return SPELLINGS.get(language, language)


def can_be_told(code: str) -> bool:
    """Whether the language is one of those that can be told apart."""
    return told_as(code) in known_languages()


def telling(text: str) -> bool:
    """Whether the text is long enough for its language to be known."""
    letters = _NOT_LETTERS.sub(" ", text)
    return len(letters) + 2 * len(_OF_ASIA.findall(letters)) >= TELLING_LETTERS


def votes(lines: Iterable[str]) -> Counter[str]:
    """How many of the first lines that tell are in each language."""
    asked = islice(filter(telling, lines), VOTING_LINES)
    found = Counter(_identifier().rank(line)[0][0] for line in asked)
    del found[NO_LANGUAGE]
    return found


def foreign(text: str, language: str) -> bool:
    """Whether the text is surely in another language."""
    if not telling(text) or _identifier().classify(text)[0] == language:
        return False
    ranking = _identifier().rank(text)
    return bool(dict(ranking)[language] < FAR_BELOW * ranking[0][1])
