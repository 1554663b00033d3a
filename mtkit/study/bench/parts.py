"""The parts of a training step that its time is divided among."""

from __future__ import annotations

import re

from torch import nn

EMBEDDING = "embedding"
ATTENTION = "attention"
FEED_FORWARD = "feed-forward"
RECURRENT = "recurrent layers"
NORMS = "norms and dropout"
OUTPUT = "output and loss"
OPTIMIZER = "optimizer"
DATA = "data"
REST = "rest"
PARTS = (EMBEDDING, ATTENTION, FEED_FORWARD, RECURRENT, NORMS, OUTPUT, OPTIMIZER, DATA, REST)

_PART_OF_NAME = {
    "": OUTPUT,  # the objective itself: all of it that is not the model
    r"model": REST,
    r".*(embedding|positions).*": EMBEDDING,
    r".*attention.*": ATTENTION,
    r".*feed_forward(\..*)?": FEED_FORWARD,
    r".*(_residual|_norm|dropout).*": NORMS,
}


def part_of(name: str, module: nn.Module) -> str | None:
    """The part of a module of the training objective, by its dotted name; None: its parent's.

    Models give their modules the names of what they are, and weights on disk depend on them.
    """
    found = (part for pattern, part in _PART_OF_NAME.items() if re.fullmatch(pattern, name))
    return next(found, None) or _part_of_layer(name, module)


def _part_of_layer(name: str, module: nn.Module) -> str | None:
    """Of a layer as a whole: what is in none of its pieces."""
    if not re.fullmatch(r"model\.(encoder|bridge|decoder)\.\d+", name):
        return None
    recurrent = "bridge" in name or any(isinstance(m, nn.RNNBase) for m in module.modules())
    return RECURRENT if recurrent else NORMS
