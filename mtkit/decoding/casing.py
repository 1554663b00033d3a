"""Truecasing (Lita et al. 2003): words in unusual capitals are read as the tokenizer knows them.

A tokenizer splits a word that it has not seen in this case into letters, about which the model has
learnt nothing.
"""

from __future__ import annotations

import re

from mtkit.tokenizer.codec import Tokenizer

_WORD = re.compile(r"\S+")
_LETTER = re.compile(r"[^\W\d_]")
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_SENTENCE_END = (".", "!", "?", "…")


def has_no_case(line: str) -> bool:
    """Return whether capitals tell nothing: ALL ARE, none is, or Every Long Word Begins With One.

    The last takes three long words after the first word, as two may be names. Lines whose letters
    are mostly of a script without capitals do not count.
    """
    if not (line.isupper() or line.islower()):
        long = _LONG_WORD.findall("".join(line.split(maxsplit=1)[1:]))
        if len(long) < 3 or not all(word[0].isupper() for word in long):
            return False
    letters: list[str] = _LETTER.findall(line)
    return 2 * sum(letter.lower() != letter.upper() for letter in letters) > len(letters)


def truecase(line: str, tokenizer: Tokenizer) -> str:
    """Return a line without case with each word in the case that the tokenizer knows best.

    The line stays as it is if it has case, or if that saves no subword.
    """
    if not has_no_case(line):
        return line
    words = _WORD.findall(line)
    begins = [True, *(word.endswith(_SENTENCE_END) for word in words[:-1])]
    known = (_best_case(word, first, tokenizer) for word, first in zip(words, begins, strict=True))
    cased = _WORD.sub(lambda _: next(known), line)
    after, before = map(len, tokenizer.encode_source([cased, line]))
    return cased if after < before else line


def _best_case(word: str, is_first: bool, tokenizer: Tokenizer) -> str:
    """Return the spelling of the fewest subwords; of several the most frequent one.

    At the beginning of a sentence it is the one with a capital.
    """
    turkish, small = word.replace("I", "ı").lower(), word.lower()
    spellings = [_capitalise(small), _capitalise(turkish), small, turkish, word]
    # Subwords are numbered by their frequency: the fewest, and none of them rare.
    costs = [
        (len(ids), [] if is_first else sorted(ids, reverse=True))
        for ids in tokenizer.encode_source(spellings)
    ]
    return spellings[costs.index(min(costs))]


def _capitalise(word: str) -> str:
    """Make the first letter a capital; a bracket may precede it."""
    return _LETTER.sub(lambda letter: letter.group().title(), word, count=1)
