"""Lines in segments that an engine translates or that stay, and the translation of the line.

A blank line has no segment. A line has several if it is longer than `max_length`, or if its
sentences are to be translated one by one. Unless the translation is to begin with a prefix, emoji
that the model cannot read are segments of their own, which stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING

from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.casing import truecase
from mtkit.decoding.engine import Hypothesis, Request, Sentence
from mtkit.decoding.sentences import (
    MAX_TEXT_CHARACTERS,
    Words,
    find_parts,
    join_parts,
    split_sentences,
    split_to_fit,
)
from mtkit.symbols import EOS
from mtkit.tokenizer.codec import Tokenizer

if TYPE_CHECKING:  # numpy, which few translations need, takes as long as all the rest
    from mtkit.decoding.alignment import Block

_HAS_WORD = re.compile(r"\w")
_EMOJI = re.compile(
    "(?:(?:[\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
    "|[\xa9\xae\u203c-\u3299](?=\ufe0f)"  # text, unless it is to be shown as a picture
    "|[0-9#*](?=\ufe0f?\u20e3))"  # a keycap
    "[\u200d\u20e3\ufe0e\ufe0f\U000e0020-\U000e007f]*)+"  # joiners and variation selectors
)


@dataclass(frozen=True)
class Line:
    """A line to translate, with all that belongs to it."""

    text: str
    prefix: str = ""
    """How the translation begins; blank for any beginning."""
    id: int = 0
    """Seeds the samples of this line, together with the seed of the request."""


@dataclass(frozen=True)
class Verbatim:
    """Text that is copied into the translation."""

    text: str


Segment = Sentence | Verbatim


@dataclass(frozen=True)
class Translation:
    """The translation of a line."""

    text: str
    score: float | None = 0.0
    """log P / |y|^alpha of all its tokens; None if scores were not asked for."""
    tokens: list[str] = field(default_factory=list)
    truncated: bool = False
    """Whether it reached `max_length`, or the line has more than MAX_TEXT_CHARACTERS."""
    alternatives: list[Translation] = field(default_factory=list)
    """The other hypotheses of the n-best list, or the other samples; no text comes twice."""
    blocks: tuple[Block, ...] = ()
    """The alignment of each segment that has words, if it was asked for."""

    @property
    def alignment(self) -> set[tuple[int, int]]:
        """Links (i, j) from words of the line to words of `text`, counted from 0."""
        return {link for block in self.blocks for link in block.links}

    @property
    def soft_alignment(self) -> list[tuple[int, int, float]]:
        """Source word, target word, and the share of the target word's attention."""
        from mtkit.decoding.alignment import soft_links

        return soft_links(self.blocks)


def segment(line: Line, tokenizer: Tokenizer, request: Request) -> list[Segment]:
    """Return what the engine translates of a line and what stays, in order."""
    settings = request.settings
    text = _cased(line, tokenizer, settings)
    if not text.strip():
        return []
    prefix: list[int] = []
    if has_prefix := bool(line.prefix.strip()):
        prefix = tokenizer.encode_target([_utf8(line.prefix)])[0][: settings.max_length]

    def encode(part: str) -> list[int]:
        return tokenizer.encode_source([part])[0]

    segments: list[Segment] = []
    words, place = Words(text) if request.attention else None, 0
    for run, is_translated in _runs(text, settings.sentences, None if has_prefix else tokenizer):
        if not is_translated:
            segments.append(Verbatim(run))
            continue
        for part, ids in split_to_fit(run, encode, settings.max_length):
            numbers: list[int] = []
            if words is not None:
                place = text.index(part, place)
                numbers = [words.at(place + end) for end in tokenizer.source_offsets(part)]
                place += len(part)
            # A single character may have too many subwords as well.
            for first in range(0, len(ids), settings.max_length):
                cut = slice(first, first + settings.max_length)
                key = line.id, len(segments)
                segments.append(Sentence([*ids[cut], EOS], prefix, key, numbers[cut]))
                prefix = []
    return segments


