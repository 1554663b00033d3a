"""Recognise text that another program has already split, into words or into subwords.

mtkit splits text itself, and puts it together again. If it learns from split text, it writes such.
"""

from __future__ import annotations

import re

_SUBWORDS = re.compile(
    r"[^\s@]@@(?= |$)"  # subword-nmt (Sennrich et al. 2016)
    r"|▁|￭|</w>"  # SentencePiece, OpenNMT's tokenizer, BPE with ends of words
    r"|(?<=\w )##\w"  # WordPiece
    r"|(?: Ġ\S+){3}"  # byte-level BPE, as of GPT-2; but Ġ also begins words of Maltese
)
_WORDS = re.compile(
    r"(?<=\w) [.,،，。、](?= |$)"
    r"|&(?:apos|quot|#91|#93|#124);|\w @-@ \w"  # Moses
    r"|\w (?:n't|'(?:s|re|ll|ve|d|m))(?= )|-[LR]RB-|``"  # Penn Treebank
)
_UNSPACED = "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"
# Four short words in a row of a script that has no spaces between words.
_SHORT_WORDS = re.compile(rf"(?<!\S)(?:{_UNSPACED}{{1,6}} ){{3,}}{_UNSPACED}{{1,6}}(?!{_UNSPACED})")


def has_subwords(text: str) -> bool:
    """Return whether the text has marks that subword tokenizers leave."""
    return _SUBWORDS.search(text) is not None


def is_tokenised(text: str) -> bool:
    """Return whether spaces set off punctuation or, in a script without spaces, words."""
    return _WORDS.search(text) is not None or _SHORT_WORDS.search(text) is not None
