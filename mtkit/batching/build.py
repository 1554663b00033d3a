"""Stage 2: read, filter and encode the corpora into the token stores of `RUN/batches`.

Training forms the batches, so after a change of `batching.max_tokens` nothing is encoded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.artifacts.manifest import Artifact, open_artifact
from mtkit.artifacts.recipe import Recipe, batches_recipe, tokenizer_recipe
from mtkit.artifacts.runs import INIT_FROM
from mtkit.artifacts.stage import Draft, Stage
from mtkit.artifacts.storage import write_json
from mtkit.batching.encode import Encoded, encode_pairs
from mtkit.batching.hints import HintWriter
from mtkit.batching.plan import Weights
from mtkit.batching.store import Store, store_writer
from mtkit.config.corpora import listed
from mtkit.config.settings import Config
from mtkit.corpus.read import Pair, hash_corpora, read_pairs
from mtkit.corpus.readable import check_all_readable
from mtkit.corpus.rules import PairFilter, held_out_sources
from mtkit.corpus.statistics import statistics_by_corpus
from mtkit.corpus.tag_words import TagWords
from mtkit.errors import UserError, blame_setting
from mtkit.progress import progress
from mtkit.report import fitted, plural, printable, say
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import check_hints, check_target_tags, sample_pairs

EXAMPLES_PER_REASON = 5
"""How many dropped pairs report.json shows for each reason."""
PRINTED_EXAMPLES = 2
"""How many of them stderr shows."""
ALIGNED_PAIRS = 100_000
"""Number of pairs from which links between words are learned."""
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


def build_batches(config: Config) -> Artifact:
    """Build the artifact `RUN/batches` unless it is up to date, and return it.

    Raises:
        UserError: the tokenizer is missing, a corpus cannot be read, or all its pairs are dropped.
    """
    check_all_readable(config.data, "train", "valid")
    run = Path(config.run)
    tokenizer = open_artifact(run / "tokenizer", "tokenizer", verify=True)
    # Without either, any tokenizer that equals that of the model will do.
    if config.training.init_from is None or config.tokenizer.new_pieces:
        check_settings(tokenizer, tokenizer_recipe(config))
    inputs = {"tokenizer": tokenizer.identity}
    inputs |= hash_corpora(config.data.train, "data.train")
    inputs |= hash_corpora(config.data.valid, "data.valid")
    if "overlap" in config.batching.drop and config.data.test:
        inputs |= hash_corpora(config.data.test, "data.test")
    stage = Stage(
        kind="batches",
        path=run / "batches",
        recipe=batches_recipe(config),
        inputs=inputs,
    )
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
    valid_source = _read_lines(artifact.file(VALID_SOURCE))
    valid_tags: Sequence[str | None] = [None] * len(valid_source)
    if VALID_TAGS in artifact.files:
        valid_tags = _read_lines(artifact.file(VALID_TAGS))
    return Batches(
        artifact=artifact,
        train=train,
        valid=Store.open(artifact.paths, "valid"),
        weights=_read_weights(artifact, train),
        valid_source=valid_source,
        valid_target=_read_lines(artifact.file(VALID_TARGET)),
        valid_tags=valid_tags,
    )


def _fill(draft: Draft, config: Config, tokenizer: Tokenizer) -> None:
    """Write the files of the artifact, and its report."""
    with blame_setting(INIT_FROM):
        check_target_tags(tokenizer, config.data.target_tags)
    check_hints(tokenizer, config)
    folder = draft.folder
    batching = config.batching
    tag_words = TagWords(config.data.train)
    train = encode_pairs(
        tag_words.watch(read_pairs(config.data.train)),
        tokenizer,
        batching,
        pair_filter=_pair_filter(config),
        hint_writer=_hint_writer(config, tokenizer),
    )
    # Scores need every line unchanged, also of dropped pairs. The lines fit in memory; training
    # keeps them there, too.
    valid_pairs = list(read_pairs(config.data.valid))
    _write_lines(folder / VALID_SOURCE, [pair.source for pair in valid_pairs])
    _write_lines(folder / VALID_TARGET, [pair.target for pair in valid_pairs])
    if config.data.target_tags:
        _write_lines(folder / VALID_TAGS, [pair.target_tag or "" for pair in valid_pairs])
    valid = encode_pairs(
        valid_pairs,
        tokenizer,
        batching.model_copy(update={"deduplicate": False}),
    )
    records: dict[str, dict[str, Any]] = {}
    for name, encoded in (("train", train), ("valid", valid)):
        counts = _write_store(name, encoded, folder, tokenizer)
        _say_counts(name, counts)
        records[name] = counts.record()
        draft.report[name] = counts.record(with_examples=False)
    for message in tag_words.messages():
        say(message)
    write_json(folder / "report.json", records)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines as UTF-8, each with a line feed."""
    text = "".join(f"{line}\n" for line in lines)
    path.write_text(text, encoding="utf-8", newline="\n")


def _pair_filter(config: Config) -> PairFilter | None:
    """Return the rules of `batching.drop` with the statistics they need; None without rules."""
    rules = config.batching.drop
    data = config.data
    if not rules:
        return None
    corpora = len(listed(data.train))
    statistics = statistics_by_corpus(read_pairs(data.train), corpora)
    if "overlap" in rules:
        sources = held_out_sources([*listed(data.valid), *listed(data.test)])
        statistics = [replace(each, held_out=sources) for each in statistics]
    return PairFilter(rules, statistics)


