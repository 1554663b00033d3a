"""`mtkit init --from`: a given model is adapted to a new corpus."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import call
from mtkit.config.corpora import DatasetCorpus, TableCorpus, TextCorpus, listed
from mtkit.config.yaml import load_config
from mtkit.corpus.read import Pair
from mtkit.init import given as given_model
from mtkit.init.facts import CorpusFacts
from mtkit.init.from_model import AdaptedModel, choose_adaptation
from mtkit.init.given import Fit, GivenModel, OldTraining
from mtkit.init.trial import Measurement
from mtkit.models.folder import open_model
from mtkit.models.weights import load_model
from mtkit.pipeline import run
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
    model = GivenModel(opened, "given", [pair] * old_lines, False, OldTraining(pairs=old_pairs))
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
    model = GivenModel(open_model(reverser / "run"), "given", [], False, OldTraining())
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
    model = GivenModel(open_model(reverser / "run"), "given", [], False, OldTraining())
    fit = Fit(loss=1.0, mismatched_loss=mismatched_loss, entropy=2.0)
    facts = CorpusFacts(pairs=1000, valid=100, test=100, is_joint=True, characters=100)
    measured = Measurement(1000.0, 1.0, 1e-4, 16.0, 20.0, 64)
    plan = choose_adaptation(facts, measured, model, fit, minutes=5.0)
    training = AdaptedModel(model, 0, fit, plan).settings(facts)["training"]
    comments = {setting.name: setting.comment for setting in training}
    assert words in comments["schedule"]


@pytest.fixture(scope="module")
def reverser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, and a run that has learnt to reverse its sentences."""
    folder = tmp_path_factory.mktemp("given")
    write_reversal_task(folder)
    run(tiny_config(folder, "transformer", training=PATIENT))
    return folder


