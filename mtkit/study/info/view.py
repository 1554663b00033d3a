"""What every drawing of a run can do: appear in a terminal, or as a picture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mtkit.study.plots.picture import figure, save
from mtkit.study.plots.terminal import Points, curve


class View(ABC):
    @abstractmethod
    def text(self) -> Iterator[str]:
        """Lines for a terminal."""

    @abstractmethod
    def draw(self, path: Path) -> None:
        """Writes the same as a picture."""


@dataclass(frozen=True)
class Curves(View):
    """One or more curves over the updates of training, each in a panel of its own."""

    points: Mapping[str, Points]
    """Points (update, value) of each curve, by what the value is."""

    def text(self) -> Iterator[str]:
        for name, points in self.points.items():
            yield f"{name} by update"
            yield from curve(points)
            yield ""

    def draw(self, path: Path) -> None:
        columns = min(2, len(self.points))
        rows = -(-len(self.points) // columns)
        drawn, panels = figure(width=5 * columns, height=2.5 * rows, rows=rows, columns=columns)
        for panel, (name, points) in zip(panels, self.points.items(), strict=False):
            panel.plot(*zip(*points, strict=True), "." if len(points) == 1 else "-")
            panel.set_title(name, fontsize="medium")
            panel.set_xlabel("update")
        for panel in panels[len(self.points) :]:
            panel.remove()
        save(drawn, path)
