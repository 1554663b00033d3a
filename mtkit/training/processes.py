"""One run on several processors: launcher.py or torchrun starts the ranks, here they connect.

Every rank holds the whole model and takes every n-th part of an update; gradients are summed while
the backward pass still runs. All ranks hold equal states at all times; the first alone speaks and
writes.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from mtkit.errors import MtkitError, UserError
from mtkit.report import set_quiet


class Ranks:
    """A single process, which is what a run is unless several were started for it."""

    index = 0
    count = 1

    @property
    def is_first(self) -> bool:
        """Whether this rank is the one that speaks and writes."""
        return self.index == 0

    def parts(self, accumulate: int) -> int:
        """Number of parts of a batch, the least with which all ranks have as many of an update."""
        return self.count // math.gcd(accumulate, self.count)

    def parallel(self, objective: nn.Module) -> nn.Module:
        """`objective` with gradients that are means over the ranks."""
        return objective

    def accumulating(self, objective: nn.Module) -> AbstractContextManager[None]:
        """The context of all parts of an update but the last: gradients stay at home."""
        return nullcontext()

    def sum(self, *values: int | float) -> tuple[int | float, ...]:
        """The sum of each value over the ranks."""
        return values

    def max(self, value: int) -> int:
        """The largest value of any rank."""
        return value

    def gather(self, own: Any) -> list[Any]:
        """What each rank has, of which JSON can hold it all, in their order."""
        return [own]

    def wait(self) -> None:
        """Returns when every rank has called it."""


ALONE = Ranks()


class TorchRanks(Ranks):
    """Processes connected by torch.distributed."""

    def __init__(self, device: torch.device) -> None:
        self.index, self.count = dist.get_rank(), dist.get_world_size()
        self.device = device

    def parallel(self, objective: nn.Module) -> nn.Module:
        # Buffers are tables of positions, equal by construction but not always of one length.
        with warnings.catch_warnings(action="ignore", category=FutureWarning):  # of a new name,
            return DistributedDataParallel(  # which torch advises against for this case
                objective, broadcast_buffers=False, gradient_as_bucket_view=True
            )

    def accumulating(self, objective: nn.Module) -> AbstractContextManager[None]:
        return cast(DistributedDataParallel, objective).no_sync()

    def sum(self, *values: int | float) -> tuple[int | float, ...]:
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return tuple(total.tolist())

    def max(self, value: int) -> int:
        largest = torch.tensor(value, device=self.device)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return int(largest)

    def gather(self, own: Any) -> list[Any]:
        text = json.dumps(own).encode()
        padded = bytearray(text.ljust(self.max(len(text))))
        mine = torch.frombuffer(padded, dtype=torch.uint8).to(self.device)
        texts = [torch.empty_like(mine) for _ in range(self.count)]
        dist.all_gather(texts, mine)
        return [json.loads(text.cpu().numpy().tobytes()) for text in texts]

    def wait(self) -> None:
        dist.barrier()


@contextmanager
def connected_ranks(device: torch.device, timeout: float) -> Iterator[Ranks]:
    """The ranks that were started, connected while the block runs; else this process alone.

    `timeout` in seconds: how long ranks wait for each other before they give the run up.
    Raises UserError where they cannot reach each other, and MtkitError when one is lost.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    backend = "nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    patience = timedelta(seconds=timeout)
    try:
        store, index, count = next(rendezvous("env://", timeout=patience))
        store.set_timeout(patience)
        dist.init_process_group(
            backend, timeout=patience, store=store, rank=index, world_size=count
        )
    except (RuntimeError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"the ranks do not reach each other ({reason})") from error
    if index > 0:
        set_quiet(True)
    with _losses_named():
        yield TorchRanks(device)
    # A rank that closes its connections while another still reads the last of what it sent
    # makes that one fail: all say first that they have everything. One that fails keeps them until
    # it ends: by then it has said why, and the others, which hear of it so, say less.
    store.set(f"mtkit/done/{index}", "")
    store.wait([f"mtkit/done/{rank}" for rank in range(count)])
    dist.destroy_process_group()


@contextmanager
def _losses_named() -> Iterator[None]:
    """Where an exchange fails, which torch tells as many kinds of errors, MtkitError."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and "gloo" not in str(error):
            raise
        raise MtkitError("a rank was lost: run the same command again to go on") from error
