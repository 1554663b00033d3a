"""`mtkit info`: describe a run, model or artifact: state, settings, scores, and what to do next."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from mtkit.artifacts.ancestors import describe_ancestors
from mtkit.artifacts.manifest import MANIFEST, Artifact, OtherFormatError, kind_at, open_artifact
from mtkit.artifacts.runs import (
    CHECKPOINTS,
    CORPUS,
    SETTINGS,
    STAGE_KINDS,
    checkpoint_at,
    checkpoint_steps,
    config_of,
    default_place,
    find_owner,
    locate_model,
    read_known_steps,
)
from mtkit.config.corpora import TextCorpus
from mtkit.config.parse import LOCAL, write_yaml
from mtkit.config.reference import explain_settings
from mtkit.config.settings import Config
from mtkit.config.target_tags import list_tags
from mtkit.config.yaml import load_config
from mtkit.errors import UserError
from mtkit.report import data_lines, plural, printable, runnable, warn, wrap
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.metrics_log import SHOWN_SCORES, MetricsLog, is_finite_number

RunState = Literal["not trained yet", "running", "interrupted", "finished early", "finished"]


@dataclass(frozen=True)
class RunInfo:
    """What exists of a run; or one artifact.

    Only the form of manifests and records is checked, so their values may have any type.
    """

    place: Path
    artifacts: Mapping[str, Artifact]
    """The artifacts by kind."""
    config: Config | None
    """The settings of the run; None for a single artifact, and for a run that has saved none."""
    is_verified: bool
    """Whether the sha256 of every file was checked."""
    config_file: Path | None
    """The config file that the user gives, or ./mtkit.yaml if its run has not begun."""

    @property
    def weights(self) -> Artifact | None:
        """The model, or a checkpoint."""
        return self.artifacts.get("model") or self.artifacts.get("checkpoint")

    @property
    def validation(self) -> Mapping[str, Any]:
        """The validation of the weights; if it is unknown, the last one of training."""
        known = [record for record in self.records if record.get("kind") == "valid"]
        if self.weights is not None:
            recorded = _figures(self.weights).get("validation")
            known += [recorded] if isinstance(recorded, Mapping) else []
        return known[-1] if known else {}

    @cached_property
    def owner(self) -> str | None:
        """The process that writes to the run now, in words."""
        return find_owner(self.place)

    @cached_property
    def records(self) -> Sequence[Mapping[str, Any]]:
        """The lines of metrics.jsonl; empty for a single artifact."""
        return MetricsLog(self.place).read()

    @cached_property
    def known_steps(self) -> Mapping[str, int]:
        """The last step that has a checkpoint and the planned number of steps, if known."""
        return read_known_steps(self.place)

    @property
    def step(self) -> int:
        """The last step that is known; 0 if training has not begun."""
        logged: int = self.records[-1]["step"] if self.records else 0
        return max(logged, self.known_steps.get("last", 0))

    @property
    def state(self) -> RunState | None:
        """What the run is doing; None for a single artifact."""
        if self.owner is not None:
            return "running"
        if self.config is None:
            return None
        model = self.artifacts.get("model")
        trained = None if model is None else model.report.get("steps")
        if model is not None and isinstance(trained, int) and trained >= self.step:
            is_early = model.manifest["settings"].get("ended") is not None
            return "finished early" if is_early else "finished"
        return "interrupted" if self.step else "not trained yet"

    @property
    def time_left(self) -> timedelta | None:
        """How long the rest of the steps will take at the speed so far; None if unknown."""
        last = self.records[-1] if self.records else {}
        steps_left = self.known_steps.get("steps", 0) - self.step
        seconds = last.get("seconds")
        if steps_left <= 0 or not is_finite_number(seconds) or last["step"] <= 0:
            return None
        return timedelta(seconds=round(seconds / last["step"] * steps_left))

    @property
    def test(self) -> Artifact | None:
        """The test set with its scores; None if another model than the present one made them.

        Without a model they are returned, because nothing contradicts them.
        """
        test = self.artifacts.get("test")
        model = self.artifacts.get("model")
        if test is None or model is None:
            return test
        return test if test.manifest["inputs"].get("model") == model.identity else None

    @property
    def tags(self) -> list[str]:
        """The target tags of the model, sorted; those of the corpora if there is none yet."""
        holder = self.weights or self.artifacts.get("tokenizer")
        if holder is not None:
            with suppress(UserError):  # it has no tokenizer, or a damaged one
                return sorted(Tokenizer.load(holder).tags)
        return [] if self.config is None else self.config.data.target_tags

    @property
    def next_command(self) -> str | None:
        """The command that goes on from here, if any."""
        has_checkpoint = bool(checkpoint_steps(self.place / CHECKPOINTS))
        tag = f" --tag {self.tags[0]}" if self.tags else ""
        translate = f"mtkit translate -m {self.place}{tag} < in.txt"
        match self.state:
            case "running" if has_checkpoint:
                return f"{translate} (with the best checkpoint so far)"
            case "running":
                return "wait for its first checkpoint"
            case "interrupted":
                finish = f", or mtkit finish {self.place}" if has_checkpoint else ""
                return f"{self.run_command} to resume{finish}"
            case "finished early":
                return f"{translate}, or {self.run_command} to train to the end"
            case "not trained yet":
                return self.run_command
        # A finished run, or a single artifact.
        if self.weights is not None:
            return translate
        export = self.artifacts.get("export")
        return None if export is None else _describe_use(export)

    @property
    def run_command(self) -> str:
        """The command that trains this run, with the settings that it has saved, if any."""
        saved = self.place / SETTINGS
        command = ["mtkit", "run"]
        if saved.is_file():
            command += ["-c", str(saved)]
        elif self.config_file is not None and self.config_file != LOCAL:
            command += ["-c", str(self.config_file)]
        if self.config is None or os.path.realpath(self.config.run) != os.path.realpath(self.place):
            command += ["--run", str(self.place)]
        return shlex.join(command)


def _describe_use(export: Artifact) -> str:
    """Say which programs read an exported model, and how."""
    match export.manifest["settings"].get("format"):
        case "huggingface":
            return (
                f'MarianMTModel.from_pretrained("{export.path}") of transformers, or mtkit init '
                f"SOURCE TARGET --from {export.path} to adapt it"
            )
        case "ctranslate2":
            return f'ctranslate2.Translator("{export.path}")'
    return "use it with the program of its format"


def info(
    path: Path | None = None,
    *,
    full: bool = False,
    verify: bool = False,
    config: bool = False,
    explain: bool = False,
) -> None:
    """Describe a run, model, other artifact or config file on stdout, in short or in `full`.

    `config`: print the settings instead, with comments if `explain`.

    Raises:
        UserError: `path` is nothing of this kind, or `verify` finds damage.
    """
    if config:
        lines = _settings_yaml(path, explain)
    else:
        lines = describe_run(open_run_info(path, verify=verify), full=full)
    data_lines(map(printable, lines))


def open_run_settings(path: Path | None) -> tuple[Path, Config]:
    """Return directory and settings of a run; default: `default_place` or ./mtkit.yaml.

    Raises:
        UserError: `path` is neither a run directory nor a config file.
    """
    folder = path or default_place()
    if (folder / SETTINGS).is_file():
        return folder, config_of(folder)
    is_folder = path is not None and path.is_dir()  # a file is a config
    if is_folder or _is_from_environment(path):
        raise UserError(f"{folder} is not a run directory; give a run directory or a config file")
    config = load_config(path)
    return Path(config.run), config


def _is_from_environment(path: Path | None) -> bool:
    """Return whether `default_place` takes the place from the environment, not from a config."""
    return path is None and bool(os.environ.get("MTKIT_MODEL"))


def _settings_yaml(path: Path | None, with_comments: bool) -> Iterator[str]:
    artifact = _open_artifact(path or default_place())
    settings: Mapping[str, Any]
    if artifact is None:
        _, config = open_run_settings(path)
        settings = config.model_dump(mode="json")
    else:
        settings = artifact.manifest["settings"]
    if with_comments:
        yield from explain_settings(settings)
    else:
        yield from write_yaml(settings).splitlines()


def open_run_info(path: Path | None, *, verify: bool) -> RunInfo:
    """Open a run or artifact; `path` may also be the config file of a run.

    `verify`: check every file, also those of checkpoints; a part of a run without a manifest counts
    as damaged.

    Raises:
        UserError: there is neither, or `verify` finds damage.
    """
    folder = path or default_place()
    config_file = None
    if path is None and LOCAL.is_file() and not _is_from_environment(path) and not folder.exists():
        config_file = LOCAL  # names a run that has not begun
    elif folder.is_file():
        config_file = folder
    elif path is not None and not path.exists():
        folder = locate_model(path)
    config = None if config_file is None else load_config(config_file)
    if config is not None:
        folder = Path(config.run)
    if (folder / SETTINGS).is_file():
        config = config_of(folder)
    artifact = _open_artifact(folder, verify=verify)
    if artifact is not None:
        artifacts = {str(artifact.manifest["kind"]): artifact}
    else:
        artifacts = _open_parts(folder, verify=verify)
    run = RunInfo(
        place=folder,
        artifacts=artifacts,
        config=config,
        is_verified=verify,
        config_file=config_file,
    )
    if not artifacts and not run.records and config is None:
        raise UserError(f"{folder} holds no run, model or artifact; create one with `mtkit run`")
    return run


def _open_parts(run: Path, *, verify: bool) -> dict[str, Artifact]:
    """Open the artifacts of a run, by kind; verify its checkpoints and its text, too."""
    parts: dict[str, Artifact] = {}
    for kind in STAGE_KINDS:
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
        for manifest in (run / CORPUS).glob(f"*/{MANIFEST}"):
            open_artifact(manifest.parent, "rows", verify=True)
    return parts


def _open_artifact(folder: Path, *, verify: bool = False) -> Artifact | None:
    kind = kind_at(folder)
    return None if kind is None else open_artifact(folder, kind, verify=verify)


def describe_run(run: RunInfo, *, full: bool) -> Iterator[str]:
    """Yield at most nine facts, of about a line each; in `full`, also the manifests."""
    language = run.config.data.target_language if run.config else None
    facts = {
        "path": _join(", ", str(run.place), language and f"into {language}"),
        "state": _describe_state(run),
        "data": _describe_data(run),
        "model": _describe_model(run),
        "given": _describe_origin(run),
        "scores": _describe_scores(run),
        "verdict": _describe_verdict(run),
        "files": _describe_files(run),
        "next": run.next_command and runnable(run.next_command),
    }
    for title, text in facts.items():
        if text is not None:
            yield from wrap(printable(text), f"{title:10}")
    for kind, artifact in run.artifacts.items() if full else ():
        yield ""
        yield from write_yaml({kind: artifact.manifest}).splitlines()


def _describe_state(run: RunInfo) -> str | None:
    planned = run.known_steps.get("steps")
    trained = _find(run.weights, "steps")
    facts: list[str | None] = [run.state]
    if run.step:
        facts.append(f"step {run.step:,} of {planned:,}" if planned else f"step {run.step:,}")
    elif trained:
        facts.append(f"trained for {trained} steps")
    if run.state in ("running", "interrupted") and run.time_left:
        facts.append(f"{run.time_left} left, at the speed so far")
    by = "`mtkit finish`" if run.state == "finished early" else run.owner
    return _join(", ", *facts, by and f"by {by}")


def _describe_files(run: RunInfo) -> str | None:
    if not run.artifacts:
        return None
    sizes: list[int] = []
    for artifact in run.artifacts.values():
        sizes += [file["bytes"] for file in artifact.files.values()]
    checked = " with the right sha256" if run.is_verified else ""
    versions = sorted({artifact.manifest["mtkit"] for artifact in run.artifacts.values()})
    files = f"{plural(len(sizes), 'file')}{checked}, {sum(sizes) / 1e6:,.1f} MB"
    return f"{files}, by mtkit {', '.join(versions)}; all figures: --all"


def _describe_data(run: RunInfo) -> str | None:
    """Return how many pairs of which files are kept, and the subwords."""
    batches = run.artifacts.get("batches")
    kept = _find(batches, "train", "kept")
    pairs = _find(batches, "train", "pairs")
    train = run.config.data.train if run.config else None
    files = f"{train.source}, {train.target}" if isinstance(train, TextCorpus) else None
    counted = kept and pairs and f"{kept} of {pairs} pairs"
    subwords = _find(run.artifacts.get("tokenizer"), "spm.model")
    return _join("; ", _join(" of ", counted, files), subwords and f"{subwords} subwords")


def _describe_model(run: RunInfo) -> str | None:
    parameters = _find(run.weights, "parameters")
    text: str | None
    if run.config is not None:
        model = run.config.model.as_pair()
        encoder = f"{model.encoder.layers} {model.encoder.kind}"
        decoder = f"{model.decoder.layers} {model.decoder.kind}"
        text = f"{encoder} + {decoder} layers, width {model.d_model:,}"
    else:
        kind = _find(run.weights, "model", "kind")
        text = _join(" of width ", kind, _find(run.weights, "model", "d_model"))
    tags = f"target tags: {list_tags(run.tags)}" if run.tags else None
    return _join("; ", _join(", ", text, parameters and f"{parameters} parameters"), tags)


def _describe_origin(run: RunInfo) -> str | None:
    """Return the models that this one descends from, or where it was imported from."""
    if run.weights is None:
        return None
    place = _find(run.weights, "origin", "place")
    if place is None:
        return describe_ancestors(run.weights)
    licence = _find(run.weights, "origin", "licence")
    return _join(", ", f"imported from {place}", licence and f"licence: {licence}")


def _describe_scores(run: RunInfo) -> str | None:
    """Return the scores of the test set; without them, those of the validation."""
    tested: list[str] = []
    for metric in ("bleu", "chrf"):
        name = _find(run.test, metric, "name")
        score = _find(run.test, metric, "score")
        if name is not None and score is not None:
            tested.append(f"{name} {score}")
    if tested:
        return f"test: {', '.join(tested)}"
    shown = [
        f"{name} {run.validation[key]:{digits}}"
        for key, (name, digits) in SHOWN_SCORES.items()
        if key != "perplexity" and is_finite_number(run.validation.get(key))
    ]
    return f"validation: {', '.join(shown)}" if shown else None


def _describe_verdict(run: RunInfo) -> str | None:
    """Return the verdicts on the test set and on the adaptation, as `mtkit run` has said them."""
    adaptation = _find(run.weights, "adaptation", "verdict")
    return _join("; ", _find(run.test, "verdict"), _find(run.test, "baseline"), adaptation)


def _join(separator: str, *facts: str | None) -> str | None:
    """Join what is known; return None if nothing is."""
    return separator.join(fact for fact in facts if fact) or None


def _figures(artifact: Artifact) -> dict[str, Any]:
    """Return the settings and the report of an artifact, by name."""
    return {**artifact.manifest["settings"], **artifact.report}


def _find(artifact: Artifact | None, *names: str) -> str | None:
    """Return a setting or figure of an artifact, for people; None if there is no such value."""
    value: Any = None if artifact is None else _figures(artifact)
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    match value:
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.2f}"
        case str():
            return value
    return None
