"""What was found in a corpus."""

from __future__ import annotations

from dataclasses import dataclass

from mtkit.config.batching import DropRule
from mtkit.corpus.findings import WORTH_DROPPING, Finding

WORTH_SHARE = 0.05
"""A rule that drops more of a corpus than this is to be looked at before it is switched on."""


@dataclass(frozen=True)
class SideReport:
    """What one side is like."""

    characters: int
    words: int
    """Or letters, of a script without spaces."""
    median_characters: float
    unique: int
    """Texts that differ, blank ones aside."""
    scripts: list[str]
    language: str | None
    """Code of the language of most lines; None where too few were long enough to tell."""
    language_share: float
    """Of the lines that were asked, those in that language."""
    is_sure: bool
    """Whether the side is in that language: kin of one that cannot be told share its lines."""

    def language_or(self, code: str | None) -> str | None:
        """The code, or else the language, where it is sure."""
        return code or (self.language if self.is_sure else None)


@dataclass(frozen=True)
class Examination:
    """All that was found in a corpus."""

    pairs: int
    source: SideReport
    target: SideReport
    findings: list[Finding]
    drop: list[DropRule]
    """Rules for `batching.drop` that are worth switching on."""
    deduplicate: bool
    """Whether `batching.deduplicate` is."""

    def about(self, name: str) -> int:
        """Number of pairs in all that have a fault, also where a share of them was asked."""
        row, there = self[name], self.pairs - self["blank"].count
        return round(row.count * max(1.0, there / max(1, row.judged)))

    @property
    def doubtful(self) -> list[Finding]:
        """What so many pairs have that somebody should look at some of them."""
        rows = [row for row in self.findings if row.name in WORTH_DROPPING]
        return [row for row in rows if row.count > WORTH_SHARE * row.judged]

    @property
    def failures(self) -> list[Finding]:
        """Why a model should not be trained on it as it is."""
        return [row for row in self.findings if row.status == "failed"]

    def __getitem__(self, name: str) -> Finding:
        return next(row for row in self.findings if row.name == name)
