"""Print a hash of loss and gradients of a first step, a line for each way to compute it.

Each is made in a process of its own, forked before torch has started a thread or made a kernel.
"""

from __future__ import annotations

import hashlib
import os
from itertools import product

import numpy as np
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


def main() -> None:
    for kind, precision, threads in product(MODELS, TORCH_DTYPES, (1, 2)):
        if os.fork() == 0:
            print(kind, precision, threads, first_step(kind, precision, threads), flush=True)
            os._exit(0)
        _, status = os.wait()
        assert status == 0, f"{kind}, {precision}, {threads} threads: status {status}"


if __name__ == "__main__":
    main()
