"""Configs and random text for runs that are measured: models of the usual sizes.

The text has a character per subword, so that `mtkit train-spm` gives exactly the vocabulary that is
asked for, and every later stage is that of a user.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from large_corpora import draw_long_lengths

from mtkit.batching.store import Lengths
from mtkit.extras.study.bench.sample import draw_lengths, draw_tokens

FIRST_CHARACTER = 0x20000
"""The first of the ideographs that the text consists of."""
NEVER = 10**9


@dataclass(frozen=True)
class Size:
    """A model, and what it is trained on."""

    model: Mapping[str, object]
    vocab: int
    max_tokens: int
    log_every: int
    """Number of steps between two logged ones: on a fast GPU they take a second."""
    pairs: int = 29_000
    draw_lengths: Callable[[int, np.random.Generator], Lengths] = draw_lengths


def transformer(layers: int, d_model: int, heads: int, dropout: float) -> dict[str, object]:
    """Return the settings of a model whose feed-forward sublayers are four times as wide."""
    shape = {"layers": layers, "d_model": d_model, "ffn": 4 * d_model, "heads": heads}
    return {"kind": "transformer", "dropout": dropout, **shape}


LSTM = {"kind": "seq2seq", "layers": 2, "d_model": 512, "dropout": 0.2}
WMT = transformer(6, 1024, 16, 0.1) | {"norm": "pre"}
NLLB = transformer(12, 1024, 16, 0.1) | {"norm": "pre"}
SIZES = {
    "tiny": Size(transformer(4, 128, 4, 0.3) | {"ffn": 256}, 8000, 4096, 100),
    "base": Size(transformer(6, 512, 8, 0.1), 8000, 25_000, 20),
    "big": Size(transformer(6, 1024, 16, 0.3), 32_000, 25_000, 10, 100_000, draw_long_lengths),
    "wmt": Size(WMT, 32_000, 25_000, 10, 100_000, draw_long_lengths),
    "lstm": Size(LSTM, 8000, 4096, 20),
    "nllb": Size(NLLB, 256_000, 4096, 5),
}
SMALL = Size(transformer(1, 16, 2, 0.1), 40, 256, 2, 200)


def write_run(folder: Path, size: Size) -> None:
    """Write text and `mtkit.yaml` of a run that trains without end to a new folder."""
    folder.mkdir()
    tokenizer = {"type": "char", "character_coverage": 1, "normalization": "identity"}
    never = dict.fromkeys(("steps", "validate_every", "save_every"), NEVER)
    config = {
        "run": str(folder / "run"),
        "data": _write_text(folder, size),
        "tokenizer": tokenizer | {"vocab_size": size.vocab, "byte_fallback": False},
        "batching": {"max_tokens": size.max_tokens},
        "model": dict(size.model),
        "training": never | {"log_every": size.log_every},
    }
    (folder / "mtkit.yaml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML


def _write_text(folder: Path, size: Size) -> dict[str, dict[str, str]]:
    """Write random sentences, and return the paths of the training and the validation set."""
    random = np.random.Generator(np.random.PCG64(1))
    lengths = (size.draw_lengths(size.pairs, random).astype(np.int64) - 1).clip(1)  # without "▁"
    paths: dict[str, dict[str, str]] = {"train": {}, "valid": {}}
    for side, of_side in zip(("source", "target"), lengths.T, strict=True):
        ids = draw_tokens(int(of_side.sum()), size.vocab, random).astype("<u4")
        ids[: size.vocab] = np.arange(size.vocab)  # each symbol occurs
        text = (ids + np.uint32(FIRST_CHARACTER)).tobytes().decode("utf-32-le")
        ends = of_side.cumsum()
        lines = [text[start:end] + "\n" for start, end in zip(ends - of_side, ends, strict=True)]
        for name, part in (("train", lines), ("valid", lines[:100])):
            path = folder / f"{name}.{side}"
            path.write_text("".join(part), encoding="utf-8")
            paths[name][side] = str(path)
    return paths
