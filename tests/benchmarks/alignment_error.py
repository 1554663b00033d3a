"""Which attention aligns words best: error rates on the demo, whose alignments are known.

    mtkit run --demo --run runs/general --set model.kind=seq2seq ...
    PYTHONPATH=tests python tests/benchmarks/alignment_error.py runs/general ...

Given translations are read by every layer (the mean of its heads), and by all of them together; by
the step that predicts a symbol, and by the next one, which reads it. Links are the best source word
of each target word, those of either direction, or both directions grown together (grow-diag).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from alignments import alignment_error_rate, from_pharaoh
from mtkit.decoding.alignment import Links, best_links, merge, symmetrise
from mtkit.decoding.search.forced import teacher_force
from mtkit.decoding.text.words import spaced_words
from mtkit.models.folder import open_model
from mtkit.models.weights import load_model
from mtkit.symbols import EOS

DEMO = Path(__file__).parents[2] / "mtkit/demo"
WAYS: dict[str, Callable[[np.ndarray], Links]] = {
    "best source": lambda weights: best_links(weights)[0],
    "best target": lambda weights: best_links(weights)[1],
    "intersection": lambda weights: set.intersection(*best_links(weights)),
    "union": lambda weights: set.union(*best_links(weights)),
    "grow-diag": lambda weights: symmetrise(*best_links(weights)),
}


@dataclass(frozen=True)
class Pair:
    attention: torch.Tensor
    """(L, H, T + 1, S): a step for each target symbol and for EOS; no EOS in the source."""
    source_words: list[int]
    target_words: list[int]


def read_pairs(run: str, part: str) -> list[Pair]:
    opened = open_model(run)
    model, tokenizer = load_model(opened.config, opened.weights).eval(), opened.tokenizer
    pairs = []
    for heard, said in zip(lines(f"{part}.en"), lines(f"{part}.ko"), strict=True):
        (source,), (target,) = tokenizer.encode_source([heard]), tokenizer.encode_target([said])
        with torch.inference_mode():
            ids = (torch.tensor([[*side, EOS]]) for side in (source, target))
            attention = teacher_force(model, *ids)[1].attention
        assert attention is not None, f"{run}: no attention"
        of_source, of_target = spaced_words(heard), spaced_words(said)
        pairs.append(
            Pair(
                attention[0, ..., :-1],
                [of_source.at(place) for place in tokenizer.source_offsets(heard)],
                [of_target.at(place) for place in tokenizer.target_offsets(target)],
            )
        )
    return pairs


def lines(name: str) -> list[str]:
    return (DEMO / name).read_text(encoding="utf-8").splitlines()


def error_rates(pairs: list[Pair], layers: list[int], first: int, sure: list[Links]) -> list[float]:
    """By every way of linking; `first`: 0 for the steps that predict, 1 for those that read."""
    weights = []
    for pair in pairs:
        read = pair.attention[layers].mean(dim=(0, 1))[first : first + len(pair.target_words)]
        weights.append(merge(read.numpy(), pair.target_words, pair.source_words))
    return [alignment_error_rate([way(one) for one in weights], sure) for way in WAYS.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--part", choices=["valid", "test"], default="test")
    options = parser.parse_args()
    sure = [from_pharaoh(line) for line in lines(f"{options.part}.align")]
    for run in options.runs:
        pairs = read_pairs(run, options.part)
        depth = len(pairs[0].attention)
        print(f"{run:<38}" + "".join(f"{way:>14}" for way in WAYS))
        readings = {f"layer {layer + 1} of {depth}": [layer] for layer in range(depth)}
        if depth > 1:
            readings["all layers"] = list(range(depth))
        for name, layers in readings.items():
            for first, step in enumerate(("predicting", "reading")):
                rates = error_rates(pairs, layers, first, sure)
                print(f"  {name + ', ' + step:<36}" + "".join(f"{rate:14.1%}" for rate in rates))


if __name__ == "__main__":
    main()
