"""Reads, filters and encodes the corpora into `RUN/batches`; what a batch holds is planned later.

Hence a change of `batching.max_tokens` or of the number of workers encodes nothing anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.artifacts import Artifact, create, find_current, open_artifact, write_json
from mtkit.batching.encode import Encoder, encode_pairs
from mtkit.batching.filters import Drops, Rule
from mtkit.batching.plan import padding, plan_epoch
from mtkit.batching.store import Store, StoreWriter
from mtkit.config import Config
from mtkit.corpus import Pair, corpus_identity, listed, read_pairs
from mtkit.errors import UserError
from mtkit.report import progress, say
from mtkit.tokenizer.codec import Tokenizer

VALID_SOURCE, VALID_TARGET = "valid.source.txt", "valid.target.txt"


@dataclass(frozen=True)
class Batches:
    """An opened artifact of this stage."""

    artifact: Artifact
    train: Store
    valid: Store
    weights: NDArray[np.float64] | None
    """(n,): how often an epoch sees each training pair, where not all are seen once."""
    valid_source: list[str]
    """Every line of the validation corpus, as it came."""
    valid_target: list[str]


def build_batches(config: Config) -> Artifact:
    """The artifact `RUN/batches`, made unless it is up to date.

    Raises UserError without a tokenizer, or where a corpus cannot be read or nothing of it is kept.
    """
    path = Path(config.run) / "batches"
    tokenizer = open_artifact(path.with_name("tokenizer"), "tokenizer")
    settings = {
        **config.batching.model_dump(include={"max_length", "max_ratio", "deduplicate"}),
        "weights": [corpus.weight for corpus in listed(config.data.train)],
    }
    inputs = {
        "train": corpus_identity(config.data.train),
        "valid": corpus_identity(config.data.valid),
        "tokenizer": tokenizer.identity,
    }
    if find_current(path, "batches", settings, inputs):
        say("batches: up to date")
    else:
        report: dict[str, Any] = {}
        with create(path, "batches", settings, inputs, report) as folder:
            _fill(folder, config, Tokenizer.load(tokenizer.path), report)
    _say_padding(open_batches(path), config)
    return open_artifact(path, "batches")


def open_batches(path: Path) -> Batches:
    """The batches at `path`; UserError where there are none, or damaged ones."""
    artifact = open_artifact(path, "batches")
    train = Store.open(path, "train")
    weights = np.array(artifact.manifest["settings"]["weights"], np.float64)
    return Batches(
        artifact,
        train,
        Store.open(path, "valid"),
        None if (weights == 1).all() else _weights_of_pairs(weights, train),
        _lines(path / VALID_SOURCE),
        _lines(path / VALID_TARGET),
    )


def _fill(folder: Path, config: Config, tokenizer: Tokenizer, report: dict[str, Any]) -> None:
    by_length = config.batching.model_copy(update={"max_ratio": None, "deduplicate": False})
    train, valid = read_pairs(config.data.train), read_pairs(config.data.valid)
    parts = {
        "train": _encode("train", train, folder, Encoder(tokenizer, config.batching)),
        "valid": _encode("valid", _copied(valid, folder), folder, Encoder(tokenizer, by_length)),
    }
    write_json(folder / "report.json", parts)
    for name, part in parts.items():
        report[name] = {**part, "dropped": {k: v["count"] for k, v in part["dropped"].items()}}


def _encode(name: str, pairs: Iterator[Pair], folder: Path, encoder: Encoder) -> dict[str, Any]:
    """Writes the store `name`; returns and tells what was kept and what dropped."""
    drops, count, kept = Drops(), 0, 0
    with (
        progress(f"encoding {name}", unit="pairs") as shown,
        StoreWriter(folder, name, encoder.dtype) as writer,
    ):
        for chunk, encoded in encode_pairs(pairs, encoder):
            corpora = np.array([pair.corpus for pair in chunk], np.uint16)
            writer.append(encoded.tokens, encoded.lengths, corpora[encoded.rules == Rule.KEPT])
            drops.add(chunk, encoded.rules)
            count, kept = count + len(chunk), kept + len(encoded.lengths)
            shown.advance(len(chunk))
        if not kept:
            raise UserError(f"data.{name}: all {count:,} pairs were dropped: {drops.summary()}")
    source, target = Store.open(folder, name).lengths.sum(axis=0, dtype=np.int64).tolist()
    say(f"{name}: {kept:,} of {count:,} pairs kept; {source:,} + {target:,} subwords")
    for line in drops.lines():
        say(line)
    tokens = {"source_tokens": source, "target_tokens": target}
    return {"pairs": count, "kept": kept, **tokens, "dropped": drops.record()}


def _copied(pairs: Iterator[Pair], folder: Path) -> Iterator[Pair]:
    """The pairs, whose text is written on the way: BLEU wants every line, as it came."""
    with (
        (folder / VALID_SOURCE).open("w", encoding="utf-8", newline="\n") as source,
        (folder / VALID_TARGET).open("w", encoding="utf-8", newline="\n") as target,
    ):
        for pair in pairs:
            source.write(f"{pair.source}\n")
            target.write(f"{pair.target}\n")
            yield pair


def _say_padding(data: Batches, config: Config) -> None:
    budget = config.batching.max_tokens
    plan_epoch(data.valid.lengths, max_tokens=budget, seed=0, epoch=0)  # a pair may not fit
    lengths = data.train.lengths
    plan = plan_epoch(lengths, max_tokens=budget, seed=config.seed, epoch=0, weights=data.weights)
    share = padding(lengths, plan)
    say(f"an epoch: {len(plan):,} batches of at most {budget:,} tokens, {share:.1%} of it padding")


def _weights_of_pairs(weights: NDArray[np.float64], store: Store) -> NDArray[np.float64]:
    if store.corpora is None:
        return np.full(len(store), weights[0])
    return weights[store.corpora]


def _lines(path: Path) -> list[str]:
    return path.read_bytes().decode().split("\n")[:-1]
