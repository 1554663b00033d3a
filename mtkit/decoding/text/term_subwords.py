"""What a term is within a translation, in subwords, and which subwords continue a word."""

from __future__ import annotations

from mtkit.corpus.characters import is_letter, is_mark, is_number
from mtkit.decoding.text.sentences import UNSPACED
from mtkit.symbols import EOS, SPACE, UNK
from mtkit.tokenizer.codec import Tokenizer

_WORD_BEFORE = "1"
"""Stands before a term while it is encoded; a digit joins no subword of letters."""


def encode_term(tokenizer: Tokenizer, term: str) -> list[int]:
    """Return the target subwords of a term as they are within a sentence.

    Return an empty list if the vocabulary cannot spell the term.
    """
    # At the beginning of a text, SentencePiece adds a space, which text without spaces has nowhere
    # else; some vocabularies lack it there and have it elsewhere.
    space = "" if UNSPACED.match(term) else " "
    (ids,) = tokenizer.encode_target([_WORD_BEFORE + space + term])
    pieces = tokenizer.target_pieces(ids)
    before = 1 + (pieces[:1] == [SPACE])
    if "".join(pieces[:before]).strip(SPACE) == _WORD_BEFORE:
        ids = ids[before:]
    else:
        (ids,) = tokenizer.encode_target([term])
    return [] if UNK in ids else ids


def find_word_parts(tokenizer: Tokenizer) -> list[int]:
    """Return the target subwords that continue a word, in scripts with spaces between words."""
    subwords = tokenizer.vocabularies[1]
    return [i for i in range(EOS + 1, len(subwords)) if _continues_word(subwords[i])]


def _continues_word(subword: str) -> bool:
    first = subword[0]
    if UNSPACED.match(first):
        return False
    # Bytes are like <0x0A>; one of them can be the beginning of a letter.
    is_byte = subword.startswith("<0x")
    return is_byte or is_letter(first) or is_mark(first) or is_number(first)
