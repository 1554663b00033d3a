"""Stage 2: read, filter and encode the corpora into the token stores of `RUN/batches`.

Training forms the batches, so after a change of `batching.max_tokens` nothing is encoded again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.artifacts.manifest import Artifact, open_artifact
from mtkit.artifacts.recipe import Recipe, batches_recipe, tokenizer_recipe
from mtkit.artifacts.runs import INIT_FROM
from mtkit.artifacts.stage import Draft, Stage
from mtkit.artifacts.storage import write_json
from mtkit.batching.counts import Counts
from mtkit.batching.encode import RowEncoder, make_filter
from mtkit.batching.plan import Weights
from mtkit.batching.ranges import EncodedRanges, drop_repeated, encode_train, remove_ranges
from mtkit.batching.store import Store, store_writer
from mtkit.batching.text_lines import read_written_lines, write_lines
from mtkit.config.settings import Config, SetName
from mtkit.corpus.sets import hash_sets, hold_sets
from mtkit.corpus.store import CorpusRows
from mtkit.corpus.tag_words import TagWords
from mtkit.errors import UserError, blame_setting
from mtkit.report import say
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import check_target_tags

VALID_SOURCE, VALID_TARGET = "valid.source.txt", "valid.target.txt"
VALID_TAGS = "valid.tags.txt"
"""The target tag of each line of the validation set; only of several languages in one model."""


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
    valid_tags: Sequence[str | None]
    """The target tag of each of these lines; None if the corpora have no tags."""


def build_batches(config: Config, cluster: str | None = None) -> Artifact:
    """Build the artifact `RUN/batches` unless it is up to date, and return it.

    `cluster`: the address of a Dask cluster that encodes the training pairs; None: this machine.

    Raises:
        UserError: the tokenizer is missing, a corpus cannot be read, or all its pairs are dropped.
    """
    names: tuple[SetName, ...] = ("train", "valid")
    if "overlap" in config.batching.drop:
        names = ("train", "valid", "test", "keep")
    with hold_sets(config, *names) as sets:
        tokenizer = find_tokenizer(config)
        stage = Stage(
            kind="batches",
            path=Path(config.run) / "batches",
            recipe=batches_recipe(config),
            inputs={"tokenizer": tokenizer.identity} | hash_sets(config, *names),
        )

        def fill(draft: Draft) -> None:
            _fill(draft, stage, config, Tokenizer.load(tokenizer), sets, cluster)

        artifact = stage.ensure(config, fill)
        remove_ranges(stage)
        return artifact


def find_tokenizer(config: Config) -> Artifact:
    """Return the tokenizer of the run; raise UserError if it does not fit the config."""
    tokenizer = open_artifact(Path(config.run) / "tokenizer", "tokenizer", verify=True)
    # With the vocabulary of a base model, the tokenizer only has to be that of the model.
    if config.training.init_from is None or config.tokenizer.changes_vocabulary:
        check_settings(tokenizer, tokenizer_recipe(config))
    loaded = Tokenizer.load(tokenizer)
    with blame_setting(INIT_FROM):
        check_target_tags(loaded, config.data.target_tags)
    return tokenizer


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
    valid_source = read_written_lines(artifact.file(VALID_SOURCE))
    valid_tags: Sequence[str | None] = [None] * len(valid_source)
    if VALID_TAGS in artifact.files:
        valid_tags = read_written_lines(artifact.file(VALID_TAGS))
    valid_target = read_written_lines(artifact.file(VALID_TARGET))
    if not len(valid_source) == len(valid_target) == len(valid_tags):
        raise UserError(f"{path}: the validation set is damaged; rebuild it with `mtkit batch`")
    return Batches(
        artifact=artifact,
        train=train,
        valid=Store.open(artifact.paths, "valid"),
        weights=_read_weights(artifact, train),
        valid_source=valid_source,
        valid_target=valid_target,
        valid_tags=valid_tags,
    )


def _fill(
    draft: Draft,
    stage: Stage,
    config: Config,
    tokenizer: Tokenizer,
    sets: Mapping[SetName, CorpusRows],
    cluster: str | None,
) -> None:
    """Write the files of the artifact, and its report."""
    valid = _write_valid(config, tokenizer, sets["valid"], draft.folder)
    _check_kept("valid", valid)  # before the training corpus, which takes long
    encoder = RowEncoder(config, tokenizer, sets["train"], make_filter(config, sets))
    ranges = encode_train(stage, encoder, cluster)
    if config.batching.deduplicate:
        ranges = drop_repeated(encoder.rows, ranges, draft.folder)
    train = _write_store(draft.folder, "train", encoder, ranges)
    _check_kept("train", train)
    records: dict[str, dict[str, Any]] = {}
    for name, counted in (("train", train), ("valid", valid)):
        counted.say(name)
        records[name] = counted.record()
        draft.report[name] = counted.record(with_examples=False)
    for message in TagWords.find(sets["train"]).messages():
        say(message)
    write_json(draft.folder / "report.json", records)


def _check_kept(name: str, counts: Counts) -> None:
    """Raise UserError if all pairs of a set are dropped."""
    if counts.kept:
        return
    reasons = [f"{pairs.count:,} {reason}" for reason, pairs in sorted(counts.dropped.items())]
    all_pairs = "the only pair was" if counts.pairs == 1 else f"all {counts.pairs:,} pairs were"
    raise UserError(f"data.{name}: {all_pairs} dropped: {', '.join(reasons)}")


def _write_valid(config: Config, tokenizer: Tokenizer, rows: CorpusRows, folder: Path) -> Counts:
    """Write the validation set: all its text, and a store of what is kept."""
    # Scores need every line unchanged, also of dropped pairs. The lines fit in memory; training
    # keeps them there, too.
    pairs = list(rows)
    write_lines(folder / VALID_SOURCE, [pair.source for pair in pairs])
    write_lines(folder / VALID_TARGET, [pair.target for pair in pairs])
    if config.data.target_tags:
        write_lines(folder / VALID_TAGS, [pair.target_tag or "" for pair in pairs])
    encoder = RowEncoder(config, tokenizer, rows)
    all_rows = range(len(rows))
    encoded = encoder.encode(all_rows)
    return _write_store(folder, "valid", encoder, [(all_rows, encoded)])


def _write_store(folder: Path, name: str, encoder: RowEncoder, ranges: EncodedRanges) -> Counts:
    """Write the kept pairs of all ranges to a store, and count these and the dropped pairs."""
    counts = Counts()
    with store_writer(folder, name, encoder.tokenizer.vocab) as append:
        for rows, encoded in ranges:
            append(encoded.tokens, encoded.lengths, encoded.corpora)
            counts.add(encoder.rows, rows, encoded)
    return counts


def _read_weights(artifact: Artifact, train: Store) -> Weights | None:
    """Return the weights of the training pairs; None if all weights are 1."""
    settings = artifact.manifest["settings"]
    weight_of_corpus = np.array(settings["data"]["train"]["weight"], np.float64)
    if (weight_of_corpus == 1).all():
        return None
    return lambda rows: weight_of_corpus[train.corpora[rows]]


def find_batches(model: Artifact, run: Path) -> Batches | None:
    """Open the batches that a model was trained on, if they are still in its run."""
    with suppress(UserError, OSError):
        batches = open_batches(run / "batches")
        if model.manifest["inputs"].get("batches") == batches.artifact.identity:
            return batches
    return None
