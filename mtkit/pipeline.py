"""All stages in order, then the scores on the test set."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain
from pathlib import Path

from mtkit.artifacts.manifest import Artifact, kind_at
from mtkit.artifacts.recipe import scores_recipe
from mtkit.artifacts.runs import CHECKPOINTS, checkpoint_steps, config_of, default_run, find_origin
from mtkit.artifacts.stage import Draft, Stage
from mtkit.batching.build import build_batches
from mtkit.config.corpora import Corpus
from mtkit.config.settings import Config
from mtkit.config.yaml import as_config
from mtkit.corpus.read import Pair, hash_corpora, read_pairs
from mtkit.corpus.readable import check_all_readable
from mtkit.decoding.api import load
from mtkit.decoding.limits import limit_lengths, max_test_seconds
from mtkit.decoding.text.line import Line
from mtkit.errors import UserError
from mtkit.progress import progress
from mtkit.report import data_lines, say
from mtkit.scoring.adaptation import (
    Adaptation,
    BeforeAndAfter,
    describe_adaptation,
    tabulate_adaptation,
)
from mtkit.scoring.line_files import HYPOTHESES_FILE, REFERENCE_FILE, SOURCE_FILE, load_lines
from mtkit.scoring.memory import group_by_tag
from mtkit.scoring.metrics import MetricScores
from mtkit.scoring.quality import QualityReport, score_test_set
from mtkit.scoring.verdict import (
    describe_baseline,
    describe_quality,
    describe_verdict,
    tabulate_quality,
)
from mtkit.tokenizer.train_spm import train_tokenizer
from mtkit.training.finish import finish
from mtkit.training.setup import check_origin
from mtkit.training.train import train

MAX_SAMPLES = 3
"""Number of test sentences that are shown with their translations."""
TEST_PORTIONS = 32
"""The test set is translated in so many portions, of which each is spread over the set."""
MIN_TEST_LINES = 30
"""Fewest lines of a test set that are translated, however long they take."""
GIVEN_FILE = "given.txt"
"""File of RUN/test: the translations of the given model, if the model was adapted."""
ALL_SOURCES, ALL_REFERENCES = "all.source.txt", "all.reference.txt"
"""Files of RUN/test: all lines, if only a part of the test set was translated."""


@dataclass(frozen=True)
class _Start:
    """The start of a command."""

    time: float
    """Seconds of `time.monotonic`."""
    was_interrupted: bool
    """Whether an earlier command has begun to train this run, and was interrupted."""

    @classmethod
    def of(cls, config: Config) -> _Start:
        """Return the start of a command that begins now."""
        run = Path(config.run)
        has_model = kind_at(run / "model") is not None
        return cls(time.monotonic(), not has_model and bool(checkpoint_steps(run / CHECKPOINTS)))


def run(config: Config | str | Path) -> MetricScores:
    """Run every stage that is not up to date, and return the scores on the test set by metric.

    The metrics are "bleu", "chrf" and others of `mtkit.score`; without a test set return none.

    Raises what the stages raise.
    """
    config = as_config(config)
    model = _run_stages(config)
    test = _test(config, model)
    return MetricScores() if test is None else MetricScores(_open_report(test).scores)


def run_and_print(config: Config) -> None:
    """Run every stage that is not up to date, and write the scores to stdout."""
    started = _Start.of(config)
    model = _run_stages(config)
    _test_and_print(config, model, started)


def finish_and_print(run: Path | None = None) -> None:
    """End the training of a run early, and write the scores of its model to stdout.

    The default is `default_run`, whatever $MTKIT_MODEL names. Raises what the stages raise.
    """
    folder = run or default_run()
    config = config_of(folder)
    was_moved = not (Path(config.run).exists() and folder.samefile(config.run))
    if was_moved:
        config = config.model_copy(update={"run": str(folder)})
    started = _Start.of(config)
    check_all_readable(config.data, "test")
    model = finish(config)
    _test_and_print(config, model, started)


def _run_stages(config: Config) -> Artifact:
    """Make the tokenizer, the batches and the model; return the model."""
    check_all_readable(config.data, "train", "valid", "test", "keep")
    check_origin(config)
    train_tokenizer(config)
    build_batches(config)
    return train(config)


def _test_and_print(config: Config, model: Artifact, started: _Start) -> None:
    """Write the scores to stdout; say how long the run took, what is next, and what it is worth."""
    run = model.path.parent
    test = _test(config, model)
    if test is not None:
        report = _open_report(test)
        data_lines(tabulate_quality(report))
        _name_score_commands(run, test)
    total = timedelta(seconds=round(time.monotonic() - started.time))
    training = timedelta(seconds=round(model.report["training_seconds"]))
    with_others = ", with all interrupted commands" if started.was_interrupted else ""
    say(f"done in {total} (training{with_others}: {training}): {model.path}")
    tags = config.data.target_tags
    tag = f" --tag {tags[0]}" if tags else ""
    choices = f" (tags: {', '.join(tags)})" if tags else ""
    say(f"to translate: echo 'a sentence' | mtkit translate -m {run}{tag}{choices}")
    if test is not None:
        _show_samples(test)
        say("\n".join(describe_quality(report)))
    if "adaptation" in model.report:
        _show_adaptation(model, test)


def _show_adaptation(model: Artifact, test: Artifact | None) -> None:
    """Say what the adaptation of a given model has changed."""
    adaptation = Adaptation.from_record(model.report["adaptation"])
    if adaptation.share > 0:
        tested = None
        if test is not None:
            tested = BeforeAndAfter.from_record(test.report["adaptation"])
        say("")
        for line in tabulate_adaptation(adaptation, tested):
            say(line)
    say(f"adapted: {describe_adaptation(adaptation)}")


def _name_score_commands(run: Path, test: Artifact) -> None:
    """Say which command shows signatures and the worst lines, and which scores all lines."""
    folder = run / "test"
    files = ["-r", f"{folder / REFERENCE_FILE}", f"{folder / HYPOTHESES_FILE}"]
    command = ["mtkit", "score", *files, "--source", f"{folder / SOURCE_FILE}", "--worst", "5"]
    say(f"signatures, and the worst lines: {shlex.join(command)}")
    lines = test.report.get("lines")
    all_lines = test.report.get("all_lines")
    if lines == all_lines:
        return
    commands: list[str] = []
    for tag in _tags_of_test(test):
        output = _named(tag, "all.txt")
        source = folder / _named(tag, ALL_SOURCES)
        options = [] if tag is None else ["--tag", tag]
        translate = ["mtkit", "translate", "-m", f"{run}", *options, f"{source}", "-o", output]
        score = ["mtkit", "score", "-r", f"{folder / _named(tag, ALL_REFERENCES)}", output]
        commands.append(f"`{shlex.join(translate)} && {shlex.join(score)}`")
    say(
        f"scored {lines:,} of {all_lines:,} lines, spread over the test set, because "
        f"translating all would take too long; to score all: {'; '.join(commands)}"
    )


def _tags_of_test(test: Artifact) -> list[str | None]:
    """Return the target tags of the lines of a test set; only None if they have none."""
    return list(test.report.get("tags", {})) or [None]


def _named(tag: str | None, name: str) -> str:
    """Return the name of the file for the lines with a target tag: all.txt is all.yor.txt."""
    return name if tag is None else name.replace(".", f".{tag}.", 1)


def _open_report(test: Artifact) -> QualityReport:
    """Return the report on a test set; UserError if it is damaged."""
    try:
        return QualityReport.from_record(test.report)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{test.path} is damaged ({error!r}); delete it") from None


def _test(config: Config, model: Artifact) -> Artifact | None:
    """Translate and score the test set, in RUN/test. Without a test set, return None."""
    corpora = config.data.test
    if corpora is None:
        return None
    inputs = {"model": model.identity} | hash_corpora(corpora, "data.test")
    stage = Stage("test", Path(config.run) / "test", scores_recipe(config), inputs)
    return stage.ensure(config, lambda draft: _translate_and_score(draft, config, corpora, model))


def _translate_and_score(
    draft: Draft, config: Config, corpora: Corpus | list[Corpus], model: Artifact
) -> None:
    """Fill RUN/test: the lines of the test set, their translations, and the report on them."""
    pairs = list(read_pairs(corpora))
    hypotheses = _translate(pairs, config, model)
    scored = [pairs[row] for row in sorted(hypotheses)]
    texts = [hypotheses[row] for row in sorted(hypotheses)]
    _write_lines(draft.folder / SOURCE_FILE, [pair.source for pair in scored])
    _write_lines(draft.folder / REFERENCE_FILE, [pair.target for pair in scored])
    _write_lines(draft.folder / HYPOTHESES_FILE, texts)
    if len(scored) < len(pairs):
        for tag, rows in group_by_tag(pairs).items():
            sources = [pairs[row].source for row in rows]
            references = [pairs[row].target for row in rows]
            _write_lines(draft.folder / _named(tag, ALL_SOURCES), sources)
            _write_lines(draft.folder / _named(tag, ALL_REFERENCES), references)
    report = score_test_set(config, scored, texts)
    draft.report.update(report.record())
    if "adaptation" in model.report:
        given = _translate_with_given_model(scored, config)
        _write_lines(draft.folder / GIVEN_FILE, given)
        references = [pair.target for pair in scored]
        change = BeforeAndAfter.of(given, texts, references, config.data.target_language)
        draft.report["adaptation"] = change.record()
    draft.report.update(
        {
            "lines": len(scored),
            "all_lines": len(pairs),
            "verdict": describe_verdict(report),
            "baseline": describe_baseline(report),
        }
    )


def _translate(pairs: Sequence[Pair], config: Config, model: Artifact) -> dict[int, str]:
    """Translate the test set, or as many lines as there is time for; return them by row.

    A part of the lines is spread over the set.
    """
    translator = load(model.path, config.training.device)
    sources = [pair.source for pair in pairs]
    references = [pair.target for pair in pairs]
    lines = [Line(pair.source, tag=pair.target_tag) for pair in pairs]
    groups = limit_lengths(sources, references, translator.tokenizer, translator.request)
    max_seconds = max_test_seconds(float(model.report["training_seconds"]))
    hypotheses: dict[int, str] = {}
    with closing(translator), progress("translating the test set", len(pairs), "lines") as shown:
        translator.submit(lines[:1]).result()  # the first call prepares the engine
        started = time.monotonic()
        done = 0
        size = min(TEST_PORTIONS, math.ceil(TEST_PORTIONS * MIN_TEST_LINES / len(pairs)))
        while size > 0:
            portions = _spread_portions(done, done + size)
            for group in groups:
                rows = [row for row in group.rows if row % TEST_PORTIONS in portions]
                chosen = [lines[row] for row in rows]
                found = chain.from_iterable(translator.stream(chosen, group.request))
                for row, translation in zip(rows, found, strict=True):
                    hypotheses[row] = translation.text
                    shown.advance()
            done += size
            seconds = time.monotonic() - started
            portions_per_second = done / max(seconds, 1e-6)
            affordable = int((max_seconds - seconds) * portions_per_second)
            size = min(2 * size, TEST_PORTIONS - done, affordable)
    return hypotheses


def _translate_with_given_model(pairs: Sequence[Pair], config: Config) -> list[str]:
    """Translate lines of the test set with the model of `training.init_from`."""
    given = find_origin(config)
    assert given is not None  # an adapted model has one
    sources = [pair.source for pair in pairs]
    references = [pair.target for pair in pairs]
    with closing(load(given.path, config.training.device)) as translator:
        request = replace(translator.request, settings=config.decoding)
        groups = limit_lengths(sources, references, translator.tokenizer, request)
        hypotheses = [""] * len(pairs)
        for group in groups:
            lines = [Line(pairs[row].source, tag=pairs[row].target_tag) for row in group.rows]
            translations = translator.submit(lines, group.request).result()
            for row, translation in zip(group.rows, translations, strict=True):
                hypotheses[row] = translation.text
    return hypotheses


def _spread_portions(start: int, end: int) -> set[int]:
    """Return the portions with these places in an order in which neighbours are far apart."""
    # A step without common divisor leads to every portion once; 13 is near the golden section.
    return {13 * place % TEST_PORTIONS for place in range(start, end)}


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