@pytest.fixture
def corpus(reverser: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a new corpus and the run `given`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mtkit.init.trial.TRIAL_SECONDS", 0.1)
    shutil.copytree(reverser / "run", tmp_path / "given")
    for side in ("src", "tgt"):
        lines = (reverser / f"train.{side}").read_text("utf-8").splitlines()
        write(f"new.{side}", lines)
    return tmp_path


def write(name: str, lines: Sequence[str]) -> None:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def init(*options: str) -> int:
    return call("init", "new.src", "new.tgt", "--languages", "en", "de", "--from", *options)


def test_the_config_has_the_settings_of_the_given_model_and_keeps_its_validation_set(
    corpus: Path, capsys: Capture
) -> None:
    assert init("given") == 0
    config = load_config("mtkit.yaml")
    opened = open_model("given")
    assert config.training.init_from == "given"
    assert config.model == opened.config.model
    assert config.decoding.model_dump(exclude={"glossary"}) == opened.config.decoding.model_dump()
    assert config.training.max_harm == 0.5
    assert isinstance(config.data.train, list)
    new, old = config.data.train
    assert 0.8 < old.weight <= 1.0  # as many old pairs as new ones
    assert new.weight == 1.0
    valid = (corpus / "given/batches/valid.source.txt").read_text("utf-8")
    assert Path("mtkit-data/keep.source").read_text("utf-8") == valid
    out = capsys.readouterr().out
    assert re.search(r"given model: 0\.\d\d nats per subword on the new text; freq", out)
    assert "may lose 0.5 chrF" in out


def test_named_old_text_is_kept_instead(corpus: Path) -> None:
    assert init("given", "--keep", "new.src", "new.tgt") == 0
    lines = Path("new.src").read_text("utf-8")
    assert Path("mtkit-data/keep.source").read_text("utf-8") == lines


def test_named_old_text_is_kept_without_its_blank_pairs(corpus: Path, capsys: Capture) -> None:
    write("keep.src", ["", "a", "b", " "])
    write("keep.tgt", ["A", "A", "B", ""])
    assert init("given", "--keep", "keep.src", "keep.tgt") == 0
    assert Path("mtkit-data/keep.source").read_text("utf-8") == "a\nb\n"
    assert "2 lines of old text" in capsys.readouterr().out
    write("blank.src", ["a", "", ""])
    write("blank.tgt", ["", "B", ""])
    assert init("given", "--keep", "blank.src", "blank.tgt", "-o", "other.yaml") == 2
    assert "--keep: blank.src: every pair is blank" in capsys.readouterr().err


def test_a_model_without_its_run_has_no_old_text_and_this_is_said(
    corpus: Path, capsys: Capture
) -> None:
    shutil.copytree("given/model", "model")
    assert init("model") == 0
    config = load_config("mtkit.yaml")
    assert config.data.keep is None
    assert not isinstance(config.data.train, list)
    out = capsys.readouterr().out
    assert "no old text to measure harm on" in out
    assert "the old training text is not at hand" in out


def test_text_that_the_given_model_predicts_by_chance_is_warned_about_with_the_cause(
    corpus: Path, capsys: Capture
) -> None:
    write("unlike.tgt", Path("new.tgt").read_text("utf-8").splitlines()[::-1])
    unlike = ["new.src", "unlike.tgt"]
    both = {("new.tgt", "new.src"): "swap SOURCE and TARGET", tuple(unlike): "for other languages"}
    for number, ((source, target), cause) in enumerate(both.items()):
        name = f"{number}.yaml"
        options = ["--languages", "en", "de", "--from", "given", "-o", name]
        assert call("init", source, target, *options) in (0, 2)
        error = capsys.readouterr().err
        assert "no better than chance" in error
        assert cause in error
        config = load_config(name)
        assert config.data.keep is None  # it becomes the parent of another model
        assert not isinstance(config.data.train, list)


def test_old_text_that_the_given_model_cannot_translate_is_told_with_the_cause(
    corpus: Path, capsys: Capture
) -> None:
    write("other.tgt", Path("new.tgt").read_text("utf-8").splitlines()[::-1])
    causes = {("new.tgt", "new.src"): "other direction", ("new.src", "other.tgt"): "do not match"}
    for number, (files, cause) in enumerate(causes.items()):
        assert init("given", "--keep", *files, "-o", f"{number}.yaml") == 0
        (line,) = [
            line for line in capsys.readouterr().err.splitlines() if "warning: --keep: " in line
        ]
        assert "no better than chance" in line
        assert cause in line
    assert init("given", "--keep", "new.src", "new.tgt", "-o", "good.yaml") == 0
    assert "--keep" not in capsys.readouterr().err


def test_the_advice_to_swap_names_the_options_of_the_corpus() -> None:
    names: dict[str, Any] = {"source_column": "en", "target_column": "de"}
    for corpus, words in (
        (TextCorpus(source="a", target="b"), "swap SOURCE and TARGET"),
        (TableCorpus(table="a.tsv"), "use --columns 1 0"),
        (DatasetCorpus(dataset="a", **names), "use --columns de en"),
        (TableCorpus(table="a.tmx", **names), "use --languages de en"),
        (TableCorpus(table="a.tmx", target_tag="de", **names), "use --columns de en"),
    ):
        assert given_model.describe_swap(corpus) == words


@pytest.mark.parametrize("load", [0.0, 99.0])
def test_a_busy_machine_is_told_before_the_forecast(
    load: float, corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    assert init("given") == 0
    assert ("the machine is busy (load 99.0" in capsys.readouterr().err) == (load > 0)


def test_letters_that_the_given_model_cannot_spell_are_told_and_can_be_added(
    corpus: Path, capsys: Capture
) -> None:
    lines = Path("new.src").read_text("utf-8").splitlines()
    write("new.src", [line.replace("a", "ж") for line in lines])
    assert init("given", "-o", "a.yaml") == 0
    error = capsys.readouterr().err
    assert "ж" in error
    assert "--new-vocabulary adds subwords" in error
    assert init("given", "--new-vocabulary", "-o", "b.yaml") == 0
    assert "--new-vocabulary" not in capsys.readouterr().err
    assert load_config("b.yaml").tokenizer.new_pieces > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["nowhere"], "nowhere"),
        (["new.src"], "new.src"),
        (["given", "--keep", "no.src", "no.tgt"], "no.src"),
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


def test_old_text_without_a_given_model_is_refused(corpus: Path, capsys: Capture) -> None:
    assert call("init", "new.src", "new.tgt", "--keep", "new.src", "new.tgt") == 2
    assert "--keep needs --from" in capsys.readouterr().err


def test_the_latest_run_is_named_by_its_own_path_because_the_next_run_is_the_latest(
    corpus: Path,
) -> None:
    Path("runs").mkdir()
    Path("given").rename("runs/one")
    Path("runs/latest").symlink_to("one")
    assert init("runs/latest") == 0
    assert load_config("mtkit.yaml").training.init_from == "runs/one"
    assert init("runs/latest/model", "-o", "model.yaml") == 0
    assert load_config("model.yaml").training.init_from == "runs/one/model"


def test_a_run_directory_that_holds_the_given_model_is_refused(
    corpus: Path, capsys: Capture
) -> None:
    Path("link").symlink_to("given")
    for run_directory in ("given", "link"):
        assert init("given", "--run", run_directory) == 2
        assert "--run: given is the model of this run itself" in capsys.readouterr().err
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
    """The current folder, with a new corpus and the runs `given` and `tagged`."""
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
    keep = ["--keep", "new.src", "new.tgt"]
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
        ("tagged", [], "give each corpus the target tag"),
        ("tagged", ["--tags", "cc"], "no target tag 'cc'; choose from aa, bb"),
        ("given", ["--tags", "aa"], "no target tag 'aa'; leave it out"),
    ],
)
def test_tags_that_the_given_model_lacks_are_refused_before_any_work(
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
    with_the_tag = given_model.measure_fit(model, opened.tokenizer, with_tag)
    without = [each._replace(target_tag=None) for each in with_tag]
    assert with_the_tag != given_model.measure_fit(model, opened.tokenizer, without)


@pytest.mark.slow
def test_two_commands_adapt_a_model(corpus: Path, capsys: Capture) -> None:
    assert init("given", "--minutes", "0.5") == 0
    assert call("run") == 0
    assert "adapted: " in capsys.readouterr().err
    # An adapted model can be adapted again, and keeps the old text of both.
    arguments: list[Any] = ["runs/mtkit", "-o", "again.yaml", "--minutes", "0.5"]
    assert init(*arguments) == 0
    kept, *parts = [
        Path(name).read_text("utf-8").count("\n")
        for name in ("again-data/keep.source", "mtkit-data/valid.en", "mtkit-data/keep.source")
    ]
    assert kept == sum(parts)
