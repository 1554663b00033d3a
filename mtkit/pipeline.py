"""All stages in order, then the scores on the test set."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from mtkit import plugins
from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.runs import config_of, default_run
from mtkit.batching.build import build_batches
from mtkit.config.settings import Config
from mtkit.config.yaml import as_config
from mtkit.corpus.sets import hold_sets
from mtkit.corpus.spread import spread
from mtkit.evaluation import ALL_LINES, evaluate, open_report
from mtkit.report import data_lines, say
from mtkit.scoring.line_files import HYPOTHESES_FILE, REFERENCE_FILE, SOURCE_FILE, load_lines
from mtkit.scoring.metrics import MetricScores
from mtkit.scoring.verdict import describe_quality, tabulate_quality
from mtkit.tokenizer.train_spm import train_tokenizer
from mtkit.training.fine_tuning import find_fine_tuning
from mtkit.training.finish import finish
from mtkit.training.setup import check_origin, find_glossary
from mtkit.training.train import train

MAX_SAMPLES = 3
"""Number of test sentences that are shown with their translations."""


def run(config: Config | str | Path) -> MetricScores:
    """Run every stage that is not up to date, and return the scores on the test set by metric.

    The metrics are "bleu", "chrf" and others of `mtkit.score`; without a test set return none.
    Progress and the verdict go to stderr.

    Raises what the stages raise.
    """
    config = as_config(config)
    with _hold_text(config):
        model = _run_stages(config)
        test = evaluate(config, model)
    _write_card(model)
    _say_verdict(config, model, test)
    return MetricScores() if test is None else MetricScores(open_report(test).scores)


def run_and_print(config: Config, cluster: str | None = None) -> None:
    """Run every stage that is not up to date, and write the scores to stdout.

    `cluster`: the address of a Dask cluster, as in `build_batches`.
    """
    started = time.monotonic()
    with _hold_text(config):
        model = _run_stages(config, cluster)
        _test_and_print(config, model, started)


def finish_and_print(run: Path | None = None) -> None:
    """End the training of a run early, and write the scores of its model to stdout.

    The default is `default_run`, whatever $MTKIT_MODEL names. Raises what the stages raise.
    """
    folder = run or default_run()
    config = config_of(folder)
    # The config names the folder where training began; the user may have moved the run since then.
    is_in_place = Path(config.run).exists() and folder.samefile(config.run)
    if not is_in_place:
        config = config.model_copy(update={"run": str(folder)})
    started = time.monotonic()
    with hold_sets(config, "test"):
        model = finish(config)
        _test_and_print(config, model, started)


@contextmanager
def _hold_text(config: Config) -> Iterator[None]:
    """Check the settings that are checked in no time, then hold all text of the run."""
    check_origin(config)
    find_glossary(config)  # fails if it cannot be read
    find_fine_tuning(config)  # fails if it is not installed
    with hold_sets(config, "train", "valid", "test", "keep"):
        yield


def _run_stages(config: Config, cluster: str | None = None) -> Artifact:
    """Make the tokenizer, the batches and the model; return the model."""
    train_tokenizer(config)
    build_batches(config, cluster)
    return train(config)


def _write_card(model: Artifact) -> None:
    """Write the card of the model, if the extra that writes cards is installed."""
    if write_card := plugins.find_action("write_card"):
        write_card(model.path)


def _test_and_print(config: Config, model: Artifact, started: float) -> None:
    """Write the scores to stdout; say how long the run took, what is next, and what it is worth.

    `started`: when the command began, in seconds of `time.monotonic`.
    """
    test = evaluate(config, model)
    _write_card(model)
    if test is not None:
        data_lines(tabulate_quality(open_report(test)))
        _name_files(test)
    total = timedelta(seconds=round(time.monotonic() - started))
    training = timedelta(seconds=round(model.report["training_seconds"]))
    # The training may have been interrupted, and most of it done by earlier commands.
    say(f"done in {total} (training, with all interrupted commands: {training}): {model.path}")
    tags = config.data.target_tags
    tag = f" --tag {tags[0]}" if tags else ""
    choices = f" (tags: {', '.join(tags)})" if tags else ""
    say(f"to translate: echo 'a sentence' | mtkit translate -m {model.path.parent}{tag}{choices}")
    if test is not None:
        _show_samples(test)
    _say_verdict(config, model, test)


def _say_verdict(config: Config, model: Artifact, test: Artifact | None) -> None:
    """Say how good the model is, and how it differs from its base model."""
    if test is not None:
        say("\n".join(describe_quality(open_report(test))))
    for line in find_fine_tuning(config).describe(model, test):
        say(line)


def _name_files(test: Artifact) -> None:
    """Say which command shows signatures and the worst lines, and which files have all lines."""
    folder = test.path
    files = ["-r", f"{folder / REFERENCE_FILE}", f"{folder / HYPOTHESES_FILE}"]
    command = ["mtkit", "score", *files, "--source", f"{folder / SOURCE_FILE}", "--worst", "5"]
    say(f"to see signatures and the worst lines: {shlex.join(command)}")
    lines = test.report.get("lines")
    all_lines = test.report.get("all_lines")
    if lines != all_lines:
        names = [name for name in sorted(test.files) if name.startswith(ALL_LINES)]
        say(
            f"scored {lines:,} of {all_lines:,} lines, spread over the test set, because "
            f"translating all would take too long; {folder} has all lines for `mtkit translate` "
            f"and `mtkit score`: {', '.join(names)}"
        )


def _show_samples(test: Artifact) -> None:
    """Say some sentences at equal distances, with reference and translation."""
    sources = load_lines(test.file(SOURCE_FILE))
    references = load_lines(test.file(REFERENCE_FILE))
    hypotheses = load_lines(test.file(HYPOTHESES_FILE))
    rows = list(zip(sources, references, hypotheses, strict=True))
    for source, reference, hypothesis in spread(rows, MAX_SAMPLES):
        say("")
        say(f"  source       {source}")
        say(f"  reference    {reference}")
        say(f"  translation  {hypothesis}")
    say("")
