"""Spell a source with the characters that the vocabulary knows.

A vocabulary has the characters of its corpus. People type others that mean the same: “ for ", – for
-, a wide or styled letter, a digit of another script, a letter with an accent. SentencePiece would
split them into bytes, of which the model knows nothing. So each such character is read as the
nearest one that the vocabulary knows: by Unicode's decompositions, cases and digits, and by a short
table. All else stays as it is.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from mtkit.corpus.characters import count_letters, is_letter, is_mark, is_space, title_case
from mtkit.corpus.languages import script_of
from mtkit.corpus.text import compose, is_blank

MAX_USUAL_SHARE = 0.001
"""Usual share of unknown letters: a vocabulary leaves out the rarest 0.05 % of its corpus."""
MAX_EXAMPLE = 5
"""Number of different unknown letters that a message shows."""
LONG_DASHES = "—―⸺⸻︱﹘"
"""Dashes that need no space around them, where a hyphen would join two words."""
_OPENING_QUOTES, _CLOSING_QUOTES = "‘‛‚“‟„‹«「『〝", "’”›»」』〞〟"
"""Quotes that stand on one side of a quotation only; in some languages, “ also ends one."""
_SINGLE_QUOTES, _DOUBLE_QUOTES = "' ’ ‘ ‛ ‚ `", '" “ ” „ « » ＂ 「 」'
_STAND_INS = {
    "'’‘‛‚`´′ʹʼʻˈ׳": _SINGLE_QUOTES,
    '"“”„‟«»＂″״「」『』〝〞〟❝❞': f"{_DOUBLE_QUOTES} {_SINGLE_QUOTES}",
    "‹›": f"‹ › {_DOUBLE_QUOTES} {_SINGLE_QUOTES}",
    "-‐‑‒–−־": "- – ‐ ‑ — ―",
    LONG_DASHES: "— ― - –",
    "•‣◦·∙●○■□▪▶►◆": "• · ▪ * -",
    "⁄∕": "/",
    "，、،": ",",
    "。۔": ".",
    "؛": ";",
    "؟": "?",
    "æ": "ae",
    "Æ": "AE",
    "œ": "oe",
    "Œ": "OE",
    "ı": "i",
    "şș": "ş ș",
    "ŞȘ": "Ş Ș",
    "ţț": "ţ ț",
    "ŢȚ": "Ţ Ț",
    "يىی": "ی ي ى",
    "كک": "ک ك",
    "ـ": "",
}
"""Signs and letters, and those that may stand for them, the nearest first."""


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
        # Dicts, because `cache` cannot be pickled for other processes.
        self._known: dict[str, bool] = {}
        self._nearest: dict[tuple[str, bool], str | None] = {}

    def is_known(self, character: str) -> bool:
        """Return whether the vocabulary has a character."""
        if character not in self._known:
            self._known[character] = self._can_spell(character)
        return self._known[character]

    def find_nearest(self, character: str, is_opening: bool) -> str | None:
        """Return the nearest known spelling of an unknown character, or None.

        `is_opening`: of quotes, whether the character stands before a quotation.
        """
        key = (character, is_opening)
        if key not in self._nearest:
            self._nearest[key] = self._search(*key)
        return self._nearest[key]

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
            letter for letter in spelled if is_letter(letter) and not self.is_known(letter)
        )

    def lacks_script_of(self, line: str) -> bool:
        """Return whether the line has letters, and the vocabulary none of their scripts."""
        unknown = self.unknown_letters(line)
        if not unknown or len(unknown) < count_letters(self.respell(line)):
            return False
        return self.scripts.isdisjoint(map(script_of, unknown))

    def _is_spelled(self, line: str) -> bool:
        """Return whether the vocabulary can spell the line as it is."""
        # A character can be known as a part of a longer subword only.
        return all(map(self.is_known, set(line))) or self._can_spell(line)

    def _spell(self, line: str) -> list[str]:
        """Return the spelling of each character of a line; "" for one that is left out."""
        spellings: list[str] = []
        base = ""
        """The last character that was written, on which marks stand."""
        for offset, character in enumerate(line):
            spelling = character
            if not self.is_known(character):
                spelling = self._replace(line, offset, base)
            spellings.append(spelling)
            base = spelling[-1:] or base
        return spellings

    def _replace(self, line: str, offset: int, base: str) -> str:
        """Return the spelling of an unknown character of a line; itself if nothing is near."""
        character = line[offset]
        if is_accent(character):
            # On an unknown letter it stays: perhaps the model knows their script by its bytes.
            return "" if self.is_known(base) else character
        before, after = _neighbours(line, offset)
        nearest = self.find_nearest(character, _opens(character, before, after))
        if nearest is None:
            return character
        if character in LONG_DASHES and nearest not in LONG_DASHES:
            space_before = "" if is_space(before) else " "
            space_after = "" if is_space(after) else " "
            return f"{space_before}{nearest}{space_after}"
        return nearest

    def _search(self, character: str, is_opening: bool) -> str | None:
        whole = self._first_known(dict.fromkeys(self._similar(character, is_opening)))
        parts = unicodedata.normalize("NFKD", character)
        if whole is not None or parts == character or parts.startswith(" "):
            return whole
        # The parts may be unknown, but similar to known characters: ½ is 1⁄2.
        spelled: list[str] = []
        for part in parts:
            nearest = self._first_known([part, *self._similar(part, is_opening)])
            if nearest is None:
                return None
            spelled.append(nearest)
        return "".join(spelled)

    def _first_known(self, spellings: Iterable[str]) -> str | None:
        return next(filter(self._can_spell, spellings), None)

    def _similar(self, character: str, is_opening: bool) -> Iterator[str]:
        """Yield spellings that mean the same or nearly the same, the nearest first."""
        if is_blank(character):
            yield " " if is_space(character) else ""
            return
        if is_mark(character):
            yield ""
            return
        compatible = compose(character, "NFKC")
        if not compatible.startswith(" "):  # as that of ´, an accent on a space
            yield compatible
        decomposed = unicodedata.normalize("NFD", character)
        yield from (decomposed, character.lower(), character.casefold())
        unfit = _CLOSING_QUOTES if is_opening else _OPENING_QUOTES
        # A quote in the wrong direction is better than none.
        yield from sorted(_stand_ins().get(character, ()), key=unfit.__contains__)
        yield self._without_unknown_marks(decomposed)
        yield _without_stroke(character)
        yield title_case(character)
        value = unicodedata.digit(character, None)
        if value is not None:
            yield str(value)
            for other in self._characters:
                if unicodedata.decimal(other, None) == value:
                    yield other

    def _without_unknown_marks(self, decomposed: str) -> str:
        """Return the letter with those of its marks with which the vocabulary knows it."""
        spelling = decomposed[0]
        for mark in decomposed[1:]:
            composed = compose(spelling + mark)
            if self._can_spell(composed):
                spelling = composed
        return spelling

    @cached_property
    def _characters(self) -> list[str]:
        """The characters of all subwords."""
        return sorted(set("".join(self._subwords)))

    @cached_property
    def scripts(self) -> set[str | None]:
        """The scripts of all letters in the vocabulary."""
        return {script_of(letter) for letter in self._characters if is_letter(letter)}


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


@cache
def _stand_ins() -> dict[str, list[str]]:
    """Return for each character of _STAND_INS those that may stand for it."""
    rows: dict[str, list[str]] = {}
    for characters, nearest in _STAND_INS.items():
        rows |= dict.fromkeys(characters, nearest.split(" "))
    return rows


def is_accent(character: str) -> bool:
    """Return whether the character is a visible mark."""
    return is_mark(character) and not is_blank(character)


def _without_stroke(letter: str) -> str:
    """Return the letter without what its name says after WITH: ø has no decomposition."""
    plain, _, _ = unicodedata.name(letter, "").partition(" WITH ")
    try:
        return unicodedata.lookup(plain)
    except KeyError:
        return letter


def _neighbours(line: str, offset: int) -> tuple[str, str]:
    """Return the characters beside an offset, spaces at the ends of the line."""
    before = line[offset - 1] if offset > 0 else " "
    after = line[offset + 1] if offset + 1 < len(line) else " "
    return before, after


def _opens(quote: str, before: str, after: str) -> bool:
    """Return whether a quote begins a quotation, by the characters beside it."""
    has_space_before = is_space(before) or unicodedata.category(before) in ("Ps", "Pd")
    has_space_after = is_space(after)
    if has_space_before == has_space_after:  # as in French, where spaces stand inside of quotes
        return quote in _OPENING_QUOTES
    return has_space_before
