"""Encode the training rows chunk by chunk.

A chunk depends on its own rows and on the settings only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from mtkit.batching.encode import Encoded, encode_chunk
from mtkit.batching.hints import HintWriter
from mtkit.config.settings import Config, SetName
from mtkit.corpus.rules import PairFilter, held_out_keys
from mtkit.corpus.statistics import statistics_by_corpus
from mtkit.corpus.store import CorpusRows
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import sample_pairs

ALIGNED_PAIRS = 100_000
"""Number of pairs from which links between words are learned."""


@dataclass(frozen=True)
class TrainEncoder:
    """Encodes the training rows."""

    rows: CorpusRows
    tokenizer: Tokenizer
    max_length: int
    """Subwords of the longest side that is kept."""
    pair_filter: PairFilter | None
    """The rules of `batching.drop`; None without rules."""
    hint_writer: HintWriter | None
    """None without `batching.hints`."""

    @classmethod
    def of(
        cls, config: Config, tokenizer: Tokenizer, sets: Mapping[SetName, CorpusRows]
    ) -> TrainEncoder:
        """Return the encoder of a config; `sets`: the rows of the training set, and of others."""
        rows = sets["train"]
        share = config.batching.hints
        hint_writer = None
        if share:
            sample = sample_pairs(rows, ALIGNED_PAIRS, config.seed)
            hint_writer = HintWriter(sample, tokenizer, share, config.seed)
        max_length = config.batching.max_length
        return cls(rows, tokenizer, max_length, _make_filter(config, sets), hint_writer)

    def encode(self, rows: range) -> list[Encoded]:
        """Encode a chunk of rows, and drop faulty pairs; with hints, also encode second forms."""
        pairs = list(self.rows.read(rows))
        plain = encode_chunk(pairs, self.tokenizer, self.max_length, self.pair_filter)
        if self.hint_writer is None:
            return [plain]
        # A second form that is too long is dropped without a report: the pair is kept.
        second_forms = self.hint_writer.write(plain.kept)
        return [plain, encode_chunk(second_forms, self.tokenizer, self.max_length)]

    def encode_all(self) -> Iterator[list[Encoded]]:
        """Yield all chunks in order."""
        yield from map(self.encode, self.rows.split())


def _make_filter(config: Config, sets: Mapping[SetName, CorpusRows]) -> PairFilter | None:
    """Return the rules of `batching.drop` with the statistics they need; None without rules."""
    rules = config.batching.drop
    if not rules:
        return None
    # Without the samples, which would be sent to each process.
    statistics = [replace(each, sample=()) for each in statistics_by_corpus(sets["train"])]
    if "overlap" in rules:
        measuring = [rows for name, rows in sets.items() if name != "train"]
        keys = held_out_keys(chain.from_iterable(measuring))
        statistics = [replace(each, held_out=keys) for each in statistics]
    return PairFilter(rules, statistics)
