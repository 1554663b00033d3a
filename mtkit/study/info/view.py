"""What every drawing of a run can do: appear in a terminal, or as a picture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path


class View(ABC):
    @abstractmethod
    def text(self) -> Iterator[str]:
        """Lines for a terminal."""

    @abstractmethod
    def draw(self, path: Path) -> None:
        """Writes the same as a picture."""
