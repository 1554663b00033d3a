"""The estimator of a trained model: facts of the corpus, and calibrated confidence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mtkit.artifacts.manifest import open_artifact
from mtkit.batching.build import build_batches
from mtkit.decoding.api import load
from mtkit.decoding.estimation.estimator import Features, load_estimator
from mtkit.extras.quality.calibration import FOLDS, fit_confidence
from mtkit.tokenizer.train_spm import train_tokenizer
from mtkit.training.train import train
from tasks import Fresh, tiny_config, write_reversal_task


def draw_lines(count: int, weights: list[float], seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return features, and chrF that follows a curve with these weights, up to noise."""
    generator = np.random.default_rng(seed)
    scales = np.array([0.5, 1.0])
    features = np.abs(generator.normal(0, scales, (count, 2)))
    curve = 1 / (1 + np.exp(-(1.0 - features @ np.array(weights))))
    chrf = np.clip(curve + generator.normal(0, 0.05, count), 0, 1)
    return features, chrf


def test_the_fit_finds_the_curve_that_the_lines_were_drawn_from() -> None:
    features, chrf = draw_lines(2_000, [1.5, 0.3])
    curve, predicted = fit_confidence(features, chrf)
    assert curve.intercept == pytest.approx(1.0, abs=0.1)
    assert list(curve.weights) == pytest.approx([1.5, 0.3], abs=0.15)
    assert predicted.mean() == pytest.approx(chrf.mean(), abs=0.005)


def test_no_weight_has_the_wrong_sign() -> None:
    features, chrf = draw_lines(500, [1.5, -0.3])
    curve, _ = fit_confidence(features, chrf)
    assert curve.weights[0] > 0 and curve.weights[1:] == (0,)


def test_lines_that_are_all_alike_can_be_fitted() -> None:
    curve, predicted = fit_confidence(np.ones((200, 2)), np.full(200, 0.3))
    assert predicted == pytest.approx(0.3, abs=0.01)
    assert np.isfinite([curve.intercept, *curve.weights]).all()


@pytest.mark.parametrize("chrf", [1.0, 0.9993])
def test_a_validation_set_that_is_translated_perfectly_does_not_promise_the_same_of_all_text(
    chrf: float,
) -> None:
    features, _ = draw_lines(500, [1.0, 0.3])
    curve, predicted = fit_confidence(features / [20, 1], np.full(500, chrf))
    assert predicted.mean() > 0.95
    assert curve.confidence(Features(2.0, 1.0)) < 0.5


def test_a_prediction_does_not_depend_on_the_chrf_of_its_own_fold() -> None:
    features, chrf = draw_lines(300, [1.5, 0.3])
    changed = chrf.copy()
    changed[::FOLDS] = 0.9
    _, predicted = fit_confidence(features, chrf)
    _, after = fit_confidence(features, changed)
    assert (predicted[::FOLDS] == after[::FOLDS]).all()
    assert (predicted[1::FOLDS] != after[1::FOLDS]).all()


def test_a_trained_model_brings_facts_and_confidence_along(tmp_path: Path) -> None:
    write_reversal_task(tmp_path, held_out=120)
    config = tiny_config(tmp_path, "transformer")
    train_tokenizer(config)
    build_batches(config)
    model = train(config)
    estimator = load_estimator(model)
    assert estimator.facts is not None and estimator.calibration is not None
    assert estimator.calibration.lines >= 100
    lines = (tmp_path / "train.src").read_text("utf-8").splitlines()
    seen = load(model.path, "cpu").tokenizer.encode_source(lines)
    assert estimator.facts.source_bigrams.unseen_share(seen) == 0
    assert estimator.facts.statistics.ratio == pytest.approx(1, abs=0.01)
    (translation,) = load(model.path, "cpu").results(["ant bee cat"])
    assert translation.confidence is not None and 0 <= translation.confidence <= 1


def test_few_validation_lines_give_facts_but_no_confidence(fresh: Fresh) -> None:
    model = train(fresh("transformer"))
    estimator = load_estimator(open_artifact(model.path, "model", verify=True))
    assert estimator.facts is not None and estimator.calibration is None
