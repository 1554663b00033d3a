"""Flags: what is probably wrong with a translation, or with a line for this model.

A flag is a reason to look at a line, not a proof. Some flags compare a line with what the training
data showed, which the model brings along; models of other programs do not have them.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from mtkit.corpus.rules import (
    MAX_DEVIATIONS,
    has_same_letters,
    is_in_other_language,
    is_in_other_script,
    loops_alone,
)
from mtkit.corpus.text import is_blank
from mtkit.decoding.estimation.facts import TrainingFacts, TranslatedLine

MIN_UNSEEN_OF_FOREIGN = 0.25
"""The language of a translation is identified only if more of its subword pairs are unseen.

Identification takes 15 times as long as all other flags. On Multi30k, 6% of the pairs are unseen in
German translations, and 65% in English sentences in their place.
"""
MAX_NUMBERS = 500
"""How many numbers of a line are looked for in the other line; a sentence has fewer."""
MAX_COUNTED = 31
"""Numbers up to this may be hours, days or months, or spelled in words."""
_DIGIT = re.compile(r"\d")
_DIGITS = re.compile(r"\d+")
_THOUSANDS = re.compile(r"(?<=\d)[.,'’](?=\d{3}(?!\d))")
"""A separator within a number."""
_LOOP_IN_WORD = re.compile(r"([^\W\d_]{1,5}?)\1{3}")
"""One to five letters, four times in a row."""


@dataclass(frozen=True)
class Flag:
    """Something that may be wrong with a translation; it has either `check` or `compare`."""

    name: str
    meaning: str
    check: Callable[[TranslatedLine], bool] | None = None
    """Return whether a line has the flag."""
    compare: Callable[[TranslatedLine, TrainingFacts], bool] | None = None
    """The same, for a flag that compares the line with the training data."""

    def is_on(self, line: TranslatedLine, facts: TrainingFacts | None) -> bool:
        """Return whether a line has the flag; without facts, no line has a flag that needs them."""
        if self.check is not None:
            return self.check(line)
        return facts is not None and self.compare is not None and self.compare(line, facts)


def has_loop(text: str, source: str) -> bool:
    """Return whether a translation repeats something over and over, but its source does not."""
    if loops_alone(text, source):
        return True
    return _has_loop_in_word(text) and not _has_loop_in_word(source)


def _has_loop_in_word(text: str) -> bool:
    """Return whether a word repeats a few letters over and over, such as Gegnernernerner."""
    for word in text.casefold().split():
        repeated_letters = len(word) - len(set(word))
        # A loop repeats at least three letters; the pattern takes longer than counting them.
        if repeated_letters >= 3 and _LOOP_IN_WORD.search(word):
            return True
    return False


def _is_copied(line: TranslatedLine) -> bool:
    return line.is_copied or has_same_letters(line.source, line.text)


def _has_unusual_length(line: TranslatedLine, facts: TrainingFacts) -> bool:
    deviation = facts.statistics.length_deviation(len(line.source), len(line.text))
    return deviation > MAX_DEVIATIONS and not is_blank(line.text)


def _has_other_number(line: TranslatedLine) -> bool:
    """Return whether a number is missing, or has become another.

    A small or round number may become a word, or come from one. The order of numbers and the
    separators within them are ignored.
    """
    # Most lines have no digits, so this saves time.
    if not (_DIGIT.search(line.source) or _DIGIT.search(line.text)):
        return False
    source = _count_numbers(line.source)
    target = _count_numbers(line.text)
    missing = list((source - target).elements())
    added = list((target - source).elements())
    # 1,000 became 1 000: one number is missing, and two were added, with the same digits.
    is_divided_otherwise = len(missing) != len(added) and "".join(missing) == "".join(added)
    if is_divided_otherwise:
        return False
    has_changed_number = bool(missing and added)
    if has_changed_number:
        return True
    # Numbers stand on one side only, or on none: is one of them too large to be a word?
    return not all(map(_may_be_in_words, missing + added))


def _count_numbers(text: str) -> Counter[str]:
    """Count the numbers of a text by their digits, in ASCII."""
    groups = _DIGITS.findall(_THOUSANDS.sub("", text))
    numbers = groups[:MAX_NUMBERS]
    if not text.isascii():
        numbers = ["".join(str(unicodedata.decimal(digit)) for digit in each) for each in numbers]
    return Counter(numbers)


def _may_be_in_words(number: str) -> bool:
    """Return whether a number may be written in words: if it is round, such as 500, or small."""
    if len(number.strip("0")) <= 1:
        return True
    is_short = len(number) < 5  # `int` is slow for thousands of digits
    return is_short and int(number) <= MAX_COUNTED


def _keeps_stand_in(line: TranslatedLine, facts: TrainingFacts) -> bool:
    """Return whether a translation still has the word that was written for a placeholder."""
    if not (line.has_placeholder and facts.stand_in_translation):
        return False
    is_in_source = facts.stand_in.casefold() in line.source.casefold()
    is_in_text = facts.stand_in_translation.casefold() in line.text.casefold()
    return is_in_text and not is_in_source


def _is_in_other_language(line: TranslatedLine, facts: TrainingFacts) -> bool:
    # A copied line has no target parts, so its pairs say nothing about its language.
    unseen_share = facts.target_bigrams.unseen_share(line.target_parts)
    if not line.is_copied and unseen_share <= MIN_UNSEEN_OF_FOREIGN:
        return False
    side = facts.statistics.target
    return is_in_other_script(line.text, side) or is_in_other_language(line.text, line.source, side)


def _is_unlike_training(line: TranslatedLine, facts: TrainingFacts) -> bool:
    if line.is_copied:  # the vocabulary lacks its script
        return True
    return facts.source_bigrams.unseen_share(line.source_parts) > facts.max_unseen_share


UNLIKE = "unlike"
"""Name of the flag of a line that is unlike the training text: the one meaning of the word."""
FLAGS = (
    Flag("unfinished", "reached max_length before its end", lambda line: not line.is_finished),
    Flag("loop", "repeats words over and over", lambda line: has_loop(line.text, line.source)),
    Flag("copied", "is a copy of the source", _is_copied),
    Flag("empty", "has no text", lambda line: is_blank(line.text)),
    Flag("length", "is too long or too short for its source", compare=_has_unusual_length),
    Flag("number", "lacks a number, or has another one", _has_other_number),
    Flag("placeholder", "lacks a placeholder, tag or URL", lambda line: bool(line.lost)),
    Flag("stand-in", "has a word that stood for a placeholder", compare=_keeps_stand_in),
    Flag("term", "lacks a term of the glossary", lambda line: bool(line.missing_terms)),
    Flag("language", "is not in the target language", compare=_is_in_other_language),
    Flag(UNLIKE, "its source is unlike the training text", compare=_is_unlike_training),
)
"""All flags, in the order in which a line has them."""
FLAGS_WITH_FACTS = tuple(flag.name for flag in FLAGS if flag.compare is not None)
"""Names of the flags that compare a line with the training data."""


def find_flags(line: TranslatedLine, facts: TrainingFacts | None) -> tuple[str, ...]:
    """Return the names of the flags of a line; `facts`: None if the model brings none along.

    A line without letters to translate has no flags.
    """
    if not line.letters:
        return ()
    names: list[str] = []
    for flag in FLAGS:
        is_unreliable = facts is not None and flag.name in facts.unreliable_flags
        if not is_unreliable and flag.is_on(line, facts):
            names.append(flag.name)
    return tuple(names)
