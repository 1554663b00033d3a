"""Export to CTranslate2: choose the compute type, and check that translations stay the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mtkit.artifacts.manifest import Artifact, refuse_existing
from mtkit.artifacts.runs import config_of
from mtkit.batching.build import open_batches
from mtkit.decoding.api import Translator
from mtkit.decoding.conversion import cached, convert_to
from mtkit.decoding.ctranslate2 import CTranslate2Engine, obstacle_in_model, obstacle_on
from mtkit.decoding.engine import EngineOptions, Request
from mtkit.decoding.lines import input_lines
from mtkit.decoding.segment import Translation
from mtkit.decoding.translate import translate_with_progress
from mtkit.errors import MtkitError, UserError
from mtkit.models.folder import OpenedModel, open_model
from mtkit.report import data_lines, plural, printable, say, table, wrap
from mtkit.scoring.metrics import METRICS, score
from mtkit.scoring.writing import Writing

MAX_VALIDATION_LINES = 1000
"""As many lines of validation text as training translates."""
MAX_INT8_BLEU_LOSS = 0.3
"""BLEU, or chrF, that int8 may lose on the validation text for an export to choose it."""
MIN_IDENTICAL_SHARE, MAX_BLEU_LOSS = 0.995, 0.4
"""A check fails if float32 translates fewer lines identically, or another type loses more BLEU."""
MAX_SHOWN_LINES = 10


@dataclass(frozen=True)
class EvaluationText:
    """Lines to translate, with reference translations if known."""

    name: str
    source: list[str]
    reference: list[str] | None = None
    language: str | None = None

    @property
    def metric(self) -> str:
        """Key of the metric: BLEU, or chrF if most references are too short for it."""
        lines = self.reference or []
        return "bleu" if Writing.of(self.language, lines).suits_bleu(lines) else "chrf"

    def score(self, hypotheses: Sequence[str]) -> float:
        """Compute the metric."""
        key, language = self.metric, self.language
        return score(hypotheses, self.reference or [], language=language, keys=[key])[key].value


def load_validation_text(opened: OpenedModel) -> EvaluationText | None:
    """Load the first lines of the validation text, if the model's run still surrounds it."""
    with suppress(UserError, OSError):
        batches = open_batches(opened.run / "batches")
        if opened.artifact.manifest["inputs"].get("batches") == batches.artifact.identity:
            lines = slice(MAX_VALIDATION_LINES)
            source, reference = batches.valid_source[lines], batches.valid_target[lines]
            language, name = config_of(opened.run).data.target_language, opened.run / "batches"
            return EvaluationText(f"{name} (validation)", source, reference, language)
    return None


def export_to_ctranslate2(
    model: str | None = None,
    output: Path | None = None,
    *,
    quantization: str | None = None,
    check: bool = False,
    text: Path | None = None,
) -> None:
    """Convert a model to the new folder `output`, or into the cache of `translate`.

    Without `quantization`, or with "auto", choose int8 if it loses at most MAX_INT8_BLEU_LOSS on
    the validation text of the model's run. Without such a text float32 is the choice. `check`
    translates `text`, or the validation text, with CTranslate2 and with PyTorch.

    Raises:
        UserError: CTranslate2 cannot run the model, or there is no text to check.
        MtkitError: the check fails.
    """
    if output is not None:
        refuse_existing(output)
    opened = open_model(model)
    if reason := obstacle_in_model(opened.config.model):
        raise UserError(reason)
    validation, checked = load_validation_text(opened), None
    if check:
        checked = EvaluationText(str(text), list(input_lines(text))) if text else validation
        if checked is None or not checked.source:
            raise UserError("--check: there are no lines to compare; give a file with --text")
        if reason := obstacle_on("cpu", quantization or "auto"):
            raise UserError(f"--check: {reason}")
    if quantization in (None, "auto"):
        quantization = _choose_compute_type(opened, validation)
    exported = convert_to(output, opened, quantization) if output else cached(opened, quantization)
    say(f"exported: {exported.path}")
    if checked is not None:
        from mtkit.decoding.pytorch import PyTorchEngine

        engine = PyTorchEngine.load([opened], EngineOptions(device="cpu"))
        original = Translator(engine, opened.tokenizer, Request(opened.config.decoding))
        compare_translators(checked, original, _translator(opened, exported))


