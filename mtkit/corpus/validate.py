"""A look at corpora before any work begins: that they are there, can be read, and are pairs."""

from __future__ import annotations

from typing import Literal

from mtkit.config.base import Key
from mtkit.config.corpora import Corpus, TextCorpus
from mtkit.config.settings import DataSettings
from mtkit.corpus.files import count_lines, existing, listed_paths
from mtkit.corpus.read import UnequalSidesError, read_pairs
from mtkit.errors import blame_setting

MOST_BYTES = 1 << 28
"""Size of a file, at most, whose lines are counted ahead: a second's work, a few for a .gz."""


def look_at(data: DataSettings, *names: Literal["train", "valid", "test"]) -> None:
    """Opens every file of these corpora, reads a first pair of each, and counts lines.

    Raises SettingError for what is missing, empty, not to be read, or not parallel.
    """
    for name in names:
        for key, corpus in data.corpora(name).items():
            check_readable(corpus, key)


def check_readable(corpus: Corpus, key: Key) -> None:
    """A look at one corpus, which stands at `key` of a config; SettingError as `look_at`."""
    for side in ("source", "target", "table"):
        with blame_setting((*key, side)):
            for path in listed_paths(getattr(corpus, side, None) or []):
                existing(path)
    with blame_setting(key):
        next(read_pairs(corpus))
        if isinstance(corpus, TextCorpus):
            for paths in zip(listed_paths(corpus.source), listed_paths(corpus.target), strict=True):
                if all(existing(path).stat().st_size <= MOST_BYTES for path in paths):
                    lines = count_lines(paths[0]), count_lines(paths[1])
                    if lines[0] != lines[1]:
                        raise UnequalSidesError(paths, lines)
