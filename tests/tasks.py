"""A toy language pair that a small model learns in seconds, and configs for it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtkit.config.settings import Config

Capture = pytest.CaptureFixture[str]
Fresh = Callable[..., Config]
"""The fixture `fresh`."""

WORDS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"]


def write_reversal_task(
    folder: Path, *, train: int = 400, held_out: int = 20, seed: int = 1
) -> None:
    """Sentences of up to five words; the translation is the words backwards, in capitals."""
    generator = random.Random(seed)
    for name, count in (("train", train), ("valid", held_out), ("test", held_out)):
        sentences = [
            [generator.choice(WORDS) for _ in range(generator.randint(1, 5))] for _ in range(count)
        ]
        sources = [" ".join(words) for words in sentences]
        targets = [" ".join(reversed(words)).upper() for words in sentences]
        (folder / f"{name}.src").write_text("".join(f"{s}\n" for s in sources), "utf-8")
        (folder / f"{name}.tgt").write_text("".join(f"{t}\n" for t in targets), "utf-8")


LAYER = {"kind": "transformer", "layers": 1, "ffn": 32, "heads": 2}
LSTM = {"kind": "lstm", "layers": 1}
TINY: dict[str, dict[str, Any]] = {
    "transformer": {"kind": "transformer", "layers": 1, "d_model": 32, "ffn": 32, "heads": 2},
    "seq2seq": {"kind": "seq2seq", "layers": 1, "d_model": 32, "attention": "dot"},
    "transformer-lstm": {
        "kind": "encoder-decoder",
        "d_model": 32,
        "encoder": LAYER,
        "decoder": LSTM,
    },
    "lstm-transformer": {
        "kind": "encoder-decoder",
        "d_model": 32,
        "encoder": LSTM,
        "decoder": LAYER,
    },
}


def tiny_config(folder: Path, kind: str, **changes: Any) -> Config:
    """A config of the task in `folder`; `changes` replace settings of a section, by its name."""
    sections: dict[str, dict[str, Any]] = {
        "data": {
            name: {"source": str(folder / f"{name}.src"), "target": str(folder / f"{name}.tgt")}
            for name in ("train", "valid", "test")
        },
        "tokenizer": {"type": "unigram", "vocab_size": 60, "byte_fallback": False},
        "batching": {"max_tokens": 256},
        "model": TINY[kind],
        "training": {
            "steps": 12,
            "warmup": 4,
            "schedule": {"kind": "inverse_sqrt", "peak": 0.01},
            "precision": "float32",
            "device": "cpu",
            "log_every": 4,
            "validate_every": 6,
            "save_every": 5,
            "average": 2,
        },
        "decoding": {"beam": 2, "max_length": 20},
    }
    for section, settings in changes.items():
        sections[section] = sections.get(section, {}) | settings
    return Config.model_validate({"run": str(folder / "run"), **sections})
