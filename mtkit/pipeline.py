"""All stages in order, then the scores on the test set."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.recipe import scores_recipe
from mtkit.artifacts.runs import config_of, default_run
from mtkit.artifacts.stage import Draft, Stage
from mtkit.batching.build import build_batches
from mtkit.config.corpora import Corpus
from mtkit.config.settings import Config
from mtkit.config.yaml import as_config
from mtkit.corpus.read import hash_corpora, read_pairs
from mtkit.corpus.readable import check_all_readable
from mtkit.decoding.api import load
from mtkit.errors import UserError
from mtkit.progress import progress
from mtkit.report import data_lines, say
from mtkit.scoring.line_files import HYPOTHESES_FILE, REFERENCE_FILE, SOURCE_FILE, load_lines
from mtkit.scoring.metrics import Score
from mtkit.scoring.quality import QualityReport, score_test_set
from mtkit.scoring.verdict import describe_quality, tabulate_quality
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import train_tokenizer
from mtkit.training.finish import finish
from mtkit.training.setup import check_origin
from mtkit.training.train import train

MAX_SAMPLES = 3
"""Number of test sentences that are shown with their translations."""


def run(config: Config | str | Path) -> dict[str, Score]:
    """Run every stage that is not up to date, and return the scores on the test set by metric.

    The metrics are "bleu", "chrf" and others of `mtkit.score`; without a test set return none.

    Raises what the stages raise.
    """
    config = as_config(config)
    model = _run_stages(config)
    report = _test(config, model)
    return {} if report is None else dict(report.scores)


def run_and_print(config: Config) -> None:
    """Run every stage that is not up to date, and write the scores to stdout."""
    started = time.monotonic()
    model = _run_stages(config)
    _test_and_print(config, model, started)


def finish_and_print(run: Path | None = None) -> None:
    """End the training of a run early, and write the scores of its model to stdout.

    The default is `default_run`, whatever $MTKIT_MODEL names. Raises what the stages raise.
    """
    started = time.monotonic()
    folder = run or default_run()
    config = config_of(folder)
    was_moved = not (Path(config.run).exists() and folder.samefile(config.run))
    if was_moved:
        config = config.model_copy(update={"run": str(folder)})
    check_all_readable(config.data, "test")
    model = finish(config)
    _test_and_print(config, model, started)


def _run_stages(config: Config) -> Artifact:
    """Make the tokenizer, the batches and the model; return the model."""
    check_all_readable(config.data, "train", "valid", "test")
    check_origin(config)
    train_tokenizer(config)
    build_batches(config)
    return train(config)


def _test_and_print(config: Config, model: Artifact, started: float) -> None:
    """Write the scores to stdout; say what they mean, how long the run took, and what is next.

    `started`: when the command started, in seconds of `time.monotonic`.
    """
    run = model.path.parent
    report = _test(config, model)
    if report is not None:
        data_lines(tabulate_quality(report))
        say("\n".join(describe_quality(report)))
        files = f"{run}/test/{REFERENCE_FILE} {run}/test/{HYPOTHESES_FILE}"
        say(f"to see the worst: mtkit score -r {files} --worst 5")
    total = timedelta(seconds=round(time.monotonic() - started))
    training = timedelta(seconds=round(model.report["training_seconds"]))
    say(f"done in {total} (training, with earlier runs: {training}): {model.path}")
    say(f"to translate: echo 'a sentence' | mtkit translate -m {run}")


def _test(config: Config, model: Artifact) -> QualityReport | None:
    """Translate and score the test set, in RUN/test, and show some of its lines.

    Without a test set, return None.
    """
    corpus = config.data.test
    if corpus is None:
        return None
    inputs = {"model": model.identity} | hash_corpora(corpus, "data.test")
    stage = Stage("test", Path(config.run) / "test", scores_recipe(config), inputs)
    test = stage.ensure(config, lambda draft: _translate_and_score(draft, config, corpus, model))
    try:
        report = QualityReport.from_record(test.report)
        _show_samples(test)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{test.path} is damaged ({error!r}); delete it") from None
    return report


def _translate_and_score(draft: Draft, config: Config, corpus: Corpus, model: Artifact) -> None:
    """Fill RUN/test: the lines of the test set, their translations, and the report on them."""
    pairs = list(read_pairs(corpus))
    sources = [pair.source for pair in pairs]
    references = [pair.target for pair in pairs]
    hypotheses = _translate(sources, config, model)
    _write_lines(draft.folder / SOURCE_FILE, sources)
    _write_lines(draft.folder / REFERENCE_FILE, references)
    _write_lines(draft.folder / HYPOTHESES_FILE, hypotheses)
    report = score_test_set(config, pairs, hypotheses, Tokenizer.load(model))
    draft.report.update(report.record())


def _translate(sources: Sequence[str], config: Config, model: Artifact) -> list[str]:
    translator = load(model.path, config.training.device)
    hypotheses: list[str] = []
    with progress("translating the test set", len(sources), "lines") as shown:
        for translations in translator.stream(sources):
            shown.advance(len(translations))
            hypotheses += [translation.text for translation in translations]
    return hypotheses


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _show_samples(test: Artifact) -> None:
    """Say some sentences at equal distances, with reference and translation."""
    sources = load_lines(test.file(SOURCE_FILE))
    references = load_lines(test.file(REFERENCE_FILE))
    hypotheses = load_lines(test.file(HYPOTHESES_FILE))
    rows = list(zip(sources, references, hypotheses, strict=True))
    distance = max(1, len(rows) // MAX_SAMPLES)
    for source, reference, hypothesis in rows[::distance][:MAX_SAMPLES]:
        say("")
        say(f"  source       {source}")
        say(f"  reference    {reference}")
        say(f"  translation  {hypothesis}")
    say("")
