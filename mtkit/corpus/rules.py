"""Rules that find faulty pairs: one table for `mtkit check` and for `batching.drop`.

Rules are designed to have few false alarms: they accept whatever may occur in good translations. To
remove a rule, delete its entry in RULES and its name in `config/settings.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from hashlib import blake2b
from html import unescape
from itertools import pairwise

from mtkit.corpus.characters import (
    first_letter,
    is_printable,
    is_word_character,
    letters_and_marks,
    longest_run_of_letters,
)
from mtkit.corpus.languages import count_scripts, is_foreign
from mtkit.corpus.read import Pair
from mtkit.corpus.statistics import CorpusStatistics, SideStatistics
from mtkit.corpus.text import compose, find_presplit

MAX_DEVIATIONS = 4.5
"""Standard deviations that a length ratio may differ from the median."""
MIN_LETTERS = 5
"""Shares of letters and scripts are tested in text of at least so many characters or letters."""
MIN_LETTERS_SHARE = 0.3
"""Smallest share of letters among the visible characters."""
MIN_USUAL_SHARE = 0.1
"""Smallest share of letters in the usual scripts of the side."""
MIN_COPIED_LETTERS = 10
"""Fewest letters of a copied line; a shorter line may be a name."""
MAX_LOOP = 30
"""Longest repeated phrase that is searched for, in words or characters."""
MAX_LOOPED_TEXT = 2_000
"""Number of characters at the start of a line in which repetition is searched for."""
MAX_WORD_LETTERS = 50
"""Letters, with the marks on them, of the longest word."""

# Most lines have no such word, and are not read further.
_MAY_BE_GLUED = re.compile(rf"\S{{{MAX_WORD_LETTERS + 1}}}")
_MAY_BE_MARKUP = re.compile(r"[<&{\\}]")
_MARKUP = re.compile(
    r"</?[A-Za-z][A-Za-z0-9]*(?=(?:\s[^<>]*)?/?>)|<!--|\\u[0-9a-fA-F]{4}|\{\{|\}\}"
)
_ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
_DAMAGED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd\ue000-\uf8ff]")
_MAY_BE_MOJIBAKE = re.compile("[^\x00-\x7f]{2}|[ÂÃ]")
_MARKED_LETTER = re.compile(r"[^\W\d_][^\w\s]*")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What may be wrong with a pair."""

    name: str
    meaning: str
    advice: str
    """What to do about these pairs, or what they may be."""
    recommended_share: float = 0.05
    """Up to this share of pairs, the rule is recommended for `batching.drop`."""
    max_share: float = 0.5
    """Above this share of pairs, the corpus fails."""
    min_share: float = 0.0
    """Up to this share of pairs, the corpus passes."""


@dataclass(frozen=True, kw_only=True)
class Rule(Fault):
    """A fault that a pair shows without the other pairs."""

    check: Callable[[Pair, CorpusStatistics], bool]
    """Return whether the pair has the fault."""
    locate: Callable[[str], int] = lambda text: 0
    """Return where in a text an example should show the fault."""


def _either_side(
    check: Callable[[str, SideStatistics], bool],
) -> Callable[[Pair, CorpusStatistics], bool]:
    return lambda pair, statistics: (
        check(pair.source, statistics.source) or check(pair.target, statistics.target)
    )


def _is_uneven(pair: Pair, statistics: CorpusStatistics) -> bool:
    return statistics.length_deviation(len(pair.source), len(pair.target)) > MAX_DEVIATIONS


def _has_glued_words(text: str, side: SideStatistics) -> bool:
    if not side.is_spaced or _MAY_BE_GLUED.search(text) is None:
        return False
    return longest_run_of_letters(text) > MAX_WORD_LETTERS


def _has_few_letters(text: str, _: SideStatistics) -> bool:
    visible = len("".join(text.split()))
    letters = len(letters_and_marks(text))
    return visible >= MIN_LETTERS and letters < MIN_LETTERS_SHARE * visible


def _have_other_markup(pair: Pair, _: CorpusStatistics) -> bool:
    """Return whether a side has tags or entities that the other side lacks.

    Those of both sides are no fault: a model shall copy them.
    """
    return _find_markup(pair.source) != _find_markup(pair.target)


def _find_markup(text: str) -> Counter[str]:
    """Return the tags, without their attributes, and the entities and escapes of a text."""
    if not _MAY_BE_MARKUP.search(text):  # most lines; much faster than the patterns below
        return Counter()
    found = Counter(_MARKUP.findall(text))
    # `unescape` knows the names of all entities, and leaves text such as "&b;" as it is.
    found.update(entity for entity in _ENTITY.findall(text) if unescape(entity) != entity)
    return found


