"""A model in another program's format, and proof that it says the same there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mtkit.artifacts import Artifact
from mtkit.decoding.model import OpenedModel, open_model
from mtkit.errors import UserError
from mtkit.report import say

Exporter = Callable[[OpenedModel, Path | None, str | None], Artifact]
"""Writes a model to a new folder, or to where the format's own program finds it, in a type of
numbers. Raises UserError for what the format cannot represent.
"""


def export_model(
    model: str | None = None,
    output: Path | None = None,
    *,
    to: str | None = None,
    quantization: str | None = None,
    check: bool = False,
    text: Path | None = None,
) -> None:
    """Writes a model in the format `to`; that of CTranslate2, without `output`, for `translate`.

    `check` translates `text`, else the test or validation text of the model's run, before and
    after. Raises UserError for what a format cannot represent, MtkitError where a check fails.
    """
    if text is not None and not check:
        raise UserError("--text: only with --check")
    if check and to != "ctranslate2":
        raise UserError("--check: only --to ctranslate2")
    exporter = _exporter(to)
    if output is not None:
        refuse_existing(output)
    opened = open_model(model)
    exported = exporter(opened, output, quantization)
    say(f"exported: {exported.path}")
    if check:
        from mtkit.formats.check import check_export

        check_export(opened, exported, text)


def refuse_existing(output: Path) -> None:
    """UserError for a folder that is there already."""
    if output.exists():
        raise UserError(f"{output}: is there already: name a new folder with -o")


def _exporter(to: str | None) -> Exporter:
    """Its library is imported only where it is asked for."""
    match to:
        case "ctranslate2":
            from mtkit.formats.ctranslate2 import to_ctranslate2

            return to_ctranslate2
        case "huggingface":
            from mtkit.formats.huggingface import to_huggingface

            return to_huggingface
    raise UserError("export: say the format, --to ctranslate2 or --to huggingface")
