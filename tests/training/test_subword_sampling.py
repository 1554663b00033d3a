"""Subword sampling: other subwords of the same text, as a function of the seed."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from math import exp
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from pytest import MonkeyPatch
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from folders import paths_in
from mtkit.batching.build import Batches
from mtkit.batching.plan import Rows, plan_epoch
from mtkit.batching.store import Store, store_writer
from mtkit.config.settings import Config, TokenizerSettings
from mtkit.errors import UserError
from mtkit.symbols import EOS, UNK
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.sampling import SubwordSampler
from mtkit.tokenizer.train_spm import train_model
from mtkit.training.data import CHUNK_BATCHES, Position, SampledPairs, Stream
from tasks import tiny_config

Tokenizers = dict[str, Tokenizer]
SYLLABLES = [f"{a}{b}" for a in "kmst" for b in "aeiou"]
WORDS = ["".join(Random(seed).choices(SYLLABLES, k=1 + seed % 4)) for seed in range(200)]
SENTENCES = [" ".join(Random(seed).choices(WORDS, k=6)) for seed in range(200)]
TOKENIZERS: dict[str, dict[str, Any]] = {
    "bpe": {"type": "bpe", "vocab_size": 330},
    "unigram": {"type": "unigram", "vocab_size": 400},
    "bpe with unk": {"type": "bpe", "vocab_size": 90, "byte_fallback": False}
    | {"normalization": "identity", "character_coverage": 1.0},
    "unigram, identity": {"type": "unigram", "vocab_size": 400, "normalization": "identity"},
}

line = st.text(st.characters(exclude_categories=["Cs"])) | st.text(
    st.sampled_from([*"kmsaei ", "\u0344", "⁇", "▁", "é", "한", "\u3000"])
)
seeds = st.integers(-(1 << 63), 1 << 63)


def trained(settings: dict[str, Any]) -> Tokenizer:
    model = train_model(SENTENCES, TokenizerSettings(**settings), "spm.model")
    return Tokenizer({Path("spm.model"): model})


def reference(tokenizer: Tokenizer) -> Any:
    return sentencepiece.SentencePieceProcessor(model_proto=tokenizer.models["spm.model"])


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    return {name: trained(settings) for name, settings in TOKENIZERS.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", TOKENIZERS)
@given(st.lists(line, max_size=5), st.sampled_from([0.1, 0.9]), seeds)
def test_sampled_subwords_decode_to_the_same_text(
    tokenizers: Tokenizers, name: str, lines: list[str], alpha: float, seed: int
) -> None:
    tokenizer = tokenizers[name]
    stored = tokenizer.encode_source(lines)
    drawn = tokenizer.samplers(alpha)[0](stored, seed)
    decode = reference(tokenizer).decode
    assert [decode(ids) for ids in drawn] == [decode(ids) for ids in stored]
    assert [bool(ids) for ids in drawn] == [bool(ids) for ids in stored]
    assert [ids.count(UNK) for ids in drawn] == [ids.count(UNK) for ids in stored]


@pytest.mark.parametrize("name", ["bpe", "unigram"])
def test_unused_pieces_are_never_sampled(tokenizers: Tokenizers, name: str) -> None:
    """Imported models have those of the other side's vocabulary."""
    model = ModelProto.FromString(tokenizers[name].models["spm.model"])
    unused = [i for i, piece in enumerate(model.pieces) if i > EOS and len(piece.piece) in (2, 3)]
    for i in unused:
        model.pieces[i].type = model.SentencePiece.UNUSED
    tokenizer = Tokenizer({Path("spm.model"): model.SerializeToString()})
    drawn = tokenizer.samplers(0.5)[0](tokenizer.encode_source(SENTENCES), 1)
    assert not {i for ids in drawn for i in ids} & set(unused)


def test_words_with_unknown_characters_or_bytes_keep_their_ids(tokenizers: Tokenizers) -> None:
    for name, unknown in (("bpe with unk", lambda i: i == UNK), ("bpe", lambda i: 3 < i < 260)):
        tokenizer = tokenizers[name]
        (stored,) = tokenizer.encode_source(["kaжmo"])
        assert any(map(unknown, stored))
        assert tokenizer.samplers(0.5)[0]([stored] * 9, 1) == [stored] * 9


