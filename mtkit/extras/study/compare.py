"""`mtkit compare`: how runs differ in settings, learning curves and scores."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mtkit.artifacts.manifest import kind_at, open_artifact
from mtkit.artifacts.runs import config_of
from mtkit.config.base import flattened
from mtkit.config.corpora import Corpus
from mtkit.config.locate import flow
from mtkit.config.settings import Config
from mtkit.corpus.read import read_corpus
from mtkit.decoding.api import load
from mtkit.errors import UserError
from mtkit.extras.study.curves import (
    X_AXES,
    check_picture,
    draw_curves,
    draw_sparklines,
    learning_curves,
)
from mtkit.report import data_lines, header, plural, say, table, warn, wrap
from mtkit.scoring.line_files import HYPOTHESES_FILE, REFERENCE_FILE, load_lines
from mtkit.scoring.metrics import resampling_obstacle
from mtkit.scoring.score import score_systems, score_table
from mtkit.scoring.writing import Writing
from mtkit.training.metrics_log import MetricsLog


@dataclass(frozen=True)
class ComparedRun:
    """The settings, records and test translations (if any) of a run."""

    name: str
    config: Config
    records: list[dict[str, Any]]
    corpus: Mapping[str, str] = field(default_factory=dict)
    """The numbers of pairs, and hashes of the training text, by their names in the report."""
    references: Sequence[str] = ()
    hypotheses: Sequence[str] = ()


def compare(runs: Sequence[Path], plot: Path | None = None, test: Corpus | None = None) -> None:
    """Write how the runs differ; test scores against the scores of the first run.

    `plot`: file for a picture of the learning curves. `test`: a test set that each run translates;
    None: that of its config, which it has translated already.

    Raises:
        UserError: a path is not a run, or there are fewer than two runs.
    """
    if plot is not None:
        check_picture(plot)
    if len(set(runs)) < max(2, len(runs)):
        raise UserError("compare: give at least two different runs")
    if test is None:
        opened = [_with_test(run) for run in map(_open, runs)]
    else:
        opened = _translate_test(list(map(_open, runs)), test)
    records = {run.name: run.records for run in opened}
    panels = list(learning_curves(records, ["valid"], X_AXES))
    data_lines(_compare_settings(opened))
    data_lines(_compare_corpora(opened))
    for panel in panels:  # all runs on one scale
        data_lines(["", *draw_sparklines(panel)])
    data_lines(_compare_scores(opened))
    if plot is not None:
        if not panels:
            raise UserError("no run has logged a validation, so there is nothing to plot")
        draw_curves(panels, list(records), plot)


def _open(path: Path) -> ComparedRun:
    records = MetricsLog(path).read()
    return ComparedRun(
        name=str(path),
        config=config_of(path),
        records=records,
        corpus=_describe_corpus(path),
    )


def _translate_test(runs: Sequence[ComparedRun], test: Corpus) -> list[ComparedRun]:
    """Return the runs with their translations of a test set; pairs with a blank side do not count.

    Raises:
        UserError: the test set cannot be read, or a run has no model.
    """
    pairs = [pair for pair in read_corpus(test) if not pair.blank]
    if not pairs:
        raise UserError("--test: all pairs have a blank side")
    references = [pair.target for pair in pairs]
    translated: list[ComparedRun] = []
    for run in runs:
        translator = load(run.name)
        say(f"{run.name}: translating {plural(len(pairs), 'pair')} of the test set")
        hypotheses = translator.translate([pair.source for pair in pairs])
        translated_run = replace(
            run,
            references=references,
            hypotheses=hypotheses,
        )
        translated.append(translated_run)
    return translated


def _with_test(run: ComparedRun) -> ComparedRun:
    """Return a run with its test set, unless that is missing or of an earlier model."""
    path = Path(run.name)
    if kind_at(path / "test") is None:
        warn(f"{path} has no translated test set; set data.test and run `mtkit run`")
        return run
    test = open_artifact(path / "test", "test")
    has_model = kind_at(path / "model") is not None
    if has_model:
        model = open_artifact(path / "model", "model")
        if test.manifest["inputs"].get("model") != model.identity:
            warn(f"{path}: the test set was translated by an earlier model; run `mtkit run`")
            return run
    return replace(
        run,
        references=load_lines(test.file(REFERENCE_FILE)),
        hypotheses=load_lines(test.file(HYPOTHESES_FILE)),
    )


def _describe_corpus(run: Path) -> dict[str, str]:
    """Return the numbers of pairs in the batches of a run, and a short hash of their text."""
    if kind_at(run / "batches") is None:
        return {}
    manifest = open_artifact(run / "batches", "batches").manifest
    facts: dict[str, str] = {}
    for part, title in (("train", "training"), ("valid", "validation")):
        match manifest["report"].get(part):
            case {"kept": int(kept), "pairs": int(pairs)}:
                facts[f"{title} pairs"] = f"{kept:,} of {pairs:,}"
        hashes = [
            identity
            for name, identity in sorted(manifest["inputs"].items())
            if name.startswith(f"data.{part}")
        ]
        text = hashlib.sha256(" ".join(hashes).encode()).hexdigest()
        facts[f"{title} text (sha256)"] = text[:8]
    return facts


def _compare_settings(runs: Sequence[ComparedRun]) -> Iterator[str]:
    """Yield a row for each setting that differs (except `run`), then settings of only some runs."""
    settings = {run.name: flattened(run.config.model_dump(exclude={"run"})) for run in runs}
    keys = dict.fromkeys(key for of_run in settings.values() for key in of_run)
    rows = header(["settings"], list(settings))
    differences = []
    partial: defaultdict[str, list[str]] = defaultdict(list)
    """Settings that only some runs have, with one value, by the names of these runs."""
    for key in keys:
        values: dict[str, str] = {}
        for name, of_run in settings.items():
            if key in of_run:
                values[name] = flow(of_run[key])
        first, *others = dict.fromkeys(values.values())
        if others:
            differences.append([key, *(values.get(name, "-") for name in settings)])
        elif len(values) < len(runs) and first != "null":
            partial[", ".join(values)].append(f"{key}: {first}")
    yield from table([*rows, *differences])
    if not differences and not partial:
        yield "no differences"
    for names, texts in partial.items():
        yield ""
        yield from wrap(", ".join(texts), f"only in {names}: ")


def _compare_corpora(runs: Sequence[ComparedRun]) -> Iterator[str]:
    """Yield the numbers of pairs and the hashes of the text, if they differ."""
    rows: list[list[str]] = []
    for name in dict.fromkeys(name for run in runs for name in run.corpus):
        values = [run.corpus.get(name, "-") for run in runs]
        if len(set(values)) > 1:
            rows.append([name, *values])
    if rows:
        yield ""
        yield from table([*header(["corpora"], [run.name for run in runs]), *rows])


def _compare_scores(runs: Sequence[ComparedRun]) -> Iterator[str]:
    """Yield the scores of the runs that have the same test set as the first run with a test set."""
    tested = [run for run in runs if run.hypotheses]
    if not tested:
        return
    first = tested[0]
    compared = []
    for run in tested:
        if run.references == first.references:
            compared.append(run)
        else:
            warn(
                f"{run.name} is not compared, because {first.name} has another test set; to "
                f"compare both on one: `mtkit compare {first.name} {run.name} --test S T`"
            )
    obstacle = resampling_obstacle(len(first.references))
    has_several = len(compared) > 1
    if obstacle and has_several:
        warn(f"no significance test is made: {obstacle}")
    systems = score_systems(
        {run.name: run.hypotheses for run in compared},
        [first.references],
        Writing.of(first.config.data.target_language, first.references),
        test=has_several and not obstacle,
    )
    yield ""
    yield from score_table(systems)