def _is_misencoded(text: str, _: SideStatistics) -> bool:
    if text.isascii() and is_printable(text):
        return False
    if _DAMAGED.search(text):
        return True
    if not _MAY_BE_MOJIBAKE.search(text):  # importing and calling ftfy takes longer
        return False
    from ftfy.badness import is_bad

    return bool(is_bad(text))


def is_in_other_script(text: str, side: SideStatistics) -> bool:
    """Return whether hardly a letter of a text is in a script of its side."""
    if text.isascii() and "LATIN" in side.scripts:
        return False
    counts = count_scripts(text)
    letters = counts.total()
    usual_letters = sum(counts[script] for script in side.scripts)
    return letters >= MIN_LETTERS and usual_letters < MIN_USUAL_SHARE * letters


def _has_foreign_side(pair: Pair, statistics: CorpusStatistics) -> bool:
    return is_in_other_language(
        pair.source, pair.target, statistics.source
    ) or is_in_other_language(pair.target, pair.source, statistics.target)


def is_in_other_language(text: str, other_text: str, side: SideStatistics) -> bool:
    """Return whether a text is in another language than its side, even without its names.

    A few words that the other side has, too, are names, which belong to no language. If most words
    are shared, the text was not translated.
    """
    if side.language is None or not is_foreign(text, side.language):
        return False
    words = text.split()
    shared_words = set(words).intersection(other_text.split())
    own_words = [word for word in words if word not in shared_words]
    is_untranslated = 2 * len(own_words) < len(words)
    return is_untranslated or is_foreign(" ".join(own_words), side.language)


def _has_repetition(pair: Pair, _: CorpusStatistics) -> bool:
    return loops_alone(pair.target, pair.source) or loops_alone(pair.source, pair.target)


def loops_alone(text: str, other_text: str) -> bool:
    """Return whether a text repeats a phrase over and over, and the other repeats nothing."""
    if not _has_loop(_units(text)):
        return False
    others = _units(other_text)
    repeats_unit = any(unit == following for unit, following in pairwise(others))
    return not repeats_unit and not _has_loop(others)


def _units(text: str) -> list[str]:
    """Return the words without punctuation; of text without spaces, return the characters."""
    text = text[:MAX_LOOPED_TEXT]
    units = text.casefold().split()
    if 10 * len(units) < len(text):  # longer than words: the script has no spaces
        units = _MARKED_LETTER.findall(text)
    return [unit.strip(",.!?;:") for unit in units]


