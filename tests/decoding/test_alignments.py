"""Word alignments: words, links between them, and the alignment of each line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import folders
from alignments import alignment_error_rate, from_pharaoh
from architectures import ARCHITECTURES, make, sources, targets
from mtkit.batching.build import build_batches
from mtkit.config.corpora import TextCorpus
from mtkit.config.decoding import DecodingSettings
from mtkit.config.settings import Config
from mtkit.decoding.alignment import Links, best_links, merge, symmetrise
from mtkit.decoding.api import Translator, load
from mtkit.decoding.engines.engine import Request
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.decoding.search.forced import attention_to_source
from mtkit.decoding.text.line import Line, Translation
from mtkit.decoding.text.pipeline import open_window
from mtkit.decoding.text.words import spaced_words
from mtkit.decoding.translate import Files, Format, to_pharaoh, translate
from mtkit.errors import UserError
from mtkit.symbols import BOS
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.train import train

SENTENCES = ["A dog runs.", "Two men, one boat.", "It rains on the plain in Spain.", "Why?"]
ODD = "  Two\tmen,\u3000one  ½ boat\u2028 \u200b 犬が走る。 \ufb03x  "

links = st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)))
weights = st.builds(
    lambda rows, columns, seed: np.random.default_rng(seed).random((rows, columns), np.float32),
    st.integers(1, 8),
    st.integers(1, 8),
    st.integers(0, 1000),
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return folders.train(SENTENCES)


@pytest.fixture
def copier(tokenizer: Tokenizer) -> Translator:
    return folders.copier_of(tokenizer)


def aligned(translator: Translator, lines: list[str], **settings: Any) -> list[Translation]:
    request = translator.request.changed(alignments=True, **settings)
    return list(translator.results(lines, request))


def identity(line: str) -> Links:
    return {(i, i) for i in range(len(line.split()))}


# Words


@given(st.text(alphabet="ab \t\u3000\u2028\x1c", max_size=12))
def test_words_are_those_of_str_split(text: str) -> None:
    words = spaced_words(text)
    actual: list[list[str]] = [[] for _ in text.split()]
    for place, character in enumerate(text):
        if not character.isspace():
            actual[words.at(place)].append(character)
    assert ["".join(word) for word in actual] == text.split()


@pytest.mark.parametrize("text", [*SENTENCES, ODD, "A 犬", "a\u200bb \u200b", "a½½ ½"])
def test_source_subwords_belong_to_their_words(tokenizer: Tokenizer, text: str) -> None:
    (ids,) = tokenizer.encode_source([text])
    request = Request(DecodingSettings(max_length=200), alignments=True)
    (line,) = open_window([Line(text)], tokenizer, request).lines
    (part,) = line.parts
    assert part.ids == ids
    words = spaced_words(line.text)
    offsets = tokenizer.source_offsets(part.text.string)
    numbers = [words.at(part.text.origin[offset]) for offset in offsets]
    for number, word in enumerate(text.split()):
        alone = tokenizer.decode(tokenizer.encode_source([word]))[0]
        mine = [i for i, n in zip(ids, numbers, strict=True) if n == number]
        assert tokenizer.decode([mine])[0].strip() == alone


@pytest.mark.parametrize("text", [*SENTENCES, ODD])
def test_target_subwords_belong_to_their_words(tokenizer: Tokenizer, text: str) -> None:
    (ids,) = tokenizer.encode_target([text])
    text_out = tokenizer.decode([ids])[0]
    offsets = tokenizer.target_offsets([1, *ids, 1])  # unknown symbols have no text
    assert len(offsets) == len(ids) + 2
    numbers = [spaced_words(text_out).at(offset) for offset in offsets[1:-1]]
    for number, word in enumerate(text_out.split()):
        mine = [i for i, n in zip(ids, numbers, strict=True) if n == number]
        assert tokenizer.decode([mine])[0].strip() == word


@given(weights, st.data())
def test_merging_keeps_the_sum_of_every_row(between: np.ndarray, data: Any) -> None:
    between /= between.sum(axis=1, keepdims=True)
    rows, columns = (
        sorted(data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)))
        for size in between.shape
    )
    merged = merge(between, rows, columns)
    assert merged.shape == (rows[-1] + 1, columns[-1] + 1)
    expected = [float(row in rows) for row in range(rows[-1] + 1)]
    np.testing.assert_allclose(merged.sum(axis=1), expected, rtol=1e-5)


def test_merging_sums_over_the_source_and_averages_over_the_target() -> None:
    between = np.array([[0.1, 0.2, 0.7], [0.3, 0.4, 0.3]], np.float32)
    np.testing.assert_allclose(merge(between, [0, 0], [0, 0, 1]), [[0.5, 0.5]], rtol=1e-6)
    np.testing.assert_allclose(merge(between, [0, 1], [0, 1, 1]), [[0.1, 0.9], [0.3, 0.7]], 1e-6)
    heads = np.stack([between, between[::-1]])
    each = np.stack([merge(head, [0, 1], [0, 1, 1]) for head in heads])
    np.testing.assert_array_equal(merge(heads, [0, 1], [0, 1, 1]), each)


# Links


@given(links)
def test_pharaoh_format_is_lossless(some: Links) -> None:
    assert from_pharaoh(to_pharaoh(some)) == some


@given(weights)
def test_links_lie_between_intersection_and_union(between: np.ndarray) -> None:
    forward, backward = best_links(between)
    assert forward & backward <= symmetrise(forward, backward) <= forward | backward
    assert {j for _, j in forward} == set(range(len(between)))
    assert {i for i, _ in backward} == set(range(between.shape[1]))


@given(st.permutations(range(6)))
def test_a_permutation_is_aligned_exactly(order: list[int]) -> None:
    between = np.eye(6, dtype=np.float32)[order]
    assert symmetrise(*best_links(between)) == {(i, j) for j, i in enumerate(order)}


def test_words_without_weight_have_no_link() -> None:
    between = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], np.float32)
    assert symmetrise(*best_links(between)) == {(1, 0)}


def test_grow_diag_adds_neighbours() -> None:
    forward, backward = {(0, 0), (1, 1), (5, 3)}, {(0, 0), (1, 0), (4, 3)}
    assert symmetrise(forward, backward) == {(0, 0), (1, 0), (1, 1)}


# Alignment error rate


def test_alignment_error_rate_is_its_formula() -> None:
    sure = [{(0, 0), (1, 1)}, {(0, 1)}]
    possible = [{(0, 0), (1, 1), (1, 2)}, {(0, 1)}]
    actual = [{(0, 0), (1, 2), (2, 2)}, {(0, 1), (1, 0)}]
    # |A| = 5, |S| = 3, |A ∩ S| = 2, |A ∩ P| = 3
    assert alignment_error_rate(actual, sure, possible) == pytest.approx(1 - (2 + 3) / (5 + 3))
    assert alignment_error_rate(actual, sure) == pytest.approx(1 - (2 + 2) / (5 + 3))


# Attention


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "seq2seq-none"])
def test_alignments_use_the_predicting_step_and_ignore_padding(name: str) -> None:
    model = make(name)
    source, target = sources([5, 3]), targets(4, 6)
    read = attention_to_source(model, source, target)
    torch.testing.assert_close(read.sum(dim=-1), torch.ones(4, 6))
    memory = model.encode(source[1:, :3], torch.ones(1, 3, dtype=torch.bool))
    state = model.start(memory)
    for step, symbol in enumerate([BOS, *target[3].tolist()[:-1]]):
        decoded = model.decode(memory, state, torch.tensor([[symbol]]), attention=True)
        state = decoded.state
        assert decoded.attention is not None
        expected = decoded.attention[0, -1].mean(dim=0)[0].float()
        torch.testing.assert_close(read[3, step, :3], expected)
        assert read[3, step, 3:].abs().max() == 0


# Lines


def test_a_copy_is_aligned_word_by_word(copier: Translator) -> None:
    lines = [*SENTENCES, "", " \t ", ODD, "A dog\truns.", "   Why?"]
    actual = aligned(copier, lines)
    for line, translation in zip(lines[:6] + lines[7:], actual[:6] + actual[7:], strict=True):
        assert translation.alignment == identity(line)
    odd = actual[6]
    assert len(odd.text.split()) < len(ODD.split())  # normalisation takes a word away
    assert {i for i, _ in odd.alignment} < set(range(len(ODD.split())))
    assert {j for _, j in odd.alignment} == set(range(len(odd.text.split())))


@pytest.mark.parametrize("max_length", [2, 3, 7, 12, 40])
def test_links_of_a_split_line_are_counted_in_the_line(copier: Translator, max_length: int) -> None:
    line = "  Two men, one boat. It rains \t on the plain in Spain. Why? A dog runs.  " * 3
    whole = copier.tokenizer.decode(copier.tokenizer.encode_source([line]))[0]
    actual = aligned(copier, ["Why?", line], max_length=max_length)
    is_cut_in_words = len(actual[1].text.split()) != len(whole.split())
    assert is_cut_in_words == (max_length < 7)
    if not is_cut_in_words:
        assert actual[1].alignment == identity(line)
    assert {i for i, _ in actual[1].alignment} == set(range(len(line.split())))
    assert {j for _, j in actual[1].alignment} == set(range(len(actual[1].text.split())))


def test_parts_without_spaces_are_one_word() -> None:
    line = "犬が走る。犬が走る。 猫。"
    copier = folders.copier_of(folders.train([line], vocab_size=270))
    actual = aligned(copier, [line], max_length=6)
    assert actual[0].text == line.replace(" ", "")  # parts are joined without a space
    assert actual[0].alignment == {(0, 0), (1, 0)}


def test_every_alternative_has_its_own_alignment(copier: Translator) -> None:
    sampling: dict[str, Any]
    for sampling in ({}, {"sample": True, "temperature": 9.0}):
        actual = aligned(copier, SENTENCES, n_best=2, **sampling)
        assert all(translation.alternatives for translation in actual)
        for translation in actual:
            for one in (translation, *translation.alternatives):
                assert {j for _, j in one.alignment} <= set(range(len(one.text.split())))


def test_the_alignment_is_the_last_field_of_a_line(copier: Translator, tmp_path: Path) -> None:
    files = Files(tmp_path / "in", tmp_path / "out")
    (tmp_path / "in").write_text("A dog runs.\n\nWhy?\n")

    def written(**form: Any) -> list[str]:
        translate(
            folders.with_settings(copier, alignments=True), files, Format(alignments=True, **form)
        )
        return (tmp_path / "out").read_text().splitlines()

    assert written() == ["A dog runs.\t0-0 1-1 2-2", "\t", "Why?\t0-0"]
    ranked = [line.split("\t") for line in written(n_best=1)]
    assert [[row[0], *row[2:]] for row in ranked] == [
        ["1", "A dog runs.", "0-0 1-1 2-2"],
        ["2", "", ""],
        ["3", "Why?", "0-0"],
    ]
    records = [json.loads(line) for line in written(jsonl=True)]
    assert [record["alignment"] for record in records] == ["0-0 1-1 2-2", "", "0-0"]


def test_a_model_without_attention_has_no_alignments(tokenizer: Tokenizer) -> None:
    engine = PyTorchEngine(make("seq2seq-none", vocab=tokenizer.source_vocab).float())
    request = Request(DecodingSettings(beam=1, max_length=8), alignments=True)
    with pytest.raises(UserError, match="no attention"):
        Translator(engine, tokenizer, request).translate(["Why?"])


# Trained models


@pytest.mark.slow
def test_a_model_trained_to_reverse_aligns_backwards(fresh: Callable[..., Config]) -> None:
    training = {"steps": 150, "warmup": 40, "validate_every": 150, "save_every": 150, "average": 1}
    model, batching = {"attention": "general"}, {"max_tokens": 512}
    config = fresh("seq2seq", model=model, training=training, batching=batching)
    build_batches(config)
    train(config)
    assert isinstance(config.data.valid, TextCorpus)
    lines = Path(str(config.data.valid.source)).read_text().splitlines()
    translator = load(config.run, engine="torch")
    actual = aligned(translator, lines)
    sure = [{(i, len(line.split()) - 1 - i) for i in range(len(line.split()))} for line in lines]
    rate = alignment_error_rate([translation.alignment for translation in actual], sure)
    assert rate < 0.2