@pytest.mark.parametrize("name", TOKENIZERS)
def test_another_seed_samples_other_subwords(tokenizers: Tokenizers, name: str) -> None:
    tokenizer = tokenizers[name]
    stored = tokenizer.encode_target(SENTENCES)
    versions = [stored, *(tokenizer.samplers(0.2)[1](stored, seed) for seed in range(3))]
    for i, one in enumerate(versions):
        for other in versions[:i]:
            assert sum(a != b for a, b in zip(one, other, strict=True)) > len(stored) / 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bpe", "unigram"])
def test_sampling_is_a_function_of_the_seed_in_every_thread(
    tokenizers: Tokenizers, name: str
) -> None:
    tokenizer = tokenizers[name]
    stored = tokenizer.encode_source(SENTENCES)

    def draw(seed: int) -> list[list[int]]:
        return tokenizer.samplers(0.2)[0](stored, seed)

    alone = [draw(seed) for seed in range(20)]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(draw, range(20)))
    assert together == alone


DRAW = """
import sys
from pathlib import Path
from mtkit.artifacts.manifest import open_artifact
from mtkit.tokenizer.codec import Tokenizer
tokenizer = Tokenizer.load(open_artifact(Path(sys.argv[1]), "tokenizer"))
print(tokenizer.samplers(0.3)[0](tokenizer.encode_source(sys.argv[2:]), 7))
"""


@pytest.mark.parametrize("name", ["bpe", "unigram"])
def test_another_process_samples_the_same_subwords(
    tokenizers: Tokenizers, name: str, tmp_path: Path
) -> None:
    tokenizer = tokenizers[name]
    tokenizer.copy_to(tmp_path)
    theirs = subprocess.run(
        [sys.executable, "-c", DRAW, str(tmp_path), *SENTENCES], capture_output=True, check=True
    )
    ours = tokenizer.samplers(0.3)[0](tokenizer.encode_source(SENTENCES), 7)
    assert theirs.stdout.decode().strip() == str(ours)


def test_bpe_dropout_ranges_from_stored_subwords_to_characters(tokenizers: Tokenizers) -> None:
    bpe = tokenizers["bpe"]
    stored = bpe.encode_source(SENTENCES)
    assert bpe.samplers(1e-9)[0](stored, 1) == stored
    characters = bpe.samplers(1 - 1e-9)[0](stored, 1)
    assert [len(ids) for ids in characters] == [len(f"▁{text}") for text in SENTENCES]


@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_unigram_sampling_follows_the_probabilities(tokenizers: Tokenizers, alpha: float) -> None:
    unigram, word = tokenizers["unigram"], "▁kusamisi▁te"
    processor = reference(unigram)
    score = {processor.id_to_piece(i): processor.get_score(i) for i in range(EOS + 1 + 256, 400)}

    def ways(rest: str) -> list[list[str]]:
        starts = [rest[:end] for end in range(1, len(rest) + 1) if rest[:end] in score]
        return [[s, *way] for s in starts for way in ways(rest[len(s) :])] if rest else [[]]

    weights = {tuple(way): exp(alpha * sum(map(score.__getitem__, way))) for way in ways(word)}
    stored = tuple(unigram.encode_source([word.replace("▁", " ").strip()])[0])
    sampler = unigram.samplers(alpha)[0]
    drawn = [
        tuple(map(processor.id_to_piece, sampler.variant(stored, index))) for index in range(5000)
    ]
    assert len(weights) > 5 and set(drawn) <= set(weights)
    for way, weight in weights.items():
        expected = weight / sum(weights.values())
        assert drawn.count(way) / len(drawn) == pytest.approx(expected, abs=0.025)


def test_sampling_needs_a_tokenizer_with_several_segmentations() -> None:
    char = trained({"type": "char", "vocab_size": 300})
    with pytest.raises(UserError, match=r"training\.subword_sampling: a char tokenizer"):
        char.samplers(0.1)


