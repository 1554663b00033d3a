"""Identify the script of letters by their Unicode names, and the language of lines by py3langid."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

from mtkit.config.language_codes import language_code, standard_language

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

SAME_SCRIPT = {
    "CJK": "HAN",
    "HIRAGANA": "KANA",
    "KATAKANA": "KANA",
    "KATAKANA-HIRAGANA": "KANA",
    "HALFWIDTH": "KANA",
    "FULLWIDTH": "LATIN",
}
"""First words of Unicode names that name no script, or one of several scripts used together."""
NO_SCRIPT = frozenset(["", "COMBINING", "VARIATION", "MODIFIER"])
UNSPACED_SCRIPTS = frozenset(["HAN", "KANA", "BOPOMOFO", "YI"]).union(
    ["THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "TAI", "NEW"],
    ["JAVANESE", "BALINESE", "BUGINESE", "BATAK", "CHAM"],
)
"""Scripts without spaces between words; "NEW" is New Tai Lue.

Source: Unicode's UAX #14: letters of the classes ID, SA, AK and AS need no space for a line break.
Scripts of dead languages are left out.
"""
SCRIPT_WEIGHTS = {"HANGUL": 3, **dict.fromkeys(UNSPACED_SCRIPTS, 3)}
"""Weight of a letter in `main_script`: one such letter counts as three Latin letters."""
MIN_IDENTIFIED_LETTERS = 24
"""Letters that a line needs for its language to be identified; an Asian letter counts as three."""
NO_LANGUAGE = "zxx"
"""Label of py3langid for text without linguistic content."""
MAX_VOTES = 1_000
"""Number of lines of a side whose languages are counted."""
FOREIGN_RATIO = 0.05
"""A line is foreign if P(language of its side) is less than this times P(most probable language).

Related languages such as Danish and Norwegian are never so far apart in one line.
"""
LANGID_CODES = {"nb": "no"}
"""Languages for which py3langid uses the code of another."""
_ASIAN = re.compile("[\u0800-\uffff]")
_NOT_LETTERS = re.compile(r"[\W\d_]+")


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.nb_classes = [standard_language(code) for code in identifier.nb_classes]
    return identifier


def supported_languages() -> list[str]:
    """Return the codes of the languages that can be identified, such as `en`."""
    return sorted(_identifier().labels)


def langid_code(code: str) -> str:
    """Return the code that py3langid would use for this language."""
    language = language_code(code)
    return LANGID_CODES.get(language, language)


def is_supported(code: str) -> bool:
    """Return whether the language can be identified."""
    return langid_code(code) in supported_languages()


def is_long_enough(text: str) -> bool:
    """Return whether the text has enough letters for its language to be identified."""
    letters = _NOT_LETTERS.sub(" ", text)  # words, with a space between two of them
    asian_letters = len(_ASIAN.findall(letters))
    return len(letters) + 2 * asian_letters >= MIN_IDENTIFIED_LETTERS


def count_languages(lines: Iterable[str]) -> Counter[str]:
    """Count the languages of the first lines that are long enough, of at most MAX_VOTES lines."""
    voters = islice(filter(is_long_enough, lines), MAX_VOTES)
    counts: Counter[str] = Counter()
    for line in voters:
        language, _ = _identifier().rank(line)[0]
        counts[language] += 1
    del counts[NO_LANGUAGE]
    return counts


def is_foreign(text: str, language: str) -> bool:
    """Return whether the text is almost certainly not in `language`.

    Nothing is certain of a language that cannot be identified.
    """
    if not is_long_enough(text) or _identifier().classify(text)[0] == language:
        return False
    ranking = _identifier().rank(text)  # pairs of language and probability, most probable first
    _, best_probability = ranking[0]
    probability = dict(ranking).get(language, best_probability)
    return bool(probability < FOREIGN_RATIO * best_probability)


def rank_languages(text: str) -> list[tuple[str, float]]:
    """Return all languages that can be identified with their probabilities, most probable first."""
    return [(str(code), float(probability)) for code, probability in _identifier().rank(text)]


@cache
def script_of(character: str) -> str | None:
    """Return the script of a letter or mark, such as LATIN or HAN; None for other characters."""
    if unicodedata.category(character)[0] not in "LM":
        return None
    # Names such as LATIN SMALL LETTER A begin with the script.
    script = unicodedata.name(character, "").split(" ")[0]
    return None if script in NO_SCRIPT else SAME_SCRIPT.get(script, script)


def count_scripts(text: str) -> Counter[str]:
    """Count the letters and marks of each script."""
    counts: Counter[str] = Counter()
    for character, count in Counter(text).items():  # a corpus has few distinct characters
        script = script_of(character)
        if script is not None:
            counts[script] += count
    return counts


def main_script(lines: Iterable[str]) -> str | None:
    """Return the script of most of the text; KANA for Japanese, which mixes Han and kana."""
    counts = count_scripts("".join(lines))
    if counts["KANA"] > counts["HAN"] / 10:  # Chinese quotes a word in kana now and then
        counts["KANA"] += counts["HAN"]
    weighted = {script: count * SCRIPT_WEIGHTS.get(script, 1) for script, count in counts.items()}
    # The name decides between equal counts, so that the result does not depend on the order.
    return max(weighted, key=lambda script: (weighted[script], script), default=None)
