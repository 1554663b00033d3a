"""Rules that find faulty pairs: one table for `mtkit check` and for `batching.drop`.

Rules are designed to have few false alarms: they accept whatever may occur in good translations. To
remove a rule, delete its entry in RULES and its name in `config/settings.py`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import unescape
from itertools import islice, pairwise

from mtkit.config.corpora import Corpus
from mtkit.corpus.languages import count_scripts, is_foreign
from mtkit.corpus.read import Pair, read_pairs
from mtkit.corpus.statistics import CorpusStatistics, SideStatistics
from mtkit.corpus.text import compose, is_presplit

MAX_DEVIATIONS = 4.5
"""Standard deviations that a length ratio may differ from the median."""
MIN_LETTERS, MIN_LETTERS_SHARE, MIN_USUAL_SHARE = 5, 0.3, 0.1
"""Of 5 or more characters this share must be letters, and of these this share in usual scripts."""
MIN_COPIED_LETTERS = 10
"""Fewest letters of a copied line; a shorter line may be a name."""
MAX_LOOP = 30
"""Longest repeated phrase that is searched for, in words or characters."""
MAX_LOOPED_TEXT = 2_000
"""Number of characters at the start of a line in which repetition is searched for."""
MAX_NUMBERS = 500
"""How many numbers of a line are looked for in the other line; a sentence has fewer."""
MAX_COUNTED = 31
"""Numbers up to this are not compared: they may be hours, days or months, or spelled in words."""
YEARS = range(1000, 3000)
"""Numbers that are not compared, because other calendars count years differently."""

_GLUED = re.compile(r"[^\W\d_]{51,}")
_DIGITS = re.compile(r"\d+")
_MAY_BE_MARKUP = re.compile(r"[<&{\\}]")
_MARKUP = re.compile(r"</?[A-Za-z][A-Za-z0-9]*(?:\s[^<>]*)?/?>|<!--|\\u[0-9a-fA-F]{4}|\{\{|\}\}")
_ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
_DAMAGED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd\ue000-\uf8ff]")
_MAY_BE_MOJIBAKE = re.compile("[^\x00-\x7f]{2}|[ÂÃ]")
_MARKED_LETTER = re.compile(r"[^\W\d_][^\w\s]*")


@dataclass(frozen=True)
class Rule:
    """A fault that a pair may have."""

    name: str
    meaning: str
    """What is wrong with pairs that break the rule."""
    advice: str
    """What to do about these pairs, or what they may be."""
    check: Callable[[Pair, CorpusStatistics], bool]
    """Return whether the pair has the fault."""
    recommended_share: float = 0.05
    """Up to this share of pairs, the rule is recommended for `batching.drop`."""
    max_share: float = 0.5
    """Above this share of pairs, the corpus fails."""
    min_share: float = 0.0
    """Up to this share of pairs, the corpus passes."""


def _either_side(
    check: Callable[[str, SideStatistics], bool],
) -> Callable[[Pair, CorpusStatistics], bool]:
    return lambda pair, statistics: (
        check(pair.source, statistics.source) or check(pair.target, statistics.target)
    )


def _is_uneven(pair: Pair, statistics: CorpusStatistics) -> bool:
    return statistics.length_deviation(len(pair.source), len(pair.target)) > MAX_DEVIATIONS


def _has_glued_words(text: str, side: SideStatistics) -> bool:
    return side.is_spaced and _GLUED.search(text) is not None


def _have_other_numbers(pair: Pair, _: CorpusStatistics) -> bool:
    """Return whether each side has a number that the other lacks.

    If only one side has an extra number, the other side may spell it in words. The order of digits,
    separators and zeros are ignored; years and small or round numbers are not compared.
    """
    ours, theirs = _numbers(pair.source), _numbers(pair.target)
    return _has_other_number(ours, theirs) and _has_other_number(theirs, ours)


def _numbers(text: str) -> list[str]:
    """Return the groups of digits in ASCII."""
    groups = _DIGITS.findall(text)
    if text.isascii() or not groups:
        return groups
    return ["".join(str(unicodedata.decimal(digit)) for digit in group) for group in groups]


def _has_other_number(numbers: list[str], others: list[str]) -> bool:
    digits = "".join(others)
    return any(
        len(core := number.strip("0")) > 1
        and not (len(number) < 5 and (int(number) <= MAX_COUNTED or int(number) in YEARS))
        and core not in digits
        for number in islice(numbers, MAX_NUMBERS)
    )


def _has_few_letters(text: str, _: SideStatistics) -> bool:
    visible = len("".join(text.split()))
    return visible >= MIN_LETTERS and sum(map(str.isalpha, text)) < MIN_LETTERS_SHARE * visible


def _has_markup(text: str, _: SideStatistics) -> bool:
    if not _MAY_BE_MARKUP.search(text):
        return False
    is_tagged = _MARKUP.search(text) is not None
    return is_tagged or any(unescape(entity) != entity for entity in _ENTITY.findall(text))


def _is_misencoded(text: str, _: SideStatistics) -> bool:
    if text.isascii() and text.isprintable():
        return False
    if _DAMAGED.search(text) or not _MAY_BE_MOJIBAKE.search(text):
        return _DAMAGED.search(text) is not None
    from ftfy.badness import is_bad

    return bool(is_bad(text))


def _is_in_other_script(text: str, side: SideStatistics) -> bool:
    if text.isascii() and "LATIN" in side.scripts:
        return False
    counts = count_scripts(text)
    letters, usual = counts.total(), sum(counts[script] for script in side.scripts)
    return letters >= MIN_LETTERS and usual < MIN_USUAL_SHARE * letters


def _is_in_other_language(text: str, side: SideStatistics) -> bool:
    return side.language is not None and is_foreign(text, side.language)


def _has_repetition(pair: Pair, _: CorpusStatistics) -> bool:
    """Return whether one side repeats a phrase over and over, and the other repeats nothing."""
    source, target = _units(pair.source), _units(pair.target)
    source_loops = _has_loop(source)
    if source_loops == _has_loop(target):
        return False
    other = target if source_loops else source
    return not any(unit == following for unit, following in pairwise(other))


def _units(text: str) -> list[str]:
    """Return the words without punctuation; of text without spaces, return the characters."""
    text = text[:MAX_LOOPED_TEXT]
    units = text.casefold().split()
    if 10 * len(units) < len(text):
        units = _MARKED_LETTER.findall(text)
    return [unit.strip(",.!?;:") for unit in units]


def _has_loop(units: list[str]) -> bool:
    """Return whether a phrase occurs three times in a row, or a single unit four times."""
    if len(units) - len(set(units)) < 2:
        return False
    for length in range(1, min(len(units) // 3, MAX_LOOP) + 1):
        needed, run = max(2 * length, 3), 0
        for unit, later in zip(units, units[length:], strict=False):
            run = run + 1 if unit == later else 0
            if run == needed:
                return True
    return False


def _is_copied(pair: Pair, _: CorpusStatistics) -> bool:
    source, target = (
        "".join(filter(str.isalpha, text.casefold())) for text in (pair.source, pair.target)
    )
    return source == target and len(source) >= MIN_COPIED_LETTERS


def _is_held_out(pair: Pair, statistics: CorpusStatistics) -> bool:
    return bool(statistics.held_out) and normalised(pair.source) in statistics.held_out


def normalised(text: str) -> str:
    """Return a form that is equal for texts that differ only in case, spaces or punctuation."""
    words = compose(text, "NFKC").casefold().translate(_WORD_CHARACTERS).split()
    return " ".join(words) or text


class _WordCharacters(dict[int, int]):
    """A table for `str.translate` that replaces each character outside words by a space.

    It keeps marks, because they are the vowels of Hindi and Thai, but not variation selectors.
    """

    def __missing__(self, code: int) -> int:
        character = chr(code)
        is_mark = unicodedata.category(character)[0] == "M" and not 0xFE00 <= code <= 0xFE0F
        self[code] = code if character.isalnum() or character == "_" or is_mark else ord(" ")
        return self[code]


_WORD_CHARACTERS = _WordCharacters()


RULES = (
    Rule("uneven", "one side is too long", "a part is missing, or another sentence", _is_uneven),
    Rule("glued", "over 50 letters in a word", "restore spaces", _either_side(_has_glued_words)),
    Rule("numbers", "different numbers", "look at them", _have_other_numbers, 0.0),
    Rule("letters", "few letters", "a list of numbers or symbols", _either_side(_has_few_letters)),
    Rule("markup", "tags or entities", "strip them", _either_side(_has_markup), max_share=1.0),
    Rule("mojibake", "wrong encoding", "convert the file again", _either_side(_is_misencoded)),
    Rule("script", "unexpected alphabet", "check the files", _either_side(_is_in_other_script)),
    Rule("language", "wrong language", "drop them", _either_side(_is_in_other_language), 0.5),
    Rule("repetition", "words repeated over and over", "often a machine's work", _has_repetition),
    Rule("copied", "not translated", "source and target have the same letters", _is_copied),
    Rule("overlap", "also in the validation or test set", "scores would be too good", _is_held_out),
)
"""All rules of `batching.drop`. The first rule that a pair breaks is given as the reason."""

REPORT_RULES = (
    Rule(
        "invalid text",
        "not UTF-8",
        "convert the file",
        _either_side(lambda text, _: "\ufffd" in text or "\0" in text),
        max_share=0.1,
    ),
    Rule(
        "already split",
        "tokenised, or split into subwords",
        "use the text before that, as mtkit splits text itself",
        _either_side(lambda text, _: is_presplit(text)),
        max_share=1.0,
        min_share=0.05,
    ),
)
"""Rules that `mtkit check` reports, but that `batching.drop` does not have."""


class PairFilter:
    """Finds pairs that break the given rules."""

    def __init__(self, names: Iterable[str], statistics: CorpusStatistics) -> None:
        chosen = set(names)
        self._rules = [rule for rule in RULES if rule.name in chosen]
        self._statistics = statistics

    def broken_rule(self, pair: Pair) -> str | None:
        """Return the name of the first rule that the pair breaks, or None."""
        for rule in self._rules:
            if rule.check(pair, self._statistics):
                return rule.name
        return None


def held_out_sources(corpora: Iterable[Corpus]) -> frozenset[str]:
    """Return the normalised sources of the validation and test sets, for the rule `overlap`."""
    return frozenset(normalised(pair.source) for one in corpora for pair in read_pairs(one))
