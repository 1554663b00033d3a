"""`mtkit init --from`: a base model is adapted to a new corpus."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from commands import call
from folders import tokenizer_in
from mtkit.artifacts.replacement import create
from mtkit.batching.build import build_batches, open_batches
from mtkit.config.corpora import DatasetCorpus, TableCorpus, TextCorpus, listed
from mtkit.config.settings import Config
from mtkit.config.yaml import load_config
from mtkit.corpus.read import Pair, read_pairs
from mtkit.corpus.rules import normalised
from mtkit.extras.adapt import base_model
from mtkit.extras.adapt.base_model import Fit, OpenedBaseModel
from mtkit.extras.adapt.from_model import AdaptedModel, choose_adaptation
from mtkit.extras.adapt.old_text import OldTraining
from mtkit.init.facts import CorpusFacts
from mtkit.init.presets import Measurement
from mtkit.models.folder import open_model
from mtkit.models.weights import load_model
from mtkit.pipeline import run
from mtkit.tokenizer.train_spm import train_tokenizer
from tasks import Capture, tiny_config, write_reversal_task

MEASUREMENTS = st.builds(
    Measurement,
    tokens_per_second=st.floats(10, 1e7),
    warm_up_seconds=st.floats(0, 10),
    pair_seconds=st.floats(1e-7, 1e-2),
    target_tokens=st.floats(2, 200),
    padded_tokens=st.floats(200, 300),
    long_tokens=st.integers(2, 65_000),
)
CORPORA = st.builds(
    CorpusFacts,
    pairs=st.integers(50, 10**6),
    valid=st.integers(5, 1000),
    test=st.integers(5, 2500),
    is_joint=st.booleans(),
    characters=st.integers(1, 8000),
)


PATIENT = {"steps": 400, "validate_every": 400, "save_every": 400, "average": 1}
"""Settings of a training that learns the reversal task."""


@given(
    CORPORA,
    MEASUREMENTS,
    st.integers(0, 1000),
    st.integers(0, 10**6),
    st.sampled_from([1.0, 2.0]),
    st.floats(1, 1000),
)
def test_the_forecast_keeps_the_time_unless_the_adaptation_is_the_shortest_possible(
    reverser: Path,
    facts: CorpusFacts,
    measured: Measurement,
    old_lines: int,
    old_pairs: int,
    mismatched_loss: float,
    minutes: float,
) -> None:
    pair = Pair("a", "b", 0, "file", 1)
    opened = open_model(reverser / "run")
    model = OpenedBaseModel(opened, "base", [pair] * old_lines, False, OldTraining(pairs=old_pairs))
    fit = Fit(loss=1.0, mismatched_loss=mismatched_loss, entropy=2.0)
    plan = choose_adaptation(facts, measured, model, fit, minutes)
    assert choose_adaptation(facts, measured, model, fit, 2 * minutes).steps >= plan.steps
    is_shortest = plan.steps == choose_adaptation(facts, measured, model, fit, 0.5).steps
    rounding_seconds = plan.training_seconds / plan.steps
    assert plan.seconds <= 60 * minutes + rounding_seconds or is_shortest


@given(CORPORA, MEASUREMENTS, st.floats(1, 1000))
def test_a_test_set_too_large_to_translate_takes_as_long_however_large_it_is(
    reverser: Path, facts: CorpusFacts, measured: Measurement, minutes: float
) -> None:
    model = OpenedBaseModel(open_model(reverser / "run"), "base", [], False, OldTraining())
    fit = Fit(loss=1.0, mismatched_loss=2.0, entropy=2.0)
    large, larger = (
        choose_adaptation(replace(facts, test=test), measured, model, fit, minutes)
        for test in (10**12, 10**13)
    )
    assert large == larger


@pytest.mark.parametrize(
    ("mismatched_loss", "words"),
    [(2.0, "little is forgotten"), (1.0, "the model learns other languages")],
)
def test_the_comment_on_the_learning_rate_says_whether_old_text_matters(
    reverser: Path, mismatched_loss: float, words: str
) -> None:
    model = OpenedBaseModel(open_model(reverser / "run"), "base", [], False, OldTraining())
    fit = Fit(loss=1.0, mismatched_loss=mismatched_loss, entropy=2.0)
    facts = CorpusFacts(pairs=1000, valid=100, test=100, is_joint=True, characters=100)
    measured = Measurement(1000.0, 1.0, 1e-4, 16.0, 20.0, 64)
    plan = choose_adaptation(facts, measured, model, fit, minutes=5.0)
    training = AdaptedModel(model, 0, model.opened.config.target_vocab, fit, plan).settings(facts)[
        "training"
    ]
    assert words in training["schedule"].why


@pytest.fixture(scope="module")
def reverser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, and a run that has learnt to reverse its sentences."""
    folder = tmp_path_factory.mktemp("base")
    write_reversal_task(folder)
    run(tiny_config(folder, "transformer", training=PATIENT))
    return folder


