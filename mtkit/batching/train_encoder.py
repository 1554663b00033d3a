"""Encode the training rows chunk by chunk, in this process or in several.

A chunk depends on its own rows and on the settings only. So the results are the same, whoever
encodes it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from threading import Thread

from mtkit.artifacts.manifest import MANIFEST
from mtkit.batching.encode import Encoded, encode_chunk
from mtkit.config.settings import Config, SetName
from mtkit.corpus.rules import PairFilter, held_out_keys
from mtkit.corpus.statistics import statistics_by_corpus
from mtkit.corpus.store import CorpusRows
from mtkit.errors import MtkitError
from mtkit.machine import count_cores
from mtkit.plugins import load_plugin
from mtkit.tokenizer.codec import Tokenizer

MIN_PROCESS_ROWS = 100_000
"""Fewest rows for a process; for fewer, starting it would take longer than encoding."""
TASK_CHUNKS = 16
"""Number of chunks that are sent to a process at a time."""


@dataclass(frozen=True)
class TrainEncoder:
    """Encodes the training rows."""

    rows: CorpusRows
    tokenizer: Tokenizer
    max_length: int
    """Subwords of the longest side that is kept."""
    pair_filter: PairFilter | None
    """The rules of `batching.drop`; None without rules."""
    source_tag: str | None = None

    @classmethod
    def of(
        cls, config: Config, tokenizer: Tokenizer, sets: Mapping[SetName, CorpusRows]
    ) -> TrainEncoder:
        """Return the encoder of a config; `sets`: the rows of the training set, and of others."""
        rows = sets["train"]
        pair_filter = _make_filter(config, sets)
        max_length = config.batching.max_length
        return cls(rows, tokenizer, max_length, pair_filter, config.decoding.source_tag)

    def encode(self, rows: range) -> Encoded:
        """Encode a chunk of rows, and drop faulty pairs."""
        pairs = list(self.rows.read(rows))
        return encode_chunk(
            pairs, self.tokenizer, self.max_length, self.pair_filter, self.source_tag
        )

    def encode_all(self, cluster: str | None) -> Iterator[Encoded]:
        """Yield all chunks in order; for many rows, encode them in processes.

        `cluster`: the address of a Dask cluster that encodes them instead.

        Raises:
            UserError: the cluster cannot be used.
            MtkitError: a process was killed.
        """
        chunks = self.rows.split()
        if cluster is not None:
            with load_plugin("actions", "cluster")(cluster, self.rows.folder / MANIFEST) as run:
                yield from run(self.encode, chunks)
            return
        processes = min(count_cores(), len(self.rows) // MIN_PROCESS_ROWS)
        if processes < 2:
            yield from map(self.encode, chunks)
            return
        from joblib import Parallel, delayed
        from joblib.externals.loky import get_reusable_executor
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        parallel = Parallel(
            processes,
            return_as="generator",
            batch_size=TASK_CHUNKS,
            pre_dispatch=2 * TASK_CHUNKS * processes,
            initializer=_prepare_process,
            initargs=(self, os.getpid()),
            max_nbytes=None,  # no files in /dev/shm, which a killed process would leave
        )
        try:
            yield from parallel(delayed(_encode)(chunk) for chunk in chunks)
        except TerminatedWorkerError:
            raise MtkitError(
                "a process that encodes pairs was killed; if memory ran out, limit the number of "
                "processes with OMP_NUM_THREADS"
            ) from None
        finally:
            # joblib would keep idle processes, with their memory, while training begins.
            get_reusable_executor().shutdown(kill_workers=True)


_encoder: TrainEncoder
"""In a process that encodes: what it encodes with."""


def _prepare_process(encoder: TrainEncoder, parent: int) -> None:
    """Keep the encoder for all tasks; `parent`: the process that started this one."""
    global _encoder
    _encoder = encoder
    Thread(target=_end_with, args=[parent], daemon=True).start()


def _end_with(parent: int) -> None:
    """Kill this process when its parent has ended, for whatever reason."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)


def _encode(rows: range) -> Encoded:
    return _encoder.encode(rows)


def _make_filter(config: Config, sets: Mapping[SetName, CorpusRows]) -> PairFilter | None:
    """Return the rules of `batching.drop` with the statistics they need; None without rules."""
    rules = config.batching.drop
    if not rules:
        return None
    # Without the samples, which would be sent to each process.
    statistics = [replace(each, sample=()) for each in statistics_by_corpus(sets["train"])]
    if "overlap" in rules:
        measuring = [rows for name, rows in sets.items() if name != "train"]
        keys = held_out_keys(chain.from_iterable(measuring))
        statistics = [replace(each, held_out=keys) for each in statistics]
    return PairFilter(rules, statistics)
