"""`mtkit init`: what it holds out, plans, forecasts and writes."""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from commands import Stdin, call
from mtkit.artifacts.manifest import open_artifact
from mtkit.batching.build import build_batches
from mtkit.config.corpora import Corpus, TextCorpus
from mtkit.config.decoding import DecodingSettings
from mtkit.config.settings import DROP_RULES, Config
from mtkit.config.yaml import load_config
from mtkit.corpus import store
from mtkit.corpus.files import read_lines
from mtkit.corpus.read import Pair, read_corpus
from mtkit.corpus.rules import held_out_keys, key_of
from mtkit.corpus.statistics import Languages
from mtkit.init.config_text import Chosen, choose_settings, render
from mtkit.init.facts import CorpusFacts, describe_corpus
from mtkit.init.from_scratch import NewModel, find_plan
from mtkit.init.partition import Partition
from mtkit.init.presets import (
    GREEDY_COST,
    LOSS_COST,
    MIN_STEPS,
    OTHER_SECONDS,
    PRESETS,
    TRAINING_SHARE,
    VALIDATION_SHARE,
    Plan,
    Preset,
    Trial,
    choose_plan,
    choose_vocabulary,
)
from mtkit.init.trial import run_trial
from mtkit.report import MAX_CELLS
from mtkit.tokenizer.train_spm import train_tokenizer
from parallel import check_corpus

PARTS = "train", "valid", "test"
LANGUAGES = "en", "ko"
TEXTS = st.text(st.sampled_from("abcABCéÀ .?!,-ａ中文"), max_size=8)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), max_size=200).map(
    lambda rows: [Pair(*row, 0, "file", line) for line, row in enumerate(rows, 1)]
)


def keys(placed: list[tuple[str, Pair]], side: int, *parts: str) -> list[int]:
    return [key_of((pair.source, pair.target)[side]) for part, pair in placed if part in parts]


@given(PAIRS)
def test_no_source_and_no_target_is_both_trained_on_and_held_out(pairs: list[Pair]) -> None:
    placed = list(Partition(100).divide(pairs))
    for side in (0, 1):
        assert not {*keys(placed, side, "train")} & {*keys(placed, side, "valid", "test")}
    held_out = keys(placed, 0, "valid", "test")
    assert len(held_out) == len({*held_out})
    assert all(not pair.blank for _, pair in placed)


@given(PAIRS, st.data())
def test_no_text_of_existing_sets_is_in_a_part(pairs: list[Pair], data: st.DataObject) -> None:
    texts = held_out_keys(data.draw(st.lists(st.sampled_from(pairs))) if pairs else [])
    placed = list(Partition(100, held_out=texts).divide(pairs))
    for side in (0, 1):
        assert not texts & {*keys(placed, side, *PARTS)}


@given(PAIRS, st.data())
def test_text_of_other_sets_may_be_held_out_but_is_not_trained_on(
    pairs: list[Pair], data: st.DataObject
) -> None:
    texts = held_out_keys(data.draw(st.lists(st.sampled_from(pairs))) if pairs else [])
    placed = list(Partition(100, untrained=texts).divide(pairs))
    for side in (0, 1):
        assert not texts & {*keys(placed, side, "train")}
    alone = list(Partition(100).divide(pairs))
    assert {*keys(alone, 0, "valid", "test")} <= {*keys(placed, 0, "valid", "test")}


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.text(min_size=1))
def test_a_growing_corpus_holds_out_no_pair_that_was_trained_on(
    pairs: int, more: int, source: str
) -> None:
    before, after = (Partition(count).part_of(key_of(source)) for count in (pairs, pairs + more))
    assert after in ("train", before)


def test_keys_ignore_case_and_punctuation_but_not_the_marks_of_words() -> None:
    assert key_of("Hello, you!") == key_of("hello you") == key_of("ＨＥＬＬＯ ＹＯＵ ")
    assert key_of("!") != key_of("?")
    for one, other in ("लड़का", "लड़की"), ("เสือ", "เสื้อ"), ("មាន", "មិន"), ("မိုး", "မီး"):
        assert key_of(one) != key_of(other)


