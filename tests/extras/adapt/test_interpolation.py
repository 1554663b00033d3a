"""Adaptation without harm: which mean of the given and the trained weights becomes the model."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.records import load_record
from mtkit.config.settings import Config
from mtkit.errors import SettingError
from mtkit.extras.adapt.adaptation import (
    MAX_P_VALUE,
    Adaptation,
    describe_adaptation,
    is_significantly_better,
)
from mtkit.extras.adapt.interpolation import (
    SHARES,
    ComparedTexts,
    Outcome,
    ScoredText,
    choose_finer_share,
    choose_outcome,
    compare_outcomes,
    interpolate,
)
from mtkit.models.weights import assign_weights
from mtkit.pipeline import run, run_and_print
from mtkit.scoring.comparison import BeforeAndAfter
from mtkit.scoring.metrics import Score
from mtkit.training.candidates import choose_trained
from mtkit.training.process_group import SINGLE_PROCESS
from mtkit.training.setup import open_inputs, open_run
from mtkit.training.state import Validation
from mtkit.training.train import train
from tasks import WORDS, Capture, Fresh, tiny_config

CHRF = st.floats(0, 100)


@given(st.lists(st.tuples(CHRF, CHRF), min_size=1, max_size=5), st.floats(0, 100))
def test_the_chosen_weights_gain_most_of_those_that_do_no_harm(
    scores: list[tuple[float, float]], max_harm: float
) -> None:
    outcomes = [
        Outcome(share, [], [], *pair) for share, pair in zip((0.0, *SHARES), scores, strict=False)
    ]
    chosen = choose_outcome(outcomes, max_harm)
    base_weights = outcomes[0]
    assert chosen.old_chrf >= base_weights.old_chrf - max_harm
    assert chosen.new_chrf >= base_weights.new_chrf
    for other in outcomes:
        is_harmless = other.old_chrf >= base_weights.old_chrf - max_harm
        assert not is_harmless or other.new_chrf <= chosen.new_chrf


@given(st.lists(st.tuples(CHRF, CHRF), min_size=5, max_size=5), st.floats(0, 100))
def test_a_finer_step_is_tried_exactly_where_the_limit_of_harm_ends_the_way(
    scores: list[tuple[float, float]], max_harm: float
) -> None:
    outcomes = [
        Outcome(share, [], [], *pair) for share, pair in zip((0.0, *SHARES), scores, strict=True)
    ]
    chosen = choose_outcome(outcomes, max_harm)
    finer = choose_finer_share(outcomes, max_harm)
    following = [outcome for outcome in outcomes if outcome.share > chosen.share][:1]
    is_limited = any(each.old_chrf < scores[0][1] - max_harm for each in following)
    assert finer == (chosen.share + 0.125 if is_limited else None)


def test_chance_alone_finds_a_gain_in_at_most_one_of_twenty_runs() -> None:
    finer_steps = 1
    assert (len(SHARES) + finer_steps) * MAX_P_VALUE <= 0.05


@given(st.lists(st.floats(-10, 10, width=32), min_size=1), st.data())
def test_interpolated_weights_begin_with_the_given_and_end_with_the_trained_ones(
    values: list[float], data: st.DataObject
) -> None:
    same_length = st.lists(st.floats(-10, 10, width=32), min_size=len(values), max_size=len(values))
    one = {"w": torch.tensor(values)}
    other = {"w": torch.tensor(data.draw(same_length))}
    assert torch.equal(interpolate(one, other, 0.0)["w"], one["w"])
    assert torch.equal(interpolate(one, other, 1.0)["w"], other["w"])
    half = interpolate(one, other, 0.5)["w"]
    torch.testing.assert_close(half, (one["w"] + other["w"]) / 2)


@pytest.mark.parametrize("count", [1, 12], ids=["too few lines for a test", "tested"])
def test_no_change_is_no_gain(count: int) -> None:
    lines = [" ".join(words) for words in sentences(count, seed=1)]
    change = BeforeAndAfter.of(lines, lines, lines, None)
    assert change.difference == 0
    assert not is_significantly_better(change)


def test_more_lines_than_a_test_takes_are_no_reason_to_refuse_a_gain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("mtkit.extras.adapt.interpolation", "mtkit.scoring.metrics"):
        monkeypatch.setattr(f"{module}.MAX_RESAMPLED", 20)
    references = [" ".join(words) for words in sentences(30, seed=1)]
    worse = ["ant"] * len(references)
    texts = ComparedTexts(new=ScoredText([], references), old=None)
    outcomes = Outcome(0.0, worse, [], 10.0, 0.0), Outcome(1.0, references, [], 100.0, 0.0)
    adaptation = compare_outcomes(*outcomes, texts, max_harm=0.5, language=None)
    assert adaptation.share == 1.0
    assert adaptation.new.lines == 20


def test_a_refusal_for_want_of_lines_says_how_many_are_needed() -> None:
    lines = ["a b c"] * 5
    change = BeforeAndAfter.of(lines, lines, lines, None)
    told = describe_adaptation(Adaptation(share=0.0, max_harm=0.5, new=change))
    assert "need 10 to 10,000 lines, not 5" in told


def test_trained_weights_stay_the_same_while_others_are_tried(
    fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = fresh("transformer")
    inputs = open_inputs(config)
    validation = Validation.of(0, 1.0)
    monkeypatch.setattr("mtkit.training.candidates.validate", lambda run, state: validation)
    with open_run(inputs, SINGLE_PROCESS) as (run, state):
        trained = choose_trained(run, state)  # there is no checkpoint
        before = {name: weight.clone() for name, weight in trained.weights.items()}
        assign_weights(state.model, {name: weight + 1 for name, weight in before.items()})
    for name, weight in trained.weights.items():
        assert torch.equal(weight, before[name])


def test_the_verdict_names_an_eighth_of_the_way_exactly() -> None:
    better = Score("chrF2", 51.0, "", p_value=0.001)
    new = BeforeAndAfter(100, given=Score("chrF2", 50.0, ""), adapted=better)
    text = describe_adaptation(Adaptation(share=0.125, max_harm=0.5, new=new))
    assert "12.5% of the way" in text
    assert "what old text loses is unknown" in text


def test_the_verdict_on_a_child_says_nothing_of_the_language_of_its_parent() -> None:
    better = Score("chrF2", 51.0, "", p_value=0.001)
    new = BeforeAndAfter(100, given=Score("chrF2", 50.0, ""), adapted=better)
    assert "old text" not in describe_adaptation(Adaptation(share=1.0, max_harm=100.0, new=new))


def write_text(folder: Path, name: str, pairs: list[tuple[str, str]]) -> dict[str, str]:
    corpus = {}
    for side, number in (("source", 0), ("target", 1)):
        path = folder / f"{name}.{side}"
        path.write_text("".join(f"{pair[number]}\n" for pair in pairs), "utf-8")
        corpus[side] = str(path)
    return corpus


def sentences(count: int, seed: int) -> list[list[str]]:
    generator = random.Random(seed)
    return [[generator.choice(WORDS) for _ in range(generator.randint(1, 5))] for _ in range(count)]


def reversed_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    return [(" ".join(s), " ".join(reversed(s)).upper()) for s in sentences(count, seed)]


def noise(count: int, seed: int) -> list[tuple[str, str]]:
    """Pairs whose targets have nothing to do with their sources."""
    sources = sentences(count, seed)
    targets = sentences(count, seed + 1)
    return [
        (" ".join(source), " ".join(target).upper())
        for source, target in zip(sources, targets, strict=True)
    ]


PATIENT = {"steps": 150, "validate_every": 150, "save_every": 150, "log_every": 50, "average": 1}


def adapt(
    prepared: Path, folder: Path, given_run: str, new: list[tuple[str, str]], **training: Any
) -> Config:
    """Return the config of a run that adapts a model to new pairs, and keeps the reversal task."""
    data = {
        "train": write_text(folder, "new", new),
        "valid": write_text(folder, "new-valid", new[:30]),
        "test": write_text(folder, "new-test", new[:30]),
        "keep": write_text(folder, "old", reversed_pairs(30, seed=7)),
    }
    settings = PATIENT | {"init_from": given_run, "max_harm": 5.0} | training
    config = tiny_config(prepared, "transformer", data=data, training=settings)
    return config.model_copy(update={"run": str(folder / "adapted")})


def weights_of(model: Artifact) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(model.file("model.safetensors"))


@pytest.fixture(scope="module")
def reverser(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run that has half learnt to reverse sentences."""
    folder = tmp_path_factory.mktemp("given")
    config = tiny_config(prepared, "transformer", training=PATIENT)
    config = config.model_copy(update={"run": str(folder / "run")})
    run(config)
    return config.run


