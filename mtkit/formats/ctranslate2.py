"""A model for CTranslate2, in the type of numbers that its validation text allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mtkit.artifacts import Artifact
from mtkit.decoding.contract import Request
from mtkit.decoding.engines.cache import INT8_BLEU_LOSS, cached, convert_to, is_close, type_of
from mtkit.decoding.engines.ctranslate2 import CTranslate2Engine, obstacle_in_model, outdated
from mtkit.decoding.model import OpenedModel
from mtkit.decoding.translator import Translator
from mtkit.errors import UserError
from mtkit.formats.texts import Text, text_of_validation
from mtkit.report import say
from mtkit.scoring.metrics import corpus_bleu


def to_ctranslate2(opened: OpenedModel, output: Path | None, quantization: str | None) -> Artifact:
    """Writes the model to `output`, which must not be there yet, or to the cache of `translate`.

    Without `quantization`, or with auto: int8 where the BLEU that it loses on the validation text
    of the model's run is at most INT8_BLEU_LOSS, else, or without that text, float32. What was
    measured is recorded, and `translate` goes by it from then on. Raises UserError for a model that
    CTranslate2 cannot run.
    """
    if reason := outdated() or obstacle_in_model(opened.config.model):
        raise UserError(reason)
    if quantization in (None, "auto"):
        found = _measured(opened)
        return convert_to(output, opened, type_of(found)) if output else found
    return convert_to(output, opened, quantization) if output else cached(opened, quantization)


def _measured(opened: OpenedModel) -> Artifact:
    """The closer of both types, in the cache."""
    float32 = cached(opened, "float32")
    text = text_of_validation(opened)
    if text is None:
        say("float32: no validation text beside the model to measure int8 on")
        return float32

    def measure(folder: Path) -> dict[str, Any]:
        folders = {"int8": folder, "float32": float32.path}
        return {"valid_bleu": {name: _bleu(opened, text, name, folders[name]) for name in folders}}

    int8 = cached(opened, "int8", measure)
    bleu = int8.report["valid_bleu"]
    is_chosen = is_close(int8)
    say(
        f"{'int8' if is_chosen else 'float32'}: BLEU on {len(text.source)} lines of validation "
        f"text is {bleu['int8']:.2f} with int8, {bleu['float32']:.2f} with float32, and "
        f"{INT8_BLEU_LOSS} is what int8 may lose"
    )
    return int8 if is_chosen else float32


def _bleu(opened: OpenedModel, text: Text, compute_type: str, folder: Path) -> float:
    assert text.reference is not None
    engine = CTranslate2Engine(folder, opened.tokenizer, compute_type)
    request = Request(opened.config.decoding)
    hypotheses = Translator(engine, opened.tokenizer, request).translate(text.source)
    return round(corpus_bleu(hypotheses, text.reference, text.language), 4)