def _hint_writer(config: Config, tokenizer: Tokenizer) -> HintWriter | None:
    """Return what writes pairs with hints; None without `batching.hints`."""
    share = config.batching.hints
    if not share:
        return None
    sample = sample_pairs(read_pairs(config.data.train), ALIGNED_PAIRS, config.seed)
    return HintWriter(sample, tokenizer, share, config.seed)


@dataclass
class _Dropped:
    """The pairs that were dropped for one reason."""

    count: int = 0
    examples: list[dict[str, str]] = field(default_factory=list)
    """The first EXAMPLES_PER_REASON pairs, in the form of `Pair.excerpt`."""

    def add(self, pair: Pair) -> None:
        self.count += 1
        if len(self.examples) < EXAMPLES_PER_REASON:
            self.examples.append(pair.excerpt())


@dataclass
class _Counts:
    """How many pairs of a corpus were kept, and why the others were dropped."""

    kept: int = 0
    hinted: int = 0
    """Second forms of kept pairs, with hints, which the store has as well."""
    source_tokens: int = 0
    target_tokens: int = 0
    dropped: dict[str, _Dropped] = field(default_factory=dict)
    """The dropped pairs by reason."""

    @property
    def pairs(self) -> int:
        return self.kept + sum(dropped.count for dropped in self.dropped.values())

    def add(self, chunk: Encoded) -> None:
        """Count the pairs of a chunk."""
        # The lengths are uint16, in which the sum would overflow.
        source_tokens, target_tokens = chunk.lengths.sum(axis=0, dtype=np.int64).tolist()
        if chunk.is_hinted:
            self.hinted += len(chunk.kept)
        else:
            self.kept += len(chunk.kept)
        self.source_tokens += source_tokens
        self.target_tokens += target_tokens
        for pair, reason in chunk.dropped:
            self.dropped.setdefault(reason, _Dropped()).add(pair)

    def record(self, *, with_examples: bool = True) -> dict[str, Any]:
        """Return the counts as a dict for JSON; dropped pairs by reason."""
        dropped: dict[str, Any] = {}
        for reason, pairs in self.dropped.items():
            dropped[reason] = asdict(pairs) if with_examples else pairs.count
        record: dict[str, Any] = {"pairs": self.pairs, "kept": self.kept}
        if self.hinted:
            record["hinted"] = self.hinted
        return record | {
            "source_tokens": self.source_tokens,
            "target_tokens": self.target_tokens,
            "dropped": dropped,
        }


def _say_counts(name: str, counts: _Counts) -> None:
    """Print the counts of the corpus `name`, with examples of dropped pairs."""
    pairs = plural(counts.pairs, "pair")
    subwords = f"{counts.source_tokens:,} source, {counts.target_tokens:,} target"
    hinted = f", {counts.hinted:,} also with hints" if counts.hinted else ""
    say(f"{name}: {counts.kept:,} of {pairs} kept{hinted}; subwords: {subwords}")
    for reason, dropped in counts.dropped.items():
        say(f"  dropped {plural(dropped.count, 'pair')} ({reason}), such as")
        for example in dropped.examples[:PRINTED_EXAMPLES]:
            say(f"    {example['where']}")
            say(fitted(f"      source  {printable(example['source'])}"))
            say(fitted(f"      target  {printable(example['target'])}"))


def _write_store(
    name: str, encoded: Iterable[Encoded], folder: Path, tokenizer: Tokenizer
) -> _Counts:
    """Write the store `name`, and count its pairs; raise UserError if all pairs are dropped."""
    counts = _Counts()
    vocab = max(tokenizer.source_vocab, tokenizer.target_vocab)
    with (
        progress(f"encoding {name}", unit="pairs") as bar,
        store_writer(folder, name, vocab) as append,
    ):
        for chunk in encoded:
            # The number of each pair's corpus, from which its weight follows.
            corpora = np.array([pair.corpus for pair in chunk.kept], np.uint16)
            append(chunk.tokens, chunk.lengths, corpora)
            counts.add(chunk)
            if not chunk.is_hinted:
                bar.advance(len(chunk.kept) + len(chunk.dropped))
        if not counts.kept:
            reasons = [f"{pairs.count:,} {reason}" for reason, pairs in counts.dropped.items()]
            raise UserError(
                f"data.{name}: all {counts.pairs:,} pairs were dropped: {', '.join(reasons)}"
            )
    return counts


def _read_weights(artifact: Artifact, train: Store) -> Weights | None:
    """Return the weights of the training pairs; None if all weights are 1."""
    settings = artifact.manifest["settings"]
    weight_of_corpus = np.array(settings["data"]["train"]["weight"], np.float64)
    if (weight_of_corpus == 1).all():
        return None
    return lambda rows: weight_of_corpus[train.corpora[rows]]


def _read_lines(path: Path) -> list[str]:
    """Return the lines that `_write_lines` has written; raise UserError if that fails."""
    try:
        # After the last line feed, `split` finds one more line, which is empty.
        return path.read_bytes().decode().split("\n")[:-1]
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{path} is unreadable; rebuild it with `mtkit batch`") from None