def join(
    line: Line,
    segments: Sequence[Segment],
    answers: Iterator[Sequence[Hypothesis]],
    tokenizer: Tokenizer,
    request: Request,
) -> Translation:
    """Return the translation of a line; `answers` yields the hypotheses of each of its sentences.

    It joins the best of each segment; its first alternative joins the second best, and so on. A
    segment that has no more stays with its last one.
    """
    if not segments:
        return Translation("", truncated=len(line.text) > MAX_TEXT_CHARACTERS)
    choices: list[list[Translation]] = []
    for part in segments:
        if isinstance(part, Verbatim):
            choices.append([Translation(part.text)])
            continue
        ranked = next(answers) or [Hypothesis([], None, False)]  # if nothing has a probability
        texts = tokenizer.decode([hypothesis.tokens for hypothesis in ranked])
        pairs = zip(ranked, texts, strict=True)
        choices.append([_translation(*pair, part, tokenizer) for pair in pairs])
    settings = request.settings
    joined = [
        _join_segments([ranked[min(rank, len(ranked) - 1)] for ranked in choices], settings)
        for rank in range(max(map(len, choices)))
    ]
    if line.text.isupper() and _cased(line, tokenizer, settings) != line.text[:MAX_TEXT_CHARACTERS]:
        joined = [replace(one, text=one.text.upper()) for one in joined]
    if len(line.text) > MAX_TEXT_CHARACTERS:
        joined = [replace(one, truncated=True) for one in joined]
    if len(joined) == 1:
        return joined[0]
    by_text: dict[str, Translation] = {}
    for one in joined:
        by_text.setdefault(" ".join(one.text.split()), one)
    best, *others = by_text.values()
    return replace(best, alternatives=others[: request.n_best - 1])


def _cased(line: Line, tokenizer: Tokenizer, settings: DecodingSettings) -> str:
    """Return the text that the model reads."""
    text = _utf8(line.text[:MAX_TEXT_CHARACTERS])
    return truecase(text, tokenizer) if settings.truecase and not line.prefix.strip() else text


def _utf8(text: str) -> str:
    """Return the text with question marks for halves of surrogate pairs."""
    return text.encode(errors="replace").decode()


def _runs(text: str, language: str | None, speller: Tokenizer | None) -> Iterator[tuple[str, bool]]:
    """Yield each sentence, and whether it is translated; emoji that `speller` lacks are not."""
    for sentence in split_sentences(text, language):
        if speller is None:
            yield sentence, True
        else:
            yield from split_at_emoji(sentence, speller)


def split_at_emoji(text: str, tokenizer: Tokenizer) -> list[tuple[str, bool]]:
    """Return the runs of a text, and whether each is to be translated.

    Not translated are emoji that the tokenizer spells in bytes, and punctuation alone beside them.
    """
    emoji = [it.span() for it in _EMOJI.finditer(text) if not tokenizer.can_spell(it.group())]
    if not emoji:
        return [(text, True)]
    pieces = [text[start:end] for start, end in pairwise([0, *chain(*emoji), len(text)])]

    def is_translated(i: int) -> bool:  # every second one is an emoji
        return i % 2 == 0 and _HAS_WORD.search(pieces[i]) is not None

    runs = [
        ("".join(pieces[i] for i in places), translated)
        for translated, places in groupby(range(len(pieces)), is_translated)
    ]
    return [
        (run.strip() if translated else " ".join(run.split()), translated)
        for run, translated in runs
        if run.strip()
    ]


def _translation(
    hypothesis: Hypothesis, text: str, sentence: Sentence, tokenizer: Tokenizer
) -> Translation:
    blocks: tuple[Block, ...] = ()
    if hypothesis.attention is not None and text.strip():
        from mtkit.decoding.alignment import Block

        at, offsets = Words(text).at, tokenizer.target_offsets(hypothesis.tokens)
        blocks = (Block.of(hypothesis.attention, list(map(at, offsets)), sentence.words),)
    pieces = tokenizer.target_pieces(hypothesis.tokens)
    return Translation(text, hypothesis.score, pieces, not hypothesis.finished, blocks=blocks)


def _join_segments(parts: Sequence[Translation], settings: DecodingSettings) -> Translation:
    if len(parts) == 1:
        return parts[0]
    text = join_parts(part.text for part in parts)
    tokens = [token for part in parts for token in part.tokens]

    def scale(tokens: Sequence[str]) -> float:
        return float(max(len(tokens), 1) ** settings.length_penalty)

    scores = [part.score * scale(part.tokens) for part in parts if part.score is not None]
    return Translation(
        text,
        sum(scores) / scale(tokens) if len(scores) == len(parts) else None,
        tokens,
        any(part.truncated for part in parts),
        blocks=tuple(_shift_blocks(text, parts)),
    )


def _shift_blocks(text: str, parts: Sequence[Translation]) -> Iterator[Block]:
    """Yield the blocks of the parts, with their target words counted in the whole text."""
    if not any(part.blocks for part in parts):
        return
    words = Words(text)
    for part, place in zip(parts, find_parts(text, [part.text for part in parts]), strict=True):
        for block in part.blocks:
            yield replace(block, target=block.target + words.at(place))
