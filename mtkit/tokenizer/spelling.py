"""Spell a source with the characters that the vocabulary knows.

A vocabulary has the characters of its corpus. People type others that mean the same: “ for ", – for
-, a letter of another alphabet that looks alike, a digit of another script, a letter with an
accent. SentencePiece would split them into bytes, of which the model knows nothing. So each such
character is read as the nearest one that the vocabulary knows, by the data of Unicode:
decompositions, names, categories, numeric values, and the table of confusable characters. All else
stays as it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import chain
from typing import Any, Literal

from mtkit.corpus.characters import (
    assigned_characters,
    is_letter,
    is_mark,
    is_sign,
    is_small,
    is_space,
    title_case,
)
from mtkit.corpus.languages import script_of
from mtkit.corpus.text import compose, is_blank

MAX_USUAL_SHARE = 0.001
"""Usual share of unknown letters: a vocabulary leaves out the rarest 0.05 % of its corpus."""
MAX_EXAMPLE = 5
"""Number of different unknown letters that a message shows."""
MAX_STEPS = 3
"""Equivalents of equivalents are tried, over at most so many steps."""
_WORD = re.compile(r"\S+")
_LEFT_TO_RIGHT_MARK = "\u200e"
"""Stands around letters that are written from right to left in the table of confusables."""
_BELOW = (202, 220)
"""Combining classes of marks below a letter; most fonts draw ş and ș alike."""
_STRETCHERS = ("TATWEEL", "LAJANYALAN")
"""In the names of characters that only make a word longer; they join the letters beside them."""
_LONG_DASHES = ("EM DASH", "HORIZONTAL BAR")
"""In the names of dashes that need no space around them, where a hyphen would join two words."""

_UNDIRECTED, _OPENING, _CLOSING = ("Po",), ("Pi", "Ps"), ("Pf", "Pe")
"""Categories of quotes, by the side of the quotation on which they stand."""

QuoteKind = Literal["double", "single", "single angle"]
_NEAREST_QUOTES: dict[QuoteKind, Sequence[QuoteKind]] = {
    "double": ("double", "single"),
    "single angle": ("single angle", "double", "single"),
    "single": ("single",),  # a double quote is no apostrophe
}
"""For each kind of quotes, the kinds that stand for it, the nearest first; «» are double."""


class SourceSpelling:
    """Replaces characters that the vocabulary cannot spell by the nearest ones that it can.

    Text that the vocabulary can spell never changes, and changed text does not change again.
    """

    def __init__(self, can_spell: Callable[[str], bool], subwords: Collection[str]) -> None:
        """Take what is needed of a vocabulary.

        `can_spell` returns whether it encodes a text with neither byte pieces nor <unk>.
        `subwords`: all of its pieces that are text.
        """
        self._can_spell = can_spell
        self._subwords = subwords
        self._known: set[str] = set()
        """Characters that were found to be known."""
        self._unknown: set[str] = set()
        """Characters that were found to be unknown."""
        self._nearest: dict[tuple[str, bool], str | None] = {}
        """What `_find` has found for its arguments."""

    def respell(self, line: str) -> str:
        """Return the line with the nearest known characters."""
        if self._is_spelled(line):
            return line
        return "".join(self._spell(line))

    def origins(self, line: str) -> list[int]:
        """Return for each character of the respelled line the offset of the one it stands for."""
        if self._is_spelled(line):
            return list(range(len(line)))
        origins: list[int] = []
        for offset, spelling in enumerate(self._spell(line)):
            origins += [offset] * len(spelling)
        return origins

    def unknown_letters(self, line: str) -> str:
        """Return the letters of a line for which the vocabulary has nothing near."""
        if self._is_spelled(line):
            return ""
        spelled = self.respell(line)
        return "".join(
            letter for letter in spelled if is_letter(letter) and not self._is_known(letter)
        )

    def lacks_script_of(self, line: str) -> bool:
        """Return whether the line has letters, and the vocabulary none of their scripts."""
        if self._is_spelled(line):
            return False
        letters = [letter for letter in self.respell(line) if is_letter(letter)]
        if any(map(self._is_known, letters)):
            return False
        return bool(letters) and self._scripts.isdisjoint(map(script_of, letters))

    def tables(self) -> dict[str, Any]:
        """Return all that `respell` and `lacks_script_of` look up, for a program without mtkit.

        Tables of characters list for each spelling those that it stands for. Look-alikes in words
        of several scripts are not among them, because they depend on the word.
        """
        nearest: defaultdict[str, str] = defaultdict(str)
        nearest_opening: defaultdict[str, str] = defaultdict(str)
        for character in assigned_characters():
            if self._is_far(character) or self._is_known(character):
                continue
            closing = self._find(character, False)
            if closing is not None:
                nearest[closing] += character
            opening = self._find(character, True) if _may_be_quote(character) else closing
            if opening is not None and opening != closing:
                nearest_opening[opening] += character
        below = " with marks below"
        with_marks = {
            key.removesuffix(below): letters[0]
            for key, letters in self._characters.items()
            if key.endswith(below) and letters
        }
        marks_below = (c for c in assigned_characters() if unicodedata.combining(c) in _BELOW)
        return {
            "nearest": nearest,
            "nearestOpening": nearest_opening,
            "marksBelow": "".join(marks_below),
            "lettersWithMarksBelow": with_marks,
            "scripts": sorted(filter(None, self._scripts)),
        }

    def _is_far(self, character: str) -> bool:
        """Return whether it surely has no known spelling, which is true of most characters.

        It is a letter without case of a script that the vocabulary lacks, such as an ideograph.
        """
        has_no_equivalents = unicodedata.is_normalized("NFKD", character)
        is_caseless = unicodedata.category(character) == "Lo" and not is_blank(character)
        return has_no_equivalents and is_caseless and script_of(character) not in self._scripts

    def _is_spelled(self, line: str) -> bool:
        """Return whether the vocabulary can spell the line as it is."""
        # Nearly all lines have only characters that were seen before.
        if self._known.issuperset(line) or all(map(self._is_known, set(line))):
            return True
        # A character can be known as a part of a longer subword only.
        return self._can_spell(line)

    def _is_known(self, character: str) -> bool:
        if character in self._known:
            return True
        if character in self._unknown:
            return False
        if self._can_spell(character):
            self._known.add(character)
            return True
        self._unknown.add(character)
        return False

    def _spell(self, line: str) -> list[str]:
        """Return the spelling of each character of a line.

        It is "" if the character is left out, or is a mark that the letter before it has taken.
        """
        spellings: list[str] = []
        base = ""
        """The last character that was written, on which marks stand."""
        base_offset = 0
        lookalikes = cache(partial(self._lookalikes_in, line))  # at most once; few lines need them
        for offset, character in enumerate(line):
            spelling = character
            is_accent = is_mark(character) and not is_blank(character)
            if is_accent:
                marked = self._with_mark(base, character)
                if marked is not None:
                    # The base, which is already written, takes the mark with it.
                    spellings[base_offset] = spellings[base_offset].removesuffix(base) + marked
                    base = marked
                    spelling = ""
            elif not self._is_known(character):
                spelling = self._replace(line, offset, lookalikes)
            spellings.append(spelling)
            if spelling:
                base = spelling[-1]
                base_offset = offset
        return spellings

    def _replace(self, line: str, offset: int, lookalikes: Callable[[], dict[int, str]]) -> str:
        """Return the spelling of an unknown character of a line; itself if nothing is near.

        `lookalikes` returns the `_lookalikes_in` the line.
        """
        character = line[offset]
        nearest = self._find(character, _opens(line, offset))
        if nearest is None:
            return lookalikes().get(offset, character)
        if _is_long_dash(character) and not _is_long_dash(nearest):
            return _with_spaces(nearest, line, offset)
        return nearest

    def _with_mark(self, base: str, mark: str) -> str | None:
        """Return the known letter that is nearest to `base` with the mark on it.

        Return None if the mark stays as it is: it is known, or the letter is unknown, too.
        """
        if not base or not self._is_known(base):
            return None
        composed = compose(base + mark)
        if len(composed) == 1 and self._is_known(composed):
            return composed
        if self._is_known(mark):
            return None
        if unicodedata.combining(mark) in _BELOW:
            return next(self._with_other_marks_below(base + mark), base)
        return base

    def _lookalikes_in(self, line: str) -> dict[int, str]:
        """Return for offsets of a line letters of another script that look alike.

        Only words that mix scripts are meant to be read so, as "pаypal" with a Cyrillic а. A word
        of one script is a word of another language.
        """
        found: dict[int, str] = {}
        for word in _WORD.finditer(line):
            letters = [
                (offset, letter)
                for offset, letter in enumerate(word[0], word.start())
                if is_letter(letter)
            ]
            scripts = {script_of(letter) for _, letter in letters if self._is_known(letter)}
            if not scripts:
                continue
            in_word: dict[int, str | None] = {}
            for offset, letter in letters:
                if not self._is_known(letter) and self._find(letter, False) is None:
                    in_word[offset] = self._lookalike_in(scripts, letter)
            if None not in in_word.values():
                found |= {offset: letter for offset, letter in in_word.items() if letter}
        return found

    def _lookalike_in(self, scripts: set[str | None], letter: str) -> str | None:
        for other in _lookalikes(letter):
            is_candidate = len(other) == 1 and is_letter(other) and self._is_known(other)
            is_alike = is_candidate and is_small(other) == is_small(letter)
            if is_alike and script_of(other) in scripts:
                return other
        return None

    def _find(self, character: str, is_opening: bool) -> str | None:
        """Return the nearest known spelling of an unknown character, or None.

        `is_opening`: of quotes, whether the character stands before a quotation.
        """
        key = (character, is_opening)
        if key not in self._nearest:
            self._nearest[key] = self._search(character, is_opening, MAX_STEPS)
        return self._nearest[key]

    def _search(self, character: str, is_opening: bool, steps: int) -> str | None:
        equivalents = _equivalents(character)
        for spelling in chain(equivalents, self._similar(character, is_opening)):
            if self._can_spell(spelling):
                return spelling
        if steps == 1:
            return None
        # Equivalents may have unknown characters that are similar to known ones: ½ is 1⁄2, where ⁄
        # looks like a solidus. What is similar to something similar may mean anything.
        for spelling in equivalents:
            found: list[str | None] = []
            for other in spelling:
                if self._is_known(other):
                    found.append(other)
                else:
                    found.append(self._search(other, is_opening, steps - 1))
            if None not in found:
                return "".join(filter(None, found))
        return None

    def _similar(self, character: str, is_opening: bool) -> Iterator[str]:
        """Yield spellings that mean nearly the same, the nearest first."""
        if is_letter(character):
            yield from self._similar_letters(character)
        elif is_sign(character):
            yield from self._similar_signs(character, is_opening)
        else:
            yield from self._similar_numbers(character)

    def _similar_letters(self, letter: str) -> Iterator[str]:
        name = unicodedata.name(letter, "")
        if any(word in name for word in _STRETCHERS):
            yield ""
        decomposed = unicodedata.normalize("NFD", letter)
        yield from self._with_other_marks_below(decomposed)
        lookalikes = list(_lookalikes(letter))
        script = script_of(letter)
        for other in lookalikes:
            # Arabic and Persian write some letters alike that are different characters.
            if len(other) == 1 and is_letter(other) and script_of(other) == script:
                yield other
        yield self._without_unknown_marks(decomposed)
        plain = _character_named(name.partition(" WITH ")[0])  # the o of ø has no decomposition
        if plain:
            yield plain
        for other in lookalikes:
            if len(other) > 1 and {script_of(each) for each in other} == {script}:
                yield other  # ae for æ
        if _is_modifier(letter):  # such as letters that look like apostrophes
            yield from self._quotes(letter, is_opening=False)
            yield from filter(is_sign, _single(lookalikes))
        yield title_case(letter)

    def _similar_signs(self, sign: str, is_opening: bool) -> Iterator[str]:
        yield from self._quotes(sign, is_opening)
        yield from _signs_with_shorter_names(sign)
        lookalikes = list(_lookalikes(sign))
        if _is_dash(sign):
            dashes = _nearest_first(sign, self._characters["dash"])
            yield from sorted(dashes, key=lambda dash: _is_long_dash(dash) != _is_long_dash(sign))
            return  # a full stop and some letters look like dashes, too
        yield from filter(is_sign, _single(lookalikes))
        yield from filter(_is_modifier, _single(lookalikes))
        if _is_list_mark(sign):
            yield from (*_nearest_first(sign, self._characters["list mark"]), "*", "-")
        for other in lookalikes:
            if len(other) > 1 and all(map(is_sign, other)):
                yield other

    def _similar_numbers(self, number: str) -> Iterator[str]:
        value = unicodedata.numeric(number, None)
        if value is None or not value.is_integer():
            return
        yield str(int(value))
        yield from _nearest_first(number, self._characters[f"number {value:g}"])

    def _quotes(self, character: str, is_opening: bool) -> Iterator[str]:
        """Yield known quotes that can stand for a character, those of the nearest kind first.

        Of each kind come first those that suit the side of the quotation, then all, because a quote
        in the wrong direction is better than none.
        """
        kind = _quote_kind(character) or _kind_of_similar_quote(character)
        if kind is None:
            return
        suitable = {*_UNDIRECTED, *(_OPENING if is_opening else _CLOSING)}
        for nearest_kind in _NEAREST_QUOTES[kind]:
            quotes = _nearest_first(character, self._characters[f"{nearest_kind} quote"])
            fitting = [other for other in quotes if unicodedata.category(other) in suitable]
            yield from (*fitting, *quotes)

    def _without_unknown_marks(self, decomposed: str) -> str:
        """Return the letter with those of its marks with which the vocabulary knows it."""
        spelling = decomposed[0]
        for mark in decomposed[1:]:
            composed = compose(spelling + mark)
            if self._can_spell(composed):
                spelling = composed
        return spelling

    def _with_other_marks_below(self, decomposed: str) -> Iterator[str]:
        """Yield known letters that have other marks below."""
        if _has_marks_below(decomposed):
            yield from self._characters[f"{decomposed[0]} with marks below"]

    @cached_property
    def _characters(self) -> defaultdict[str, list[str]]:
        """The known characters of some classes, in the order of their codes."""
        by_class: defaultdict[str, list[str]] = defaultdict(list)
        for character in sorted(set("".join(self._subwords))):
            for label in _classes(character):
                if self._is_known(character):
                    by_class[label].append(character)
        return by_class

    @cached_property
    def _scripts(self) -> set[str | None]:
        """The scripts of all letters in the vocabulary."""
        return {script_of(letter) for letter in set("".join(self._subwords)) if is_letter(letter)}


@dataclass
class UnknownLetters:
    """The share of the letters of some lines that a vocabulary can spell in no way."""

    letters: int = 0
    unknown: int = 0
    example: str = ""
    """The first unknown letters, and where they stand."""

    def count(self, letters: int, unknown: str, place: str) -> None:
        """Count the letters of a line, and the unknown ones among them."""
        self.letters += letters
        self.unknown += len(unknown)
        if unknown and not self.example:
            letters_shown = list(dict.fromkeys(unknown))[:MAX_EXAMPLE]
            self.example = f"{' '.join(letters_shown)} in {place}"

    @property
    def share(self) -> float:
        """The share of unknown letters, from 0 to 1."""
        return self.unknown / max(self.letters, 1)

    @property
    def is_unusual(self) -> bool:
        """Whether there are more unknown letters than a vocabulary leaves out of its own corpus."""
        return self.share > MAX_USUAL_SHARE

    def __str__(self) -> str:
        return f"{self.share:.1%} of the letters are not in the vocabulary (such as {self.example})"


def _classes(character: str) -> Iterator[str]:
    """Yield the classes whose members stand for each other."""
    kind = _quote_kind(character)
    if kind is not None:
        yield f"{kind} quote"
    if _is_dash(character):
        yield "dash"
    if _is_list_mark(character):
        yield "list mark"
    value = unicodedata.decimal(character, None)
    if value is not None:
        yield f"number {value}"
    decomposed = unicodedata.normalize("NFD", character)
    if _has_marks_below(decomposed):
        yield f"{decomposed[0]} with marks below"


@cache
def _quote_kind(character: str) -> QuoteKind | None:
    name = unicodedata.name(character, "")
    is_straight = name in ("QUOTATION MARK", "FULLWIDTH QUOTATION MARK")  # double, but unsaid
    if is_straight or "CORNER BRACKET" in name:
        return "double"
    if not is_sign(character) or not ("QUOTATION MARK" in name or "APOSTROPHE" in name):
        return None
    if "DOUBLE" in name:
        return "double"
    return "single angle" if "ANGLE" in name else "single"


@cache
def _kind_of_similar_quote(character: str) -> QuoteKind | None:
    """Return the kind of quotes that the character looks like, as ′ like an apostrophe."""
    near = _lookalikes(character)
    if "'" in near:
        return "single"
    return "double" if "''" in near else None


def _opens(line: str, offset: int) -> bool:
    """Return whether a quote at this offset begins a quotation, by the characters beside it."""
    before, after = _neighbours(line, offset)
    has_space_before = is_space(before) or unicodedata.category(before) in ("Ps", "Pd")
    has_space_after = is_space(after)
    if has_space_before == has_space_after:  # as in French, where spaces stand inside of quotes
        return unicodedata.category(line[offset]) in _OPENING
    return has_space_before


def _equivalents(character: str) -> list[str]:
    """Return other spellings of the same character: its decompositions, and its small letter."""
    if is_blank(character):
        return [" " if is_space(character) else ""]
    spellings = [unicodedata.normalize("NFD", character), character.lower(), character.casefold()]
    compatible = compose(character, "NFKC")
    if not compatible.startswith(" "):  # as that of ´, an accent on a space
        spellings.insert(0, compatible)
    return [spelling for spelling in dict.fromkeys(spellings) if spelling != character]


def _is_dash(text: str) -> bool:
    return len(text) == 1 and unicodedata.category(text) == "Pd"


def _may_be_quote(character: str) -> bool:
    return is_sign(character) or _is_modifier(character)


def _is_modifier(letter: str) -> bool:
    return unicodedata.category(letter) == "Lm"


def _is_list_mark(character: str) -> bool:
    is_geometric_shape = "\u25a0" <= character <= "\u25ff"
    return is_geometric_shape or "BULLET" in unicodedata.name(character, "")


def _is_long_dash(text: str) -> bool:
    return len(text) == 1 and any(words in unicodedata.name(text, "") for words in _LONG_DASHES)


def _with_spaces(spelling: str, line: str, offset: int) -> str:
    """Return the spelling of a dash with a space towards each word that touches it."""
    before, after = _neighbours(line, offset)
    if not is_space(before):
        spelling = f" {spelling}"
    if not is_space(after):
        spelling = f"{spelling} "
    return spelling


def _neighbours(line: str, offset: int) -> tuple[str, str]:
    """Return the characters beside an offset, spaces at the ends of the line."""
    before = line[offset - 1] if offset > 0 else " "
    after = line[offset + 1] if offset + 1 < len(line) else " "
    return before, after


def _has_marks_below(decomposed: str) -> bool:
    marks = decomposed[1:]
    return bool(marks) and all(unicodedata.combining(mark) in _BELOW for mark in marks)


def _nearest_first(character: str, others: Sequence[str]) -> list[str]:
    """Return the other characters: first those in ASCII, then those with the nearest codes."""
    return sorted(others, key=lambda other: (not other.isascii(), abs(ord(other) - ord(character))))


def _character_named(name: str) -> str | None:
    try:
        return unicodedata.lookup(name)
    except KeyError:
        return None


def _signs_with_shorter_names(sign: str) -> Iterator[str]:
    """Yield the signs whose names end the name of this one: ? for ARABIC QUESTION MARK."""
    if sign.isascii():  # a REVERSE SOLIDUS is no SOLIDUS
        return
    words = unicodedata.name(sign, "").split(" ")
    for first in range(1, len(words)):
        general = _character_named(" ".join(words[first:]))
        if general and is_sign(general):
            yield general


def _single(texts: Iterable[str]) -> Iterator[str]:
    return (text for text in texts if len(text) == 1)


@cache
def _lookalikes(character: str) -> tuple[str, ...]:
    """Return what looks like the character, by the table of confusables of Unicode (UTS #39).

    The table names one text for all that look alike, so others are two steps away.
    """
    # Few lines need the table; loading it takes 10 ms.
    from confusable_homoglyphs.confusables import confusables_data

    def neighbours(text: str) -> list[str]:
        rows = confusables_data.get(text)
        if rows is None:
            rows = confusables_data.get(f"{_LEFT_TO_RIGHT_MARK}{text}{_LEFT_TO_RIGHT_MARK}", ())
        return [row["c"].replace(_LEFT_TO_RIGHT_MARK, "") for row in rows]

    near = neighbours(character)
    # The letter x looks like a sign of multiplication, but its other look-alikes do not.
    alike = [text for text in near if all(is_sign(other) == is_sign(character) for other in text)]
    further = [other for text in alike for other in neighbours(text)]
    return tuple(other for other in dict.fromkeys(near + further) if other != character)
