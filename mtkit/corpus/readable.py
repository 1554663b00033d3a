"""Check before any work begins that corpora exist, can be read, and are parallel."""

from __future__ import annotations

from mtkit.config.base import Key
from mtkit.config.corpora import Corpus, TextCorpus
from mtkit.config.settings import DataSettings, SetName
from mtkit.corpus.files import count_lines, existing_file, listed_paths
from mtkit.corpus.read import UnequalSidesError, read_pairs
from mtkit.errors import blame_setting


def check_all_readable(data: DataSettings, *names: SetName) -> None:
    """Call `check_readable` on all corpora of the sets `names`."""
    for name in names:
        for key, corpus in data.corpora(name).items():
            check_readable(corpus, key)


def check_readable(corpus: Corpus, key: Key) -> None:
    """Open every file of a corpus, read its first pair, and count its lines.

    `key`: the setting that names the corpus.

    Raises:
        SettingError: a file is missing, unreadable or empty, or the sides are not parallel.
    """
    for name in ("source", "target", "table"):  # a corpus has some of these settings
        paths = getattr(corpus, name, None) or []
        with blame_setting((*key, name)):
            for path in listed_paths(paths):
                existing_file(path)
    with blame_setting(key):
        next(read_pairs(corpus))  # fails if the corpus is empty
        if isinstance(corpus, TextCorpus):
            sources = listed_paths(corpus.source)
            targets = listed_paths(corpus.target)
            for source, target in zip(sources, targets, strict=True):
                if count_lines(source) != count_lines(target):
                    raise UnequalSidesError((source, target))
