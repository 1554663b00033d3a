"""Rows of a store to padded tensors, kept ready ahead of the model by a thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from queue import Queue
from threading import Event, Thread
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from mtkit.terms import Batch
from mtkit.tokenizer.symbols import BOS, EOS, PAD

Item = TypeVar("Item")
Side = tuple[NDArray[np.integer[Any]], NDArray[np.int64]]
"""Ids of some sequences, laid end to end, and the length of each."""


@runtime_checkable
class Pairs(Protocol):
    """What batches are loaded from: a store, or pairs made from one."""

    def side(self, rows: NDArray[np.integer[Any]], *, target: bool) -> Side:
        """One side of `rows`."""


def load_batch(pairs: Pairs, rows: NDArray[np.integer[Any]]) -> Batch:
    """The pairs `rows`, in that order: source x EOS, target BOS y and y EOS, else PAD."""
    source, source_lengths = pairs.side(rows, target=False)
    target, target_lengths = pairs.side(rows, target=True)
    batch = np.arange(len(rows))
    encoder_input = _padded(source, source_lengths, before=0)
    encoder_input[batch, source_lengths] = EOS
    target_output = _padded(target, target_lengths, before=0)
    target_output[batch, target_lengths] = EOS
    target_input = _padded(target, target_lengths, before=1)
    target_input[:, 0] = BOS
    return Batch(
        source=torch.from_numpy(encoder_input),
        target_input=torch.from_numpy(target_input),
        target_output=torch.from_numpy(target_output),
        target_tokens=int(target_lengths.sum()) + len(rows),
    )


def _padded(ids: NDArray[Any], lengths: NDArray[np.int64], *, before: int) -> NDArray[np.int64]:
    """(B, longest + 1): the ids of each row after `before` places, PAD around them."""
    places = np.arange(int(lengths.max()) + 1) - before
    padded = np.full((len(lengths), len(places)), PAD, np.int64)
    padded[(places >= 0) & (places < lengths[:, None])] = ids
    return padded


def prefetch(items: Iterable[Item], ahead: int = 2) -> Iterator[Item]:
    """The same items, made by a thread that runs up to `ahead` of the consumer.

    An exception of `items` comes out here; the thread ends when the consumer stops.
    """
    queue: Queue[Item | _End] = Queue(ahead)
    stopped = Event()
    thread = Thread(target=_produce, args=(items, queue, stopped), daemon=True)
    thread.start()
    try:
        while not isinstance(item := queue.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stopped.set()
        while not queue.empty():  # wakes a producer that waits for room
            queue.get()
        thread.join()


@dataclass(frozen=True)
class _End:
    error: BaseException | None = None


def _produce(items: Iterable[Item], queue: Queue[Item | _End], stopped: Event) -> None:
    try:
        for item in items:
            queue.put(item)
            if stopped.is_set():
                return
    except BaseException as error:
        queue.put(_End(error))
    else:
        queue.put(_End())
