"""Models in other people's formats, out and in, and proof that they say the same."""

from __future__ import annotations

from pathlib import Path

from mtkit.errors import UserError


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
    match to:
        case "ctranslate2":
            from mtkit.formats.ctranslate2 import to_ctranslate2

            to_ctranslate2(model, output, quantization or "auto", check=check, text=text)
        case "huggingface":
            if quantization or check:
                raise UserError("--quantization, --check: only --to ctranslate2")
            if output is None:
                raise UserError("--to huggingface: name a new folder with -o")
            from mtkit.formats.huggingface import to_huggingface

            to_huggingface(model, output)
        case _:
            raise UserError("export: say the format, --to ctranslate2 or --to huggingface")


def import_model(folder: Path | None, output: Path | None) -> None:
    """A MarianMT folder of Hugging Face as a model of ours; UserError for what it cannot be."""
    if folder is None or output is None:
        raise UserError("--from huggingface: name its folder, and a new one with -o")
    from mtkit.formats.from_huggingface import from_huggingface

    from_huggingface(folder, output)