def test_what_is_learnt_from_noise_is_not_installed(
    prepared: Path, reverser: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    config = adapt(prepared, tmp_path, reverser, noise(100, seed=3), max_harm=0.0)
    old = config.data.keep
    config = config.model_copy(update={"data": config.data.model_copy(update={"valid": old})})
    run_and_print(config)
    model = train(config)
    base_weights = safetensors.torch.load_file(f"{reverser}/model/model.safetensors")
    for name, weight in weights_of(model).items():
        assert torch.equal(weight, base_weights[name])
    assert load_record(Adaptation, model.report["adaptation"], Path("run")).share == 0
    told = capsys.readouterr().err
    assert "the run keeps the base model" in told
    assert told.count("for CTranslate2") == 1  # the base model needs no second translation


def test_a_gain_without_harm_is_installed_and_told(
    prepared: Path, reverser: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    config = adapt(prepared, tmp_path, reverser, reversed_pairs(300, seed=11), steps=300)
    run_and_print(config)
    adaptation = load_record(Adaptation, train(config).report["adaptation"], Path("run"))
    assert adaptation.share > 0
    assert is_significantly_better(adaptation.new)
    assert adaptation.old is not None
    assert adaptation.old.difference >= -5.0
    told = capsys.readouterr().err
    assert told.count("for CTranslate2") == 1
    for words in ("old text: data.keep", "new text: test set", "of the way from"):
        assert words in told


def test_old_text_without_a_whole_pair_is_refused_before_training(
    prepared: Path, reverser: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = adapt(prepared, tmp_path, reverser, noise(100, seed=5))
    write_text(tmp_path, "old", [("", "a"), ("a", ""), (" ", "")])
    with pytest.raises(SettingError, match=r"data\.keep: every pair is blank"):
        run(config)
    assert not Path(config.run, "checkpoints").exists()


def test_another_old_text_chooses_the_weights_anew(
    prepared: Path, reverser: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = adapt(prepared, tmp_path, reverser, noise(100, seed=5), steps=4, validate_every=4)
    run(config)
    model = train(config)
    checkpoints = sorted(path.name for path in Path(config.run, "checkpoints").glob("step-*"))
    write_text(tmp_path, "old", reversed_pairs(20, seed=8))
    assert train(config).identity != model.identity
    assert checkpoints == sorted(
        path.name for path in Path(config.run, "checkpoints").glob("step-*")
    )


@pytest.mark.parametrize(
    ("training", "keeps"),
    [
        ({"max_harm": 1.0}, False),
        ({"init_from": "a"}, True),
        ({}, True),
        ({"init_from": "a", "max_harm": 1.0, "validation_sentences": 0, "best_by": "loss"}, True),
    ],
)
def test_settings_of_an_adaptation_need_each_other(
    training: dict[str, Any], keeps: bool, fresh: Fresh, prepared: Path
) -> None:
    keep = {"source": str(prepared / "test.src"), "target": str(prepared / "test.tgt")}
    with pytest.raises(ValidationError, match="max_harm"):
        fresh("transformer", training=training, data={"keep": keep} if keeps else {})
