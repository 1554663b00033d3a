"""Encode ranges of rows in order: in this process, in several, or on a Dask cluster."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Generator, Sequence
from threading import Thread

from mtkit.artifacts.manifest import MANIFEST
from mtkit.batching.encode import Encoded, RowEncoder
from mtkit.errors import MtkitError
from mtkit.machine import count_cores
from mtkit.plugins import load_plugin

MIN_RANGES = 3
"""Fewest ranges for a process; for fewer, starting it would take longer than encoding."""


def encode_ranges(
    encoder: RowEncoder, ranges: Sequence[range], cluster: str | None
) -> Generator[Encoded]:
    """Yield the encoded ranges in order; for many rows, encode them in processes.

    `cluster`: the address of a Dask cluster that encodes them instead.

    Raises:
        UserError: the cluster cannot be used.
        MtkitError: a process was killed.
    """
    if cluster is not None:
        with load_plugin("actions", "cluster")(cluster, encoder.rows.folder / MANIFEST) as run:
            yield from run(encoder.encode, ranges)
        return
    processes = min(count_cores(), len(ranges) // MIN_RANGES)
    if processes < 2:
        yield from map(encoder.encode, ranges)
        return
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    # The pages of the text that a process has read look like a leak to joblib, which then starts
    # another process, and warns. No work is lost.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
    parallel = Parallel(
        processes,
        return_as="generator",
        batch_size=1,
        initializer=_prepare_process,
        initargs=(encoder, os.getpid()),
        max_nbytes=None,  # no files in /dev/shm, which a killed process would leave
    )
    try:
        yield from parallel(delayed(_encode)(rows) for rows in ranges)
    except TerminatedWorkerError:
        raise MtkitError(
            "a process that encodes pairs was killed; if memory ran out, limit the number of "
            "processes with OMP_NUM_THREADS, and run the same command again"
        ) from None
    finally:
        # joblib would keep idle processes, with their memory, while training begins.
        get_reusable_executor().shutdown(kill_workers=True)


_encoder: RowEncoder
"""In a process that encodes: what it encodes with."""


def _prepare_process(encoder: RowEncoder, parent: int) -> None:
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
