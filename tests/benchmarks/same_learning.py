"""Whether what makes training fast changes what is learnt: the same run in two ways.

    python tests/benchmarks/same_learning.py CONFIG plain --set training.epochs=10
    python tests/benchmarks/same_learning.py CONFIG fast --set training.epochs=10

`plain` is float32, torch's own dropout, and all logits with torch's own cross-entropy; `fast` is
mtkit as it is. Same data, order of batches and initial weights; each prints its last validation.
"""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import torch.nn.functional as F
from torch import Tensor

from mtkit.batching.build import build_batches
from mtkit.config.yaml import load_config
from mtkit.models.dropout import Dropout
from mtkit.symbols import PAD
from mtkit.tokenizer.train import train_tokenizer
from mtkit.training.loss import Loss, Objective
from mtkit.training.train import train


def plain_dropout(self: Dropout, x: Tensor) -> Tensor:
    return F.dropout(x, self.p, self.training)


def plain_objective(
    self: Objective, source: Tensor, target_input: Tensor, target_output: Tensor
) -> Loss:
    hidden = self.model(source, source != PAD, target_input)
    logits = self.model.project(hidden).float().mT  # (B, V, T)
    smoothed, nll = (
        F.cross_entropy(
            logits, target_output, ignore_index=PAD, reduction="sum", label_smoothing=some
        )
        for some in (self.smoothing, 0.0)
    )
    return Loss(smoothed, nll.detach())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("way", choices=["plain", "fast"])
    parser.add_argument("--run", default="runs/same-learning")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    precision = ["training.precision=float32"] if options.way == "plain" else []
    overrides = [*options.set, *precision, "training.ranks=1"]  # what is patched is in this process
    config = load_config(options.config, overrides, f"{options.run}-{options.way}")
    train_tokenizer(config)
    build_batches(config)
    with ExitStack() as plain:
        if options.way == "plain":
            plain.enter_context(patch.object(Dropout, "forward", plain_dropout))
            plain.enter_context(patch.object(Objective, "forward", plain_objective))
        model = train(config)
    print(json.dumps({"way": options.way, **model.report}))


if __name__ == "__main__":
    main()
