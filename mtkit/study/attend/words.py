"""Subwords to words, as people see them.

A subword that begins with SentencePiece's mark of a space begins a word. Text without spaces has no
marks: there every subword is a word, or a sentence would be one. (Alignments are of the words that
white space separates in the text: `mtkit.decoding.alignment.words`.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mtkit.decoding.splitting import UNSPACED
from mtkit.report import printable
from mtkit.tokenizer.symbols import SPACE

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_UNKNOWN = "<unk>"


@dataclass(frozen=True)
class Segments:
    """What stands at a side of a heat map: words, or the subwords themselves."""

    texts: list[str]
    """The words as they can be shown anywhere, without control characters."""
    of_subword: list[int]
    """The number of the text that each subword belongs to."""

    def __add__(self, later: Segments) -> Segments:
        """These, and after them the others."""
        shifted = [len(self.texts) + number for number in later.of_subword]
        return Segments([*self.texts, *later.texts], [*self.of_subword, *shifted])


def as_subwords(pieces: Sequence[str]) -> Segments:
    """Every subword for itself."""
    return Segments([printable(piece) for piece in pieces], list(range(len(pieces))))


def as_words(pieces: Sequence[str]) -> Segments:
    """The words that subwords make up."""
    words: list[list[str]] = []
    of_subword = []
    for piece in pieces:
        if not words or piece.startswith(SPACE) or _is_unspaced_seam(words[-1], piece):
            words.append([])
        words[-1].append(piece)
        of_subword.append(len(words) - 1)
    return Segments([printable(_text(word)) for word in words], of_subword)


def is_unknown(pieces: Sequence[str]) -> bool:
    """Whether all but punctuation is unknown symbols, or spelt in bytes."""
    strange = [piece == _UNKNOWN or bool(_BYTE.fullmatch(piece)) for piece in pieces]
    known = (piece for piece, is_strange in zip(pieces, strange, strict=True) if not is_strange)
    return any(strange) and not any(c.isalnum() for piece in known for c in piece)


def _is_unspaced_seam(word: Sequence[str], piece: str) -> bool:
    """Whether either side is of a script that is written without spaces."""
    return word != [SPACE] and bool(UNSPACED.match(word[-1][-1]) or UNSPACED.match(piece))


def _text(pieces: Sequence[str]) -> str:
    """The characters of subwords, those spelt in bytes too; a lone space is shown by its mark."""
    raw = b"".join(
        bytes.fromhex(byte[1]) if (byte := _BYTE.fullmatch(piece)) else piece.encode()
        for piece in pieces
    )
    return raw.decode(errors="replace").removeprefix(SPACE) or SPACE
