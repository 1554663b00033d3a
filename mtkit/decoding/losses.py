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
    first_line_with_loss: int = 0
    first_lost: str = ""
    lines_without_term: int = 0
    first_line_without_term: int = 0
    first_missing_term: str = ""
    letters: UnknownLetters = field(default_factory=UnknownLetters)

    def count(self, translations: Iterable[Translation]) -> None:
        """Count the translations of the next lines."""
        for translation in translations:
            self.lines += 1
            place = f"{self.unit} {self.lines:,}"
            self.letters.count(translation.letters, translation.unknown_letters, place)
            if translation.lost:
                self.lines_with_loss += 1
                if self.lines_with_loss == 1:
                    self.first_line_with_loss = self.lines
                    self.first_lost = translation.lost[0]
            if translation.missing_terms:
                self.lines_without_term += 1
                if self.lines_without_term == 1:
                    self.first_line_without_term = self.lines
                    self.first_missing_term = translation.missing_terms[0]

    def warnings(self) -> list[str]:
        """Return a sentence for each kind of loss, without those that are too rare to matter."""
        found: list[str] = []
        if self.letters.is_unusual:
            found.append(
                f"{self.letters}; words with such letters are rarely translated correctly, and "
                f"a {self.unit} with no other letters is copied"
            )
        if self.lines_with_loss:
            found.append(
                f"{plural(self.lines_with_loss, self.unit)} lost a placeholder, tag or URL; first: "
                f"{self.unit} {self.first_line_with_loss:,} ({self.first_lost})"
            )
        if self.lines_without_term:
            lines = plural(self.lines_without_term, self.unit)
            lack = "lacks" if self.lines_without_term == 1 else "lack"
            found.append(
                f"{lines} {lack} a term of the glossary; first: {self.unit} "
                f"{self.first_line_without_term:,} ({self.first_missing_term})"
            )
        return found
