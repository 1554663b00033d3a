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

from mtkit import artifacts

if TYPE_CHECKING:
    from mtkit.config.configfile import load_config as load_config
    from mtkit.decoding.translator import load as load
    from mtkit.pipeline import run as run
    from mtkit.training.train import train as train

__version__ = artifacts.VERSION
_HOMES = {
    "load": "mtkit.decoding.translator",
    "load_config": "mtkit.config.configfile",
    "run": "mtkit.pipeline",
    "train": "mtkit.training.train",
}

__all__ = ["__version__", "load", "load_config", "run", "train"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mtkit' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
