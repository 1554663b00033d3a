"""A machine translation toolkit: SentencePiece, batches, training and decoding, one stage each.

    import mtkit

    config = mtkit.load_config("mtkit.yaml")
    mtkit.run(config)                           # every stage that is not up to date
    translator = mtkit.load("runs/latest")
    translator.translate(["A dog runs."])

Nothing heavy is imported before one of these names is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mtkit.configfile import load_config as load_config
    from mtkit.decoding import load as load
    from mtkit.pipeline import run as run
    from mtkit.training.train import train as train

_HOMES = {
    "load": "mtkit.decoding",
    "load_config": "mtkit.configfile",
    "run": "mtkit.pipeline",
    "train": "mtkit.training",
}

__all__ = ["__version__", "load", "load_config", "run", "train"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mtkit' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
