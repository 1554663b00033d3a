"""What every drawing of a run can do: appear in a terminal, or in a figure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class View(ABC):
    @abstractmethod
    def text(self) -> Iterator[str]:
        """Lines for a terminal."""

    @abstractmethod
    def figure(self) -> Figure:
        """The same as a picture."""
