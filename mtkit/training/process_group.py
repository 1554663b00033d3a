"""The processes that train together, and what they exchange.

Every process holds the whole model and computes its share of the gradients; one sum for each step
adds the shares up. All processes hold equal states at all times; only the main process prints and
writes.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from secrets import token_hex
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from mtkit import report
from mtkit.errors import MtkitError, UserError
from mtkit.machine import launcher_variable
from mtkit.report import plural

JOIN_TIMEOUT = timedelta(seconds=50)
"""Time that processes wait for all to start; torchrun starts them at about the same time."""
SECONDS_BETWEEN_LOOKS = 0.05
"""Time after which a process that waits for others to start looks again."""
TIMEOUT = timedelta(minutes=10)
"""Time that processes wait for each other, once all have started, before the run ends."""


class LostProcess(MtkitError):  # noqa: N818 - named for what happened
    """Another process of the run has failed or ended; its own error, if any, says more."""


class ProcessGroup:
    """The processes that train together; this base class serves a process that trains alone."""

    rank = 0
    size = 1

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that prints and writes."""
        return self.rank == 0

    def parts(self, accumulate: int) -> int:
        """Return into how many parts to split a batch, so that all processes get equally many.

        It is the smallest number for which accumulate · parts is a multiple of the processes.
        """
        return self.size // math.gcd(accumulate, self.size)

    def sum_gradients(self, flat: Tensor) -> None:
        """Replace the gradients of this process by the sums over all processes, once per step."""

    def copy_from_main(self, tensors: Iterable[Tensor]) -> None:
        """Replace the values of `tensors` by those of the main process."""

    def sum_tensor(self, values: Tensor) -> None:
        """Replace each value by its sum over the processes, without copying to the CPU."""

    def max(self, value: int) -> int:
        """Return the largest value of any process."""
        return value

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all processes in the order of their ranks.

        `value` can be written as JSON, so that nothing is unpickled that another program could
        send.
        """
        return [value]

    @contextmanager
    def fail_together(self) -> Iterator[None]:
        """Raise in all processes if the block raises in one process; all end the block together.

        The block must not wait for other processes, because one that raises would not come.

        Raises:
            LostProcess: the block has raised in another process.
        """
        try:
            yield
        except Exception as error:
            name = "" if isinstance(error, MtkitError) else f"{type(error).__name__}: "
            self.gather(f"{name}{error}")  # tells the others, which are at the `gather` below
            raise
        messages = self.gather(None)  # None: this process has not failed
        for rank, message in enumerate(messages):
            if message is not None:
                raise LostProcess(f"process {rank} failed: {message}")

    def barrier(self) -> None:
        """Return when every process has called this."""


SINGLE_PROCESS = ProcessGroup()


class FirstOfSeveral(ProcessGroup):
    """The first of several processes: it takes its share of the data, although no other runs."""

    def __init__(self, size: int) -> None:
        self.size = size


class TorchProcessGroup(ProcessGroup):
    """Processes connected by torch.distributed."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.device = device

    def sum_gradients(self, flat: Tensor) -> None:
        dist.all_reduce(flat)

    def copy_from_main(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            dist.broadcast(tensor, 0)

    def sum_tensor(self, values: Tensor) -> None:
        dist.all_reduce(values)

    def max(self, value: int) -> int:
        largest = torch.tensor(value, device=self.device)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return int(largest)

    def gather(self, value: Any) -> list[Any]:
        text = json.dumps(value).encode()
        # `all_gather` wants the same number of bytes from all. JSON may end with spaces.
        longest = self.max(len(text))
        padded = text.ljust(longest)
        values = np.frombuffer(padded, np.uint8).copy()  # a copy, because bytes are read-only
        sent = torch.from_numpy(values).to(self.device)
        received = [torch.empty_like(sent) for _ in range(self.size)]
        dist.all_gather(received, sent)
        gathered: list[Any] = []
        for tensor in received:
            text = tensor.cpu().numpy().tobytes()
            gathered.append(json.loads(text))
        return gathered

    def barrier(self) -> None:
        dist.barrier()


@contextmanager
def connect_processes(device: torch.device) -> Iterator[ProcessGroup]:
    """Connect the processes of this run and yield them, or yield SINGLE_PROCESS.

    Raises:
        UserError: not all processes have started, or they cannot reach each other.
        LostProcess: another process has ended early.
    """
    rank = launcher_variable("RANK")
    size = launcher_variable("WORLD_SIZE")
    if size == 1:
        yield SINGLE_PROCESS
        return
    if rank >= size:
        raise UserError(f"RANK is {rank}, but must be below WORLD_SIZE, which is {size}")
    backend = "nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(launcher_variable("LOCAL_RANK"))
    try:
        store = _join(rank, size)
        dist.init_process_group(backend, timeout=TIMEOUT, store=store, rank=rank, world_size=size)
    except (RuntimeError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0]  # some of torch's errors have many lines
        raise UserError(f"the processes cannot reach each other ({reason})") from error
    if rank > 0:  # only the main process prints
        report.set_quiet(True)
        report.set_follower(True)
    try:
        yield TorchProcessGroup(device)
    except RuntimeError as error:
        # When communication fails, torch raises a DistError, or a plain RuntimeError of gloo.
        if not isinstance(error, dist.DistError) and "gloo" not in str(error):
            raise
        raise LostProcess("a process was lost: run the same command again to resume") from error
    # A process fails if another closes its connections too early. So all processes confirm first
    # that they are done. A failing process does not come here, and keeps its connections until it
    # exits: it reports its own error before the others report that it is lost.
    store.set(f"mtkit/done/{rank}", "")
    store.wait([f"mtkit/done/{other}" for other in range(size)])
    # The main process leaves last, because the store may be one of its threads.
    store.set(f"mtkit/left/{rank}", "")
    if rank == 0:
        store.wait([f"mtkit/left/{other}" for other in range(size)])
    dist.destroy_process_group()


def _join(rank: int, size: int) -> Store:
    """Return the store, a table that all processes share, once all processes have joined.

    A launcher that starts processes again may keep the store, in which keys of processes that have
    ended look like those of living ones. So each process writes a random word, and then a hash of
    the words that it has read of all. Once all hashes are equal, all processes are alive. All that
    they store from then on has this hash in its keys.

    Raises:
        UserError: some have not joined in time.
    """
    # With the true size, torch would wait for all processes, but not say which are missing. It
    # reads the address of rank 0 from the environment ("env://").
    meetings = rendezvous("env://", rank=rank, world_size=1, timeout=JOIN_TIMEOUT)
    store: Store = next(meetings)[0]
    words = [f"mtkit/word/{other}" for other in range(size)]
    answers = [f"mtkit/answer/{other}" for other in range(size)]
    for key in [*words, *answers]:
        store.compare_set(key, "", "")  # a key that is missing gets an empty value
    store.set(words[rank], token_hex(8))
    deadline = time.monotonic() + JOIN_TIMEOUT.total_seconds()
    while True:
        heard = sha256(b" ".join(store.multi_get(words))).hexdigest()
        store.set(answers[rank], heard)
        missing: list[str] = []
        for other, answer in enumerate(store.multi_get(answers)):
            if answer != heard.encode():
                missing.append(str(other))
        if not missing:
            break
        if time.monotonic() > deadline:
            # Otherwise a late process would read this answer, and wait TIMEOUT for this process.
            store.set(answers[rank], "")
            raise UserError(
                f"{len(missing)} of {plural(size, 'process')} did not start within "
                f"{JOIN_TIMEOUT.seconds} seconds (rank {', '.join(missing)}); look for their own "
                "messages, and start the command on all machines at the same time"
            )
        time.sleep(SECONDS_BETWEEN_LOOKS)
    store.set_timeout(TIMEOUT)
    return PrefixStore(heard, store)
