"""`mtkit init`: what it chooses, holds out, forecasts and writes."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from commands import Stdin, call
from mtkit.cli.corpora import named_corpus
from mtkit.config.settings import Config
from mtkit.config.yaml import load_config
from mtkit.corpus.files import read_lines
from mtkit.corpus.read import Pair
from mtkit.corpus.rules import PairFilter
from mtkit.corpus.statistics import compute_statistics
from mtkit.decoding.engine import Pending, Request
from mtkit.decoding.pytorch import PyTorchEngine
from mtkit.errors import UserError
from mtkit.study.init.choice import SHARED_LETTERS, Plan, most_passes, plan_of
from mtkit.study.init.expectation import MORE_DATA, expectation
from mtkit.study.init.facts import Facts, Lengths, Measured, Rates
from mtkit.study.init.forecast import Work, forecast
from mtkit.study.init.init import PARTS, _plan
from mtkit.study.init.measure import Trial, measure, with_tokenizer
from mtkit.study.init.reasons import Chosen, chosen, settings_of, yaml_of
from mtkit.study.init.scan import Sample, scan
from mtkit.study.init.sizes import SIZES, Size
from mtkit.study.init.split import Split, held_out_share, is_among, key_of

LANGUAGES = ("en", "ko")
texts = st.text(st.sampled_from("abcABCéÀ .?!,-ａ中文"), max_size=8)


def pairs_of(sources: list[str]) -> list[Pair]:
    return [Pair(source, "a translation", 0, "file", n) for n, source in enumerate(sources, 1)]


@given(st.lists(texts, max_size=300))
def test_no_source_is_in_two_parts_and_each_is_in_one(sources: list[str]) -> None:
    split = Split(pairs=100)
    placed = list(split.place(pairs_of(sources)))
    parts: dict[bytes, set[str]] = {}
    for part, pair in placed:
        parts.setdefault(key_of(pair.source), set()).add(part)
    assert all(len(found) == 1 for found in parts.values())
    held_out = [key_of(pair.source) for part, pair in placed if part != "train"]
    assert len(held_out) == len(set(held_out))
    is_learnt = [split.part_of(key_of(source)) == "train" for source in sources]
    assert [part for part, _ in placed].count("train") == sum(is_learnt)
    assert set(map(key_of, sources)) == set(parts) | {
        key_of(source) for source in sources if not source.strip()
    }
    assert list(split.place(pairs_of(sources))) == placed


@given(st.lists(st.tuples(texts, texts), max_size=200))
def test_no_target_is_held_out_that_training_has(rows: list[tuple[str, str]]) -> None:
    pairs = [Pair(source, target, 0, "file", n) for n, (source, target) in enumerate(rows, 1)]
    split = Split(pairs=100)
    sound = split.without_learnt(lambda: pairs)
    placed, before = list(sound.place(pairs)), list(split.place(pairs))
    learnt, held_out = (
        {key_of(pair.target) for part, pair in placed if (part == "train") == is_learnt}
        for is_learnt in (True, False)
    )
    assert not learnt & held_out
    assert [row for row in placed if row[0] == "train"] == [
        row for row in before if row[0] == "train"
    ]
    assert {row for row in before if key_of(row[1].target) not in learnt} <= set(placed)


@given(st.lists(st.uuids().map(str), min_size=1, max_size=50), st.data())
def test_what_is_held_out_already_is_no_part_of_training(
    sources: list[str], data: st.DataObject
) -> None:
    taken = data.draw(st.sets(st.sampled_from(sources)))
    split = Split(1000, frozenset(), frozenset(map(key_of, taken)))
    placed = [(part, pair.source) for part, pair in split.place(pairs_of(sources))]
    assert placed == [("train", source) for source in sources if source not in taken]


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.text(min_size=1))
def test_a_corpus_that_grows_moves_nothing_from_training_to_what_is_held_out(
    pairs: int, more: int, source: str
) -> None:
    before, after = (Split(count).part_of(key_of(source)) for count in (pairs, pairs + more))
    assert after in ("train", before)


@pytest.mark.parametrize(
    ("pairs", "held_out"),
    [
        (50, 6),
        (100, 12),
        (240, 12),
        (1000, 50),
        (5000, 250),
        (12_500, 250),
        (50_000, 1000),
        (125_000, 2500),
        (10**8, 2500),
    ],
)
def test_held_out_are_two_percent_within_bounds(pairs: int, held_out: int) -> None:
    assert round(pairs * held_out_share(pairs, "test")) == held_out
    assert round(pairs * held_out_share(pairs, "valid")) == min(held_out, 1000)


def test_sources_that_differ_in_punctuation_or_case_belong_together() -> None:
    assert key_of("Hello, you!") == key_of("hello you") == key_of("ＨＥＬＬＯ ＹＯＵ ")
    assert key_of("!") != key_of("?")
    assert key_of("I love you ❤️") == key_of("i love you")
    for one, other in ("लड़का", "लड़की"), ("เสือ", "เสื้อ"), ("មាន", "មិន"), ("မိုး", "မီး"):
        assert key_of(one) != key_of(other)  # vowels of these are marks, and tell words apart


def test_a_share_of_the_pairs_is_spread_over_all_parts_alike() -> None:
    keys = [key_of(str(number)) for number in range(20_000)]
    held_out = [key for key in keys if Split(1000).part_of(key) != "train"]
    for among in (keys, held_out):
        share = sum(is_among(0.3, key) for key in among) / len(among)
        assert share == pytest.approx(0.3, abs=0.05)


def facts(pairs: int, valid: int = 500, test: int = 500, **changes: Any) -> Facts:
    """Of a text in one alphabet, without faults."""
    usual: dict[str, Any] = {"languages": (None, None), "characters": (100, 100), "in_both": 200}
    usual |= {"shared": 1.0, "deduplicate": False, "sentences": None, "truecase": False, "drop": {}}
    return Facts(pairs, valid, test, **usual | changes)


corpora = st.builds(
    facts,
    pairs=st.integers(50, 10**9),
    valid=st.integers(5, 2500),
    test=st.integers(5, 2500),
    languages=st.sampled_from([(None, None), ("en", "ko")]),
    characters=st.tuples(st.integers(1, 8000), st.integers(1, 8000)),
    shared=st.floats(0, 1),
    most_subwords=st.none() | st.integers(270, 8000),
)
lengths_found = st.builds(
    Lengths,
    source=st.floats(2, 200),
    target=st.floats(2, 200),
    padded=st.floats(200, 300),
    longest=st.integers(2, 65_000),
)
rates = st.builds(
    Rates,
    tokens=st.floats(10, 1e7),
    sentence=st.floats(1e-6, 1),
    line=st.floats(1e-7, 1e-2),
    pair=st.floats(1e-7, 1e-2),
    on_gpu=st.booleans(),
)
measurements = st.builds(Measured, st.sampled_from(SIZES), st.sampled_from([2000, 32_000]), rates)
minutes_there = st.floats(1, 10_000)


def config_of(choices: list[Chosen]) -> Config:
    files = {"source": "a", "target": "b"}
    data = {"train": files, "valid": files}
    return Config.model_validate({"run": "r", "data": data, **settings_of(choices)})


@given(corpora, lengths_found, measurements, minutes_there)
def test_what_is_chosen_is_a_config_for_any_corpus_time_and_speed(
    corpus: Facts, lengths: Lengths, measured: Measured, minutes: float
) -> None:
    plan = plan_of(corpus, lengths, measured, minutes)
    config = config_of(chosen(corpus, plan))
    training, batching = config.training, config.batching
    assert training.steps == plan.steps
    assert batching.max_tokens == plan.max_tokens and training.accumulate == plan.accumulate
    assert training.validate_every <= plan.steps / 10
    assert training.warmup < plan.steps
    assert isinstance(batching.max_tokens, int) and batching.max_tokens > batching.max_length
    assert 1 <= plan.pairs <= corpus.pairs
    assert plan == plan_of(corpus, lengths, measured, minutes)


@given(corpora, lengths_found, measurements, minutes_there, st.floats(1, 100))
def test_more_minutes_never_give_a_smaller_model(
    corpus: Facts, lengths: Lengths, measured: Measured, minutes: float, times: float
) -> None:
    less, more = (plan_of(corpus, lengths, measured, m) for m in (minutes, times * minutes))
    assert SIZES.index(less.size) <= SIZES.index(more.size)
    assert less.pairs <= more.pairs


def test_of_two_sizes_each_better_by_the_speed_of_the_other_the_first_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[int] = []

    def tries(sample: Sample, settings: dict[str, Any]) -> Trial:
        tried.append(settings["model"]["d_model"])
        rates = Rates(5e4 if tried[-1] == 128 else 1e3, 0.002, 5e-5, 5e-5)
        return Trial(Lengths(20.0, 20.0, 25.0, 60), rates, 8000, parameters=tried[-1])

    monkeypatch.setattr("mtkit.study.init.init.measure", tries)
    plan, trial = _plan(facts(300_000, 1000, 1000), [], 60.0)
    assert tried == [128, 256]
    assert plan.size.d_model == trial.parameters == 128


@pytest.mark.parametrize(
    ("minutes", "speed", "chosen_size"),
    [(60.0, 217_000.0, SIZES[3]), (240.0, 217_000.0, SIZES[4]), (60.0, 5_000.0, SIZES[2])],
)
def test_on_a_gpu_it_is_by_the_speed_of_a_large_model_that_one_is_chosen(
    minutes: float, speed: float, chosen_size: Size, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes as many updates of a large model as of a small one: neither tells of the other."""

    def tries(sample: Sample, settings: dict[str, Any]) -> Trial:
        width = settings["model"]["d_model"]
        tokens = {512: speed, 1024: speed / 2.8}.get(width, 8 * speed)
        rates = Rates(tokens, 0.002, 3e-5, 1e-5, on_gpu=True)
        return Trial(Lengths(26.0, 27.0, 31.0, 120), rates, 32_000, parameters=width)

    monkeypatch.setattr("mtkit.study.init.init.pick_device", lambda wanted: torch.device("cuda"))
    monkeypatch.setattr("mtkit.study.init.init.measure", tries)
    plan, trial = _plan(facts(5_000_000, 1000, 2500), [], minutes)
    assert plan.size == chosen_size
    assert trial.parameters == chosen_size.d_model


