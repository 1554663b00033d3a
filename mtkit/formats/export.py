"""A model in another program's format, and proof that it says the same there."""

from __future__ import annotations

from pathlib import Path

from mtkit.artifacts.manifest import refuse_existing
from mtkit.errors import UserError
from mtkit.models.folder import open_model
from mtkit.report import say


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
    match to:  # the format's library is imported only where it is asked for
        case "ctranslate2":
            from mtkit.formats.ctranslate2 import to_ctranslate2 as exporter
        case "huggingface":
            from mtkit.formats.huggingface import to_huggingface as exporter
        case _:
            raise UserError("export: say the format, --to ctranslate2 or --to huggingface")
    if output is not None:
        refuse_existing(output)
    opened = open_model(model)
    if not check:
        say(f"exported: {exporter(opened, output, quantization).path}")
        return
    from mtkit.decoding.ctranslate2 import obstacle_on
    from mtkit.formats.ctranslate2 import check_export, text_to_check

    checked = text_to_check(opened, text)  # before anything is written
    if reason := obstacle_on("cpu", quantization or "auto"):
        raise UserError(f"--check: {reason}")
    exported = exporter(opened, output, quantization)
    say(f"exported: {exported.path}")
    check_export(opened, exported, checked)