def facts(pairs: int = 28_000, **changes: Any) -> CorpusFacts:
    values: dict[str, Any] = {"valid": 500, "test": 500, "is_joint": True, "characters": 200}
    return CorpusFacts(pairs, **values | changes)


CORPORA = st.builds(
    facts,
    pairs=st.integers(50, 10**9),
    valid=st.integers(5, 2500),
    test=st.integers(5, 2500),
    is_joint=st.booleans(),
    characters=st.integers(1, 8000),
    has_repeated_pairs=st.booleans(),
    broken_rules=st.dictionaries(st.sampled_from(DROP_RULES), st.integers(1, 1000)),
    sentences=st.sampled_from([None, "en", "no"]),
    abbreviations=st.sampled_from(["", "M", "No Mme"]),
    truecase=st.booleans(),
    dotless_i=st.sampled_from([None, "both"]),
    frequent_words=st.none() | st.integers(0, 10**6),
    max_vocabulary=st.none() | st.integers(270, 8000),
)
TRIALS = st.builds(
    Trial,
    preset=st.sampled_from(PRESETS),
    vocabulary=st.sampled_from([2000, 32_000]),
    tokens_per_second=st.floats(10, 1e7),
    pair_seconds=st.floats(1e-7, 1e-2),
    target_tokens=st.floats(2, 200),
    padded_tokens=st.floats(200, 300),
    long_tokens=st.integers(2, 65_000),
    is_gpu=st.booleans(),
)
MINUTES = st.floats(1, 10_000)
DATA = {part: {"source": "a", "target": "b"} for part in PARTS}


def config_of(corpus: CorpusFacts, plan: Plan) -> Config:
    sections = {"data": DATA, **choose_settings(corpus, plan)}
    return Config.model_validate(yaml.safe_load(render("mtkit init", "r", sections)))


@given(CORPORA, TRIALS, MINUTES)
def test_every_plan_is_a_valid_config(corpus: CorpusFacts, trial: Trial, minutes: float) -> None:
    plan = choose_plan(corpus, trial, minutes)
    config = config_of(corpus, plan)
    training, batching = config.training, config.batching
    assert (training.steps, training.accumulate) == (plan.steps, plan.accumulate)
    assert (batching.max_tokens, batching.max_length) == (plan.max_tokens, plan.max_length)
    assert training.warmup < plan.steps
    assert training.validate_every * plan.validations.count == plan.steps
    assert training.save_every <= training.validate_every
    for name in "sentences", "abbreviations", "truecase", "dotless_i":
        assert getattr(config.decoding, name) == getattr(corpus, name)
    assert batching.deduplicate == corpus.has_repeated_pairs
    assert batching.drop == list(corpus.broken_rules)
    assert config.tokenizer.vocab_size == plan.vocabulary


def test_a_config_says_above_each_setting_what_it_is_and_why_it_has_its_value() -> None:
    why = "measured " * 20  # so long that the comment is wrapped
    text = render("mtkit init", "r", {"decoding": {"beam": Chosen(4, why), "tag": None}})
    *comments, setting = text.partition("decoding:\n")[2].splitlines()
    words = " ".join(line.removeprefix("  # ") for line in comments)
    assert words == f"{DecodingSettings.model_fields['beam'].description}; {why.strip()}"
    assert setting == "  beam: 4"
    assert max(map(len, comments)) <= MAX_CELLS


@given(CORPORA, TRIALS, MINUTES)
def test_the_forecast_keeps_the_time_unless_the_run_is_the_shortest_possible(
    corpus: CorpusFacts, trial: Trial, minutes: float
) -> None:
    plan = choose_plan(corpus, trial, minutes)
    is_shortest = plan.steps <= MIN_STEPS + 2  # a multiple of the number of validations
    assert plan.seconds <= 60 * minutes * 1.01 or is_shortest
    assert plan.epochs <= 101 or is_shortest


