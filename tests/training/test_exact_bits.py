"""The same run is bitwise identical in every process, on processors of the same kind.

Else a run that was killed and resumed would end with other weights than one that was not. Of four
fresh processes one made other bits on processors with AMX, as long as the LSTM ran in bfloat16: the
campaign starts enough of them to see such a thing for certain (`make exact-test`).

As a program this file prints a hash of loss and gradients of a first step, a line for each way to
compute it. Each is made in a process of its own, forked before torch has started a thread or made a
kernel.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
import torch

from mtkit.config.model import ModelSettings, Seq2SeqSettings, TransformerSettings
from mtkit.models.device import TORCH_DTYPES
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.training.batch import pack_batch
from mtkit.training.loss import TrainingLoss

VOCAB = 400
SENTENCES, LENGTH = 40, 20
MODELS: dict[str, ModelSettings] = {
    "transformer": TransformerSettings(layers=1, d_model=128, ffn=256, heads=4),
    "seq2seq": Seq2SeqSettings(layers=1, d_model=128),
}
WAYS = list(product(MODELS, ("float32", "bfloat16"), (1, 2)))
"""Kinds of models, precisions, and numbers of threads."""
AT_ONCE = 4
"""Processes at the same time, so that threads wait for each other in other orders."""


def first_steps(_: int) -> list[str]:
    """Return what a separate process prints."""
    # Threads that wait by spinning would take minutes where they are more than the cores.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    program = [sys.executable, __file__]
    ended = subprocess.run(program, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return ended.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, pytest.param(24, marks=pytest.mark.campaign)])
def test_a_first_step_is_bitwise_identical_in_every_process(processes: int) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        first, *others = pool.map(first_steps, range(processes))
    assert len(first) == len(WAYS)
    assert all(other == first for other in others)


def first_step(kind: str, precision: str, threads: int) -> str:
    """Return the hash for a model and a batch that are always the same."""
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = EncoderDecoder(MODELS[kind], VOCAB, VOCAB).train()
    ids = torch.randint(4, VOCAB, (2, SENTENCES * LENGTH)).numpy()
    source, target = ((side, np.full(SENTENCES, LENGTH)) for side in ids)
    with torch.autocast("cpu", TORCH_DTYPES[precision], precision != "float32"):
        loss = TrainingLoss(model, 0.1)(pack_batch(source, target))
    loss.smoothed.backward()
    digest = hashlib.sha256(loss.nll.detach().numpy().tobytes())
    for parameter in model.parameters():
        assert parameter.grad is not None
        digest.update(parameter.grad.numpy().tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    for way in WAYS:
        if os.fork() == 0:
            print(*way, first_step(*way), flush=True)
            os._exit(0)
        _, status = os.wait()
        assert status == 0, f"{way}: status {status}"
