"""Stage 2: read, filter and encode the corpora into the token stores of `RUN/batches`.

Training forms the batches, so after a change of `batching.max_tokens` nothing is encoded again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.artifacts.manifest import Artifact, open_artifact
from mtkit.artifacts.recipe import Recipe, batches_recipe, tokenizer_recipe
from mtkit.artifacts.stage import Draft, Stage
from mtkit.artifacts.storage import write_json
from mtkit.batching.encode import Encoded, encode_pairs
from mtkit.batching.plan import Weights
from mtkit.batching.store import Store, store_writer
from mtkit.config.settings import Config
from mtkit.corpus.read import hash_corpora, read_pairs
from mtkit.corpus.readable import check_all_readable
from mtkit.corpus.rules import PairFilter, held_out_sources
from mtkit.corpus.statistics import compute_statistics
from mtkit.errors import UserError
from mtkit.progress import progress
from mtkit.report import plural, say
from mtkit.tokenizer.codec import Tokenizer

EXAMPLES_PER_REASON = 5
VALID_SOURCE, VALID_TARGET = "valid.source.txt", "valid.target.txt"


@dataclass(frozen=True)
class Batches:
    """The opened artifact `RUN/batches`."""

    artifact: Artifact
    train: Store
    valid: Store
    weights: Weights | None
    """How often an epoch contains a training pair; None: every pair once."""
    valid_source: list[str]
    """All source lines of the validation set, unfiltered."""
    valid_target: list[str]


def build_batches(config: Config) -> Artifact:
    """Build the artifact `RUN/batches` unless it is up to date, and return it.

    Raises:
        UserError: the tokenizer is missing, a corpus cannot be read, or all its pairs are dropped.
    """
    check_all_readable(config.data, "train", "valid")
    path = Path(config.run) / "batches"
    tokenizer = open_artifact(path.with_name("tokenizer"), "tokenizer", verify=True)
    if config.training.init_from is None:
        check_settings(tokenizer, tokenizer_recipe(config))
    inputs = {"tokenizer": tokenizer.identity}
    inputs |= hash_corpora(config.data.train, "data.train")
    inputs |= hash_corpora(config.data.valid, "data.valid")
    if "overlap" in config.batching.drop and config.data.test:
        inputs |= hash_corpora(config.data.test, "data.test")
    stage = Stage("batches", path, batches_recipe(config), inputs)
    return stage.ensure(config, lambda draft: _fill(draft, config, Tokenizer.load(tokenizer)))


def check_settings(artifact: Artifact, recipe: Recipe) -> None:
    """Raise UserError if a tokenizer or batches were built with other settings than the recipe."""
    change = recipe.difference(artifact.manifest["settings"])
    if change is not None:
        raise UserError(
            f"{artifact.path} was built with other settings ({change.describe()}); rerun "
            "`mtkit train-spm`, then `mtkit batch`"
        )


def open_batches(path: Path) -> Batches:
    """Open the batches at `path`.

    Raises:
        UserError: the batches are missing or damaged.
    """
    artifact = open_artifact(path, "batches")
    train = Store.open(artifact.paths, "train")
    valid = Store.open(artifact.paths, "valid")
    texts = _read_lines(artifact.file(VALID_SOURCE)), _read_lines(artifact.file(VALID_TARGET))
    return Batches(artifact, train, valid, _read_weights(artifact, train), *texts)


def _fill(draft: Draft, config: Config, tokenizer: Tokenizer) -> None:
    folder, batching, train = draft.folder, config.batching, read_pairs(config.data.train)
    encoded = encode_pairs(train, tokenizer, batching, _pair_filter(config))
    parts = {"train": _write_store("train", encoded, folder, tokenizer)}
    # Scores need every line unchanged. The lines fit in memory; training keeps them there, too.
    valid = list(read_pairs(config.data.valid))
    for side, name in enumerate((VALID_SOURCE, VALID_TARGET)):
        text = "".join(f"{pair[side]}\n" for pair in valid)
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    encoded = encode_pairs(valid, tokenizer, batching.model_copy(update={"deduplicate": False}))
    parts["valid"] = _write_store("valid", encoded, folder, tokenizer)
    write_json(folder / "report.json", parts)
    for name, part in parts.items():
        counts = {reason: dropped["count"] for reason, dropped in part["dropped"].items()}
        draft.report[name] = {**part, "dropped": counts}


def _pair_filter(config: Config) -> PairFilter | None:
    """Return the rules of `batching.drop` with the statistics they need; None without rules."""
    rules, data = config.batching.drop, config.data
    if not rules:
        return None
    statistics = compute_statistics(read_pairs(data.train))
    if "overlap" in rules:
        sets = [data.valid, *([data.test] if data.test else [])]
        statistics = replace(statistics, held_out=held_out_sources(sets))
    return PairFilter(rules, statistics)


def _write_store(
    name: str, encoded: Iterable[Encoded], folder: Path, tokenizer: Tokenizer
) -> dict[str, Any]:
    """Write the store `name`; return how many pairs were kept, and why the rest was dropped."""
    dropped: dict[str, dict[str, Any]] = {}
    kept, tokens = 0, np.zeros(2, np.int64)
    vocab = max(tokenizer.source_vocab, tokenizer.target_vocab)
    with (
        progress(f"encoding {name}", unit="pairs") as bar,
        store_writer(folder, name, vocab) as append,
    ):
        for chunk in encoded:
            corpora = np.array([pair.corpus for pair in chunk.kept], np.uint16)
            append(chunk.tokens, chunk.lengths, corpora)
            for pair, reason in chunk.dropped:
                facts = dropped.setdefault(reason, {"count": 0, "examples": []})
                facts["count"] += 1
                if facts["count"] <= EXAMPLES_PER_REASON:
                    facts["examples"].append(pair.excerpt())
            kept += len(chunk.kept)
            tokens += chunk.lengths.sum(axis=0, dtype=np.int64)
            bar.advance(len(chunk.kept) + len(chunk.dropped))
        count = kept + sum(facts["count"] for facts in dropped.values())
        if not kept:
            reasons = ", ".join(f"{facts['count']:,} {it}" for it, facts in dropped.items())
            raise UserError(f"data.{name}: all {count:,} pairs were dropped: {reasons}")
    source, target = tokens.tolist()
    subwords = f"{source:,} source, {target:,} target"
    say(f"{name}: {kept:,} of {plural(count, 'pair')} kept; subwords: {subwords}")
    for reason, facts in dropped.items():
        say(f"  dropped {plural(facts['count'], 'pair')} ({reason}), such as")
        for example in facts["examples"][:2]:
            say(f"    {example['where']}  {example['source']!r} | {example['target']!r}")
    counts = {"pairs": count, "kept": kept, "source_tokens": source, "target_tokens": target}
    return {**counts, "dropped": dropped}


def _read_weights(artifact: Artifact, train: Store) -> Weights | None:
    """Return the weights of the training pairs; None if all weights are 1."""
    weights = np.array(artifact.manifest["settings"]["data"]["train"]["weight"], np.float64)
    return None if (weights == 1).all() else lambda rows: weights[train.corpora[rows]]


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode().split("\n")[:-1]
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{path} is unreadable; rebuild it with `mtkit batch`") from None