@pytest.fixture(scope="module")
def store(tokenizers: Tokenizers, tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("store")
    ids = tokenizers["bpe"].encode_source(SENTENCES)
    with store_writer(folder, "train", vocab=1 << 16) as append:
        tokens = np.array([i for line in ids for i in line * 2], np.uint16)
        lengths = np.array([[len(line)] * 2 for line in ids], np.uint16)
        append(tokens, lengths, np.zeros(len(ids), np.uint16))
    return Store.open(paths_in(folder), "train")


def config_of(sampling: dict[str, Any] | None, **batching: int) -> Config:
    training = {"subword_sampling": sampling}
    return tiny_config(Path(), "transformer", training=training, batching=batching)


def stream_of(
    store: Store,
    tokenizer: Tokenizer,
    seed: int = 1,
    max_length: int = 100,
    max_tokens: int = 10**6,
    **sampling: Any,
) -> Stream:
    config = config_of(sampling or None, max_length=max_length, max_tokens=max_tokens)
    config = config.model_copy(update={"seed": seed})
    data = Mock(spec=Batches, train=store, valid=store)
    return Stream(config, data, tokenizer)


def chunks_of(stream: Stream, plan: list[Rows]) -> list[tuple[Store | SampledPairs, list[Rows]]]:
    count = -(-len(plan) // CHUNK_BATCHES)
    return [stream.chunk(Position(3, 0, index), plan) for index in range(count)]


def sampled(
    store: Store, tokenizer: Tokenizer, seed: int, max_length: int = 100, **sampling: Any
) -> list[list[list[int]]]:
    """Return the ids of all sentences of source and target."""
    rows = np.arange(len(store))
    pairs, _ = stream_of(store, tokenizer, seed, max_length, **sampling).chunk(Position(3), [rows])
    return [ids_of(pairs, rows, target=target) for target in (False, True)]


def ids_of(pairs: Store | SampledPairs, rows: Rows, *, target: bool) -> list[list[int]]:
    ids, lengths = pairs.side(rows, target=target)
    return [line.tolist() for line in np.split(ids, lengths.cumsum()[:-1])]


def test_both_sides_are_sampled_on_their_own(tokenizers: Tokenizers, store: Store) -> None:
    stored = sampled(store, tokenizers["bpe"], 1)
    source, target = sampled(store, tokenizers["bpe"], 1, alpha=0.3)
    assert source != stored[0] and target != stored[1]
    assert source != target  # of equal texts, in this store


def test_a_side_that_would_be_too_long_keeps_its_subwords(
    tokenizers: Tokenizers, store: Store
) -> None:
    longest = int(store.lengths.max()) + 3
    stored, _ = sampled(store, tokenizers["bpe"], 1)
    free, _ = sampled(store, tokenizers["bpe"], 1, alpha=0.3)
    bounded, _ = sampled(store, tokenizers["bpe"], 1, longest, alpha=0.3)
    too_long = [len(ids) > longest for ids in free]
    assert 0 < sum(too_long) < len(store)
    expected = [
        old if is_long else new for is_long, old, new in zip(too_long, stored, free, strict=True)
    ]
    assert bounded == expected


def test_sampled_batches_hold_every_pair_once_and_fit_max_tokens(
    tokenizers: Tokenizers, store: Store
) -> None:
    bpe, max_tokens = tokenizers["bpe"], 40
    plan = plan_epoch(store.lengths, max_tokens=max_tokens, seed=1, epoch=0)
    chunks = chunks_of(stream_of(store, bpe, max_tokens=max_tokens, alpha=0.3), plan)
    assert len(chunks) > 1
    batches = [(pairs, rows) for pairs, part in chunks for rows in part]
    sources, targets = ([ids_of(*it, target=target) for it in batches] for target in (False, True))
    sizes = [sum(len(line) + 1 for line in side) for side in (*sources, *targets)]
    assert max(sizes) <= max_tokens
    assert sum(sizes) > store.lengths.sum() + 2 * len(store)
    decode = reference(bpe).decode
    assert sorted(decode(line) for side in sources for line in side) == sorted(SENTENCES)


def test_max_tokens_below_the_longest_sampled_pair_is_kept(
    tokenizers: Tokenizers, store: Store
) -> None:
    max_tokens = int(store.lengths.max()) + 1
    plan = plan_epoch(store.lengths, max_tokens=max_tokens, seed=1, epoch=0)[:9]
    stream = stream_of(store, tokenizers["bpe"], max_tokens=max_tokens, alpha=0.9)
    pairs, batches = stream.chunk(Position(3), plan)
    assert all((pairs.lengths[rows, 0] + 1).sum() <= max_tokens for rows in batches)


def test_empty_samples_are_arrays_of_integers(
    tokenizers: Tokenizers, store: Store, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(SubwordSampler, "__call__", lambda _, lines, seed: [[] for _ in lines])
    pairs, _ = stream_of(store, tokenizers["bpe"], alpha=0.3).chunk(Position(3), [np.arange(4)])
    ids, lengths = pairs.side(np.arange(4), target=False)
    assert ids.dtype == np.int64 and lengths.tolist() == [0, 0, 0, 0]