def _has_loop(units: list[str]) -> bool:
    """Return whether a phrase occurs three times in a row, or a single unit four times."""
    repeated_units = len(units) - len(set(units))
    if repeated_units < 2:  # most lines; a loop repeats at least two units
        return False
    longest = min(len(units) // 3, MAX_LOOP)
    for length in range(1, longest + 1):
        # "a b a b a b": where a phrase of 2 units occurs three times, the first 4 units equal the
        # units that stand 2 places after them.
        needed = max(2 * length, 3)
        equal_in_a_row = 0
        for unit, later_unit in zip(units, units[length:], strict=False):
            equal_in_a_row = equal_in_a_row + 1 if unit == later_unit else 0
            if equal_in_a_row == needed:
                return True
    return False


def _is_copied(pair: Pair, _: CorpusStatistics) -> bool:
    return has_same_letters(pair.source, pair.target)


def has_same_letters(text: str, other_text: str) -> bool:
    """Return whether two texts have the same letters, in any case, and more than a name has."""
    if _first_letter(text) != _first_letter(other_text):  # as of most pairs; much faster
        return False
    letters = _letters(text)
    return letters == _letters(other_text) and len(letters) >= MIN_COPIED_LETTERS


def _first_letter(text: str) -> str:
    return first_letter(text).casefold()[:1]


def _letters(text: str) -> str:
    return letters_and_marks(text.casefold())


def _is_held_out(pair: Pair, statistics: CorpusStatistics) -> bool:
    return is_held_out(pair, statistics.held_out)


def is_held_out(pair: Pair, held_out: AbstractSet[int]) -> bool:
    """Return whether the source or the target of a pair is among `held_out_keys`.

    Each side is looked up among both, because a pair may be held out in the other direction.
    """
    if not held_out:  # normalising takes time
        return False
    return key_of(pair.source) in held_out or key_of(pair.target) in held_out


def held_out_keys(pairs: Iterable[Pair]) -> frozenset[int]:
    """Return the keys of all sources and targets of sets that measure a model.

    These sets are for validation and testing, and text to keep: no training data should have them.
    """
    texts: set[str] = set()
    for pair in pairs:
        texts |= {pair.source, pair.target}
    return frozenset(map(key_of, texts))


def key_of(text: str) -> int:
    """Return a 64-bit hash of the words of a text, ignoring case, width, spaces and punctuation."""
    words = normalised(text).encode(errors="replace")
    # Another hash or digest size would hold out other pairs of corpora that are already divided.
    digest = blake2b(words, digest_size=16).digest()
    return int.from_bytes(digest[:8])


def normalised(text: str) -> str:
    """Return a form that is equal for texts that differ only in case, spaces or punctuation."""
    words = compose(text, "NFKC").casefold().translate(_WORD_CHARACTERS).split()
    return " ".join(words) or text


class _WordCharacters(dict[int, int]):
    """A table for `str.translate` that replaces each character outside words by a space.

    It keeps marks, because they are the vowels of Hindi and Thai, but not variation selectors.
    """

    def __missing__(self, code: int) -> int:
        self[code] = code if is_word_character(chr(code)) else ord(" ")
        return self[code]


_WORD_CHARACTERS = _WordCharacters()


RULES = (
    Rule(
        name="uneven",
        meaning="one side is too long",
        advice="a part is missing, or another sentence",
        check=_is_uneven,
    ),
    Rule(
        name="glued",
        meaning="over 50 letters in a word",
        advice="restore spaces",
        check=_either_side(_has_glued_words),
    ),
    Rule(
        name="letters",
        meaning="few letters",
        advice="a list of numbers or symbols",
        check=_either_side(_has_few_letters),
    ),
    Rule(
        name="markup",
        meaning="tags or entities that the other side lacks",
        advice="restore or strip them",
        check=_have_other_markup,
        max_share=1.0,  # one side of a corpus may have tags everywhere
    ),
    Rule(
        name="mojibake",
        meaning="wrong encoding",
        advice="convert the file again",
        check=_either_side(_is_misencoded),
    ),
    Rule(
        name="script",
        meaning="unexpected alphabet",
        advice="check the files",
        check=_either_side(is_in_other_script),
    ),
    Rule(
        name="language",
        meaning="wrong language",
        advice="drop them",
        check=_has_foreign_side,
        recommended_share=0.5,
    ),
    Rule(
        name="repetition",
        meaning="words repeated over and over",
        advice="often a machine's work",
        check=_has_repetition,
    ),
    Rule(
        name="copied",
        meaning="not translated",
        advice="source and target have the same letters",
        check=_is_copied,
    ),
    Rule(
        name="overlap",
        meaning="also in a set that measures the model",
        advice="scores would be too good",
        check=_is_held_out,
    ),
)
"""All rules of `batching.drop`. The first rule that a pair breaks is given as the reason."""

BLANK_SIDE = Fault(name="blank", meaning="a side is empty", advice="always dropped")
REPEATED = Fault(
    name="repeated pairs",
    meaning="the same pair again, which would weigh more",
    advice="keep the first of each",
    max_share=1.0,
)
INVALID_TEXT = Rule(
    name="invalid text",
    meaning="not UTF-8, or letters were lost as U+FFFD",
    advice="convert the file, or save the original again, as UTF-8",
    check=_either_side(lambda text, _: "\ufffd" in text or "\0" in text),
    max_share=0.05,  # above this share, dropping them is not recommended
)
"""A rule that only `mtkit check` has, because the file should be repaired."""
ALREADY_SPLIT = Rule(
    name="already split",
    meaning="a space before punctuation, or marks between subwords",
    advice="use the text as people write it, because mtkit splits it itself",
    check=_either_side(lambda text, _: find_presplit(text) is not None),
    locate=lambda text: find_presplit(text) or 0,
    max_share=1.0,
    min_share=0.05,
)
"""A rule that only `mtkit check` has, because all text of such a corpus is split."""


class PairFilter:
    """Finds pairs that break the given rules."""

    def __init__(self, names: Iterable[str], statistics: Sequence[CorpusStatistics]) -> None:
        """Choose rules by their names; `statistics`: those of each corpus, by `Pair.corpus`."""
        chosen_names = set(names)
        self._rules = [rule for rule in RULES if rule.name in chosen_names]
        self._statistics = statistics

    def broken_rule(self, pair: Pair) -> str | None:
        """Return the name of the first rule that the pair breaks, or None."""
        for rule in self._rules:
            if rule.check(pair, self._statistics[pair.corpus]):
                return rule.name
        return None
