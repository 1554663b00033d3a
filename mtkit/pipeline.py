"""All stages in order, then the scores on the test set."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.recipe import scores_recipe
from mtkit.artifacts.runs import config_of, default_run
from mtkit.artifacts.stage import Draft, Stage
from mtkit.batching.build import build_batches, open_batches
from mtkit.config.corpora import Corpus
from mtkit.config.settings import Config
from mtkit.config.yaml import as_config
from mtkit.corpus.read import hash_corpora, read_pairs
from mtkit.corpus.readable import check_all_readable
from mtkit.decoding.api import load
from mtkit.errors import UserError
from mtkit.progress import progress
from mtkit.report import data_lines, say, warn
from mtkit.scoring.line_files import HYPOTHESES_FILE, REFERENCE_FILE, SOURCE_FILE, load_lines
from mtkit.scoring.memory import find_nearest
from mtkit.scoring.metrics import Score
from mtkit.scoring.overlap import describe_exposure, find_exposure
from mtkit.scoring.score import score_systems
from mtkit.scoring.verdict import score_parts, scores_of, scores_table, verdict
from mtkit.scoring.writing import Writing
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import train_tokenizer
from mtkit.training.finish import finish
from mtkit.training.setup import check_origin
from mtkit.training.train import train

TEST_FILES = SOURCE_FILE, REFERENCE_FILE, HYPOTHESES_FILE
SAMPLES = 3
"""Number of test sentences that are shown with their translations."""


def run(config: Config | str | Path) -> dict[str, Score]:
    """Run every stage that is not up to date, and return the scores on the test set by metric.

    The metrics are "bleu", "chrf" and others of `mtkit.score`; without a test set return none.

    Raises what the stages raise.
    """
    config = as_config(config)
    return scores_of(_test_report(config, _run_stages(config)))


def run_and_print(config: Config) -> None:
    """Run every stage that is not up to date, and write the scores to stdout."""
    started = time.monotonic()
    _print(config, _run_stages(config), started)


def finish_and_print(run: Path | None = None) -> None:
    """End the training of a run early, and write the scores of its model to stdout.

    The default is `default_run`, whatever $MTKIT_MODEL names. Raises what the stages raise.
    """
    started, place = time.monotonic(), run or default_run()
    config = config_of(place)
    if not (Path(config.run).exists() and place.samefile(config.run)):  # the run was moved
        config = config.model_copy(update={"run": str(place)})
    check_all_readable(config.data, "test")
    _print(config, finish(config), started)


def _run_stages(config: Config) -> Artifact:
    check_all_readable(config.data, "train", "valid", "test")
    check_origin(config)
    train_tokenizer(config)
    build_batches(config)
    return train(config)


def _print(config: Config, model: Artifact, started: float) -> None:
    """Write the scores to stdout; say what they mean, how long the run took, and what is next."""
    run, trained = model.path.parent, model.report["training_seconds"]
    if report := _test_report(config, model):
        data_lines(scores_table(report))
        say("\n".join(verdict(report)))
        files = f"{run}/test/{REFERENCE_FILE} {run}/test/{HYPOTHESES_FILE}"
        say(f"to see the worst: mtkit score -r {files} --worst 5")
    total, training = (timedelta(seconds=round(it)) for it in (time.monotonic() - started, trained))
    say(f"done in {total} (training, with earlier runs: {training}): {model.path}")
    say(f"to translate: echo 'a sentence' | mtkit translate -m {run}")


def _test_report(config: Config, model: Artifact) -> Mapping[str, Any]:
    """Return the scores of the translated test set, RUN/test; show some of its lines.

    Without a test set, return an empty report.
    """
    corpus = config.data.test
    if corpus is None:
        return {}
    inputs = {"model": model.identity} | hash_corpora(corpus, "data.test")
    stage = Stage("test", Path(config.run) / "test", scores_recipe(config), inputs)
    test = stage.ensure(config, lambda draft: _translate_test_set(draft, config, corpus, model))
    try:
        _show_samples(test)
        scores_of(test.report)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{test.path} is damaged ({error!r}); delete it") from None
    return test.report


def _translate_test_set(draft: Draft, config: Config, corpus: Corpus, model: Artifact) -> None:
    pairs = list(read_pairs(corpus))
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    translator, hypotheses = load(model.path, config.training.device), list[str]()
    with progress("translating the test set", len(sources), "lines") as shown:
        for translations in translator.stream(sources):
            shown.advance(len(translations))
            hypotheses += [translation.text for translation in translations]
    for name, lines in zip(TEST_FILES, (sources, references, hypotheses), strict=True):
        text = "".join(f"{line}\n" for line in lines)
        (draft.folder / name).write_text(text, encoding="utf-8")
    writing = Writing.of(config.data.target_language, references)
    (system,) = score_systems({"": hypotheses}, [references], writing)
    draft.report.update({key: it.record() for key, it in system.scores.items()})
    try:
        exposure = find_exposure(pairs, read_pairs(config.data.train))
    except UserError as error:  # `finish` does not need the training text
        warn(f"{error}; the test set is not compared with the training data")
        return
    draft.report["exposure"] = describe_exposure(exposure)
    batches = open_batches(Path(config.run) / "batches")
    memory, similarity = find_nearest(sources, batches.train, Tokenizer.load(model))
    draft.report["parts"] = score_parts(
        hypotheses, memory, references, similarity, [any(it) for it in exposure], writing
    )


def _show_samples(test: Artifact) -> None:
    texts = [load_lines(test.file(name)) for name in TEST_FILES]
    step = max(1, len(texts[0]) // SAMPLES)
    for source, reference, hypothesis in list(zip(*texts, strict=True))[::step][:SAMPLES]:
        say(f"\n  source       {source}\n  reference    {reference}\n  translation  {hypothesis}")
    say("")