@pytest.fixture
def corpus(reverser: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a new corpus, the run `base`, and text `old` that it knows well."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mtkit.init.trial.TRIAL_SECONDS", 0.1)
    shutil.copytree(reverser / "run", tmp_path / "base")
    for seed, name in ((2, "new"), (3, "old")):
        (tmp_path / name).mkdir()
        write_reversal_task(tmp_path / name, seed=seed)
        for side in ("src", "tgt"):
            shutil.copy(f"{name}/train.{side}", f"{name}.{side}")
    return tmp_path


def write(name: str, lines: Sequence[str]) -> None:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def init(*options: str) -> int:
    return call("init", "new.src", "new.tgt", "--languages", "en", "de", "--from", *options)


def test_the_config_has_the_settings_of_the_base_model_and_keeps_its_validation_set(
    corpus: Path, capsys: Capture
) -> None:
    assert init("base") == 0
    config = load_config("mtkit.yaml")
    opened = open_model("base")
    assert config.training.init_from == "base"
    assert config.model == opened.config.model
    same = {"glossary", "max_length"}
    decoding = opened.config.decoding.model_dump(exclude=same)
    assert config.decoding.model_dump(exclude=same) == decoding
    assert config.training.max_harm == 0.5
    assert isinstance(config.data.train, list)
    new, old = config.data.train
    assert 0.8 < old.weight <= 1.0  # as many old pairs as new ones
    assert new.weight == 1.0
    valid = (corpus / "base/batches/valid.source.txt").read_text("utf-8")
    assert Path("mtkit-data/keep.source").read_text("utf-8") == valid
    out = capsys.readouterr().out
    assert re.search(r"base model: loss of 0\.\d\d nats per subword on the new", out)
    assert "may lose 0.5 chrF" in out


