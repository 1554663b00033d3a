"""Truecasing (Lita et al. 2003): restore the usual case of lines in ALL CAPITALS and the like.

The tokenizer splits words in unusual case into letters, which the model cannot translate.
"""

from __future__ import annotations

import re

from mtkit.tokenizer.codec import Tokenizer

_WORD = re.compile(r"\S+")
_LETTER = re.compile(r"[^\W\d_]")
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_SENTENCE_END = (".", "!", "?", "…")


def has_no_case(line: str) -> bool:
    """Return whether a line is IN CAPITALS, in lower case, or With A Capital In Each Long Word.

    Title case needs three words of four letters after the first word, because two may be names. A
    line with mostly letters of a script without case does not count.
    """
    if not (line.isupper() or line.islower()):
        long = _LONG_WORD.findall("".join(line.split(maxsplit=1)[1:]))
        if len(long) < 3 or not all(word[0].isupper() for word in long):
            return False
    letters: list[str] = _LETTER.findall(line)
    return 2 * sum(letter.lower() != letter.upper() for letter in letters) > len(letters)


def truecase(line: str, tokenizer: Tokenizer) -> str:
    """Restore the case of a line that `has_no_case`, if that makes it shorter in subwords."""
    if not has_no_case(line):
        return line
    words = _WORD.findall(line)
    begins = [True, *(word.endswith(_SENTENCE_END) for word in words[:-1])]
    known = (_best_case(word, first, tokenizer) for word, first in zip(words, begins, strict=True))
    cased = _WORD.sub(lambda _: next(known), line)
    after, before = map(len, tokenizer.encode_source([cased, line]))
    return cased if after < before else line


def _best_case(word: str, is_first: bool, tokenizer: Tokenizer) -> str:
    """Return the spelling with the fewest subwords; `is_first`: prefer a capital among equals."""
    small = [word.lower(), word.replace("I", "ı").lower()]  # the second is Turkish
    # Capitalise the first letter, even after a bracket.
    capital = [_LETTER.sub(lambda letter: letter.group().title(), it, count=1) for it in small]
    spellings = [*capital, *small, word]
    # Subword ids are ordered by frequency, so the largest ids belong to the rarest subwords.
    costs = [
        (len(ids), [] if is_first else sorted(ids, reverse=True))
        for ids in tokenizer.encode_source(spellings)
    ]
    return spellings[costs.index(min(costs))]
