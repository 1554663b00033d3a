"""How a line looks, apart from what it says: its capitals, and its emoji.

What a tokenizer has not seen, it spells in letters or bytes that the model has learnt nothing of. A
word in unusual capitals is known in others, and an emoji need not be translated.
"""

from __future__ import annotations

import re
from itertools import chain, groupby, pairwise

from mtkit.decoding.sentences import split_sentences
from mtkit.tokenizer.codec import Tokenizer

Run = tuple[str, bool]
"""Text, and whether it is to be translated."""

_WORD = re.compile(r"\S+")
_SPOKEN = re.compile(r"\w")
_LETTER = re.compile(r"[^\W\d_]")
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_SENTENCE_END = (".", "!", "?", "…")
_EMOJI = re.compile(
    "(?:(?:[\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
    "|[\xa9\xae\u203c-\u3299](?=\ufe0f)"  # text, unless it is said to be drawn as a picture
    "|[0-9#*](?=\ufe0f?\u20e3))"  # on a key
    "[\u200d\u20e3\ufe0e\ufe0f\U000e0020-\U000e007f]*)+"  # what joins and varies them
)


def has_no_case(line: str) -> bool:
    """Whether capitals tell nothing: ALL LETTERS ARE, none is, or Every Long Word Begins With One.

    Three long words after the first one have to, as two may be names. A line is not meant whose
    letters are mostly of a script without capitals.
    """
    if not (line.isupper() or line.islower()):
        long = _LONG_WORD.findall("".join(line.split(maxsplit=1)[1:]))
        if len(long) < 3 or not all(word[0].isupper() for word in long):
            return False
    letters: list[str] = _LETTER.findall(line)
    return 2 * sum(letter.lower() != letter.upper() for letter in letters) > len(letters)


def truecase(line: str, tokenizer: Tokenizer) -> str:
    """The words of a line that has no case in that in which the tokenizer knows them best.

    Truecasing (Lita et al. 2003), by what a tokenizer learnt of its text. The line stays as it is
    where that saves no subword.
    """
    if not has_no_case(line):
        return line
    words = _WORD.findall(line)
    begins = [True, *(word.endswith(_SENTENCE_END) for word in words[:-1])]
    known = (_known(word, first, tokenizer) for word, first in zip(words, begins, strict=True))
    found = _WORD.sub(lambda _: next(known), line)
    now, before = map(len, tokenizer.encode_source([found, line]))
    return found if now < before else line


def _known(word: str, is_first: bool, tokenizer: Tokenizer) -> str:
    """The spelling of fewest subwords; of several the most frequent, or a sentence's capital."""
    turkish, small = word.replace("I", "ı").lower(), word.lower()
    spellings = [_capitalised(small), _capitalised(turkish), small, turkish, word]
    # Subwords are numbered by their frequency: the fewest, and none of them rare.
    costs = [
        (len(ids), [] if is_first else sorted(ids, reverse=True))
        for ids in tokenizer.encode_source(spellings)
    ]
    return spellings[costs.index(min(costs))]


def _capitalised(word: str) -> str:
    """With its first letter, which a bracket may precede, as a capital."""
    return _LETTER.sub(lambda letter: letter.group().title(), word, count=1)


def runs_of(line: str, language: str | None, tokenizer: Tokenizer) -> list[Run]:
    """The sentences of a line as `split_sentences` has them, and the emoji between their words.

    Of these only such as the tokenizer has no subwords for, and signs alone beside them.
    """
    sentences = split_sentences(line, language)
    return [run for sentence in sentences for run in _without_emoji(sentence, tokenizer)]


def _without_emoji(text: str, tokenizer: Tokenizer) -> list[Run]:
    emoji = [it.span() for it in _EMOJI.finditer(text) if not tokenizer.can_spell(it.group())]
    if not emoji:
        return [(text, True)]
    pieces = [text[start:end] for start, end in pairwise([0, *chain(*emoji), len(text)])]

    def is_read(i: int) -> bool:  # every second one is an emoji
        return i % 2 == 0 and _SPOKEN.search(pieces[i]) is not None

    runs = [
        ("".join(pieces[i] for i in places), read)
        for read, places in groupby(range(len(pieces)), is_read)
    ]
    return [
        (run.strip() if read else " ".join(run.split()), read) for run, read in runs if run.strip()
    ]
