"""Lines that stand for a whole text are taken from all of it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mtkit.corpus.spread import spread


@given(st.integers(0, 50), st.integers(1, 60))
def test_lines_are_spread_over_the_whole_text(lines: int, count: int) -> None:
    rows = spread(range(lines), count)
    assert len(rows) == min(count, lines)
    assert rows == sorted(set(rows))
    if len(rows) > 1:
        distances = [after - before for before, after in pairwise(rows)]
        assert max(distances) - min(distances) <= 1
