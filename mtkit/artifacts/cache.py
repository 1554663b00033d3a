"""The user's cache: models in other formats, converted once."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return where converted models are kept, for one user on one machine.

    XDG's specification of base directories says that a relative path is to be ignored.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():
        cache = Path.home() / ".cache"
    return cache / "mtkit"
