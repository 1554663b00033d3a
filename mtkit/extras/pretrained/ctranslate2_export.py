"""Export to CTranslate2, in int8 if that hardly lowers the quality of translations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mtkit.artifacts.replacement import check_absent
from mtkit.artifacts.runs import config_of
from mtkit.batching.build import find_batches
from mtkit.config.target_tags import piece_of_tag
from mtkit.decoding.api import load
from mtkit.decoding.engines.conversion import cached, convert_to
from mtkit.decoding.engines.ctranslate2 import obstacle_in_model
from mtkit.decoding.text.line import Line
from mtkit.errors import UserError
from mtkit.extras.pretrained.card import fill_template, make_exported_card
from mtkit.models.folder import OpenedModel, read_models
from mtkit.report import say
from mtkit.scoring.metrics import Score, score
from mtkit.scoring.writing import Writing

MAX_VALIDATION_LINES = 1000
"""Largest number of lines of validation text, as in training."""
MAX_INT8_BLEU_LOSS = 0.3
"""An export chooses int8 if it loses at most this much BLEU (or chrF) on the validation text."""


def export_to_ctranslate2(
    model: str | None = None, output: Path | None = None, *, quantization: str | None = None
) -> None:
    """Convert a model to the new folder `output`, or into the cache of `translate`.

    Without `quantization`, or with "auto", choose int8 if it loses at most MAX_INT8_BLEU_LOSS on
    the validation text of the model's run; if there is no such text, choose float32.

    Raises:
        UserError: CTranslate2 cannot run the model.
    """
    if output is not None:
        check_absent(output)
    read_models([model], lambda models: _export(models[0], output, quantization))


def _export(opened: OpenedModel, output: Path | None, quantization: str | None) -> None:
    reason = obstacle_in_model(opened.config.model)
    if reason:
        raise UserError(reason)
    if quantization in (None, "auto"):
        quantization = _choose_compute_type(opened)
    if output is None:
        exported = cached(opened, quantization)
    else:
        card = make_exported_card(opened, "ctranslate2", _show_code(opened, output))
        exported = convert_to(output, opened, quantization, card)
    say(f"exported: {exported.path}")
    if tags := opened.tokenizer.tags:
        symbols = ", ".join(piece_of_tag(tag) for tag in sorted(tags))
        say(f"put the symbol of the target language before the subwords of a source: {symbols}")
    if output is None:
        tag = f" --tag {min(tags)}" if tags else ""
        command = f"mtkit translate -m {opened.artifact.path}{tag} --compute-type {quantization}"
        say(f"to translate with it: {command}")


def _show_code(opened: OpenedModel, output: Path) -> str:
    """Return Markdown that shows how to translate with CTranslate2 itself."""
    models = list(opened.tokenizer.models)  # one for both sides, or source then target
    tags = opened.tokenizer.tags
    symbol = f'"{piece_of_tag(min(tags))}", ' if tags else ""
    code = fill_template(
        "ctranslate2",
        folder=output.name,
        source_model=models[0],
        target_model=models[-1],
        symbol=symbol,
    )
    if not tags:
        return code
    symbols = ", ".join(f"`{piece_of_tag(tag)}`" for tag in sorted(tags))
    return f"{code}\nThe first symbol chooses the language of the target: {symbols}.\n"


def _choose_compute_type(opened: OpenedModel) -> str:
    """Return "int8" if it hardly lowers the score of the validation text, else "float32"."""
    batches = find_batches(opened.artifact, opened.run)
    if batches is None:
        say("exporting float32, because there is no validation text to test int8 on")
        return "float32"
    tagged = zip(batches.valid_source, batches.valid_tags, strict=True)
    sources = [Line(source, tag=tag) for source, tag in tagged][:MAX_VALIDATION_LINES]
    references = batches.valid_target[:MAX_VALIDATION_LINES]
    int8 = _score(opened, "int8", sources, references)
    float32 = _score(opened, "float32", sources, references)
    chosen = "int8" if float32.value - int8.value <= MAX_INT8_BLEU_LOSS else "float32"
    say(
        f"exporting {chosen}: {int8.name} on {len(sources):,} lines of validation text is "
        f"{int8.value:.2f} in int8, {float32.value:.2f} in float32; "
        f"int8 may lose up to {MAX_INT8_BLEU_LOSS}"
    )
    return chosen


def _score(
    opened: OpenedModel, compute_type: str, sources: Sequence[Line], references: Sequence[str]
) -> Score:
    """Translate with this compute type; return BLEU, or chrF if most lines are too short."""
    language = config_of(opened.run).data.target_language
    key = "bleu" if Writing.of(language, references).suits_bleu(references) else "chrf"
    translator = load(opened.artifact.path, "cpu", engine="ctranslate2", compute_type=compute_type)
    # `translate` would also warn of what the model cannot read.
    translations = translator.submit(sources).result()
    hypotheses = [translation.text for translation in translations]
    return score(hypotheses, references, language=language, keys=[key])[key]
