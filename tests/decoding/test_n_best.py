"""Laws of n-best lists: sorted, without duplicates, and shorter if hypotheses run out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from architectures import LSTM, pair, transformer
from folders import SENTENCES, train, with_settings, write_model
from mtkit.config.decoding import DecodingSettings
from mtkit.config.model import ModelSettings
from mtkit.decoding.api import Translator, load
from mtkit.decoding.engines.engine import Hypothesis, Request, Sentence
from mtkit.decoding.text.line import Line
from mtkit.decoding.text.pipeline import open_window
from mtkit.decoding.translate import Files, Format, translate
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.symbols import EOS

TOKENIZER = train()
BYTE = {byte: 4 + byte for byte in range(256)}
"""Ids of byte subwords, the first after the special symbols."""
LETTER = TOKENIZER.target_pieces(list(range(300))).index("d")
KINDS: dict[str, ModelSettings] = {
    "transformer": transformer(output_bias=True),
    "seq2seq": pair(encoder=LSTM, decoder=LSTM, output_bias=True),
}
CASES = [("transformer", "torch"), ("transformer", "ctranslate2"), ("seq2seq", "torch")]


def test_bytes_have_the_ids_assumed_here() -> None:
    pieces = TOKENIZER.target_pieces([BYTE[0x64], BYTE[0xE2], LETTER])
    assert pieces == ["<0x64>", "<0xE2>", "d"]


def stammering(model: EncoderDecoder) -> None:
    """Make the letter d, its byte, and half a character the most probable symbols."""
    assert model.output_bias is not None
    with torch.no_grad():
        model.output_bias[[LETTER, BYTE[0x64], BYTE[0xE2], EOS]] = 12.0


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def translator(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Translator:
    kind, engine = request.param
    folder = tmp_path_factory.mktemp(kind) / "model"
    model = write_model(folder, TOKENIZER, KINDS[kind], stammering)
    return load(model, "cpu", engine=engine, beam=6, max_length=30)


@pytest.mark.parametrize("count", [1, 2])
def test_hypotheses_with_half_characters_are_used_only_if_all_have_them(count: int) -> None:
    half, other_half = (Hypothesis([LETTER, BYTE[it]], -1.0, True) for it in (0xE2, 0xE3))
    whole = Hypothesis([LETTER, LETTER], -2.0, True)
    request = Request(DecodingSettings(beam=2), count)
    for ranked, tokens in [([half, whole], whole.tokens), ([half, other_half], half.tokens)]:
        (actual,) = open_window([Line("x")], TOKENIZER, request).join([ranked])
        assert actual.text == TOKENIZER.decode([tokens])[0]
        assert actual.alternatives == []


@pytest.mark.parametrize("count", [1, 2, 6])
def test_an_n_best_list_is_sorted_and_has_no_text_twice(count: int, translator: Translator) -> None:
    lines = [*SENTENCES, "", "Why? " * 9]
    actual = list(translator.results(lines, translator.request.changed(n_best=count)))
    assert len(actual) == len(lines)
    for number, best in enumerate(actual):
        ranked = [best, *best.alternatives]
        texts = [" ".join(one.text.split()) for one in ranked]
        assert len(set(texts)) == len(texts) <= count
        assert len(texts) > 1 or count == 1 or number == 4  # the blank line
        if number != 5:  # which is translated in parts
            scores = [one.score or 0.0 for one in ranked]
            assert scores == sorted(scores, reverse=True)


def test_a_wide_beam_does_repeat_texts(translator: Translator) -> None:
    request = Request(translator.request.settings.model_copy(update={"beam": 48}), 48)
    sentence = Sentence([*TOKENIZER.encode_source(["Why?"])[0], EOS])
    (actual,) = translator.engine.search([sentence], request).result()
    texts = TOKENIZER.decode([hypothesis.tokens for hypothesis in actual])
    assert len(set(texts)) < len(texts)


def test_short_lists_are_padded_with_empty_rows_but_not_in_json(
    translator: Translator, tmp_path: Path
) -> None:
    (tmp_path / "in").write_text("Why?\n\n")
    listing = with_settings(translator, n_best=6)
    files = Files(tmp_path / "in", tmp_path / "out")
    translate(listing, files, Format(n_best=6))
    rows = [row.split("\t") for row in (tmp_path / "out").read_text().splitlines()]
    assert [row[0] for row in rows] == ["1"] * 6 + ["2"] * 6
    assert [row[1:] for row in rows[7:]] == [["-inf", ""]] * 5
    translate(listing, files, Format(n_best=6, jsonl=True))
    first, blank = (json.loads(line) for line in (tmp_path / "out").read_text().splitlines())
    assert [it["text"] for it in first["n_best"]] == [
        row[2] for row in rows[:6] if row[1] != "-inf"
    ]
    assert [it["text"] for it in blank["n_best"]] == [""]


def test_only_n_best_lists_pay_for_a_wider_beam(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[Request] = []
    search = translator.engine.search

    def recorded(sentences: Any, request: Request, **kwargs: Any) -> Any:
        requests.append(request)
        return search(sentences, request, **kwargs)

    monkeypatch.setattr(translator.engine, "search", recorded)
    translator.translate(SENTENCES)
    translator.translate(SENTENCES, n_best=2)
    translator.translate(SENTENCES, beam=3, n_best=3)
    assert [(it.n_best, it.settings.beam) for it in requests] == [(6, 6), (12, 12), (6, 6)]


def test_overflowing_weights_still_give_a_line(tmp_path: Path) -> None:
    def overflowing(model: EncoderDecoder) -> None:
        assert model.output_bias is not None
        with torch.no_grad():
            model.output_bias.fill_(3e38)
            model.output_weight.mul_(1e30)

    path = write_model(tmp_path / "model", TOKENIZER, KINDS["transformer"], overflowing)
    for engine in ("torch", "ctranslate2"):
        for one in load(path, "cpu", engine=engine, n_best=2).results(["Why?"]):
            assert one.text.count("\n") == 0


# Bytes


@given(st.lists(st.integers(4, 299), max_size=12))
def test_every_subword_has_an_offset_in_the_text(ids: list[int]) -> None:
    assert len(TOKENIZER.target_offsets(ids)) == len(ids)