@given(
    st.integers(200, 1_000_000),
    st.floats(2, 100),
    st.floats(200, 100_000),
    st.floats(3, 1000),
)
def test_training_gets_two_thirds_of_the_time_unless_it_needs_less_or_preparation_takes_more(
    pairs: int, tokens: float, speed: float, minutes: float
) -> None:
    corpus = facts(pairs, valid=min(1000, pairs // 20), test=min(2500, pairs // 20))
    trial = Trial(
        speed,
        preset=PRESETS[1],
        vocabulary=4000,
        target_tokens=tokens,
        padded_tokens=1.2 * tokens,
    )
    plan = choose_plan(corpus, trial, minutes)
    budget = 60 * minutes
    preparation = OTHER_SECONDS + corpus.pairs * trial.pair_seconds
    assume(preparation < 0.12 * budget and not plan.has_spare_time)
    validated = 2 * (LOSS_COST * corpus.valid + GREEDY_COST * 20)
    assume(validated * plan.trial.training_seconds < VALIDATION_SHARE * budget)
    rounded_off = plan.training_seconds * plan.validations.count / plan.steps
    assert plan.training_seconds + rounded_off >= TRAINING_SHARE * budget


@given(CORPORA, TRIALS, MINUTES)
def test_the_forecast_says_if_the_run_cannot_use_all_the_time(
    corpus: CorpusFacts, trial: Trial, minutes: float
) -> None:
    plan = choose_plan(corpus, trial, minutes)
    text = " ".join(NewModel(plan).forecast(corpus, [], minutes))
    assert ("more than the run can use" in text) == plan.has_spare_time


@given(CORPORA, TRIALS, MINUTES, st.floats(1, 100))
def test_more_time_never_plans_a_smaller_model_or_less_training(
    corpus: CorpusFacts, trial: Trial, minutes: float, times: float
) -> None:
    less, more = (choose_plan(corpus, trial, m) for m in (minutes, times * minutes))
    assert PRESETS.index(less.preset) <= PRESETS.index(more.preset)
    assume((less.preset, less.vocabulary) == (more.preset, more.vocabulary))
    tokens = [plan.steps * plan.max_tokens * plan.accumulate for plan in (less, more)]
    per_validation = 10 * more.max_tokens * more.accumulate  # steps are rounded to validations
    more_validations = 60 * VALIDATION_SHARE * minutes / less.trial.training_seconds
    spent = more_validations * trial.padded_tokens  # the time of validations may grow, too
    assert tokens[0] <= tokens[1] + per_validation + spent


@pytest.mark.parametrize(
    ("minutes", "name"), [(60.0, "transformer-base"), (2000.0, "transformer-big")]
)
def test_millions_of_pairs_on_a_gpu_get_a_published_recipe(minutes: float, name: str) -> None:
    corpus = facts(5_000_000, valid=1000, test=2500)
    trial = Trial(
        250_000.0,
        preset=PRESETS[3],
        vocabulary=32_000,
        target_tokens=27.0,
        padded_tokens=31.0,
        is_gpu=True,
    )
    config = config_of(corpus, choose_plan(corpus, trial, minutes))
    published = load_config(Path(__file__).parents[2] / f"configs/{name}.yaml")
    assert config.model == published.model
    assert config.batching.max_tokens == published.batching.max_tokens
    assert config.training.warmup == published.training.warmup
    assert config.training.optimizer == published.training.optimizer


def measure_as(
    speed: Callable[[Preset], float], monkeypatch: pytest.MonkeyPatch, **changes: Any
) -> list[Preset]:
    """Let trials measure `speed` of a preset; return the presets as they are tried."""
    tried: list[Preset] = []

    def measure(corpus: CorpusFacts, plan: Plan, sample: object) -> Trial:
        tried.append(plan.preset)
        trial = Trial(speed(plan.preset), preset=plan.preset, vocabulary=plan.vocabulary)
        return replace(trial, **changes)

    monkeypatch.setattr("mtkit.init.from_scratch.run_trial", measure)
    return tried


@pytest.mark.parametrize(
    ("minutes", "speed", "sizes"),
    [(60.0, 217_000.0, [512]), (240.0, 217_000.0, [512, 1024]), (60.0, 5_000.0, [512, 256])],
)
def test_a_gpu_is_measured_with_a_large_model_first_and_with_two_at_most(
    minutes: float, speed: float, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(preset: Preset) -> float:
        return {512: speed, 1024: speed / 2.8}.get(preset.d_model, 8 * speed)

    monkeypatch.setattr("mtkit.init.from_scratch.pick_device", lambda _: torch.device("cuda"))
    tried = measure_as(measure, monkeypatch, is_gpu=True, target_tokens=27.0)
    _, plan = find_plan(facts(5_000_000, valid=1000, test=2500), [], minutes)
    assert [preset.d_model for preset in tried] == sizes
    assert plan.preset == tried[-1]


def test_a_vocabulary_that_the_text_cannot_fill_is_made_smaller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measure_as(lambda _: 5000.0, monkeypatch, vocabulary=517)
    sample = [Pair("a", "b", 0, "file", 1)] * 1000
    assert find_plan(facts(1000), sample, 5.0)[1].vocabulary == 517


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with 400 pairs of the demo and a machine of known speed."""
    monkeypatch.chdir(tmp_path)
    measure_as(lambda _: 5000.0, monkeypatch, vocabulary=600, target_tokens=10.0)
    for language in LANGUAGES:
        write(f"a.{language}", list(islice(read_lines(f"demo:train.{language}"), 400)))
    return tmp_path


def write(name: str, lines: list[str]) -> None:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def lines_of(name: str) -> list[str]:
    return Path(name).read_text(encoding="utf-8").splitlines()


def everything(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_what_is_written_is_said_reproducible_and_disjoint(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("init", "a.en", "a.ko", "--minutes", "3") == 0
    output = capsys.readouterr().out
    first = everything(corpus)
    parts = {part: lines_of(f"mtkit-data/{part}.en") for part in PARTS}
    for text in (
        "mtkit.yaml",
        "mtkit-data",
        "en to ko (English to Korean)",
        *(str(len(it)) for it in parts.values()),
    ):
        assert text in output
    assert not {*parts["train"]} & {*parts["valid"], *parts["test"]}
    config = load_config("mtkit.yaml")
    assert (config.data.target_language, config.tokenizer.joint) == ("ko", False)
    assert f"{config.training.steps:,} steps" in output
    assert open_artifact(corpus / "mtkit-data", "corpus", verify=True).report["train"] > 300
    assert call("init", "a.en", "a.ko", "--minutes", "3", "--force") == 0
    again = everything(corpus)
    assert again.pop(corpus / "mtkit.yaml.old") == first[corpus / "mtkit.yaml"]
    again[corpus / "mtkit.yaml"] = again[corpus / "mtkit.yaml"].replace(b" --force", b"")
    assert first == again


def test_force_keeps_every_old_config(corpus: Path) -> None:
    Path("mtkit.yaml").write_text("first")
    for old in ("second", "third"):
        assert call("init", "a.en", "a.ko", "--force") == 0
        Path("mtkit.yaml").write_text(old)
    olds = [Path(f"mtkit.yaml.{name}").read_text() for name in ("old", "old-2")]
    assert olds == ["first", "second"]


def test_a_config_names_a_run_directory_that_is_not_used(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = []
    for _ in range(3):
        assert call("init", "a.en", "a.ko", "--force") == 0
        names.append(load_config("mtkit.yaml").run)
        Path(names[-1]).mkdir(parents=True)
    assert names == ["runs/mtkit", "runs/mtkit-2", "runs/mtkit-3"]
    assert "runs/mtkit-3, because runs/mtkit holds a run" in capsys.readouterr().out
    assert call("init", "a.en", "a.ko", "--force", "--run", "runs/mtkit") == 0
    assert load_config("mtkit.yaml").run == "runs/mtkit"


def test_a_stream_cannot_be_the_config(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("init", "a.en", "a.ko", "-o", "/dev/null", "--force") == 2
    assert "/dev/null is no file" in capsys.readouterr().err


def test_the_corpus_is_read_once(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readings: list[Corpus] = []
    original = read_corpus

    def count_and_read(corpus: Corpus, index: int) -> Iterator[Pair]:
        readings.append(corpus)
        return original(corpus, index)

    monkeypatch.setattr(store, "read_corpus", count_and_read)
    assert call("init", "a.en", "a.ko") == 0
    assert readings == [TextCorpus(source="a.en", target="a.ko")]


def test_declared_languages_are_checked_and_unknown_ones_asked_for(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("init", "a.en", "a.ko", "--languages", "en", "jp") == 2
    assert call("init", "a.ko", "a.en", "--languages", "en", "ko") == 2
    assert "not ko (Korean)" in capsys.readouterr().err
    write("b.en", [f"And so: {line}" for line in lines_of("a.en")])
    assert call("init", "a.en", "b.en") == 2
    assert "--languages" in capsys.readouterr().err
    assert call("init", "a.en", "b.en", "--languages", "en-GB", "en-US") == 0
    assert load_config("mtkit.yaml").data.target_language == "en-US"
    assert Path("mtkit-data/train.en-GB").exists()
    write("words.ko", [line.split()[-1] for line in lines_of("a.ko")])
    assert call("init", "a.en", "words.ko", "--force") == 0
    assert "target is not certain" in capsys.readouterr().err
    assert load_config("mtkit.yaml").data.target_language is None


@pytest.mark.parametrize("is_usual", [True, False])
def test_unusual_lines_are_prepared_for_a_model_that_has_not_seen_such(
    corpus: Path, is_usual: bool
) -> None:
    """Lines of several sentences and lines in capitals."""
    rows = list(zip(*(lines_of(f"a.{language}") for language in LANGUAGES), strict=True))
    if not is_usual:
        rows += [(f"{one} {en}", f"{two} {ko}") for (one, two), (en, ko) in pairwise(rows[:30])]
        rows += [(en.upper(), ko) for en, ko in rows[:16]]
    for side, language in enumerate(LANGUAGES):
        write(f"a.{language}", [row[side] for row in rows])
    assert call("init", "a.en", "a.ko") == 0
    decoding = load_config("mtkit.yaml").decoding
    assert (decoding.sentences, decoding.truecase) == (("en", True) if is_usual else (None, False))
    assert (decoding.abbreviations, decoding.dotless_i) == ("Mr Ms", None)


def described(pairs: list[tuple[str, str]], languages: Languages, folder: Path) -> CorpusFacts:
    """Return what `init` learns of a corpus."""
    sides = [str(folder / name) for name in ("x", "y")]
    for path, lines in zip(sides, zip(*pairs, strict=True), strict=True):
        write(path, list(lines))
    report = check_corpus(TextCorpus(source=sides[0], target=sides[1]), languages)
    return describe_corpus(report, Partition(report.distinct_pairs), languages, {})[0]


@pytest.mark.parametrize(
    ("target", "is_joint"),
    [("Zwei Männer in Rom.", True), ("汤姆今天回家，Tom 说。", False), ("Двое в Риме.", False)],
)
def test_sides_in_one_script_share_a_vocabulary(
    target: str, is_joint: bool, tmp_path: Path
) -> None:
    pairs = [(f"Two men are in Rome {i}.", f"{target} {i}") for i in range(60)]
    assert described(pairs, (None, None), tmp_path).is_joint == is_joint


def test_a_corpus_of_few_words_gets_a_small_vocabulary(tmp_path: Path) -> None:
    draw = random.Random(1).choices
    codes = ["".join(draw("ABCDEFGHIJ", k=6)) for _ in range(2_000)]
    pairs = [
        (f"The shop sold {code} for $ {i}.", f"Der Laden verkaufte {code} für {i} $.")
        for i, code in enumerate(codes)
    ]
    few = described(pairs, ("en", "de"), tmp_path)
    assert few.frequent_words == 10  # The shop sold for $ Der Laden verkaufte für $. and no code
    assert choose_vocabulary(few, few.pairs) == 400
    words = ["".join(draw("abcdefghij", k=4)) for _ in range(3_000)]
    ordinary = [(" ".join(draw(words, k=9)), " ".join(draw(words, k=9))) for _ in range(2_000)]
    many = described(ordinary, ("en", "de"), tmp_path)
    assert choose_vocabulary(many, many.pairs) == choose_vocabulary(facts(), many.pairs) == 2_000


@pytest.mark.parametrize("target", ["汤姆今天回家", "พ่อกลับบ้าน"])
def test_words_are_not_counted_without_spaces(target: str, tmp_path: Path) -> None:
    pairs = [(f"Tom goes home {i}.", f"{target}{i}") for i in range(60)]
    assert described(pairs, ("en", None), tmp_path).frequent_words is None


def test_abbreviations_of_the_corpus_are_not_split_at(tmp_path: Path) -> None:
    pairs = [(f"Ici Mme. Curie voit {i} maisons.", f"Here she sees {i} houses.") for i in range(9)]
    pairs += [(f"Le chien voit {i} chats.", f"The dog sees {i} cats.") for i in range(300)]
    facts = described(pairs, ("fr", "en"), tmp_path)
    assert (facts.sentences, facts.abbreviations) == ("fr", "Mme")


@pytest.mark.parametrize(("end", "language"), [("", None), (" It sleeps.", "fr")])
def test_lines_are_split_only_if_their_targets_have_several_sentences(
    end: str, language: str | None, tmp_path: Path
) -> None:
    pairs = [(f"Le chat {i} dort. Le chien dort.", f"A cat {i} sleeps.{end}") for i in range(9)]
    pairs += [(f"Le chien {i} dort.", f"The dog {i} sleeps.") for i in range(300)]
    assert described(pairs, ("fr", "en"), tmp_path).sentences == language


@pytest.mark.parametrize(
    ("languages", "side"),
    [
        *((("tr", "en"), "source"), (("en", "az"), "target"), (("tr", "crh"), "both")),
        (("en", "fr"), None),
    ],
)
def test_dotless_i_is_that_of_the_languages(
    languages: Languages, side: str | None, tmp_path: Path
) -> None:
    pairs = [(f"The dog sees {i} cats.", f"Le chien voit {i} chats.") for i in range(60)]
    assert described(pairs, languages, tmp_path).dotless_i == side


def test_given_sets_are_used_and_told_how_many_pairs_have_their_text(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources, targets = lines_of("a.en"), lines_of("a.ko")
    write("t.en", [*sources[:10], *[f"{it} Indeed." for it in sources[10:30]]])
    write("t.ko", targets[:30])
    assert call("init", "a.en", "a.ko", "--test", "t.en", "t.ko") == 0
    left_out = sum(
        source in sources[:10] or target in targets[:30]
        for source, target in zip(sources, targets, strict=True)
    )
    (row,) = re.findall(r"^- left out \(in valid.* ([\d,]+)$", capsys.readouterr().out, re.M)
    assert int(row) == left_out >= 30
    for language in LANGUAGES:
        assert not {*lines_of(f"mtkit-data/train.{language}")} & {*lines_of(f"t.{language}")}
    assert load_config("mtkit.yaml").data.test == TextCorpus(source="t.en", target="t.ko")
    assert {path.name for path in Path("mtkit-data").glob("*.en")} == {"train.en", "valid.en"}


def test_repeated_pairs_are_trained_on_once_and_hold_out_no_more(corpus: Path) -> None:
    for language in LANGUAGES:
        write(f"b.{language}", 2 * lines_of(f"a.{language}"))
    for name in ("a", "b"):
        assert call("init", f"{name}.en", f"{name}.ko", "-o", f"{name}.yaml") == 0
        assert load_config(f"{name}.yaml").batching.deduplicate == (name == "b")
    for part in ("valid", "test"):
        assert lines_of(f"a-data/{part}.en") == lines_of(f"b-data/{part}.en")


def test_the_counts_add_up_and_training_drops_what_is_said(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = list(zip(*(lines_of(f"a.{language}") for language in LANGUAGES), strict=True))
    rows += [*rows[:50], ("", "x"), ("A dog runs &amp; sleeps.", "개가 달린다."), ("A dog.", "")]
    for side, language in enumerate(LANGUAGES):
        write(f"a.{language}", [row[side] for row in rows])
    assert call("init", "a.en", "a.ko") == 0
    counts = re.findall(r"^(pairs read|- .*?|= .*?) {2,}([\d,]+)$", capsys.readouterr().out, re.M)
    numbers = [int(number.replace(",", "")) for _, number in counts]
    assert numbers[0] == len(rows) and numbers[0] == sum(numbers[1:])
    assert counts[1] == ("- blank on a side", "2")
    three_columns = 3 * len("  1,000,000")
    assert max(len(label) for label, _ in counts) + three_columns <= 80
    config = load_config("mtkit.yaml", ["tokenizer.vocab_size=1000"])
    train_tokenizer(config)
    batches = build_batches(config)
    assert batches.report["train"]["kept"] == numbers[-1]
    assert call("init", "a.en", "a.ko", "--force", "-q") == 0
    assert capsys.readouterr().out == ""


def test_faulty_pairs_are_not_held_out_whatever_their_file_is_called(corpus: Path) -> None:
    targets = lines_of("a.ko")
    foreign = ["Das ist ein Satz in einer ganz anderen Sprache."] * 15
    odd = "a\u2028\x1b b.en"
    write(odd, 2 * lines_of("a.en"))
    write("a.ko", [*foreign, *targets[15:], *targets])
    assert call("init", odd, "a.ko") == 0
    assert "script" in load_config("mtkit.yaml").batching.drop
    assert foreign[0] not in lines_of("mtkit-data/valid.ko") + lines_of("mtkit-data/test.ko")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["a.en", "a.ko"],  # without --force
        ["a.en", "a.ko", "-o", "folder", "--force"],
        ["a.en", "a.ko", "-o", "a.en", "--force"],
        ["a.en", "a.ko", "-o", "a.en/x/y.yaml", "--force"],
        ["a.en", "a.ko", "-o", "other.yaml", "--force"],  # other-data is not of `mtkit init`
        ["in-data/a.en", "in-data/a.ko", "-o", "in.yaml", "--force"],
        ["c.csv", "--columns", "en", "ko", "-o", "c.csv", "--force"],
        ["set", "--columns", "en", "ko", "-o", "set/c.csv", "--force"],
        ["a.en", "a.ko", "--valid", "no.en", "no.ko", "-o", "new.yaml"],
        ["a.en", "a.en", "-o", "new.yaml"],
        ["a.en", "a.ko", "--valid", "a.ko", "a.en", "-o", "new.yaml"],
        ["a.en", "a.ko", "--valid", "few.en", "few.ko", "-o", "new.yaml"],
        ["a.en", "a.ko", "--valid", *["v.en", "v.ko"], "--test", *["v.en", "v.ko"], "-o", "n.yaml"],
    ],
    ids=" ".join,
)
def test_a_refused_command_exits_with_2_and_changes_nothing(
    corpus: Path, arguments: list[str]
) -> None:
    for folder in ("folder", "other-data", "in-data", "set"):
        Path(folder).mkdir()
    rows = zip(*(lines_of(f"a.{language}") for language in LANGUAGES), strict=True)
    write("c.csv", ["en,ko", *(f'"{source}","{target}"' for source, target in rows)])
    shutil.copy("c.csv", "set/c.csv")
    for language in LANGUAGES:
        shutil.copy(f"a.{language}", f"in-data/a.{language}")
        write(f"v.{language}", lines_of(f"a.{language}")[:60])
        write(f"few.{language}", lines_of(f"a.{language}")[:3])
    assert call("init", "a.en", "a.ko") == 0
    before = everything(corpus)
    assert call("init", *arguments) == 2
    assert everything(corpus) == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda en, ko: (en[:-1], ko), "unequal"),
        (lambda en, ko: (en[:5], ko[:5]), "few pairs"),
        (lambda en, ko: (en[:1] * 400, ko[:1] * 400), "few pairs"),
        (lambda en, ko: (en, [ko[row % 4] for row in range(len(en))]), "at least 5"),
        (lambda en, ko: ([], []), "empty"),
        (lambda en, ko: ([""] * 400, ko), "blank"),
    ],
    ids=["unequal", "five", "one", "few targets", "empty", "blank"],
)
def test_an_unusable_corpus_is_refused_in_one_line(
    corpus: Path, capsys: pytest.CaptureFixture[str], change: Any, reason: str
) -> None:
    texts = change(*(lines_of(f"a.{language}") for language in LANGUAGES))
    for language, lines in zip(LANGUAGES, texts, strict=True):
        write(f"a.{language}", lines)
    before = everything(corpus)
    assert call("init", "a.en", "a.ko") == 2
    assert reason in capsys.readouterr().err.splitlines()[-1]
    assert everything(corpus) == before


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_full_disk_leaves_everything_as_it_was(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, force: list[str]
) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if force:
        assert call("init", "a.en", "a.ko") == 0
    before = everything(corpus)
    monkeypatch.setattr("mtkit.artifacts.replacement.sync", full)
    assert call("init", "a.en", "a.ko", *force) == 1
    assert everything(corpus) == before
    assert bool(force) == Path("mtkit-data").exists()


def test_a_trial_knows_the_lengths_of_long_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mtkit.init.trial.TRIAL_SECONDS", 0.1)
    generator = random.Random(1)
    letters = [" ".join(generator.choices("abcdefgh", k=400)) for _ in range(60)]
    sample = [Pair(text, text[::-1], 0, "file", row) for row, text in enumerate(["a b", *letters])]
    plan = choose_plan(facts(800), Trial(1000.0, preset=PRESETS[0], vocabulary=2000), 1.0)
    small = Preset(0, 0.0, 1, 8, 8, 1)
    trial = run_trial(facts(800), replace(plan, preset=small), sample)
    assert 300 < trial.long_tokens < 900
    assert 300 < trial.target_tokens < trial.padded_tokens
    assert trial.vocabulary < 2000
    assert choose_plan(facts(800), trial, 5.0).max_length == trial.long_tokens


@pytest.mark.slow
def test_two_commands_turn_two_files_into_a_translator(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stdin: Stdin,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mtkit.init.trial.TRIAL_SECONDS", 0.5)
    for language in LANGUAGES:
        write(f"a.{language}", list(islice(read_lines(f"demo:train.{language}"), 400)))
    assert call("init", "a.en", "a.ko", "--minutes", "0.5") == 0
    capsys.readouterr()
    assert call("run", "--set", "training.steps=20") == 0
    assert "BLEU" in capsys.readouterr().out
    stdin("I read a book.\n")
    assert call("translate", "-m", "runs/mtkit") == 0
    assert capsys.readouterr().out.count("\n") == 1