def test_no_more_subwords_are_asked_for_than_can_be_made_of_the_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forms, logs and weather: a large corpus of one template has no more than its sample."""
    lengths, rates = Lengths(9.0, 10.0, 12.0, 30), Rates(5000.0, 0.002, 5e-5, 5e-5)
    trial = Trial(lengths, rates, 517, 10**6)
    monkeypatch.setattr("mtkit.study.init.init.measure", lambda sample, settings: trial)
    sample = [("a", "b")] * 1000
    assert _plan(facts(1000), sample, 5.0)[0].vocabulary == 517
    assert _plan(facts(118_000), sample, 5.0)[0].vocabulary == 491


@pytest.mark.parametrize(
    ("minutes", "every"), [(5.0, 0.5), (60.0, 6.0), (1440.0, 10.0), (9000.0, 10.0)]
)
def test_a_machine_that_fails_loses_minutes_however_long_the_run(
    minutes: float, every: float
) -> None:
    measured = Measured(SIZES[1], 8000, Rates(10_000.0, 0.0016, 3e-5, 2e-5))
    plan = plan_of(facts(90_000_000), Lengths(14.0, 15.0, 17.0, 40), measured, minutes)
    seconds = plan.forecast.training / plan.steps * plan.save_every
    assert seconds / 60 == pytest.approx(every, rel=0.15)
    assert plan.save_every <= plan.validate_every


@given(corpora, lengths_found, measurements, minutes_there)
def test_a_run_ends_in_time_or_is_the_shortest_there_is(
    corpus: Facts, lengths: Lengths, measured: Measured, minutes: float
) -> None:
    plan = plan_of(corpus, lengths, measured, minutes)
    assert plan.forecast.total <= 60 * minutes * 1.01 or plan.steps == 100
    assert plan.steps == 100 or plan.passes <= most_passes(plan.pairs) * 1.01


@given(st.integers(1, 10**9), st.floats(0, 1e12), st.integers(1, 10**9), st.floats(0, 1e12), rates)
def test_a_forecast_grows_with_pairs_and_with_tokens(
    pairs: int, tokens: float, more_pairs: int, more_tokens: float, speed: Rates
) -> None:
    less = forecast(Work(pairs, tokens, 10, 100.0, 10, 10), speed)
    more = forecast(Work(pairs + more_pairs, tokens + more_tokens, 10, 100.0, 10, 10), speed)
    assert less.preparing < more.preparing and less.training <= more.training
    assert less.total < more.total


def example(**changes: Any) -> tuple[Facts, Plan]:
    corpus = facts(**{"pairs": 28_000} | changes)
    measured = Measured(SIZES[1], 8000, Rates(10_000.0, 0.0016, 3e-5, 2e-5))
    return corpus, plan_of(corpus, Lengths(14.0, 15.0, 17.0, 40), measured, 20.0)


def test_the_more_often_pairs_are_seen_the_more_dropout_there_is() -> None:
    found = []
    for pairs in (120_000, 40_000, 12_000, 5_000):
        corpus = facts(pairs)
        measured = Measured(SIZES[0], 8000, Rates(20_000.0, 0.0016, 3e-5, 2e-5))
        plan = plan_of(corpus, Lengths(27.0, 29.0, 31.0, 130), measured, 5.0)
        found.append(config_of(chosen(corpus, plan)).model.model_dump()["dropout"])
    assert found == [0.0, 0.0, 0.1, 0.2]


@pytest.mark.parametrize(
    ("passes", "width", "dropouts", "peak"),
    [
        (4.9, 128, (0.0, 0.0, 0.0), 8e-3),
        (5.0, 128, (0.1, 0.0, 0.0), 8e-3),
        (23.9, 128, (0.1, 0.0, 0.0), 8e-3),
        (24.0, 128, (0.2, 0.0, 0.0), 6e-3),
        (59.9, 256, (0.2, 0.0, 0.0), 4.2e-3),
        (60.0, 128, (0.2, 0.1, 0.1), 6e-3),
    ],
)
def test_dropout_and_rate_are_those_that_suited_so_many_passes(
    passes: float, width: int, dropouts: tuple[float, ...], peak: float
) -> None:
    corpus, plan = example()
    size = next(size for size in SIZES if size.d_model == width)
    model, training = (
        settings_of(chosen(corpus, replace(plan, passes=passes, size=size)))[section]
        for section in ("model", "training")
    )
    names = ("dropout", "attention_dropout", "activation_dropout")
    assert tuple(model.get(name, 0.0) for name in names) == dropouts
    assert training["schedule"] == {"kind": "cosine", "peak": peak}
    assert training["optimizer"] == {"kind": "muon", "weight_decay": 0.1}


def test_what_is_published_is_learnt_in_updates_as_large_on_a_processor() -> None:
    corpus = facts(5_000_000, 1000, 2500, characters=(200, 220))
    fast = Measured(SIZES[3], 32_000, Rates(250_000.0, 0.002, 3e-5, 1e-5))
    plan = plan_of(corpus, Lengths(26.0, 27.0, 31.0, 120), fast, 60.0)
    config = config_of(chosen(corpus, plan))
    assert plan.size == SIZES[3]
    assert (config.batching.max_tokens, config.training.accumulate) == (4096, 6)


@pytest.mark.parametrize(
    ("pairs", "told"),
    [
        (1_000, "too few pairs for a translator"),
        (3_000, "few pairs: expect the gist"),
        (28_000, "enough for one narrow subject"),
        (200_000, "enough for one domain"),
        (1_000_000, "enough for a usable translator"),
        (5_000_000, "enough for a good translator"),
    ],
)
def test_what_to_expect_is_told_by_the_number_of_pairs(pairs: int, told: str) -> None:
    lines = list(expectation(example()[1], pairs, 20.0))
    assert lines[0].startswith(told)
    assert (MORE_DATA in lines) == (pairs < 10_000)


@given(corpora, lengths_found, measurements, minutes_there)
def test_every_setting_has_a_comment_above_it(
    corpus: Facts, lengths: Lengths, measured: Measured, minutes: float
) -> None:
    choices = chosen(corpus, plan_of(corpus, lengths, measured, minutes))
    lines = yaml_of("made", "runs/x", choices).splitlines()
    section = ""
    commented: dict[str, bool] = {}
    for above, line in pairwise(lines):
        if line and not line.startswith((" ", "#")):
            section, is_explained = line.removesuffix(":"), False
        elif line.startswith("  #"):
            is_explained = True
        elif line.startswith("  "):
            commented[f"{section}.{line.split(':')[0].strip()}"] = is_explained
        assert len(line) <= 100 or "{" in line, above
    config = config_of(choices)
    for section in ("tokenizer", "batching", "model", "training", "decoding"):
        for name in set(getattr(config, section).without_defaults()) - {"kind"}:
            assert commented[f"{section}.{name}"], name


def test_the_text_reads_back_as_what_was_chosen(tmp_path: Path) -> None:
    choices = chosen(*example())
    files = {"source": "weird: name #1", "target": "b"}
    data = [
        Chosen("data", {"train": files}, "to learn from"),
        Chosen("data", {"valid": files}, "v"),
    ]
    text = yaml_of("Written by `mtkit init`.", "runs/x", [*data, *choices])
    (tmp_path / "mtkit.yaml").write_text(text, encoding="utf-8")
    config = load_config(tmp_path / "mtkit.yaml")
    assert config == Config.model_validate(yaml.safe_load(text))
    assert config.data.model_dump()["train"]["source"] == "weird: name #1"


@pytest.mark.parametrize(
    ("passes", "told"),
    [(0.964, "0.96"), (7.84, "7.8"), (27.2, "27"), (99.4, "99"), (99.6, "100"), (1234.0, "1234")],
)
def test_passes_are_told_as_people_write_numbers(passes: float, told: str) -> None:
    assert replace(example()[1], passes=passes).times == told


@pytest.mark.parametrize(
    ("minutes", "recipe", "dropout"),
    [(60.0, "transformer-base", 0.1), (2000.0, "transformer-big", 0.3)],
)
def test_millions_of_pairs_on_a_gpu_get_what_is_published(
    minutes: float, recipe: str, dropout: float
) -> None:
    corpus = facts(5_000_000, 1000, 2500, characters=(200, 220))
    gpu = Measured(SIZES[3], 32_000, Rates(250_000.0, 0.002, 3e-5, 1e-5, on_gpu=True))
    plan = plan_of(corpus, Lengths(26.0, 27.0, 31.0, 120), gpu, minutes)
    config = config_of(chosen(corpus, plan))
    published = load_config(Path(__file__).parents[2] / f"configs/{recipe}.yaml")
    assert config.model == published.model
    assert config.model.model_dump()["dropout"] == dropout
    assert config.batching.max_tokens == published.batching.max_tokens
    assert config.training.warmup == published.training.warmup
    assert config.training.optimizer == published.training.optimizer


def test_known_corpora_get_what_is_known_to_suit_them() -> None:
    _, multi30k = example()
    assert (multi30k.size, multi30k.vocabulary, multi30k.max_tokens) == (SIZES[1], 8000, 4096)
    assert 18 < multi30k.passes < 30
    corpus, few = example(pairs=1800, valid=90, test=90)
    assert few.size == SIZES[0] and few.vocabulary <= 2000
    corpus, korean = example(shared=0.01, characters=(60, 1200))
    assert not korean.joint
    assert korean.vocabulary == 5000
    assert settings_of(chosen(corpus, korean))["model"]["tie"] == "target"


@pytest.mark.parametrize(
    ("source", "target", "joint"),
    [
        ("Tom went home early today.", "汤姆今天很早就回家了，Tom 说。", False),
        ("Two men are talking.", "Zwei Männer unterhalten sich.", True),
        ("Двое мужчин разговаривают.", "Two men are talking.", False),
        ("Двое мужчин разговаривают.", "Двоє чоловіків розмовляють.", True),
    ],
)
def test_sides_share_a_vocabulary_where_letters_are_alike_whichever_is_the_source(
    source: str, target: str, joint: bool
) -> None:
    for texts in ((source, target), (target, source)):
        pairs = [Pair(*texts, 0, "file", 1)]
        found = scan(pairs, Split(1, frozenset()))
        assert (found.shared >= SHARED_LETTERS) == joint


def test_what_is_dropped_or_repeated_is_neither_counted_nor_looked_at() -> None:
    """Lines that were left in English make an English and a Korean text no more alike."""
    english = [
        "Two men are talking.",
        "It is raining here.",
        "She reads a book.",
        "They eat bread.",
    ]
    korean = [
        "두 남자가 이야기한다.",
        "여기 비가 온다.",
        "그녀는 책을 읽는다.",
        "그들은 빵을 먹는다.",
    ]
    pairs = [
        Pair(*texts, 0, "file", row) for row, texts in enumerate(zip(english, korean, strict=True))
    ]
    left = [Pair(text, text, 0, "file", row) for row, text in enumerate(english * 3)]
    pair_filter = PairFilter(["copied"], compute_statistics(pairs))
    split = Split(16, frozenset(), pair_filter=pair_filter)
    found = scan([*pairs, *left, *pairs], split, deduplicate=True)
    assert (found.learnt, sorted(found.sample)) == (4, sorted(zip(english, korean, strict=True)))
    assert found.shared < SHARED_LETTERS <= scan([*pairs, *left], Split(16, frozenset())).shared
    assert found.counts["train"] == 20


TRIAL = Trial(Lengths(9.0, 10.0, 12.0, 30), Rates(5000.0, 0.002, 5e-5, 5e-5), 600, 10**6)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """400 pairs of the demo in the current folder, and a machine of known speed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mtkit.study.init.init.measure", lambda sample, settings: TRIAL)
    for language in ("en", "ko"):
        lines = list(islice(read_lines(f"demo:train.{language}"), 400))
        write(tmp_path / f"a.{language}", lines)
    return tmp_path


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def everything(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_corpus_and_speed_give_the_same_files(corpus: Path) -> None:
    assert call("init", "a.en", "a.ko", "--minutes", "3") == 0
    first = everything(corpus)
    assert call("init", "a.en", "a.ko", "--minutes", "3", "--force") == 0
    again = everything(corpus)
    again[corpus / "mtkit.yaml"] = again[corpus / "mtkit.yaml"].replace(b" --force", b"")
    assert first == again
    config = load_config("mtkit.yaml")
    assert config.data.target_language == "ko"
    assert not config.tokenizer.joint
    parts = {part: set(lines_of(corpus / f"mtkit-data/{part}.en")) for part in PARTS}
    assert not parts["train"] & parts["test"]
    assert not parts["train"] & parts["valid"]


def test_of_more_pairs_than_can_be_seen_some_are_taken_and_as_many_held_out(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def parts() -> dict[str, list[str]]:
        return {part: lines_of(corpus / f"mtkit-data/{part}.ko") for part in PARTS}

    assert call("init", "a.en", "a.ko", "--minutes", "2") == 0
    whole = parts()
    assert "taken" not in capsys.readouterr().out
    long = Lengths(900.0, 1000.0, 1200.0, 1000)
    slow = replace(TRIAL, lengths=long, rates=replace(TRIAL.rates, tokens=2500.0))
    monkeypatch.setattr("mtkit.study.init.init.measure", lambda sample, settings: slow)
    monkeypatch.setattr("mtkit.study.init.choice.FEWEST_TAKEN", 100)
    assert call("init", "a.en", "a.ko", "--minutes", "2", "--force") == 0
    told = re.search(r"(\d+) of the (\d+) pairs are taken", capsys.readouterr().out)
    assert told
    some, all_ = map(int, told.groups())
    assert 100 <= some < all_ * 0.9
    taken = parts()
    assert len(taken["train"]) == pytest.approx(some, rel=0.25)
    assert set(taken["train"]) < set(whole["train"])
    assert (taken["valid"], taken["test"]) == (whole["valid"], whole["test"])


def test_languages_that_are_named_are_those_of_the_config(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as cannot be told apart, or one of them twice."""
    assert call("init", "a.en", "a.ko", "--languages", "en", "jp") == 2
    assert "did you mean ja?" in capsys.readouterr().err
    assert call("init", "a.en", "a.ko", "--languages", "en", "ja") == 2
    assert "target is ko, not ja" in capsys.readouterr().err
    write(corpus / "b.en", [f"And so: {line}" for line in lines_of(corpus / "a.en")])
    assert call("init", "a.en", "b.en") == 2
    assert "by --languages" in capsys.readouterr().err
    assert call("init", "a.en", "b.en", "--languages", "en-GB", "en-US") == 0
    assert load_config("mtkit.yaml").data.target_language == "en-US"
    assert (corpus / "mtkit-data/train.en-GB").exists()


def test_a_language_that_cannot_be_told_is_asked_for(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of words alone; in a config of no language text is scored as if it had spaces."""
    words = [line.split()[-1] for line in lines_of(corpus / "a.ko")]
    write(corpus / "c.ko", words)
    assert call("init", "a.en", "c.ko") == 0
    assert "the target's language cannot be told: name both by" in capsys.readouterr().err
    assert load_config("mtkit.yaml").data.target_language is None


def test_nothing_is_written_over_unasked(corpus: Path) -> None:
    assert call("init", "a.en", "a.ko") == 0
    before = everything(corpus)
    assert call("init", "a.en", "a.ko", "--minutes", "90") == 2
    assert everything(corpus) == before


@pytest.mark.parametrize(("several", "one_by_one"), [(0, "en"), (30, None)])
def test_sentences_are_translated_one_by_one_where_none_is_learnt_beside_another(
    corpus: Path, several: int, one_by_one: str | None
) -> None:
    rows = list(zip(*(lines_of(corpus / f"a.{language}") for language in LANGUAGES), strict=True))
    for one, other in list(pairwise(rows))[:several]:
        rows.append(tuple(map(" ".join, zip(one, other, strict=True))))
    for side, language in enumerate(LANGUAGES):
        write(corpus / f"a.{language}", [row[side] for row in rows])
    assert call("init", "a.en", "a.ko") == 0
    assert load_config("mtkit.yaml").decoding.sentences == one_by_one


@pytest.mark.parametrize(("change", "truecase"), [(str, True), (str.upper, False)])
def test_lines_are_truecased_where_the_corpus_has_none_without_case(
    corpus: Path, change: Callable[[str], str], truecase: bool
) -> None:
    lines = lines_of(corpus / "a.en")
    few = len(lines) // 25
    write(corpus / "a.en", [*map(change, lines[:few]), *lines[few:]])
    assert call("init", "a.en", "a.ko") == 0
    assert load_config("mtkit.yaml").decoding.truecase == truecase


def test_a_corpus_of_a_few_targets_is_told_that_none_can_be_held_out(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = lines_of(corpus / "a.ko")
    write(corpus / "a.ko", [targets[n % 4] for n in range(len(targets))])
    before = everything(corpus)
    assert call("init", "a.en", "a.ko") == 2
    assert "too few pairs unlike all others" in capsys.readouterr().err
    assert everything(corpus) == before


def test_a_training_that_is_there_is_not_gone_on_with(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (corpus / "runs/mtkit/checkpoints/step-00000007").mkdir(parents=True)
    write(corpus / "runs/mtkit/checkpoints/step-00000007/manifest.json", [])
    assert call("init", "a.en", "a.ko") == 0
    assert load_config("mtkit.yaml").run == "runs/mtkit-2"
    assert "runs/mtkit holds another training" in capsys.readouterr().err
    assert call("init", "a.en", "a.ko", "-o", "b.yaml", "--run", "runs/mtkit") == 2
    assert "--run runs/mtkit: holds another training" in capsys.readouterr().err
    assert call("init", "a.en", "a.ko", "--force", "--run", "runs/mtkit") == 0
    assert load_config("mtkit.yaml").run == "runs/mtkit"


@pytest.mark.parametrize("output", ["folder", ".", "a.en", "a.ko", "a.en/x/y.yaml"])
def test_no_folder_and_nothing_that_is_read_is_ever_replaced(corpus: Path, output: str) -> None:
    (corpus / "folder").mkdir()
    before = everything(corpus)
    assert call("init", "a.en", "a.ko", "--force", "-o", output) == 2
    assert everything(corpus) == before


def test_a_dataset_that_is_read_is_never_replaced(corpus: Path) -> None:
    rows = zip(*(lines_of(corpus / f"a.{language}") for language in LANGUAGES), strict=True)
    for name in "c.csv", "set/c.csv":
        (corpus / name).parent.mkdir(exist_ok=True)
        write(corpus / name, ["en,ko", *(f'"{source}","{target}"' for source, target in rows)])
    before = everything(corpus)
    for name, output in ("c.csv", "c.csv"), ("set", "set/c.csv"):
        assert call("init", name, "--columns", "en", "ko", "-o", output, "--force") == 2
    assert everything(corpus) == before


def test_what_cannot_be_written_is_told_before_any_work(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read_only(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    assert call("init", "a.en", "a.ko", "-o", "caf\udce9.yaml") == 2
    monkeypatch.setattr("mtkit.study.init.files.TemporaryFile", read_only)
    assert call("init", "a.en", "a.ko", "-o", "new/x.yaml") == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2 and all("cannot be written" in line for line in told)


def test_a_corpus_where_its_parts_would_go_is_not_replaced(corpus: Path) -> None:
    (corpus / "mtkit-data").mkdir()
    for language in LANGUAGES:
        (corpus / f"a.{language}").rename(corpus / f"mtkit-data/train.{language}")
    before = everything(corpus)
    assert call("init", "mtkit-data/train.en", "mtkit-data/train.ko", "--force") == 2
    assert everything(corpus) == before


def test_odd_names_make_a_config_that_can_be_read(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = "a\u2028\x1b b.en"
    (corpus / "a.en").rename(corpus / odd)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["mtkit", "init", odd, "a.ko"])
        assert call("init", odd, "a.ko", "-o", "my conf.yaml") == 0
    assert "mtkit run -c 'my conf.yaml'" in capsys.readouterr().out
    assert load_config("my conf.yaml").run == "runs/my conf"


@pytest.mark.parametrize(
    ("arguments", "corpus_named"),
    [
        (["a.en", "a.ko"], {"source": "a.en", "target": "a.ko"}),
        (["t.tsv"], {"table": "t.tsv"}),
        (["t.tsv.gz", "2", "1"], {"table": "t.tsv.gz", "source_column": 2}),
        (["t.tsv", "en", "ko"], {"table": "t.tsv", "target_column": "ko"}),
        (["t.jsonl", "en", "ko"], {"table": "t.jsonl", "source_column": "en"}),
        (["me/set", "en", "ko"], {"dataset": "me/set", "target_column": "ko"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_corpus_is_known_by_what_is_named(
    arguments: list[str], corpus_named: dict[str, Any]
) -> None:
    source, *others = arguments
    target = others[0] if len(others) == 1 else None
    columns = (others[0], others[1]) if len(others) == 2 else None
    found = named_corpus(source, target, columns).model_dump()
    assert found.items() >= corpus_named.items()


@pytest.mark.parametrize(
    ("source", "target", "columns"), [("a.en", None, None), ("a.en", "a.ko", ("0", "1"))]
)
def test_a_corpus_that_is_not_clear_is_refused(
    source: str, target: str | None, columns: tuple[str, str] | None
) -> None:
    with pytest.raises(UserError, match="columns"):
        named_corpus(source, target, columns)


def test_pairs_held_out_already_are_used_and_not_learnt_from(corpus: Path) -> None:
    sources, targets = (lines_of(corpus / f"a.{language}") for language in LANGUAGES)
    write(corpus / "v.en", sources[:30])
    write(corpus / "v.ko", targets[:30])
    assert call("init", "a.en", "a.ko", "--valid", "v.en", "v.ko", "-o", "x.yaml") == 0
    config = load_config("x.yaml")
    assert config.data.valid.model_dump()["source"] == "v.en"
    assert not (corpus / "x-data/valid.en").exists()
    learnt = lines_of(corpus / "x-data/train.en")
    assert learnt and not set(learnt) & set(sources[:30])


@pytest.mark.parametrize(
    ("valid", "test", "said"),
    [
        (("en", "ko"), ("en", "ko"), "overlap"),
        (("ko", "en"), None, "declared language"),
        (("en", "en"), None, "one language twice"),
        (("blank", "blank"), None, "blank"),
        (("few.en", "few.ko"), None, "v.few.en: 3 pairs, and 5 are needed"),
    ],
)
def test_pairs_held_out_already_are_looked_at_like_the_others(
    corpus: Path, capsys: pytest.CaptureFixture[str], valid: Any, test: Any, said: str
) -> None:
    for language in LANGUAGES:
        write(corpus / f"v.{language}", lines_of(corpus / f"a.{language}")[:60])
        write(corpus / f"v.few.{language}", lines_of(corpus / f"a.{language}")[:3])
    write(corpus / "v.blank", [""] * 60)
    given = ["--valid", *(f"v.{side}" for side in valid)]
    given += ["--test", *(f"v.{side}" for side in test)] if test else []
    before = everything(corpus)
    assert call("init", "a.en", "a.ko", *given) == 2
    assert said in capsys.readouterr().err.splitlines()[-1]
    assert everything(corpus) == before


def test_a_fault_of_many_pairs_is_told(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    targets = lines_of(corpus / "a.ko")
    write(corpus / "a.ko", [*lines_of(corpus / "a.en")[:80], *targets[80:]])
    assert call("init", "a.en", "a.ko") == 0
    said = capsys.readouterr().err
    assert re.search(r"a\.en: language: \d+ of \d+: .*; dropped", said)
    assert re.search(r"a\.en: copied: \d+ of 400: .*; not dropped", said)


def test_a_faulty_pair_is_held_out_for_nothing(corpus: Path) -> None:
    """Of so many as are dropped, validation and test would have their share, too."""
    targets = lines_of(corpus / "a.ko")
    foreign = ["Das ist ein Satz in einer ganz anderen Sprache."] * 15
    write(corpus / "a.ko", [*foreign, *targets[15:]])
    assert call("init", "a.en", "a.ko") == 0
    assert "script" in load_config("mtkit.yaml").batching.drop
    left = [lines_of(corpus / f"mtkit-data/{part}.ko") for part in PARTS]
    assert foreign[0] not in left[1] + left[2]
    # A source that came again is there with the first translation that is none of these.
    write(corpus / "a.en", 2 * lines_of(corpus / "a.en"))
    write(corpus / "a.ko", [*foreign, *targets[15:], *targets])
    assert call("init", "a.en", "a.ko", "--force") == 0
    again = [lines_of(corpus / f"mtkit-data/{part}.ko") for part in PARTS]
    assert foreign[0] not in again[1] + again[2]
    assert len(again[1] + again[2]) >= len(left[1] + left[2])


def test_held_out_files_that_are_not_there_are_told_before_any_work(
    corpus: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mtkit.study.init.init.check_corpus", None)
    assert call("init", "a.en", "a.ko", "--valid", "v.en", "v.ko") == 2
    assert capsys.readouterr().err.startswith("--valid.source: v.en: no such file")


def test_a_vocabulary_that_neither_side_can_fill_shrinks_to_what_both_can(tmp_path: Path) -> None:
    write(tmp_path / "s", [f"word{row} {row % 90}" for row in range(200)])
    write(tmp_path / "t", ["abc def"[row % 3 :] for row in range(200)])
    sides = {"source": str(tmp_path / "s"), "target": str(tmp_path / "t")}
    config = Config.model_validate(
        {
            "run": str(tmp_path / "run"),
            "data": {"train": sides, "valid": sides},
            "tokenizer": {"vocab_size": 4000, "joint": False},
            "training": {"steps": 1},
            "model": {"kind": "transformer", "tie": "target"},
        }
    )
    assert with_tokenizer(config).tokenizer.vocab_size < 300


def test_pairs_of_many_subwords_are_measured_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or else none but the short ones would be learnt from."""
    speed: dict[str, Any] = {"tokens_per_second": {"median": 1.0}, "device": "cpu", "parameters": 1}

    def measured(config: Config) -> dict[str, Any]:
        return {**speed, "max_tokens": config.batching.max_tokens}

    monkeypatch.setattr("mtkit.study.init.measure._training_speed", measured)
    monkeypatch.setattr("mtkit.study.init.measure._sentence_seconds", lambda *_: 1.0)
    generator = Random(1)
    letters = [" ".join(generator.choices("abcdefgh", k=400)) for _ in range(60)]
    sample = [("a b", "c d"), *zip(letters, letters, strict=True)]
    model = {"kind": "transformer", "layers": 1, "d_model": 8, "heads": 1}
    sections = {"tokenizer": {"vocab_size": 280}, "model": model, "training": {"steps": 1}}
    trial = measure(sample, {**sections, "batching": {"max_length": 256, "max_tokens": 512}})
    assert 300 < trial.lengths.longest < 900
    assert trial.lengths.source > 300
    found = plan_of(facts(800), trial.lengths, Measured(SIZES[0], 280, trial.rates), 5.0)
    assert found.longest == trial.lengths.longest <= found.max_tokens / 2


def test_sentences_are_timed_whole_and_as_long_as_their_translations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as the sources are, in the subwords of the other side: Arabic as English is all bytes."""
    asked: list[tuple[list[int], int]] = []
    submit = PyTorchEngine.submit

    def noted(self: PyTorchEngine, sentences: Any, request: Request) -> Pending:
        asked.append(([len(it.source) for it in sentences.values()], request.settings.max_length))
        return submit(self, sentences, request)

    monkeypatch.setattr(PyTorchEngine, "submit", noted)
    speed = {"max_tokens": 512, "tokens_per_second": {"median": 1.0}, "device": "cpu"}
    speed["parameters"] = 1
    monkeypatch.setattr("mtkit.study.init.measure._training_speed", lambda config: speed)
    sample = [(" ".join([f"wort{row % 7}"] * 40), f"word{row % 9}") for row in range(150)]
    model = {"kind": "transformer", "layers": 1, "d_model": 8, "heads": 1, "tie": "target"}
    batching = {"max_length": 256}
    tokenizer = {"vocab_size": 300, "joint": False}
    sections = {"tokenizer": tokenizer, "batching": batching, "model": model}
    measure(sample, {**sections, "training": {"steps": 1}})
    lengths, longest = asked[-1]
    assert len(lengths) == len(sample)
    assert min(lengths) > 40 > 10 > longest


def test_pairs_that_stand_there_twice_are_learnt_from_once(corpus: Path) -> None:
    for language in LANGUAGES:
        write(corpus / f"b.{language}", 2 * lines_of(corpus / f"a.{language}"))
    counts, held_out = [], []
    for name in ("a", "b"):
        assert call("init", f"{name}.en", f"{name}.ko", "-o", f"{name}.yaml") == 0
        said = re.search(r"# (\d+) pairs: what it learns from", Path(f"{name}.yaml").read_text())
        assert said is not None
        counts.append(int(said[1]))
        assert load_config(f"{name}.yaml").batching.deduplicate == (name == "b")
        held_out.append([len(lines_of(corpus / f"{name}-data/{part}.en")) for part in PARTS[1:]])
    assert counts[1] == pytest.approx(counts[0], rel=0.05)
    assert held_out[0] == held_out[1]


def test_a_disk_that_fills_up_leaves_all_as_it_was(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for before in ({}, {"--force": None}):
        there = everything(corpus)
        with monkeypatch.context() as patch:
            patch.setattr("mtkit.study.init.files.sync", full)
            assert call("init", "a.en", "a.ko", *before) == 1
        assert "No space left on device" in capsys.readouterr().err.splitlines()[-1]
        assert everything(corpus) == there
        assert before or not (corpus / "mtkit-data").exists()
        assert call("init", "a.en", "a.ko", "--force") == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda en, ko: (en[:-1], ko), "399"),
        (lambda en, ko: (en, en), "one language twice"),
        (lambda en, ko: (en[:5], ko[:5]), "few pairs"),
        (lambda en, ko: (en[:1] * 400, ko[:1] * 400), "few pairs: 1 "),
        (lambda en, ko: ([], []), "empty"),
        (lambda en, ko: ([""] * 400, ko), "blank"),
    ],
    ids=["unequal", "twice", "five", "one", "empty", "blank"],
)
def test_a_corpus_that_is_none_is_refused_in_a_line_and_nothing_written(
    corpus: Path, capsys: pytest.CaptureFixture[str], change: Any, said: str
) -> None:
    texts = [lines_of(corpus / f"a.{language}") for language in LANGUAGES]
    for language, lines in zip(LANGUAGES, change(*texts), strict=True):
        write(corpus / f"a.{language}", lines)
    before = everything(corpus)
    assert call("init", "a.en", "a.ko") == 2
    assert said in capsys.readouterr().err.splitlines()[-1]
    assert everything(corpus) == before


def test_a_file_that_is_no_text_is_refused(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (corpus / "a.en").write_bytes(b"".join(bytes([255, n % 250, 200, 10]) for n in range(400)))
    assert call("init", "a.en", "a.ko") == 2
    assert "invalid text" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
def test_two_files_become_a_translator_by_two_commands(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stdin: Stdin,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mtkit.study.init.measure.TRAINING_SECONDS", 0.5)
    monkeypatch.setattr("mtkit.study.init.init.TRIALS", 1)
    monkeypatch.setattr("mtkit.study.init.choice.most_passes", lambda pairs: 5.0)
    for language in LANGUAGES:
        write(tmp_path / f"a.{language}", list(islice(read_lines(f"demo:train.{language}"), 400)))
    assert call("init", "a.en", "a.ko", "--minutes", "0.5") == 0
    assert "minutes" in capsys.readouterr().out
    assert call("run") == 0
    assert "BLEU" in capsys.readouterr().out
    stdin("I read a book.\n")
    assert call("translate", "-m", "runs/mtkit") == 0
    assert capsys.readouterr().out.count("\n") == 1
