"""Text to try a model on: what lies in the run that it is from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mtkit.artifacts import open_artifact
from mtkit.batching.build import open_batches
from mtkit.config.configfile import load_config
from mtkit.decoding.lines import input_lines
from mtkit.decoding.model import OpenedModel
from mtkit.errors import UserError
from mtkit.scoring.files import REFERENCE, SOURCE, lines_of

MOST_LINES = 1000
"""Lines of validation text, as many as training decodes."""


@dataclass(frozen=True)
class Text:
    """Lines to translate, and how they should be translated where that is known."""

    name: str
    source: list[str]
    reference: list[str] | None = None
    language: str | None = None


def read_text(path: Path) -> Text:
    """A file; UserError where it cannot be read."""
    return Text(str(path), list(input_lines(path)))


def text_of_test(opened: OpenedModel) -> Text | None:
    """The test set of the model's run, if it has translated one."""
    run = opened.artifact.path.parent
    try:
        test = open_artifact(run / "test", "test", verify=True)
        if test.manifest["inputs"].get("model") != opened.artifact.identity:
            return None
        source, reference = (lines_of(test.path / name) for name in (SOURCE, REFERENCE))
        return Text(str(test.path), source, reference, _language(run))
    except (UserError, OSError):
        return None


def text_of_validation(opened: OpenedModel) -> Text | None:
    """The beginning of what validated the model, if its run is still around it."""
    run = opened.artifact.path.parent
    try:
        batches = open_batches(run / "batches")
        if opened.artifact.manifest["inputs"].get("batches") != batches.artifact.identity:
            return None
        source, reference = batches.valid_source[:MOST_LINES], batches.valid_target[:MOST_LINES]
        return Text(f"{run / 'batches'} (validation)", source, reference, _language(run))
    except (UserError, OSError):
        return None


def _language(run: Path) -> str | None:
    return load_config(run / "config.yaml").data.target_language
