"""Laws of lists of hypotheses: no text twice, no half characters, the best as without a list."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from architectures import LSTM, pair, transformer
from folders import SENTENCES, asking, train, write_model
from mtkit.config.decoding import DecodingSettings, SamplingSettings
from mtkit.config.model import ModelSettings
from mtkit.decoding.api import Translator
from mtkit.decoding.distinct import submit
from mtkit.decoding.engine import Engine, Found, Hypothesis, Key, Pending, Request, Sentence
from mtkit.decoding.translate import Files, Format, translate
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.symbols import EOS

TOKENIZER = train()
BYTE = {byte: 4 + byte for byte in range(256)}
"""Ids of bytes, which SentencePiece puts first."""
LETTER = TOKENIZER.target_pieces(list(range(300))).index("d")
KINDS: dict[str, ModelSettings] = {
    "transformer": transformer(output_bias=True),
    "seq2seq": pair(encoder=LSTM, decoder=LSTM, output_bias=True),
}
CASES = [("transformer", "torch"), ("transformer", "ctranslate2"), ("seq2seq", "torch")]


def test_a_byte_has_the_id_that_these_tests_think() -> None:
    pieces = TOKENIZER.target_pieces([BYTE[0x64], BYTE[0xE2], LETTER])
    assert pieces == ["<0x64>", "<0xE2>", "d"]


def stammering(model: EncoderDecoder) -> None:
    """Writes the letter d, as it is and in bytes, and half a character; anything else seldom."""
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
    return Translator.load(model, "cpu", engine=engine, beam=6, max_length=30)


def texts_of(rows: str) -> list[list[str]]:
    return [row.split("\t") for row in rows.split("\n")[:-1]]


@pytest.mark.parametrize("count", [2, 6])
def test_a_list_holds_no_text_twice_and_no_half_characters(
    count: int, translator: Translator, tmp_path: Path
) -> None:
    (tmp_path / "in").write_text("\n".join([*SENTENCES, "", "Why? " * 9]))
    listing, files = asking(translator, count=count), Files(tmp_path / "in", tmp_path / "out")
    translate(listing, files, Format(n_best=count))
    rows = texts_of((tmp_path / "out").read_text())
    plain = translator.translate((tmp_path / "in").read_text().split("\n"))
    assert [row[0] for row in rows] == [str(1 + n // count) for n in range(len(rows))]
    assert len(rows) == count * len(plain)
    assert plain[4] == ""
    for number, best in enumerate(plain):
        first = number * count
        mine = rows[first : first + count]
        found = [text for _, score, text in mine if score != "-inf"]
        scores = [float(score) for _, score, _ in mine]
        assert found[0] == best
        assert len({" ".join(text.split()) for text in found}) == len(found)
        assert "\ufffd" not in "".join(found)
        assert scores == sorted(scores, reverse=True) or number == 5  # which is in parts
        assert all(text == "" for _, score, text in mine if score == "-inf")
        assert len(found) == 1 if number == 4 else 2 <= len(found) <= count
    translate(listing, files, Format(n_best=count, jsonl=True))
    records = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    ranked = [hypothesis for record in records for hypothesis in record["n_best"]]
    assert [hypothesis["text"] for hypothesis in ranked] == [row[2] for row in rows]
    assert [hypothesis["score"] is None for hypothesis in ranked] == [r[1] == "-inf" for r in rows]


def test_the_search_itself_repeats_itself_or_the_law_above_would_say_nothing(
    translator: Translator,
) -> None:
    request = Request(translator.settings.model_copy(update={"beam": 48}), 48)
    sentences: dict[Key, Sentence] = {(0,): Sentence([*TOKENIZER.encode_source(["Why?"])[0], EOS])}
    (found,) = translator.engine.submit(sentences, request).wait()
    texts = TOKENIZER.decode([hypothesis.tokens for hypothesis in found])
    assert len(set(texts)) < len(texts)
    assert not all(TOKENIZER.is_whole(hypothesis.tokens) for hypothesis in found)


def test_samples_are_unlike_and_those_of_a_longer_list_begin_alike(translator: Translator) -> None:
    if not translator.engine.name.startswith("torch"):
        pytest.skip("CTranslate2 does not sample here")
    sampling = SamplingSettings(seed=3)
    (few,), (many,) = (
        asking(translator, count=count, sampling=sampling).stream([SENTENCES]) for count in (2, 5)
    )
    for short, long in zip(few, many, strict=True):
        texts = [sample.text for sample in long.n_best if sample.score > -math.inf]
        assert len({" ".join(text.split()) for text in texts}) == len(texts) > 1
        assert "\ufffd" not in "".join(texts)
        assert [sample.text for sample in short.n_best] == texts[:2]


# On an engine that finds what it is told to


class Told(Engine):
    """Finds, with a beam or for a number of samples, what is said here."""

    name = "told"

    def __init__(self, answers: Mapping[int, list[Hypothesis]]) -> None:
        self.answers = answers
        self.asked: list[int] = []

    def submit(self, sentences: Mapping[Key, Sentence], request: Request) -> Pending:
        self.asked.append(request.count)
        found: Found = [self.answers[request.count] for _ in sentences]
        return Pending(lambda: found, cancel=lambda: None)


def spelling(text: bytes, score: float = -1.0) -> Hypothesis:
    return Hypothesis([BYTE[byte] for byte in text], score, True)


D = Hypothesis([LETTER], -1.1, True)


def listed(
    answers: Mapping[int, list[Hypothesis]], count: int, beam: int, *, sampled: bool = False
) -> tuple[list[Hypothesis], list[int]]:
    engine, sampling = Told(answers), SamplingSettings() if sampled else None
    request = Request(DecodingSettings(beam=beam), count, sampling)
    (found,) = submit(engine, TOKENIZER, {(0,): Sentence([EOS])}, request).wait()
    return found, engine.asked


def test_of_one_text_the_best_stands_and_what_is_left_of_the_beam_fills_the_list() -> None:
    d, e, f = spelling(b"d", -1.0), spelling(b"e", -1.2), spelling(b"f", -1.3)
    assert listed({4: [d, D, e, f]}, 3, 4) == ([d, e, f], [4])


def test_a_wider_search_is_asked_only_where_the_list_is_short_and_never_beats_the_best() -> None:
    d, e, better = spelling(b"d", -1.0), spelling(b"e", -1.2), spelling(b"x", -0.5)
    assert listed({2: [d, D], 4: [better, d, D, e]}, 2, 2) == ([d, e], [2, 4])
    assert listed({2: [d, D], 4: [d, D], 8: [d, e]}, 2, 2) == ([d, e], [2, 4, 8])
    assert listed({2: [d, D], 4: [d, D], 8: [d, D]}, 2, 2) == ([d], [2, 4, 8])


def test_half_a_character_stands_only_where_there_is_nothing_else() -> None:
    half, whole = spelling("é".encode()[:1], -0.1), spelling("é".encode(), -1.0)
    assert listed({2: [half, whole]}, 1, 2) == ([whole], [2])
    assert listed({2: [half, half]}, 1, 2) == ([half], [2])
    assert listed({2: [half, half], 4: [half, whole], 8: [half]}, 2, 2)[0] == [whole]
    assert listed({1: [half], 2: [half, whole]}, 1, 5, sampled=True) == ([whole], [1, 2])


@pytest.mark.parametrize("score", [-math.inf, math.nan])
def test_where_no_hypothesis_has_a_probability_the_first_stands(score: float) -> None:
    first, second = spelling(b"d", score), spelling(b"e", score)
    assert listed({2: [first, second]}, 1, 2)[0] == [first]
    assert listed({2: [first, second], 4: [second], 8: [second]}, 2, 2)[0] == [first]


def test_samples_stay_in_the_order_in_which_they_are_drawn() -> None:
    d, e = spelling(b"d", -3.0), spelling(b"e", -0.2)
    assert listed({2: [d, D], 4: [d, D, e, d]}, 2, 5, sampled=True) == ([d, e], [2, 4])


# Bytes


@given(st.lists(st.integers(4, 299), max_size=12))
def test_what_is_decoded_holds_whole_characters_alone(ids: list[int]) -> None:
    (text,) = TOKENIZER.decode([ids])
    assert "\ufffd" not in text
    assert len(TOKENIZER.target_offsets(ids)) == len(ids)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8), st.data())
def test_no_more_is_left_out_than_the_half_character(text: str, data: st.DataObject) -> None:
    ids = [BYTE[byte] for byte in text.encode()]
    cut = data.draw(st.integers(0, len(ids)))
    (found,) = TOKENIZER.decode([ids[:cut]])
    wanted = text.encode()[:cut].decode(errors="ignore")
    assert found.split() == wanted.split()
    assert TOKENIZER.is_whole(ids[:cut]) == (wanted.encode() == text.encode()[:cut])