def test_a_model_that_does_not_fit_into_memory_is_refused_before_it_is_measured(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("mtkit.extras.study.memory.memory_limit_bytes", lambda: 1e4)
    assert init("base") == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert re.match(r"--from: training [\d,]+ parameters needs .*: choose a smaller model", line)
    assert not Path("mtkit.yaml").exists()


def test_named_old_text_is_kept_instead(corpus: Path) -> None:
    assert init("base", "--keep", "old.src", "old.tgt") == 0
    lines = Path("old.src").read_text("utf-8")
    assert Path("mtkit-data/keep.source").read_text("utf-8") == lines


def test_named_old_text_is_kept_without_its_blank_pairs(corpus: Path, capsys: Capture) -> None:
    write("keep.src", ["", "a", "b", " "])
    write("keep.tgt", ["A", "A", "B", ""])
    assert init("base", "--keep", "keep.src", "keep.tgt") == 0
    assert Path("mtkit-data/keep.source").read_text("utf-8") == "a\nb\n"
    assert "2 lines of old text" in capsys.readouterr().out
    write("blank.src", ["a", "", ""])
    write("blank.tgt", ["", "B", ""])
    assert init("base", "--keep", "blank.src", "blank.tgt", "-o", "other.yaml") == 2
    assert "--keep: blank.src: every pair is blank" in capsys.readouterr().err


def test_a_model_without_its_run_has_no_old_text_and_this_is_said(
    corpus: Path, capsys: Capture
) -> None:
    shutil.copytree("base/model", "model")
    assert init("model") == 0
    config = load_config("mtkit.yaml")
    assert config.data.keep is None
    assert not isinstance(config.data.train, list)
    out = capsys.readouterr().out
    assert "forgetting: unknown, because there is no old text" in out
    assert "the old training text is not at hand" in out


def test_text_that_the_base_model_predicts_by_chance_is_warned_about_with_the_cause(
    corpus: Path, capsys: Capture
) -> None:
    write("unlike.tgt", Path("new.tgt").read_text("utf-8").splitlines()[::-1])
    unlike = ["new.src", "unlike.tgt"]
    both = {("new.tgt", "new.src"): "swap SOURCE and TARGET", tuple(unlike): "for other languages"}
    for number, ((source, target), cause) in enumerate(both.items()):
        name = f"{number}.yaml"
        options = ["--languages", "en", "de", "--from", "base", "-o", name]
        assert call("init", source, target, *options) in (0, 2)
        output = capsys.readouterr()
        assert "no better than chance" in output.err
        assert cause in output.err
        assert "expect:" not in output.out  # a model of other languages is promised nothing
        config = load_config(name)
        assert config.data.keep is None  # it becomes the parent of another model
        assert not isinstance(config.data.train, list)


def test_old_text_that_the_base_model_cannot_translate_is_told_with_the_cause(
    corpus: Path, capsys: Capture
) -> None:
    write("other.tgt", Path("old.tgt").read_text("utf-8").splitlines()[::-1])
    causes = {("old.tgt", "old.src"): "other direction", ("old.src", "other.tgt"): "do not match"}
    for number, (files, cause) in enumerate(causes.items()):
        assert init("base", "--keep", *files, "-o", f"{number}.yaml") == 0
        (line,) = [
            line for line in capsys.readouterr().err.splitlines() if "warning: --keep: " in line
        ]
        assert "no better than chance" in line
        assert cause in line
    assert init("base", "--keep", "old.src", "old.tgt", "-o", "good.yaml") == 0
    output = capsys.readouterr()
    assert "--keep" not in output.err
    assert "other text gains nothing" in " ".join(output.out.split())


def test_the_advice_to_swap_names_the_options_of_the_corpus() -> None:
    names: dict[str, Any] = {"source_column": "en", "target_column": "de"}
    for corpus, words in (
        (TextCorpus(source="a", target="b"), "swap SOURCE and TARGET"),
        (TableCorpus(table="a.tsv"), "use --columns 1 0"),
        (DatasetCorpus(dataset="a", **names), "use --columns de en"),
        (TableCorpus(table="a.tmx", **names), "use --languages de en"),
        (TableCorpus(table="a.tmx", target_tag="de", **names), "use --columns de en"),
    ):
        assert base_model.describe_swap(corpus) == words


@pytest.mark.parametrize("load", [0.0, 99.0])
def test_a_busy_machine_is_told_before_the_forecast(
    load: float, corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    assert init("base") == 0
    assert ("the machine is busy (load 99.0" in capsys.readouterr().err) == (load > 0)


def test_letters_that_the_base_model_cannot_spell_are_told_and_can_be_added(
    corpus: Path, capsys: Capture
) -> None:
    lines = Path("new.src").read_text("utf-8").splitlines()
    some = [line.replace("a", "ж") if row % 3 == 0 else line for row, line in enumerate(lines)]
    write("new.src", some)
    assert init("base", "-o", "a.yaml") == 0
    error = capsys.readouterr().err
    assert "ж" in error
    assert "--new-vocabulary adds subwords" in error
    assert init("base", "--new-vocabulary", "-o", "b.yaml") == 0
    assert "--new-vocabulary" not in capsys.readouterr().err
    assert load_config("b.yaml").tokenizer.new_pieces > 0
    write("new.src", [line.replace("a", "ж") for line in lines])
    assert init("base", "-o", "c.yaml") == 0
    assert "so the vocabulary gets subwords of the new text" in capsys.readouterr().err
    assert load_config("c.yaml").tokenizer.new_pieces > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["nowhere"], "nowhere"),
        (["new.src"], "new.src"),
        (["base", "--keep", "no.src", "no.tgt"], "no.src"),
    ],
    ids=str,
)
def test_a_missing_model_or_text_is_one_line_and_nothing_is_written(
    options: list[str], words: str, corpus: Path, capsys: Capture
) -> None:
    before = sorted(corpus.rglob("*"))
    assert init(*options) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "warning" not in line]
    assert words in line
    assert sorted(corpus.rglob("*")) == before


