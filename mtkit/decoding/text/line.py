"""A line on its way to the model, as spans, and its translation on the way back, as answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mtkit.arguments import check_text
from mtkit.config.target_tags import standard_tag
from mtkit.corpus.text import normalise
from mtkit.decoding.engines.engine import Request
from mtkit.decoding.estimation.estimator import NO_ESTIMATE, WITHOUT_FACTS, Estimate, Estimator
from mtkit.errors import UserError
from mtkit.symbols import EOS
from mtkit.tokenizer.codec import Tokenizer

# Kana and Han, their punctuation, and wide forms: text without spaces between words or sentences.
CLOSE_CHARACTERS = "\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef"
_CLOSE = re.compile(f"[{CLOSE_CHARACTERS}]")


@dataclass(frozen=True)
class Line:
    """A line to translate."""

    text: str
    prefix: str = ""
    """Text that the translation begins with; blank: anything."""
    id: int | None = None
    """Seed for sampling this line, besides the seed of the request (default: the line's number)."""
    tag: str | None = None
    """Target tag, such as yor, for a model of several languages (default: that of the request)."""

    @property
    def characters(self) -> int:
        """Number of characters that are in memory until the line is translated."""
        return len(self.text)

    def __post_init__(self) -> None:
        check_text(self.text, "Line: text")
        check_text(self.prefix, "Line: prefix")
        if self.tag is not None:
            try:
                name = standard_tag(check_text(self.tag, "Line: tag"))
            except ValueError as error:
                raise UserError(f"Line: tag: {error}") from None
            object.__setattr__(self, "tag", name)  # the only way in a frozen dataclass


@dataclass(frozen=True)
class Translation:
    """The translation of a line."""

    text: str
    score: float | None = 0.0
    """log P / |y|^alpha over the tokens of all parts; None if the request asks for no scores."""
    tokens: list[str] = field(default_factory=list)
    truncated: bool = False
    """Whether the output reached `max_length`."""
    alternatives: list[Translation] = field(default_factory=list)
    """The other hypotheses of the n-best list, or the other samples, all with different texts."""
    estimate: Estimate = NO_ESTIMATE
    """Quality estimation; empty if the request asks for no scores."""
    lost: list[str] = field(default_factory=list)
    """URLs, placeholders, tags and the like in the line that `text` lacks."""
    missing_terms: list[str] = field(default_factory=list)
    """What terms of the glossary in the line should have become, and `text` lacks."""
    mended: tuple[str, ...] = ()
    """Flags of an earlier translation of the line, which a second search has mended."""
    letters: int = 0
    """Number of letters in the line, without those of URLs and the like."""
    unknown_letters: str = ""
    """Those of them that the vocabulary can spell in no way."""
    alignment: set[tuple[int, int]] = field(default_factory=set)
    """Links (i, j) from word i of the line to word j of `text`, numbered from 0, if requested."""

    @property
    def flags(self) -> tuple[str, ...]:
        """What is probably wrong: names of `mtkit.decoding.estimation.flags.FLAGS`."""
        return self.estimate.flags

    @property
    def confidence(self) -> float | None:
        """The predicted chrF / 100, from 0 to 1.

        None if nothing was translated, or the model has no calibration.
        """
        return self.estimate.confidence


@dataclass(frozen=True)
class Context:
    """What steps know besides the text."""

    tokenizer: Tokenizer
    request: Request
    estimator: Estimator = WITHOUT_FACTS
    cuts_at_spans: bool = False
    """Whether lines are split at all spans that no translation changes, so that none is lost."""


@dataclass(frozen=True)
class Span:
    """Text on its way to the model."""

    text: str
    origin: Sequence[int]
    """For each character, the offset in the normalised line of the character it comes from."""
    line: Line

    def cut(self, start: int, end: int) -> Span:
        """Return the text from `start` to `end`, without white space around it."""
        text = self.text[start:end]
        start += len(text) - len(text.lstrip())
        text = text.strip()
        return Span(text, self.origin[start : start + len(text)], self.line)


@dataclass(frozen=True)
class Copied:
    """Text that becomes part of the translation as it is."""

    text: str


@dataclass(frozen=True)
class Subwords:
    """Subwords that the model reads as one sequence."""

    ids: list[int]
    """Subword ids, without the target tag and EOS."""
    origin: list[int]
    """For each subword, the origin of its last character; empty if no alignments are requested."""
    tag: int | None = None
    """The id of the target tag, which stands before them."""

    @property
    def source(self) -> list[int]:
        """The ids that the model reads."""
        tag = [] if self.tag is None else [self.tag]
        return [*tag, *self.ids, EOS]


@dataclass(frozen=True)
class Answer:
    """Text on its way back from the model."""

    text: str
    links: list[tuple[int, int]] = field(default_factory=list)
    """Links from a word of the line to a word of `text`: a number, and an offset in the word."""


Part = Span | Copied | Subwords
Join = Callable[[Sequence[Answer]], Answer]


def join_answers(answers: Sequence[Answer]) -> Answer:
    """Join texts by spaces, but without a space between kana or Han; leave out empty texts."""
    if len(answers) == 1:
        return answers[0]
    text = ""
    links: list[tuple[int, int]] = []
    for answer in answers:
        if needs_space(text, answer.text):
            text += " "
        links += [(word, len(text) + offset) for word, offset in answer.links]
        text += answer.text
    return Answer(text, links)


class WantedTerm(NamedTuple):
    """What a translation should have, because a glossary says so."""

    text: str
    is_kept: bool = False
    """Whether it is a term that stays untranslated: then no other form of it counts."""


@dataclass(frozen=True)
class SplitSpan:
    """What a step makes of a span, and the way back."""

    parts: Sequence[Part]
    """In the order in which the model reads them: spans go on to the next step."""
    join: Join = join_answers
    """Makes one answer of the answers to all parts, copied ones included."""
    prefix: Sequence[int] = ()
    """Target subwords that the translation of the first part begins with."""
    terms: Sequence[WantedTerm] = ()


TextStep = Callable[[Sequence[Span], Context], list[SplitSpan]]
"""A step: returns a `SplitSpan` for each span; spans of many lines come together."""


def normalised_text(line: Line) -> str:
    """Return the text of a line as corpora are normalised."""
    return normalise(without_surrogates(line.text))


def normalised_prefix(line: Line) -> str:
    """Return the prefix of a line as corpora are normalised; empty: the line has no prefix."""
    return normalise(without_surrogates(line.prefix))


def without_surrogates(text: str) -> str:
    """Replace unpaired surrogates, which have no UTF-8, by question marks."""
    return text.encode(errors="replace").decode()


def join_spans(spans: Sequence[Span]) -> Span:
    """Join spans of one line as `join_answers` does; a new space has the origin of what follows."""
    first, *others = spans
    if not others:
        return first
    text = first.text
    origin = list(first.origin)
    for span in others:
        if needs_space(text, span.text):
            text += " "
            origin.append(span.origin[0])
        text += span.text
        origin += span.origin
    return Span(text, origin, first.line)


def needs_space(before: str, after: str) -> bool:
    """Return whether a space belongs between two texts: neither is empty or ends in kana or Han."""
    if not before or not after:
        return False
    return not (_CLOSE.match(before[-1]) and _CLOSE.match(after))