def _choose_compute_type(opened: OpenedModel, text: EvaluationText | None) -> str:
    if text is None:
        say("exporting float32, because there is no validation text to measure int8 on")
        return "float32"
    int8, float32 = (
        text.score(_translator(opened, cached(opened, name)).translate(text.source))
        for name in ("int8", "float32")
    )
    chosen = "int8" if float32 - int8 <= MAX_INT8_BLEU_LOSS else "float32"
    metric = METRICS[text.metric].name
    say(
        f"exporting {chosen}: {metric} on {len(text.source):,} lines of validation text is "
        f"{int8:.2f} in int8, {float32:.2f} in float32; int8 may lose up to {MAX_INT8_BLEU_LOSS}"
    )
    if chosen == "int8":
        say("to translate with it: mtkit translate --compute-type int8")
    return chosen


def _translator(opened: OpenedModel, converted: Artifact) -> Translator:
    engine = CTranslate2Engine(converted, opened.tokenizer)
    return Translator(engine, opened.tokenizer, Request(opened.config.decoding))


def compare_translators(text: EvaluationText, original: Translator, exported: Translator) -> None:
    """Write to stdout how far translations and scores agree, and the lines that differ.

    Raises:
        MtkitError: too few lines are identical in float32, or another type loses too much BLEU.
    """
    names = original.engine.name, exported.engine.name
    translated = [
        translate_with_progress(translator, text.source, f"translating with {name}")
        for translator, name in zip((original, exported), names, strict=True)
    ]
    pairs = list(zip(*translated, strict=True))
    identical = [pair for pair in pairs if pair[0].text == pair[1].text]
    differing = [(i, pair) for i, pair in enumerate(pairs, 1) if pair[0].text != pair[1].text]
    share = len(identical) / max(len(pairs), 1)
    difference = max((abs((a.score or 0.0) - (b.score or 0.0)) for a, b in identical), default=0.0)
    rows = [
        ["text", text.name],
        ["lines", f"{len(pairs):,}"],
        ["identical", f"{len(identical):,} ({share:.2%})"],
        ["largest score difference", f"{difference:.1e}"],
    ]
    scores, metric = [0.0, 0.0], ""
    if text.reference is not None:
        metric = METRICS[text.metric].name
        scores = [text.score([line.text for line in translations]) for translations in translated]
        shown = zip(names, scores, strict=True)
        rows += [[f"{metric}, {name}", f"{value:.2f}"] for name, value in shown]
    data_lines([*table(rows), *_differing_lines(differing, names)])
    if names[1].endswith("float32") and share < MIN_IDENTICAL_SHARE:
        raise MtkitError(f"only {share:.2%} of the lines are identical")
    if (loss := scores[0] - scores[1]) > MAX_BLEU_LOSS:
        raise MtkitError(f"{names[1]} loses {loss:.2f} {metric}")


def _differing_lines(
    differing: Sequence[tuple[int, Sequence[Translation]]], names: Sequence[str]
) -> Iterator[str]:
    """Yield the first translations that differ, with their scores: equal ones are a tie."""
    width = max(map(len, names))
    if differing:
        shown = min(len(differing), MAX_SHOWN_LINES)
        yield from ("", f"{shown:,} of {plural(len(differing), 'line')} that differ")
    for number, translations in differing[:MAX_SHOWN_LINES]:
        yield f"line {number:,}"
        for name, it in zip(names, translations, strict=True):
            yield from wrap(printable(it.text), f"  {name:{width}}  {it.score:.4f}  ")