def test_old_text_without_a_base_model_is_refused(corpus: Path, capsys: Capture) -> None:
    assert call("init", "new.src", "new.tgt", "--keep", "new.src", "new.tgt") == 2
    assert "--keep needs --from" in capsys.readouterr().err


def test_the_latest_run_is_named_by_its_own_path_because_the_next_run_is_the_latest(
    corpus: Path,
) -> None:
    Path("runs").mkdir()
    Path("base").rename("runs/one")
    Path("runs/latest").symlink_to("one")
    assert init("runs/latest") == 0
    assert load_config("mtkit.yaml").training.init_from == "runs/one"
    assert init("runs/latest/model", "-o", "model.yaml") == 0
    assert load_config("model.yaml").training.init_from == "runs/one/model"


def test_a_run_directory_that_holds_the_base_model_is_refused(
    corpus: Path, capsys: Capture
) -> None:
    Path("link").symlink_to("base")
    for run_directory in ("base", "link"):
        assert init("base", "--run", run_directory) == 2
        assert "--run: base is the model of this run itself" in capsys.readouterr().err
        assert not Path("mtkit.yaml").exists()


@pytest.fixture(scope="module")
def tagged_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that has two target tags."""
    folder = tmp_path_factory.mktemp("tagged")
    write_reversal_task(folder)
    files = {"source": str(folder / "train.src"), "target": str(folder / "train.tgt")}
    corpora = [files | {"target_tag": tag} for tag in ("aa", "bb")]
    data = {"train": corpora, "valid": corpora, "test": None}
    run(tiny_config(folder, "transformer", data=data, training=PATIENT))
    return folder


@pytest.fixture
def tagged(tagged_runs: Path, corpus: Path) -> Path:
    """The current folder, with a new corpus and the runs `base` and `tagged`."""
    shutil.copytree(tagged_runs / "run", corpus / "tagged")
    return corpus


def test_a_model_with_tags_is_adapted_to_corpora_with_some_of_its_tags(tagged: Path) -> None:
    for tags in (["bb"], ["aa", "bb"]):
        files = ["new.src", "new.tgt"] * len(tags)
        name = f"{len(tags)}.yaml"
        options = ["--tags", *tags, "--from", "tagged", "-o", name]
        assert call("init", *files, *options) == 0
        data = load_config(name).data
        new = listed(data.train)[: len(tags)]
        assert [corpus.target_tag for corpus in new] == tags
        assert {corpus.target_tag for corpus in listed(data.keep)} == {"aa", "bb"}


def test_named_old_text_has_the_tag_of_the_corpus(tagged: Path, capsys: Capture) -> None:
    keep = ["--keep", "old.src", "old.tgt"]
    options = ["--tags", "bb", "--from", "tagged", *keep]
    assert call("init", "new.src", "new.tgt", *options) == 0
    (kept,) = listed(load_config("mtkit.yaml").data.keep)
    assert kept.target_tag == "bb"
    two = ["new.src", "new.tgt"] * 2
    assert call("init", *two, "--tags", "aa", "bb", "--from", "tagged", *keep, "-o", "2.yaml") == 2
    assert "--keep is for one language" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "tags", "words"),
    [
        ("tagged", [], "the target language could not be identified; name its tag"),
        ("tagged", ["--tags", "cc"], "no target tag 'cc'; choose from aa, bb"),
        ("base", ["--tags", "aa"], "no target tag 'aa'; leave it out"),
    ],
)
def test_tags_that_the_base_model_lacks_are_refused_before_any_work(
    model: str, tags: list[str], words: str, tagged: Path, capsys: Capture
) -> None:
    assert call("init", "new.src", "new.tgt", *tags, "--from", model) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("--tags: ")
    assert words in line
    assert not Path("mtkit.yaml").exists()


def test_the_fit_of_a_model_is_measured_with_the_tags_of_the_pairs(
    tagged: Path,
) -> None:
    opened = open_model("tagged")
    pair = Pair("a b", "B A", 0, "file", 1)
    with_tag = [pair._replace(target_tag="aa"), pair._replace(target_tag="aa", source="b")]
    model = load_model(opened.config, opened.weights).eval()
    with_the_tag = base_model.measure_fit(model, opened.tokenizer, with_tag)
    without = [each._replace(target_tag=None) for each in with_tag]
    assert with_the_tag != base_model.measure_fit(model, opened.tokenizer, without)


Sides = tuple[set[str], set[str]]
"""Sources and targets, without case and punctuation."""


def texts_of(corpora: Any) -> Sides:
    pairs = list(read_pairs(corpora))
    return {normalised(pair.source) for pair in pairs}, {normalised(pair.target) for pair in pairs}


def trained_texts(config: Config) -> Sides:
    """Make the batches of a config, and return the texts that they have."""
    train_tokenizer(config)
    artifact = build_batches(config)
    tokenizer = tokenizer_in(Path(config.run) / "tokenizer")
    store = open_batches(artifact.path).train
    sides: Sides = (set(), set())
    for target, texts in enumerate(sides):
        ids, lengths = store.side(np.arange(len(store)), target=bool(target))
        rows = [row.tolist() for row in np.split(ids, lengths.cumsum()[:-1])]
        texts |= set(map(normalised, tokenizer.decode(rows)))
    return sides


@pytest.fixture
def adapted(corpus: Path) -> Path:
    """The current folder, with a new corpus, and the runs `base` and `adapted` from it."""
    names = {"train": "train", "valid": "valid", "test": "test", "keep": "test"}
    data = {
        part: {"source": f"old/{name}.src", "target": f"old/{name}.tgt"}
        for part, name in names.items()
    }
    training = {"init_from": "base", "max_harm": 0.5, "steps": 2, "validate_every": 2}
    config = tiny_config(corpus, "transformer", data=data, training=training)
    run(config.model_copy(update={"run": "adapted"}))
    return corpus


def new_table(*names: str) -> None:
    """Write the corpus `all`: the new text, and the sets `names` of the run `base`."""
    for side in ("src", "tgt"):
        lines = Path(f"new.{side}").read_text("utf-8").splitlines()
        for name in names:
            lines += Path(f"{name}.{side}").read_text("utf-8").splitlines()
        write(f"all.{side}", lines)


TEXT = ["all.src", "all.tgt"]
ROADS = {
    "a new model": [*TEXT],
    "a given test set": [*TEXT, "--test", "old.src", "old.tgt"],
    "a given validation set": [*TEXT, "--valid", "old.src", "old.tgt"],
    "adaptation": [*TEXT, "--from", "base"],
    "adaptation, without its own text": ["new.src", "new.tgt", "--from", "base"],
    "kept text": [*TEXT, "--from", "base", "--keep", "old.src", "old.tgt"],
    "adaptation with a given test set": [*TEXT, "--from", "base", "--test", "old.src", "old.tgt"],
    "second adaptation": [*TEXT, "--from", "adapted"],
    "both directions": [*TEXT, *reversed(TEXT), "--tags", "aa", "bb"],
    "adaptation with tags": [*TEXT, *TEXT, "--tags", "aa", "bb", "--from", "tagged"],
}
"""Commands that write a config and its corpora."""


@pytest.mark.parametrize("road", ROADS)
def test_no_text_that_measures_a_model_is_trained_on(
    road: str, request: pytest.FixtureRequest, reverser: Path, capsys: Capture
) -> None:
    folder = {"second adaptation": "adapted", "adaptation with tags": "tagged"}.get(road, "corpus")
    request.getfixturevalue(folder)
    old_sets = [str(reverser / name) for name in ("train", "valid", "test")]
    new_table("old", *old_sets)
    languages = [] if "--tags" in ROADS[road] else ["--languages", "en", "de"]
    assert call("init", *ROADS[road], *languages) == 0
    (left_out,) = re.findall(
        r"^- left out \(in valid, test or keep\)(.*)|\Z", capsys.readouterr().out, re.M
    )[:1]
    assert bool(left_out) == (road != "a new model")

    config = load_config("mtkit.yaml", ["tokenizer.vocab_size=60", "tokenizer.byte_fallback=false"])
    data = config.data
    measuring = texts_of([*listed(data.valid), *listed(data.test), *listed(data.keep)])
    trained = trained_texts(config)
    for side in (0, 1):
        assert len(trained[side]) > 100
        assert not measuring[side] & trained[side]
        if road == "both directions":
            assert not measuring[side] & trained[1 - side]
    if road in ("adaptation", "kept text", "adaptation with a given test set"):
        # The run `base` may be compared with this one, on its own sets.
        own = texts_of([TextCorpus(source=f"{n}.src", target=f"{n}.tgt") for n in old_sets[1:]])
        new, *_ = listed(data.train)
        for own_side, new_side in zip(own, texts_of(new), strict=True):
            assert not own_side & new_side


def test_text_is_held_out_again_that_the_base_model_was_validated_on(
    corpus: Path, reverser: Path
) -> None:
    new_table(str(reverser / "valid"))
    for options in ([], ["--from", "base"]):
        assert call("init", *TEXT, "--languages", "en", "de", *options, "--force") == 0
        data = load_config("mtkit.yaml").data
        held_out, _ = texts_of([*listed(data.valid), *listed(data.test)])
        if not options:
            expected = held_out
    assert expected <= held_out


def tsv(name: str, words: str = "TOPSECRET") -> str:
    """Write a table of private text, and return its absolute path."""
    path = Path(name).absolute()
    path.write_text("".join(f"{words} {row}\tgeheim {row}\n" for row in range(200)), "utf-8")
    return str(path)


def link(name: str, target: str) -> str:
    Path(name).symlink_to(target)
    return name


def pipe(name: str) -> str:
    os.mkfifo(name)
    return name


def large_file() -> str:
    """Make a file of 128 GiB, which takes no space, and no time unless it is read."""
    with open("large.tsv", "wb") as file:
        file.truncate(1 << 37)
    return "large.tsv"


FOREIGN: dict[str, Callable[[], Any]] = {
    "private file": lambda: {"table": tsv("secret.tsv")},
    "private file in a list": lambda: [
        {"table": str(Path("own.tsv"))},
        {"table": tsv("secret.tsv")},
    ],
    "private texts": lambda: {"source": tsv("s"), "target": tsv("t")},
    "file of the home folder": lambda: {"table": tsv("secret.tsv").replace(str(Path.cwd()), "~")},
    "link": lambda: {"table": link("link.tsv", tsv("secret.tsv"))},
    "pipe": lambda: {"table": pipe("pipe.tsv")},
    "device": lambda: {"source": "/dev/zero", "target": "/dev/zero"},
    "file of the kernel": lambda: {"source": "/proc/kmsg", "target": "/proc/self/environ"},
    "folder": lambda: {"source": "/", "target": "/"},
    "large file": lambda: {"source": large_file(), "target": "large.tsv"},
    "dataset": lambda: {"dataset": "owner/name", "source_column": "a", "target_column": "b"},
    "no file": lambda: {"source": [], "target": []},
    "name with line feeds": lambda: {"table": "a\nwarning: b\x1b[2J.tsv"},
    "missing file": lambda: {"table": "nowhere.tsv"},
}
"""Corpora that a foreign config may name: functions that make their files, and return settings."""


@pytest.mark.parametrize("setting", ["train", "keep"])
@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_config_makes_no_file_be_used_that_its_run_was_not_made_of(
    kind: str, setting: str, corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("HOME", str(corpus))
    tsv("own.tsv", "own")
    load = "mtkit.extras.datasets.dataset._load"
    monkeypatch.setattr(load, lambda _: pytest.fail("loaded a dataset"))
    saved = Path("base/config.yaml")
    config = yaml.safe_load(saved.read_text("utf-8"))
    named = FOREIGN[kind]()
    config["data"][setting] = named
    config["training"] |= {"max_harm": 0.5, "init_from": "other"}
    saved.write_text(yaml.safe_dump(config), "utf-8")
    assert init("base") == 0

    error = capsys.readouterr().err.splitlines()
    assert all(line.startswith(("init: ", "warning: --from: ")) for line in error)
    lines = [line for line in error if "is not used" in line]
    assert len(lines) == len(listed(named))
    assert all(f"data.{setting}" in line and "base/config.yaml" in line for line in lines)
    data = load_config("mtkit.yaml").data
    if setting == "train":
        assert not isinstance(data.train, list)
    for path in (Path("mtkit.yaml"), *Path("mtkit-data").iterdir()):
        text = path.read_text("utf-8")
        assert not any(word in text for word in ("TOPSECRET", "secret.tsv", "own.tsv", "/dev/"))


def test_a_test_set_of_a_foreign_run_leads_to_no_other_file(corpus: Path) -> None:
    model = open_model("base").artifact.identity
    shutil.rmtree("base/test")
    with create(Path("base/test"), "test", {}, {"model": model}, {}) as draft:
        shutil.copy("new.src", draft / "source.txt")
    os.mkfifo("base/test/reference.txt")  # which the manifest does not list
    assert init("base") == 0
    assert Path("mtkit-data/train.en").read_text("utf-8")


def test_each_file_of_old_text_is_told_and_changed_ones_are_not_used(
    reverser: Path, adapted: Path, capsys: Capture
) -> None:
    def told(given: str, name: str) -> list[str]:
        assert init(given, "-o", f"{name}.yaml") == 0
        lines = capsys.readouterr().err.splitlines()
        return [line for line in lines if " reads " in line or "is not used" in line]

    (line,) = told("base", "a")
    assert f"{reverser}/train.src, {reverser}/train.tgt (data.train of base, unchanged)" in line
    train, keep = told("adapted", "b")
    assert "reads old/train.src, old/train.tgt (data.train of adapted, unchanged)" in train
    assert "reads old/test.src, old/test.tgt (data.keep of adapted, unchanged)" in keep
    assert listed(load_config("b.yaml").data.train)[1:]
    assert Path("b-data/keep.source").read_text("utf-8").count("\n") == 40
    for name in ("train", "test"):
        shutil.copy(f"old/{name}.src", f"old/{name}.tgt")
    for line, setting, advice in zip(
        told("adapted", "c"), ("train", "keep"), ("new config", "--keep"), strict=True
    ):
        assert f"data.{setting} of adapted/config.yaml is not used: old/t" in line
        assert "is not the text of this run" in line
        assert advice in line
    config = load_config("c.yaml")
    assert not isinstance(config.data.train, list)
    assert Path("c-data/keep.source").read_text("utf-8").count("\n") == 20  # of the run itself


def test_a_config_that_is_no_config_but_large_ends_the_command_at_once(
    corpus: Path, capsys: Capture
) -> None:
    with Path("base/config.yaml").open("a") as file:
        file.write("# " + "a" * (1 << 20))
    assert init("base") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "base/config.yaml" in line and "larger than 1 MiB" in line


def test_old_pairs_that_the_new_text_has_are_not_replayed(
    corpus: Path, reverser: Path, capsys: Capture
) -> None:
    old_corpus = TextCorpus(source=f"{reverser}/train.src", target=f"{reverser}/train.tgt")
    new_table(str(reverser / "train"))
    options = ["--languages", "en", "de", "--from", "base"]
    assert call("init", *TEXT, *options) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "has 100% of the old pairs, so none is replayed" in out
    config = load_config("mtkit.yaml")
    trained = {pair[:2] for pair in read_pairs(old_corpus)}
    held_out = list(read_pairs([*listed(config.data.valid), *listed(config.data.test)]))
    known = sum(pair[:2] in trained for pair in held_out)
    assert known
    assert f"base was trained on {known} of the {len(held_out)} pairs held out" in out
    assert not isinstance(config.data.train, list)
    valid = len(list(read_pairs(config.data.valid)))
    kept = len(list(read_pairs(listed(config.data.keep))))
    assert config.training.validation_sentences <= max(valid, kept)

    # Half of the old pairs: the others are replayed.
    for side in ("src", "tgt"):
        lines = (reverser / f"train.{side}").read_text("utf-8").splitlines()[:200]
        write(f"all.{side}", [*lines, *Path(f"new.{side}").read_text("utf-8").splitlines()])
    assert call("init", *TEXT, *options, "-o", "b.yaml") == 0
    (count,) = re.findall(r"each epoch replays about (\d+) old pairs", capsys.readouterr().out)
    config = load_config("b.yaml")
    _, old = listed(config.data.train)
    in_table = {pair[:2] for pair in read_pairs(TextCorpus(source="all.src", target="all.tgt"))}
    assert int(count) == sum(pair[:2] not in in_table for pair in read_pairs(old)) > 0
    assert config.batching.deduplicate


def test_old_training_text_that_the_command_would_replace_is_not_lost(
    corpus: Path, capsys: Capture
) -> None:
    assert init("base") == 0
    config = load_config("mtkit.yaml", ["training.steps=2", "training.validate_every=2"])
    run(config)
    write("new.src", Path("old.src").read_text("utf-8").splitlines())
    write("new.tgt", Path("old.tgt").read_text("utf-8").splitlines())
    before = {path: path.read_bytes() for path in Path("mtkit-data").iterdir()}
    capsys.readouterr()
    assert init("runs/mtkit", "--force") == 2
    assert "choose another output with -o" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in Path("mtkit-data").iterdir()} == before


def test_translations_may_be_as_long_as_the_longer_of_old_and_new_text(corpus: Path) -> None:
    assert init("base") == 0
    short = load_config("mtkit.yaml").decoding.max_length
    for side in ("src", "tgt"):
        lines = Path(f"new.{side}").read_text("utf-8").splitlines()
        write(f"new.{side}", [" ".join(lines[row : row + 12]) for row in range(len(lines) - 12)])
    assert init("base", "-o", "long.yaml") == 0
    assert open_model("base").config.decoding.max_length == 20 <= short
    assert load_config("long.yaml").decoding.max_length > 2 * short


def test_a_parent_that_lacks_letters_gets_subwords_and_loses_its_own_language(
    corpus: Path, capsys: Capture
) -> None:
    for side in ("src", "tgt"):
        lines = Path(f"new.{side}").read_text("utf-8").splitlines()
        write(
            f"new.{side}",
            [line.lower().translate(str.maketrans("abceg", "жшщъы")) for line in lines],
        )
    write("new.tgt", Path("new.tgt").read_text("utf-8").splitlines()[::-1])
    assert init("base") == 0
    captured = capsys.readouterr()
    assert "becomes the parent" in " ".join(captured.out.split())
    assert "so the vocabulary gets subwords of the new text" in captured.err
    config = load_config("mtkit.yaml")
    assert config.tokenizer.new_pieces > 0
    assert config.training.max_harm == 100


@pytest.mark.slow
def test_two_commands_adapt_a_model(corpus: Path, capsys: Capture) -> None:
    assert init("base", "--minutes", "0.5") == 0
    assert call("run") == 0
    assert "fine-tuning: " in capsys.readouterr().err
    # An adapted model can be adapted again, and keeps the old text of both.
    arguments: list[Any] = ["runs/mtkit", "-o", "again.yaml", "--minutes", "0.5"]
    assert init(*arguments) == 0
    kept, *parts = [
        Path(name).read_text("utf-8").count("\n")
        for name in ("again-data/keep.source", "mtkit-data/valid.en", "mtkit-data/keep.source")
    ]
    assert kept == sum(parts)
