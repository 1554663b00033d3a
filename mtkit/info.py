"""`mtkit info`: describe a run, model or artifact: state, settings, scores, and what to do next."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

from mtkit.artifacts.manifest import Artifact, Kind, OtherFormatError, kind_at, open_artifact
from mtkit.artifacts.runs import (
    CHECKPOINTS,
    SETTINGS,
    checkpoint_at,
    checkpoint_steps,
    config_of,
    default_place,
)
from mtkit.config.base import flattened
from mtkit.config.corpora import TextCorpus
from mtkit.config.parse import write_yaml
from mtkit.config.reference import explain_settings
from mtkit.config.settings import Config
from mtkit.config.yaml import load_config
from mtkit.errors import UserError
from mtkit.report import data_lines, plural, printable, table, warn, wrap
from mtkit.study.curves import (
    Panel,
    check_picture,
    draw_curves,
    draw_sparklines,
    learning_curves,
    plan_rates,
    read_index,
)
from mtkit.training.metrics_log import MetricsLog

Records = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class RunProgress:
    """How far training has come."""

    step: int
    steps: int
    """Planned number of steps; 0 if unknown."""
    epoch: Any
    ends: str | None
    """When training will end, or how it ended, in words."""

    @property
    def reached(self) -> str:
        """The step, and the planned number of steps if known."""
        return f"{self.step:,} of {self.steps:,}" if self.steps else f"{self.step:,}"


@dataclass(frozen=True)
class RunInfo:
    """What exists of a run; or one artifact.

    Only the form of manifests and records is checked, so their values may have any type.
    """

    place: Path
    artifacts: Mapping[str, Artifact]
    """The artifacts by kind."""
    records: Records
    """The lines of metrics.jsonl."""
    config: Config | None
    """None if the place is no run directory."""
    is_verified: bool
    """Whether the sha256 of every file was checked."""

    @property
    def weights(self) -> Artifact | None:
        """The model, or a checkpoint."""
        return self.artifacts.get("model") or self.artifacts.get("checkpoint")

    @property
    def validation(self) -> Mapping[str, Any]:
        """The validation of the weights; if it is unknown, the last one of training."""
        validation = None if self.weights is None else _figures(self.weights).get("validation")
        if validation is None:
            logged = [record for record in self.records if record.get("kind") == "valid"]
            validation = logged[-1] if logged else None
        return validation if isinstance(validation, Mapping) else {}

    @property
    def progress(self) -> RunProgress | None:
        """How far training has come; None if nothing is logged."""
        if not self.records:
            return None
        last = self.records[-1]
        index = read_index(self.place)
        step = max(last["step"], index.get("last", 0))
        steps = index.get("steps", 0)
        return RunProgress(step, steps, last.get("epoch"), self._describe_end(step, steps))

    def _describe_end(self, step: int, steps: int) -> str | None:
        model = self.artifacts.get("model")
        if model is not None:
            trained = model.report.get("steps")
            if isinstance(trained, int) and trained >= step:
                is_early = model.manifest["settings"].get("ended") is not None
                return "ended early, by `mtkit finish`" if is_early else "finished"
        last = self.records[-1]
        seconds = last.get("seconds")
        if isinstance(seconds, int | float) and last["step"] > 0 and step < steps:
            seconds_left = round(seconds / last["step"] * (steps - step))
            return f"{timedelta(seconds=seconds_left)} left, at the speed so far"
        return None

    @property
    def files(self) -> str:
        """The number of files and their total size."""
        sizes = [size for artifact in self.artifacts.values() for size in _sizes(artifact).values()]
        checked = " with the right sha256" if self.is_verified else ""
        return f"{plural(len(sizes), 'file')}{checked}, {sum(sizes) / 1e6:,.1f} MB"

    @property
    def versions(self) -> str:
        """The versions of mtkit that wrote the artifacts."""
        return ", ".join(
            sorted({artifact.manifest["mtkit"] for artifact in self.artifacts.values()})
        )

    @property
    def next_command(self) -> str:
        """The command that goes on from here."""
        if self.weights is not None:
            return f"mtkit translate -m {self.place} < in.txt"
        run = "mtkit run" if self.config is None else f"mtkit run -c {self.place / SETTINGS}"
        return f"{run} to resume, or mtkit finish {self.place}" if self.records else run


def info(
    path: Path | None = None,
    *,
    full: bool = False,
    verify: bool = False,
    config: bool = False,
    explain: bool = False,
    plot: bool = False,
    output: Path | None = None,
) -> None:
    """Describe a run, model, other artifact or config file on stdout, in short or in `full`.

    `config`: print the settings instead, with comments if `explain`. `plot`: draw the learning
    curves, or the planned learning rate before training, in the terminal or as the picture
    `output`.

    Raises:
        UserError: `path` is nothing of this kind, or `verify` finds damage.
    """
    if plot:
        if output is not None:
            check_picture(output)
        run, settings = _open_run(path)
        _plot(run, settings, output)
        return
    if config:
        lines = _settings_yaml(path, explain)
    else:
        described = open_run_info(path, verify=verify)
        lines = list_all(described) if full else summarise(described)
    data_lines(map(printable, lines))


def _plot(run: Path, config: Config, output: Path | None) -> None:
    """Plot the curves of a run, or the planned learning rate if the run has logged nothing."""
    panels = list(learning_curves({"": MetricsLog(run).read()}))
    if not panels:
        rates = plan_rates(config, read_index(run))
        panels = [Panel("planned learning rate", "step", {"": rates})]
    if output is not None:
        draw_curves(panels, [""], output)
    else:
        data_lines(line for panel in panels for line in (*draw_sparklines(panel), ""))


def _open_run(path: Path | None) -> tuple[Path, Config]:
    """Return directory and settings of a run; default: `default_place` or ./mtkit.yaml."""
    folder = path or default_place()
    if (folder / SETTINGS).is_file():
        return folder, config_of(folder)
    is_folder = path is not None and path.is_dir()  # a file is a config
    is_from_environment = path is None and bool(os.environ.get("MTKIT_MODEL"))
    if is_folder or is_from_environment:
        raise UserError(f"{folder} is not a run directory; give a run directory or a config file")
    config = load_config(path)
    return Path(config.run), config


def _settings_yaml(path: Path | None, with_comments: bool) -> Iterator[str]:
    artifact = _open_artifact(path or default_place())
    settings: Mapping[str, Any]
    if artifact is None:
        _, config = _open_run(path)
        settings = config.model_dump(mode="json")
    else:
        settings = artifact.manifest["settings"]
    if with_comments:
        yield from explain_settings(settings)
    else:
        yield from write_yaml(settings).splitlines()


def open_run_info(path: Path | None, *, verify: bool) -> RunInfo:
    """Open a run or artifact; with `verify`, a part of a run without a manifest counts as damaged.

    Raises:
        UserError: there is neither, or `verify` finds damage.
    """
    folder = path or default_place()
    if folder.is_file():
        folder, _ = _open_run(folder)
    artifact = _open_artifact(folder, verify=verify)
    if artifact is not None:
        artifacts = {str(artifact.manifest["kind"]): artifact}
        records: Records = []
    else:
        artifacts = _open_parts(folder, verify=verify)
        records = MetricsLog(folder).read()
    if not artifacts and not records:
        raise UserError(f"{folder} holds no run, model or artifact; create one with `mtkit run`")
    config = None
    with suppress(UserError):  # not a run
        config = config_of(folder)
    return RunInfo(
        place=folder, artifacts=artifacts, records=records, config=config, is_verified=verify
    )


def _open_parts(run: Path, *, verify: bool) -> dict[str, Artifact]:
    """Open the artifacts of a run, by kind; verify its checkpoints, too."""
    parts: dict[str, Artifact] = {}
    for kind in get_args(Kind):
        folder = run / kind
        exists = folder.is_dir() if verify else kind_at(folder) is not None
        if exists:
            try:
                parts[kind] = open_artifact(folder, kind, verify=verify)
            except OtherFormatError as error:
                warn(str(error))
    if verify:
        for step in checkpoint_steps(run / CHECKPOINTS):
            open_artifact(checkpoint_at(run / CHECKPOINTS, step), "checkpoint", verify=True)
    return parts


def _open_artifact(folder: Path, *, verify: bool = False) -> Artifact | None:
    kind = kind_at(folder)
    return None if kind is None else open_artifact(folder, kind, verify=verify)


def summarise(run: RunInfo) -> Iterator[str]:
    """Yield the lines of at most eight facts; a short fact takes one line."""
    facts = {
        "path": _describe_place(run),
        "state": _describe_state(run),
        "data": _describe_data(run),
        "subwords": _describe_subwords(run),
        "model": _describe_model(run),
        "scores": _describe_scores(run),
        "files": f"{run.files}, by mtkit {run.versions}",
        "next": f"{run.next_command} (all figures: --all)",
    }
    for title, text in facts.items():
        if text is not None:
            yield from wrap(printable(text), f"{title:10}")


def _describe_place(run: RunInfo) -> str:
    language = run.config.data.target_language if run.config else None
    return f"{run.place}, into {language}" if language else str(run.place)


def _describe_state(run: RunInfo) -> str | None:
    progress = run.progress
    if progress is not None:
        return f"step {progress.reached}" + (f", {progress.ends}" if progress.ends else "")
    steps = _find(run.weights, "steps")
    return None if steps is None else f"trained for {steps} steps"


def _describe_data(run: RunInfo) -> str | None:
    batches = run.artifacts.get("batches")
    kept = _find(batches, "train", "kept")
    pairs = _find(batches, "train", "pairs")
    if kept is None or pairs is None:
        return None
    text = f"{kept} of {pairs} pairs"
    train = run.config.data.train if run.config else None
    if isinstance(train, TextCorpus):
        text += f" of {train.source}, {train.target}"
    return text


def _describe_subwords(run: RunInfo) -> str | None:
    tokenizer = run.artifacts.get("tokenizer")
    size = _find(tokenizer, "spm.model")
    algorithm = _find(tokenizer, "tokenizer", "type")
    return None if size is None or algorithm is None else f"{size}, {algorithm}"


def _describe_model(run: RunInfo) -> str | None:
    if run.config is not None:
        model = run.config.model.as_pair()
        encoder = f"{model.encoder.layers} {model.encoder.kind}"
        decoder = f"{model.decoder.layers} {model.decoder.kind}"
        text = f"{encoder} + {decoder} layers, width {model.d_model:,}"
        parameters = _find(run.weights, "parameters")
        return text if parameters is None else f"{text}, {parameters} parameters"
    kind = _find(run.weights, "model", "kind")
    width = _find(run.weights, "model", "d_model")
    return None if kind is None or width is None else f"{kind} of width {width}"


def _describe_scores(run: RunInfo) -> str | None:
    """Return the scores of the test set; without them, those of the validation."""
    test = run.artifacts.get("test")
    chrf = _find(test, "chrf", "score")
    if chrf is not None:
        name = _find(test, "bleu", "name")
        bleu = _find(test, "bleu", "score")
        has_bleu = name is not None and bleu is not None
        return f"test: {name} {bleu}, chrF2 {chrf}" if has_bleu else f"test: chrF2 {chrf}"
    loss = _text_in(run.validation, "loss")
    if loss is None:
        return None
    text = f"validation: loss {loss}"
    bleu = _text_in(run.validation, "bleu")
    chrf = _text_in(run.validation, "chrf")
    if chrf is None:
        return text
    return f"{text}, chrF2 {chrf}" if bleu is None else f"{text}, BLEU {bleu}, chrF2 {chrf}"


def list_all(run: RunInfo) -> Iterator[str]:
    """Yield a line for each figure, setting and file, by its dotted name.

    The settings of the run itself are left out, because `info --config` prints them.
    """
    facts: dict[str, Any] = {}
    for kind, artifact in run.artifacts.items():
        if artifact is not run.weights:
            facts[kind] = _list_artifact(artifact)
    weights = {} if run.weights is None else _list_artifact(run.weights)
    facts["weights"] = {"validation": run.validation, **weights}
    if run.progress is not None:
        facts["step"] = run.progress.reached
        facts["epoch"] = run.progress.epoch
        facts["ends"] = run.progress.ends
    facts["place"] = str(run.place)
    facts["files"] = run.files
    facts["version"] = run.versions
    facts["next"] = run.next_command
    known = {name: value for name, value in flattened(facts).items() if value is not None}
    yield from table([(name, as_text(value)) for name, value in known.items()], left=2)


def _list_artifact(artifact: Artifact) -> dict[str, Any]:
    inputs = {name: identity[:12] for name, identity in artifact.manifest["inputs"].items()}
    return {
        **_figures(artifact),
        "identity": artifact.identity[:12],
        "made from": inputs,
        "bytes": _sizes(artifact),
    }


def _figures(artifact: Artifact) -> dict[str, Any]:
    """Return the settings and the report of an artifact, by name."""
    return {**artifact.manifest["settings"], **artifact.report}


def _sizes(artifact: Artifact) -> dict[str, int]:
    return {name: file["bytes"] for name, file in artifact.manifest["files"].items()}


def _find(artifact: Artifact | None, *names: str) -> str | None:
    """Return a setting or figure of an artifact as text; None if there is no such value."""
    return None if artifact is None else _text_in(_figures(artifact), *names)


def _text_in(values: Any, *names: str) -> str | None:
    """Return a value in nested data as text; None if there is no such value."""
    for name in names:
        values = values.get(name) if isinstance(values, Mapping) else None
    return None if values is None or isinstance(values, Mapping) else as_text(values)


def as_text(value: Any) -> str:
    """Return a value for people: 1,000, 20.86, 3.5e-05 or true."""
    match value:
        case bool():
            return str(value).lower()
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"
    return str(value)
