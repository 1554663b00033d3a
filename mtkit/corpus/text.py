"""Normalise texts, and find out whether a text is blank, or already split into tokens.

Corpora, input, prefixes, references and hypotheses are all normalised in the same way. mtkit does
not change target text in any other way.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from typing import Literal

from mtkit.corpus.characters import is_printable

MAX_MARKS = 30
"""Longest run of marks that is composed, as in the Stream-Safe Text Format of Unicode (UAX #15)."""
_MORE_THAN_MAX = "{" + str(MAX_MARKS + 1) + ",}"
"""Ends a pattern of runs: over MAX_MARKS repetitions."""
# Much faster than the exact pattern, but also finds punctuation and spaces.
_MAY_BE_LONG_RUN = re.compile("[\\W\uff9e\uff9f]" + _MORE_THAN_MAX)
_SPACES = "\t\n\v\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# Without \x1c to \x1f and \x85, which are white space to Python, but damage in a corpus.
_RUNS = re.compile(f"[{_SPACES}]{{2,}}|[\t\n\v\f\r\u2028\u2029]")
_ENDS = re.compile(f"^[{_SPACES}]+|[{_SPACES}]+$")
_NONCHARACTERS = re.compile("[\ufdd0-\ufdef]")
_LINE_BREAK = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# Default_Ignorable_Code_Point of Unicode 16, white space, controls, and the blank Braille cell.
_INVISIBLE = re.compile(
    "[\\s\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]*"
)
_SUBWORD_MARKS = re.compile(
    r"[^\s@]@@(?= |$)"  # subword-nmt (Sennrich et al. 2016)
    r"|▁|￭|</w>"  # SentencePiece, OpenNMT's tokenizer, BPE with ends of words
    r"|(?<=\w )##\w"  # WordPiece
    r"|(?: Ġ\S+){3}"  # byte-level BPE, as of GPT-2; but Ġ also begins words of Maltese
)
_TOKENISED = re.compile(
    r"(?<=\w) [.,،，。、](?= |$)"
    r"|&(?:apos|quot|#91|#93|#124);|\w @-@ \w"  # Moses
    r"|\w (?:n't|'(?:s|re|ll|ve|d|m))(?= )|-[LR]RB-|``"  # Penn Treebank
)
_UNSPACED = "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"
_SHORT_WORDS = re.compile(  # four in a row, in a script that has no spaces between words
    rf"(?<!\S)(?:{_UNSPACED}{{1,6}} ){{3,}}{_UNSPACED}{{1,6}}(?!{_UNSPACED})"
)


def compose(text: str, form: Literal["NFC", "NFKC"] = "NFC") -> str:
    """Return the text in a normal form of Unicode; runs of over MAX_MARKS marks stay as they are.

    Python sorts a run of marks in quadratic time, and no language writes such runs.
    """
    if unicodedata.is_normalized(form, text):
        return text
    if not _MAY_BE_LONG_RUN.search(text):
        return unicodedata.normalize(form, text)
    parts = _long_runs_of_marks().split(text)
    parts[::2] = [unicodedata.normalize(form, part) for part in parts[::2]]  # between the runs
    return "".join(parts)


@cache
def _long_runs_of_marks() -> re.Pattern[str]:
    """Return a pattern for the runs; building it takes 0.1 s, which most commands do not need.

    It has one group, so that `split` keeps the runs, too.
    """
    marks = "".join(filter(unicodedata.combining, map(chr, range(sys.maxunicode + 1))))
    # These have the combining class 0, but become marks in NFC or NFKC.
    marks += "\u0f73\u0f75\u0f81\uff9e\uff9f"
    return re.compile(f"([{marks}]{_MORE_THAN_MAX})")


def normalise(text: str) -> str:
    """Return the text in NFC, with one space for a run of white space, and none at its ends.

    A single no-break or wide space stays, because some languages write it on purpose. The text
    loses the characters that Unicode reserves for use inside programs, such as the mark of a span.
    """
    text = text if text.isascii() else compose(text)
    if is_printable(text) and "  " not in text and text == text.strip(" "):
        return text  # most lines; the only printable white space is a space
    without = _NONCHARACTERS.sub("", text)
    if without != text:  # what stood on both sides of one may compose now
        return normalise(without)
    return _ENDS.sub("", _RUNS.sub(" ", text))


def in_one_line(text: str) -> str:
    """Return the text with each line break of Unicode replaced by a space."""
    return _LINE_BREAK.sub(" ", text)


def is_blank(text: str) -> bool:
    """Return whether the text has no visible character."""
    return _INVISIBLE.fullmatch(text) is not None


def is_presplit(text: str) -> bool:
    """Return whether another program has split the text, into words or into subwords.

    mtkit splits text itself, and puts it together again. If it learns from split text, it writes
    such text.
    """
    return find_presplit(text) is not None


def find_presplit(text: str) -> int | None:
    """Return where `is_presplit` recognises that the text has been split; None if it has not."""
    for pattern in (_SUBWORD_MARKS, _TOKENISED, _SHORT_WORDS):
        match = pattern.search(text)
        if match is not None:
            return match.start()
    return None
