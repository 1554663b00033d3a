"""Export of a model to another program's format, with a check that it translates the same."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from mtkit.artifacts.manifest import refuse_existing
from mtkit.errors import UserError
from mtkit.models.folder import open_model
from mtkit.report import say


def export_model(
    model: str | None = None,
    output: Path | None = None,
    *,
    to: Literal["ctranslate2", "huggingface"],
    quantization: str | None = None,
    check: bool = False,
    text: Path | None = None,
) -> None:
    """Write a model in another format to the new folder `output`.

    For CTranslate2 the default is the cache of `translate`. `check` translates `text`, or the
    validation text of the model's run, with CTranslate2 and with PyTorch.

    Raises:
        UserError: the format cannot represent the model, or there is no text to check.
        MtkitError: the check fails.
    """
    if output is not None:
        refuse_existing(output)
    opened = open_model(model)
    if to == "huggingface":
        from mtkit.formats.huggingface import to_huggingface

        say(f"exported: {to_huggingface(opened, output).path}")
        return
    from mtkit.decoding.ctranslate2 import obstacle_on
    from mtkit.formats.ctranslate2 import check_export, load_text_to_check, to_ctranslate2

    checked = load_text_to_check(opened, text) if check else None  # before anything is written
    if check and (reason := obstacle_on("cpu", quantization or "auto")):
        raise UserError(f"--check: {reason}")
    exported = to_ctranslate2(opened, output, quantization)
    say(f"exported: {exported.path}")
    if checked is not None:
        check_export(opened, exported, checked)
