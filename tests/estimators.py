"""A quality estimator for tests, and model folders that have it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from architectures import transformer
from folders import as_if_trained, train, write_model
from mtkit.artifacts.manifest import open_artifact
from mtkit.artifacts.replacement import create
from mtkit.corpus.read import Pair
from mtkit.corpus.statistics import compute_statistics
from mtkit.decoding.estimation.bigrams import SeenBigrams
from mtkit.decoding.estimation.estimator import Calibration, Estimator, Features
from mtkit.decoding.estimation.facts import TrainingFacts
from mtkit.tokenizer.codec import Tokenizer

CALIBRATION = Calibration(
    intercept=1.5,
    weights=Features(1.5, 0.1),
    residual=0.15,
    offset=-0.01,
    offset_error=0.03,
    chrf=0.6,
    lines=500,
)


def facts_of(lines: list[str]) -> TrainingFacts:
    ids = train().encode_source(lines)
    joined = np.array([i for line in ids for i in line], np.int64)
    bigrams = SeenBigrams.of([(joined, np.array([len(line) for line in ids], np.int64))])
    pairs = [Pair(line, line, 0, "corpus", row) for row, line in enumerate(lines)]
    return TrainingFacts(compute_statistics(pairs), bigrams, bigrams, max_unseen_share=0.4)


LINES = ["A dog runs.", "Two men, one boat.", "It rains on the plain in Spain.", "Why is it so?"]
ESTIMATOR = Estimator(facts_of(LINES * 10), CALIBRATION)


def write_model_with(path: Path, estimator: Estimator, tokenizer: Tokenizer | None = None) -> Path:
    """Write a model folder with random weights and an estimator."""
    plain = write_model(path.with_name("plain"), tokenizer or train(), transformer(), as_if_trained)
    with create(path, "model", {}, {}) as folder:
        for name in open_artifact(plain, "model").files:
            shutil.copy(plain / name, folder / name)
        estimator.save(folder)
    return path


def with_languages(source: str, target: str) -> Estimator:
    """Return the estimator of a model whose user has declared its languages."""
    facts = ESTIMATOR.facts
    assert facts is not None
    statistics = replace(
        facts.statistics,
        source=replace(facts.statistics.source, declared=source),
        target=replace(facts.statistics.target, declared=target),
    )
    return replace(ESTIMATOR, facts=replace(facts, statistics=statistics))
