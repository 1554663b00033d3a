"""A translated line, as quality estimation sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class TranslatedLine:
    """A line and its translation, and what the search knows of them."""

    source: str
    """The line, normalised as lines of corpora are."""
    text: str
    """The translation."""
    letters: int
    """Number of letters in the line that should be translated, so without those of URLs."""
    is_finished: bool = True
    """Whether no part of the translation was cut at `max_length`."""
    lost: Sequence[str] = ()
    """URLs, placeholders, tags and the like in the line that the translation lacks."""
    missing_terms: Sequence[str] = ()
    """What terms of the glossary in the line should have become, and the translation lacks."""
    has_placeholder: bool = False
    """Whether the model has read a stand-in for something in the line."""
    source_parts: Sequence[Sequence[int]] = field(default=(), repr=False)
    """The subword ids of each part of the line that the model read.

    None: the line was copied.
    """
    target_parts: Sequence[Sequence[int]] = field(default=(), repr=False)
    """The subword ids of the translation of each part."""
    log_probability: float | None = None
    """log P of all parts together; None if it is unknown."""

    @property
    def is_copied(self) -> bool:
        """Whether no part of the line went through the model."""
        return not self.source_parts
