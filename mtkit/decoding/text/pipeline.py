"""Split lines into segments for the engine, and join translated segments into lines.

A blank line has no segment, and a line without letters is copied. A line has several segments if it
is longer than `max_length`, if its sentences are translated one by one, or if parts are copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from mtkit.config.decoding import DecodingSettings
from mtkit.corpus.text import in_one_line, is_blank, normalise
from mtkit.decoding.engines.engine import Hypothesis, Request, Sentence
from mtkit.decoding.text.case import truecase, uppercase
from mtkit.decoding.text.sentences import (
    Words,
    find_parts,
    join_parts,
    split_sentences,
    split_to_fit,
)
from mtkit.decoding.text.verbatim import Run, has_letters, split_verbatim
from mtkit.symbols import EOS
from mtkit.tokenizer.codec import Tokenizer


@dataclass(frozen=True)
class Line:
    """A line to translate."""

    text: str
    prefix: str = ""
    """Text that the translation begins with; blank: anything."""
    id: int | None = None
    """Seed for sampling this line, besides the seed of the request (default: the line's number)."""


Segment = Sentence | str
"""A sentence for the engine, or text that is copied into the translation."""


@dataclass(frozen=True)
class Translation:
    """The translation of a line."""

    text: str
    score: float | None = 0.0
    """log P / |y|^alpha over the tokens of all segments; None if the request asks for no scores."""
    tokens: list[str] = field(default_factory=list)
    truncated: bool = False
    """Whether the output reached `max_length`."""
    alternatives: list[Translation] = field(default_factory=list)
    """The other hypotheses of the n-best list, or the other samples, all with different texts."""
    alignment: set[tuple[int, int]] = field(default_factory=set)
    """Links (i, j) from word i of the line to word j of `text`, numbered from 0, if requested."""


def segment(line: Line, tokenizer: Tokenizer, request: Request) -> list[Segment]:
    """Split a line into sentences for the engine and text that is copied, in order."""
    settings = request.settings
    text = _text_of(line)
    if is_blank(text):
        return []
    prefix: list[int] = []
    if begin := normalise(_utf8(line.prefix)):
        prefix = tokenizer.encode_target([begin])[0][: settings.max_length]
    elif not has_letters(text):
        return [in_one_line(_utf8(line.text))]
    text = _cased(line, tokenizer, settings)
    abbreviations = settings.abbreviations.split()

    def encode(part: str) -> list[int]:
        return tokenizer.encode_source([part])[0]

    segments: list[Segment] = []
    words, place = Words(text) if request.alignments else None, 0
    for run in [Run([text], True)] if begin else split_verbatim(text, tokenizer):
        if not run.is_translated:
            segments.append(run.text)
            continue
        places: list[int] = []
        if words is not None:
            places = run.find_characters(text, place)
            place = places[-1] + 1
        run_text, end = run.text, 0
        sentences = split_sentences(run_text, settings.sentences, abbreviations)
        parts = (split_to_fit(it, encode, settings.max_length, abbreviations) for it in sentences)
        for part, ids in chain.from_iterable(parts):
            numbers: list[int] = []
            if words is not None:
                start = run_text.index(part, end)
                end = start + len(part)
                offsets = tokenizer.source_offsets(part)
                numbers = [words.at(places[start + offset]) for offset in offsets]
            # Even a single character can have more than `max_length` subwords.
            for first in range(0, len(ids), settings.max_length):
                cut = slice(first, first + settings.max_length)
                key = line.id or 0, len(segments)
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
    """Return the translation of a line; `answers` yields the n-best list of each sentence.

    The translation joins the best hypotheses of all segments, its first alternative joins the
    second best ones, and so on. If a segment has fewer hypotheses, its last one is repeated.
    """
    if not segments:
        return Translation("")
    choices: list[list[Translation]] = []
    for part in segments:
        if isinstance(part, str):
            choices.append([Translation(part)])
            continue
        ranked = next(answers) or [Hypothesis([], None, False)]  # empty if all scores overflowed
        if request.sampling is None:
            # Leave out hypotheses with incomplete characters, if any others exist.
            ranked = [one for one in ranked if tokenizer.is_whole(one.tokens)] or ranked
        if request.n_best == 1:
            ranked = ranked[:1]
        texts = tokenizer.decode([hypothesis.tokens for hypothesis in ranked])
        pairs = zip(ranked, texts, strict=True)
        choices.append([_translation(*pair, part, line, tokenizer) for pair in pairs])
    settings = request.settings
    # Capitals that the model has read itself are not restored here.
    is_upper = line.text.isupper() and _cased(line, tokenizer, settings) != _text_of(line)
    dotless_i = settings.dotless_i in ("target", "both")
    by_text: dict[str, Translation] = {}
    for rank in range(max(map(len, choices))):
        parts = [ranked[min(rank, len(ranked) - 1)] for ranked in choices]
        one = _join_segments(parts, settings.length_penalty)
        if is_upper:
            one = replace(one, text=uppercase(one.text, dotless_i=dotless_i))
        by_text.setdefault(" ".join(one.text.split()), one)
    best, *others = by_text.values()
    return replace(best, alternatives=others[: request.n_best - 1])


def _cased(line: Line, tokenizer: Tokenizer, settings: DecodingSettings) -> str:
    """Return the text that the model reads; truecase it if asked to, and if there is no prefix."""
    text = _text_of(line)
    if not settings.truecase or line.prefix.strip():
        return text
    dotless_i = settings.dotless_i and settings.dotless_i != "target"
    return truecase(text, tokenizer, dotless_i=dotless_i, abbreviations=settings.abbreviations)


def _text_of(line: Line) -> str:
    return normalise(_utf8(line.text))


def _utf8(text: str) -> str:
    """Replace unpaired surrogates by question marks."""
    return text.encode(errors="replace").decode()


def _translation(
    hypothesis: Hypothesis, text: str, sentence: Sentence, line: Line, tokenizer: Tokenizer
) -> Translation:
    links: set[tuple[int, int]] = set()
    if hypothesis.attention is not None and text.strip():
        # Few translations need numpy; importing it takes as long as all else.
        from mtkit.decoding.alignment import align

        words = map(Words(text).at, tokenizer.target_offsets(hypothesis.tokens))
        links = align(hypothesis.attention, list(words), sentence.words)
    if sentence.prefix:  # write it as the user did, however the vocabulary spells it
        (spelled,) = tokenizer.decode([sentence.prefix])
        if text.startswith(spelled):
            text = in_one_line(_utf8(line.prefix)).strip() + text[len(spelled) :]
    pieces = tokenizer.target_pieces(hypothesis.tokens)
    return Translation(text, hypothesis.score, pieces, not hypothesis.finished, alignment=links)


def _join_segments(parts: Sequence[Translation], length_penalty: float) -> Translation:
    if len(parts) == 1:
        return parts[0]
    texts = [part.text for part in parts]
    text = join_parts(texts)
    lengths = [max(len(part.tokens), 1) ** length_penalty for part in parts]
    tokens = [token for part in parts for token in part.tokens]
    score = None
    if all(part.score is not None for part in parts):
        total = sum(
            (part.score or 0.0) * length for part, length in zip(parts, lengths, strict=True)
        )
        score = total / float(max(len(tokens), 1) ** length_penalty)
    links: set[tuple[int, int]] = set()
    if any(part.alignment for part in parts):
        words = Words(text)
        for part, place in zip(parts, find_parts(text, texts), strict=True):
            first = words.at(place)
            links |= {(i, first + j) for i, j in part.alignment}
    truncated = any(part.truncated for part in parts)
    return Translation(text, score, tokens, truncated, alignment=links)
