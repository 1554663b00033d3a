"""Choose lines that are spread over a whole text.

A text may be sorted, so that its beginning would be of one length, topic or source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

_Item = TypeVar("_Item")


def spread(items: Sequence[_Item], count: int) -> list[_Item]:
    """Return `count` of the items at equal distances, in order; all items if there are fewer."""
    count = min(count, len(items))
    return [items[place * len(items) // count] for place in range(count)]
