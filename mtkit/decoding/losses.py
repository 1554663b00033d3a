"""What translations lose, counted for a warning: letters, placeholders and terms of their lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mtkit.decoding.text.line import Translation
from mtkit.report import plural
from mtkit.tokenizer.spelling import UnknownLetters


@dataclass
class Losses:
    """Counts over the translations of lines that follow each other."""

    lines: int = 0
    """Number of the last line that was counted."""
    unit: str = "line"
    """What a line is called in messages, such as "row" of a table."""
    lines_with_loss: int = 0
    first_loss: str = ""
    """The first of these lines, and what it has lost."""
    lines_with_terms: int = 0
    terms: int = 0
    """Number of terms in these lines."""
    missing_terms: int = 0
    first_missing_term: str = ""
    """The line of the first of these terms, and what it should have become."""
    letters: UnknownLetters = field(default_factory=UnknownLetters)

    def count(self, translations: Iterable[Translation]) -> None:
        """Count the translations of the next lines."""
        for translation in translations:
            self.lines += 1
            place = f"{self.unit} {self.lines:,}"
            self.letters.count(translation.letters, translation.unknown_letters, place)
            if translation.lost:
                self.lines_with_loss += 1
                self.first_loss = self.first_loss or f"{place} ({translation.lost[0]})"
            if translation.missing_terms and not self.missing_terms:
                self.first_missing_term = f"{place} ({translation.missing_terms[0]})"
            self.lines_with_terms += translation.terms > 0
            self.terms += translation.terms
            self.missing_terms += len(translation.missing_terms)

    def describe_terms(self) -> str:
        """Return how many terms of the glossary the lines have, and how many are missing."""
        if not self.terms:
            return f"no {self.unit} has a term of the glossary"
        found = (
            f"{plural(self.terms, 'glossary term')} in {plural(self.lines_with_terms, self.unit)}"
        )
        return f"translations lack {self.missing_terms:,} of {found}"

    def warnings(self) -> list[str]:
        """Return a sentence for each kind of loss, without those that are too rare to matter."""
        found: list[str] = []
        if self.letters.is_unusual:
            found.append(
                f"{self.letters}; words with such letters are rarely translated correctly, and "
                f"a {self.unit} with no other letters is copied"
            )
        if self.lines_with_loss:
            lines = plural(self.lines_with_loss, self.unit)
            found.append(f"{lines} lost a placeholder, tag or URL; first: {self.first_loss}")
        if self.missing_terms:
            found.append(f"{self.describe_terms()}; first: {self.first_missing_term}")
        return found
