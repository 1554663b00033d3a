"""Confidence, the verdict on a file, and what a model folder brings along for them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimators import CALIBRATION, ESTIMATOR, LINES, write_model_with
from folders import train
from mtkit.artifacts.manifest import open_artifact
from mtkit.artifacts.records import dump_record
from mtkit.artifacts.replacement import create
from mtkit.decoding.api import load
from mtkit.decoding.estimation.estimator import (
    ESTIMATION,
    SOURCE_BIGRAMS,
    Calibration,
    Estimate,
    Features,
    compute_features,
    load_estimator,
)
from mtkit.decoding.estimation.facts import TranslatedLine
from mtkit.decoding.estimation.verdict import FileVerdict
from mtkit.errors import UserError

features = st.tuples(st.floats(0, 1e6), st.floats(0, 20))


@given(lower=features, higher=features)
def test_confidence_is_a_share_that_never_rises_with_a_feature(
    lower: tuple[float, float], higher: tuple[float, float]
) -> None:
    better = Features(*map(min, lower, higher))
    worse = Features(*map(max, lower, higher))
    assert 0 <= CALIBRATION.confidence(worse) <= CALIBRATION.confidence(better) <= 1


def test_the_features_of_a_line_do_not_depend_on_its_division_into_parts() -> None:
    facts = ESTIMATOR.facts
    assert facts is not None
    source, text = "A dog runs. Why is it so?", "A dog runs. Why is it so?"
    parts = train().encode_source(["A dog runs.", "Why is it so?"])
    line = TranslatedLine(
        source, text, letters=18, source_parts=parts, target_parts=parts, log_probability=-9.0
    )
    found = compute_features(line, facts.statistics)
    assert found is not None
    assert found.surprise == pytest.approx(9.0 / sum(map(len, parts)))


def test_a_line_in_an_unknown_script_has_no_confidence_left() -> None:
    copied = TranslatedLine("Собака бежит.", "Собака бежит.", letters=11)
    estimate = ESTIMATOR.estimate(copied)
    assert estimate.confidence == 0
    assert {"copied", "unlike"} <= set(estimate.flags)


def test_an_estimator_is_saved_and_restored(tmp_path: Path) -> None:
    model = write_model_with(tmp_path / "model", ESTIMATOR)
    copy = shutil.copytree(model, tmp_path / "elsewhere" / "copy")
    restored = load_estimator(open_artifact(copy, "model"))
    assert restored.calibration == CALIBRATION
    assert restored.facts is not None and ESTIMATOR.facts is not None
    assert dump_record(restored.facts) == dump_record(ESTIMATOR.facts)
    assert restored.facts.source_bigrams.bits == ESTIMATOR.facts.source_bigrams.bits


def test_translations_of_a_calibrated_model_have_confidence(tmp_path: Path) -> None:
    translator = load(write_model_with(tmp_path / "model", ESTIMATOR), "cpu")
    assert translator.confidence_obstacle is None
    *translated, blank, numbers = translator.results([*LINES, "", "12"])
    assert all(line.confidence is not None and 0 <= line.confidence <= 1 for line in translated)
    assert blank.confidence is None and numbers.confidence is None


def test_both_engines_give_the_same_confidence(tmp_path: Path) -> None:
    model = write_model_with(tmp_path / "model", ESTIMATOR)
    confidences = [
        [line.confidence for line in load(model, "cpu", engine=engine).results(LINES)]
        for engine in ("torch", "ctranslate2")
    ]
    assert confidences[0] == pytest.approx(confidences[1], abs=1e-4)


def test_why_there_is_no_confidence(tmp_path: Path) -> None:
    model = write_model_with(tmp_path / "model", ESTIMATOR)
    plain = tmp_path / "plain"
    few = write_model_with(tmp_path / "few" / "model", replace(ESTIMATOR, calibration=None))
    obstacles = [load(paths, "cpu").confidence_obstacle for paths in ([model] * 2, plain, few)]
    for obstacle, word in zip(obstacles, ("ensemble", "another program", "too few"), strict=True):
        assert obstacle is not None and word in obstacle


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: record.pop("facts"),
        lambda record: record["facts"]["statistics"].update(ratio=-1),
        lambda record: record["facts"]["statistics"].update(spread=float("nan")),
        lambda record: record["facts"]["statistics"].update(target=3),
        lambda record: record["facts"].update(max_unseen_share="x"),
        lambda record: record["facts"].update(unreliable_flags=7),
        lambda record: record["calibration"].update(intercept=float("inf")),
        lambda record: record["calibration"].update(weights={"other": 1}),
        lambda record: record["calibration"].update(chrf=float("nan")),
        lambda record: record["calibration"].pop("intercept"),
    ],
)
def test_a_damaged_estimator_is_an_error(tmp_path: Path, damage: object) -> None:
    ESTIMATOR.save(tmp_path)
    record = json.loads((tmp_path / ESTIMATION).read_text())
    damage(record)  # type: ignore[operator]
    with create(tmp_path / "model", "model", {}, {}) as folder:
        ESTIMATOR.save(folder)
        (folder / ESTIMATION).write_text(json.dumps(record))
    with pytest.raises(UserError, match="damaged"):
        load_estimator(open_artifact(tmp_path / "model", "model"))


def test_the_calibration_of_an_earlier_version_is_ignored(tmp_path: Path) -> None:
    """Version 0.1.0 fitted confidence to three features."""
    weights = {"surprise": 2.4, "unseen_share": 0.5, "length_deviation": 0.1}
    earlier = {"intercept": 1.8, "weights": weights, "residual": 0.1, "offset": 0.0}
    ESTIMATOR.save(tmp_path)
    record = json.loads((tmp_path / ESTIMATION).read_text())
    record["calibration"] = earlier | {"offset_error": 0.0, "lines": 500}
    model = write_model_with(tmp_path / "model", ESTIMATOR)
    with create(tmp_path / "earlier", "model", {}, {}) as folder:
        for name in open_artifact(model, "model").files:
            shutil.copy(model / name, folder / name)
        (folder / ESTIMATION).write_text(json.dumps(record))
    translator = load(tmp_path / "earlier", "cpu")
    assert translator.estimator.facts is not None
    assert translator.confidence_obstacle is not None
    assert all(line.confidence is None for line in translator.results(LINES))


def test_a_filter_of_another_size_is_an_error(tmp_path: Path) -> None:
    with create(tmp_path / "model", "model", {}, {}) as folder:
        ESTIMATOR.save(folder)
        (folder / SOURCE_BIGRAMS).write_bytes(b"123")
    with pytest.raises(UserError, match="damaged"):
        load_estimator(open_artifact(tmp_path / "model", "model"))


# Plain numbers, because checked constructors use random numbers, which hypothesis refuses.
Drawn = list[tuple[float | None, int, bool]]
confidences = st.lists(
    st.tuples(st.none() | st.floats(0, 1), st.integers(1, 2_000), st.booleans()), max_size=30
)


def estimates_of(drawn: Drawn) -> list[Estimate]:
    return [
        Estimate(flags=("loop", "unlike")[: 1 + is_unlike], confidence=each, length=length)
        for each, length, is_unlike in drawn
    ]


@given(first=confidences, second=confidences)
def test_the_verdict_does_not_depend_on_how_lines_are_grouped(first: Drawn, second: Drawn) -> None:
    together, apart = FileVerdict(CALIBRATION), FileVerdict(CALIBRATION)
    together.add(estimates_of([*first, *second]))
    apart.add(estimates_of(first))
    apart.add(estimates_of(second))
    assert together.record() == apart.record()
    if together.chrf is None:
        assert together.lines == 0 or together.is_unlike
    else:
        value, low, high = together.chrf
        assert 0 <= low <= value <= high <= 100
    assert sum("loop" in sentence for sentence in together.describe()) == bool(first or second)


def verdict_on(lines: int, unlike: int, confidence: float = 0.5) -> FileVerdict:
    """Return the verdict on a file, some lines of which are unlike the training text."""
    verdict = FileVerdict(CALIBRATION)
    verdict.add(
        Estimate(("unlike",) if row < unlike else (), confidence, length=50) for row in range(lines)
    )
    return verdict


def test_a_file_unlike_the_training_text_gets_no_number_of_its_own() -> None:
    verdict = verdict_on(995, unlike=987)
    assert verdict.chrf is None
    assert "predicted_chrf" not in verdict.record() and "interval" not in verdict.record()
    text, _ = verdict.describe()
    assert text.startswith(
        "987 of 995 lines are unlike the training text: expect less than chrF 60"
    )


@pytest.mark.parametrize("lines", [20, 1_000])
def test_a_file_with_as_many_unlike_lines_as_the_validation_set_is_predicted(lines: int) -> None:
    verdict = verdict_on(lines, unlike=lines // 20)
    assert verdict.chrf is not None
    text, _ = verdict.describe()
    assert "predicted chrF" in text


@given(lines=st.integers(1, 3_000), confidence=st.floats(0, 1))
def test_no_interval_is_narrower_than_what_files_of_one_kind_differ_by(
    lines: int, confidence: float
) -> None:
    """Not even if the validation set is translated perfectly."""
    perfect = Calibration(intercept=7.0, weights=Features(0.0, 0.0), chrf=0.999, lines=1_000)
    verdict = FileVerdict(perfect)
    verdict.add(Estimate(confidence=confidence, length=50) for _ in range(lines))
    assert verdict.chrf is not None
    value, low, high = verdict.chrf
    assert low <= max(0, value - 3) and min(100, value + 3) <= high


@pytest.mark.parametrize("lines", [200, 2_000])
def test_the_interval_of_a_file_holds_its_chrf_19_times_in_20(lines: int) -> None:
    """Lines are drawn as the calibration says: their chrF differs from confidence by chance."""
    generator = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        confidence = generator.uniform(0.2, 0.9, lines)
        lengths = generator.integers(20, 200, lines)
        chrf = confidence + generator.normal(0, CALIBRATION.residual, lines)
        shift = generator.normal(CALIBRATION.offset, CALIBRATION.offset_error)
        truth = 100 * ((chrf * lengths).sum() / lengths.sum() + shift)
        verdict = FileVerdict(CALIBRATION)
        verdict.add(
            Estimate(confidence=float(each), length=int(length))
            for each, length in zip(confidence, lengths, strict=True)
        )
        assert verdict.chrf is not None
        _, low, high = verdict.chrf
        hits += low <= truth <= high
    assert 180 <= hits <= 199
