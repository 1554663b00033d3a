"""A line on its way to the model, as segments, and its translation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mtkit.arguments import check_text
from mtkit.config.target_tags import standard_tag
from mtkit.corpus.text import normalise
from mtkit.decoding.engines.engine import Request
from mtkit.decoding.estimation.estimator import NO_ESTIMATE, WITHOUT_FACTS, Estimate, Estimator
from mtkit.decoding.text.demands import Demand
from mtkit.decoding.text.text import Text
from mtkit.errors import UserError
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
    terms: int = 0
    """Number of terms of the glossary in the line."""
    missing_terms: list[str] = field(default_factory=list)
    """What these terms should have become, and `text` lacks."""
    mended: tuple[str, ...] = ()
    """Flags of an earlier translation of the line, which a second search has mended."""
    letters: int = 0
    """Number of letters in the line, without those of URLs and the like."""
    unknown_letters: str = ""
    """Those of them that the vocabulary can spell in no way."""
    alignment: set[tuple[int, int]] = field(default_factory=set)
    """Links (i, j) from word i of the line to word j of `text`, numbered from 0, if requested."""

    def __str__(self) -> str:
        return self.text

    def _repr_pretty_(self, printer: Any, is_cycle: bool) -> None:
        """Show only the text in a notebook."""
        printer.text(self.text)

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


TextChange = Callable[[Text], Text]
"""What happens to the translation of a segment."""


@dataclass(frozen=True)
class Segment:
    """A part of a line on its way to the model."""

    text: Text
    line: Line
    line_length: int = 0
    """The length of the normalised line; in a translation, smaller origins are copied from it."""
    demands: Sequence[Demand] = ()
    """What the translation of the whole line must have, in the order of the line."""
    changes: Sequence[TextChange] = ()
    """What happens to the translation, in this order."""
    prefix: Sequence[int] = ()
    """Target subwords that the translation begins with."""

    @property
    def string(self) -> str:
        """The characters of the text."""
        return self.text.string

    def with_text(self, text: Text) -> Segment:
        """Return the segment with another text."""
        return replace(self, text=text)

    def with_change(self, change: TextChange) -> Segment:
        """Return the segment with one more change of its translation, before all others."""
        return replace(self, changes=(change, *self.changes))

    def split(self, texts: Sequence[Text]) -> list[Segment]:
        """Return a segment for each text; a prefix belongs to the first."""
        segments = [self.with_text(text) for text in texts]
        return [segments[0], *(replace(segment, prefix=()) for segment in segments[1:])]


@dataclass(frozen=True)
class Copied:
    """A part of a line that becomes part of the translation as it is."""

    text: Text
    is_exact: bool = False
    """Whether the text has the spaces around it, so that joining adds none."""


TextStep = Callable[[Segment, Context], Sequence[Segment | Copied]]
"""A step: returns the parts that it makes of a segment, in order."""


@dataclass(frozen=True)
class Part:
    """Subwords that the model reads as one sequence, and what becomes of their translation."""

    ids: list[int]
    """Subword ids, without language symbols and EOS."""
    text: Text
    """The text that the subwords spell."""
    demands: Sequence[Demand] = ()
    """What the translation must have."""
    changes: Sequence[TextChange] = ()
    """What happens to the translation, in this order."""
    prefix: Sequence[int] = ()
    """Target subwords that the translation begins with."""
    symbols: Sequence[int] = ()
    """Ids of the language symbols before the subwords."""

    @property
    def source(self) -> list[int]:
        """The ids that the model reads."""
        return [*self.symbols, *self.ids, EOS]


def normalised_text(line: Line) -> str:
    """Return the text of a line as corpora are normalised."""
    return normalise(without_surrogates(line.text))


def normalised_prefix(line: Line) -> str:
    """Return the prefix of a line as corpora are normalised; empty: the line has no prefix."""
    return normalise(without_surrogates(line.prefix)) if line.prefix else ""


def without_surrogates(text: str) -> str:
    """Replace unpaired surrogates, which have no UTF-8, by question marks."""
    return text.encode(errors="replace").decode()
