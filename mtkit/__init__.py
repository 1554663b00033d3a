"""A machine translation toolkit: SentencePiece, batches, training and decoding, one stage each.

    import mtkit

    scores = mtkit.run("mtkit.yaml")            # every stage that is not up to date
    translator = mtkit.load("runs/mtkit")
    translator.translate(["A dog runs."])
    for it in translator.results(["A dog runs."], n_best=3, alignments=True):
        print(it.score, it.text, it.alignment, it.alternatives)
    mtkit.score(hypotheses, references)["bleu"].value

Nothing heavy is imported before one of these names is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mtkit.artifacts.manifest import VERSION

if TYPE_CHECKING:
    from mtkit.config.yaml import load_config as load_config
    from mtkit.decoding.api import load as load
    from mtkit.decoding.engines.engine import Request as Request
    from mtkit.decoding.text.line import Line as Line
    from mtkit.decoding.translate import translate_file as translate_file
    from mtkit.errors import TranslationWarning as TranslationWarning
    from mtkit.pipeline import run as run
    from mtkit.scoring.metrics import score as score
    from mtkit.training.train import train as train

__version__ = VERSION
_HOMES = {
    "Line": "mtkit.decoding.text.line",
    "Request": "mtkit.decoding.engines.engine",
    "TranslationWarning": "mtkit.errors",
    "load": "mtkit.decoding.api",
    "load_config": "mtkit.config.yaml",
    "run": "mtkit.pipeline",
    "score": "mtkit.scoring.metrics",
    "train": "mtkit.training.train",
    "translate_file": "mtkit.decoding.translate",
}

__all__ = ["Line", "Request", "TranslationWarning", "__version__", "load", "load_config", "run"]
__all__ += ["score", "train", "translate_file"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mtkit' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
