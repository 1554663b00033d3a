"""Truecasing (Lita et al. 2003): restore the usual case of lines in ALL CAPITALS and the like.

The tokenizer splits words in unusual case into letters, which the model cannot translate.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mtkit.tokenizer.codec import Tokenizer

_WORD = re.compile(r"\S+")
_LETTER = re.compile(r"[^\W\d_]")
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_DOTTED_CAPITAL = re.compile("\u0130|I\u0307")  # İ, composed or not
_SENTENCE_END = (".", "!", "?", "…")


def has_no_case(line: str) -> bool:
    """Return whether a line is IN CAPITALS, in lower case, or With A Capital In Each Long Word.

    Title case needs three words of four or more letters after the first word, because two may be
    names. For a line that is mostly in a script without case, return False.
    """
    if not (line.isupper() or line.islower()):
        long = _LONG_WORD.findall("".join(line.split(maxsplit=1)[1:]))
        if len(long) < 3 or not all(word[0].isupper() for word in long):
            return False
    letters: list[str] = _LETTER.findall(line)
    return 2 * sum(letter.lower() != letter.upper() for letter in letters) > len(letters)


def lowercase(text: str, *, dotless_i: bool = False) -> str:
    """Return the text in small letters; with `dotless_i`, I becomes ı. İ always becomes i."""
    text = _DOTTED_CAPITAL.sub("i", text)
    return (text.replace("I", "ı") if dotless_i else text).lower()


def uppercase(text: str, *, dotless_i: bool = False) -> str:
    """Return the text in capitals; with `dotless_i`, i becomes İ.

    Letters that are never capitalised at the start of a sentence, such as Georgian ones, stay.
    """
    text = text.replace("i", "İ") if dotless_i else text
    return "".join(it if it.title() == it else it.upper() for it in text)


def truecase(
    line: str, tokenizer: Tokenizer, *, dotless_i: bool | None = None, abbreviations: str = ""
) -> str:
    """Restore the case of a line if it `has_no_case`, and if the result has fewer subwords.

    `dotless_i`: whether the language has ı; None: unknown. `abbreviations`: a decoding setting.
    """
    if not has_no_case(line):
        return line
    words = _WORD.findall(line)
    stopped = {f"{it}." for it in abbreviations.casefold().split()}
    ends = [it.endswith(_SENTENCE_END) and it.casefold() not in stopped for it in words]
    known = (
        _best_case(word, first, tokenizer, (False, True) if dotless_i is None else (dotless_i,))
        for word, first in zip(words, [True, *ends[:-1]], strict=True)
    )
    cased = _WORD.sub(lambda _: next(known), line)
    after, before = map(len, tokenizer.encode_source([cased, line]))
    return cased if after < before else line


def _best_case(word: str, is_first: bool, tokenizer: Tokenizer, dotless: Sequence[bool]) -> str:
    """Return the spelling with the fewest subwords; the word itself if all are split into letters.

    `is_first`: prefer a capital among equally good ones. `dotless`: values of `dotless_i` to try.
    """
    small = [lowercase(word, dotless_i=it) for it in dotless]
    capital = [_capitalise(text, it) for text, it in zip(small, dotless, strict=True)]
    spellings = [*capital, *small, word]
    # Subword ids are ordered by frequency, so the largest ids belong to the rarest subwords.
    costs = [
        (len(ids), [] if is_first else sorted(ids, reverse=True))
        for ids in tokenizer.encode_source(spellings)
    ]
    best = min(costs)
    is_known = best[0] < len(word) or best[0] == 1
    return spellings[costs.index(best)] if is_known else word


def _capitalise(word: str, dotless_i: bool) -> str:
    """Capitalise the first letter, even after a bracket."""
    title = {"i": "İ"} if dotless_i else {}
    return _LETTER.sub(lambda it: title.get(it[0], it[0].title()), word, count=1)
