"""Translate on the workers of a Dask cluster, which load the model once each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from mtkit.artifacts.manifest import MANIFEST
from mtkit.decoding.api import Translator, load
from mtkit.decoding.text.line import Line, Translation
from mtkit.decoding.translate import LineStream
from mtkit.extras.cluster.cluster import open_cluster

TASK_LINES = 512
"""Number of lines that a worker translates at a time."""

Options = tuple[tuple[str, Any], ...]
"""The arguments of `load` by name, in a form that a cache can compare."""


@contextmanager
def translate_on_cluster(
    address: str, translator: Translator, options: Mapping[str, Any]
) -> Iterator[LineStream]:
    """Yield a function that translates lines with the models of a translator, on a cluster.

    `options`: those with which the translator was loaded. Errors are as in `open_cluster`.
    """
    folders = tuple(str(model.artifact.path.absolute()) for model in translator.models)
    values = {name: _absolute(value) for name, value in options.items()}
    hashable_options = tuple(values.items())
    translate = partial(translate_lines, folders, hashable_options)
    manifest = Path(folders[0]) / MANIFEST
    with open_cluster(address, manifest) as run:
        yield lambda lines: run(translate, _tasks(lines))


def translate_lines(
    folders: tuple[str, ...], options: Options, lines: list[Line]
) -> list[Translation]:
    """Translate lines in a worker, which keeps the models for its next task."""
    translator = _load_once(folders, options)
    batches = translator.stream(lines)
    return list(chain.from_iterable(batches))


@cache
def _load_once(folders: tuple[str, ...], options: Options) -> Translator:
    return load(folders, **dict(options))


def _absolute(value: Any) -> Any:
    return value.absolute() if isinstance(value, Path) else value


def _tasks(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield up to TASK_LINES lines at a time."""
    task: list[Line] = []
    for line in lines:
        task.append(line)
        if len(task) == TASK_LINES:
            yield task
            task = []
    if task:
        yield task
