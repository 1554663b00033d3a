"""What parameters are called in files that were written before a layer belonged to a half."""

from __future__ import annotations

import re

OLDER_NAMES = (
    (re.compile(r"^(encoder|decoder)\.(\d)"), r"\1.layers.\2"),
    (re.compile(r"^(bridge|attention)\."), r"decoder.\1."),
)


def name_today(name: str) -> str:
    """The name that a parameter of a file has now: its own, unless the file is an older one."""
    for older, today in OLDER_NAMES:
        name = older.sub(today, name)
    return name
