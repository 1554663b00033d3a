"""Reads, filters and encodes the corpora into `RUN/batches`; what a batch holds is planned later.

Hence a change of `batching.max_tokens` or of the number of workers encodes nothing anew.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.artifacts.explain import explain, origin_of
from mtkit.artifacts.manifest import Artifact, open_artifact
from mtkit.artifacts.recipe import batches_recipe, tokenizer_recipe
from mtkit.artifacts.stage import Draft, Stage
from mtkit.artifacts.storage import write_json
from mtkit.batching.encode import KEPT, DroppedPairs, Encoded, encode_pairs
from mtkit.batching.plan import Rows, check_fit, padding, plan_epoch, sample_rows
from mtkit.batching.store import Corpora, Store, open_corpora, open_lengths, store_writer
from mtkit.config.batching import BatchingSettings
from mtkit.config.corpora import Corpus
from mtkit.config.settings import Config
from mtkit.corpus.read import Contents, contents_of, read_pairs
from mtkit.corpus.rules import PairFilter, held_out_sources
from mtkit.corpus.statistics import compute_statistics
from mtkit.corpus.validate import look_at
from mtkit.errors import UserError
from mtkit.progress import progress
from mtkit.report import say
from mtkit.tokenizer.codec import Tokenizer

VALID_SOURCE, VALID_TARGET = "valid.source.txt", "valid.target.txt"


@dataclass(frozen=True)
class CorpusWeights:
    """The weight of each pair, which is that of its corpus."""

    by_corpus: NDArray[np.float64]
    corpora: Corpora | None

    def __getitem__(self, rows: Rows, /) -> NDArray[np.float64]:
        return self.by_corpus[np.zeros_like(rows) if self.corpora is None else self.corpora[rows]]


@dataclass(frozen=True)
class Batches:
    """An opened artifact of this stage."""

    artifact: Artifact
    train: Store
    valid: Store
    weights: CorpusWeights | None
    """How often an epoch sees each training pair, where not all are seen once."""
    valid_source: list[str]
    """Every line of the validation corpus, as it came."""
    valid_target: list[str]


def build_batches(config: Config) -> Artifact:
    """Return the artifact `RUN/batches`, built unless it is up to date.

    Raises:
        UserError: there is no tokenizer, a corpus cannot be read, or no pair of it is kept.
    """
    look_at(config.data, "train", "valid")
    path = Path(config.run) / "batches"
    tokenizer = open_artifact(path.with_name("tokenizer"), "tokenizer", verify=True)
    check_settings(tokenizer, config)
    contents = _contents(config)
    inputs = {name: of.identity for name, of in contents.items()} | {
        "tokenizer": tokenizer.identity
    }
    sources = dict(origin_of(tokenizer))
    for of in contents.values():
        sources |= of.told
    stage = Stage("batches", path, batches_recipe(config), inputs, sources)
    artifact = stage.ensure(
        config, lambda draft: _fill(draft, config, Tokenizer.load(tokenizer.path))
    )
    if config.batching.max_tokens != "auto":  # else what memory holds: known in training
        _say_padding(artifact, config.batching, config.batching.max_tokens, config.seed)
    return artifact


def _contents(config: Config) -> dict[str, Contents]:
    data = config.data
    read: dict[str, Corpus | list[Corpus]] = {"train": data.train, "valid": data.valid}
    if "overlap" in config.batching.drop and data.test:
        read["test"] = data.test
    return {name: contents_of(corpora, f"data.{name}") for name, corpora in read.items()}


def check_settings(artifact: Artifact, config: Config) -> None:
    """Raise UserError for a tokenizer, or batches, of other settings than those of the config."""
    settings = tokenizer_recipe(config).by_name() | batches_recipe(config).by_name()
    difference = explain(origin_of(artifact), settings)
    if config.training.init_from is None and "training.init_from" in origin_of(artifact):
        difference = "training.init_from, whose tokenizer it is, is not set"
    if difference:
        again = "rerun `mtkit train-spm`, and `mtkit batch` after it"
        raise UserError(f"{artifact.path}: of other settings ({difference}): {again}")


def open_batches(path: Path) -> Batches:
    """The batches at `path`; UserError where there are none, or damaged ones."""
    artifact = open_artifact(path, "batches")
    train = Store.open(path, "train")
    return Batches(
        artifact,
        train,
        Store.open(path, "valid"),
        _weights(artifact, train.corpora),
        _lines(path / VALID_SOURCE),
        _lines(path / VALID_TARGET),
    )


def _fill(draft: Draft, config: Config, tokenizer: Tokenizer) -> None:
    folder, batching = draft.folder, config.batching
    encode = encode_pairs(read_pairs(config.data.train), tokenizer, batching, _pair_filter(config))
    parts = {"train": _store("train", encode, folder, tokenizer)}
    # BLEU wants every line, as it came. They may be in memory: training holds them as well.
    valid = list(read_pairs(config.data.valid))
    texts = {VALID_SOURCE: (p.source for p in valid), VALID_TARGET: (p.target for p in valid)}
    for name, lines in texts.items():
        with (folder / name).open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
    by_length = batching.model_copy(update={"max_ratio": None, "deduplicate": False})
    parts["valid"] = _store("valid", encode_pairs(valid, tokenizer, by_length), folder, tokenizer)
    write_json(folder / "report.json", parts)
    for name, part in parts.items():
        dropped = {rule: of["count"] for rule, of in part["dropped"].items()}
        draft.report[name] = {**part, "dropped": dropped}


def _pair_filter(config: Config) -> PairFilter | None:
    """Return the rules of `batching.drop` with the statistics that they need, if there are any."""
    rules, data = config.batching.drop, config.data
    if not rules:
        return None
    statistics = compute_statistics(read_pairs(data.train))
    if "overlap" in rules:
        sets = [data.valid, *([data.test] if data.test else [])]
        statistics = replace(statistics, held_out=held_out_sources(sets))
    return PairFilter(rules, statistics)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Around work that makes no cycles, where looking for them would take a tenth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _store(
    name: str, encoded: Iterable[Encoded], folder: Path, tokenizer: Tokenizer
) -> dict[str, Any]:
    """Writes the store `name`; returns and tells what was kept and what dropped."""
    drops, count, kept, tokens = DroppedPairs(), 0, 0, np.zeros(2, np.int64)
    vocab = max(tokenizer.source_vocab, tokenizer.target_vocab)
    with (
        _no_collection(),
        progress(f"encoding {name}", unit="pairs") as shown,
        store_writer(folder, name, vocab) as append,
    ):
        for chunk in encoded:
            corpora = np.array([pair.corpus for pair in chunk.pairs], np.uint16)
            append(chunk.tokens, chunk.lengths, corpora[chunk.outcomes == KEPT])
            drops.add(chunk.pairs, chunk.outcomes)
            count, kept = count + len(chunk.pairs), kept + len(chunk.lengths)
            tokens += chunk.lengths.sum(axis=0, dtype=np.int64)
            shown.advance(len(chunk.pairs))
        if not kept:
            raise UserError(f"data.{name}: all {count:,} pairs were dropped: {drops.summary()}")
    source, target = tokens.tolist()
    say(f"{name}: {kept:,} of {count:,} pairs kept; {source:,} + {target:,} subwords")
    for line in drops.lines():
        say(line)
    return {
        "pairs": count,
        "kept": kept,
        "source_tokens": source,
        "target_tokens": target,
        "dropped": drops.record(),
    }


def _say_padding(artifact: Artifact, settings: BatchingSettings, budget: int, seed: int) -> None:
    """What an epoch will be like: of a large corpus an estimate, in memory that is bounded."""
    lengths, corpora = open_lengths(artifact.path, "train"), open_corpora(artifact.path, "train")
    if budget <= settings.max_length:  # else any pair fits
        check_fit(lengths, budget)
        check_fit(open_lengths(artifact.path, "valid"), budget)
    rows = sample_rows(len(lengths))
    taken = lengths[rows]
    weights = _weights(artifact, None if corpora is None else corpora[rows])
    plan = plan_epoch(taken, max_tokens=budget, seed=seed, epoch=0, weights=weights)
    count, share = len(plan) * len(lengths) / len(rows), padding(taken, plan)
    about = "" if len(rows) == len(lengths) else "about "
    say(
        f"an epoch: {about}{count:,.0f} batches of at most {budget:,} tokens, "
        f"{share:.1%} of it padding"
    )


def _weights(artifact: Artifact, corpora: Corpora | None) -> CorpusWeights | None:
    """None where all pairs are seen once."""
    try:
        weights = np.array(artifact.manifest["settings"]["data"]["train"]["weight"], np.float64)
    except (KeyError, TypeError, ValueError, OverflowError):
        weights = np.empty(0)
    of = 1 if corpora is None else int(corpora.max()) + 1
    if weights.ndim != 1 or len(weights) < of or not (np.isfinite(weights) & (weights > 0)).all():
        raise UserError(f"{artifact.path}: no weight for each corpus: remake it with `mtkit batch`")
    return None if (weights == 1).all() else CorpusWeights(weights, corpora)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode().split("\n")[:-1]
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{path}: no text here: remake it with `mtkit batch`") from None
