"""A model for CTranslate2: in which type of numbers, and whether it says there what it says here.

What it is tried on is text that lies in the run that it is from.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtkit.artifacts.manifest import Artifact, open_artifact
from mtkit.artifacts.runs import config_of
from mtkit.batching.build import open_batches
from mtkit.decoding.api import Translator
from mtkit.decoding.cache import cached, convert_to, type_of
from mtkit.decoding.ctranslate2 import CTranslate2Engine, obstacle_in_model, outdated
from mtkit.decoding.engine import EngineOptions, Request
from mtkit.decoding.lines import input_lines
from mtkit.errors import MtkitError, UserError
from mtkit.models.folder import OpenedModel
from mtkit.report import data_lines, say, table
from mtkit.scoring.files import REFERENCE, SOURCE, lines_of
from mtkit.scoring.metrics import corpus_bleu, signatures

MOST_LINES = 1000
"""Lines of validation text, as many as training decodes."""
LEAST_IDENTICAL = 0.995
"""Share of lines that float32 must translate alike."""
MOST_BLEU_LOST = 0.4
"""BLEU that another type may cost."""
INT8_BLEU_LOSS = 0.3
"""BLEU that int8 may cost against float32 on the validation text for an export to choose it."""
MOST_SHOWN = 10
"""Lines that differ, on stdout."""


@dataclass(frozen=True)
class Text:
    """Lines to translate, and how they should be translated where that is known."""

    name: str
    source: list[str]
    reference: list[str] | None = None
    language: str | None = None

    def bleu(self, hypotheses: Sequence[str]) -> float:
        """Against the reference, which must be known."""
        assert self.reference is not None
        return corpus_bleu(hypotheses, self.reference, self.language)


def text_of_test(opened: OpenedModel) -> Text | None:
    """The test set of the model's run, if it has translated one."""
    with suppress(UserError, OSError):
        test = open_artifact(opened.run / "test", "test", verify=True)
        if test.manifest["inputs"].get("model") == opened.artifact.identity:
            source, reference = (lines_of(test.path / name) for name in (SOURCE, REFERENCE))
            return Text(str(test.path), source, reference, _language(opened.run))
    return None


def text_of_validation(opened: OpenedModel) -> Text | None:
    """The beginning of what validated the model, if its run is still around it."""
    with suppress(UserError, OSError):
        batches = open_batches(opened.run / "batches")
        if opened.artifact.manifest["inputs"].get("batches") == batches.artifact.identity:
            source, reference = batches.valid_source[:MOST_LINES], batches.valid_target[:MOST_LINES]
            return Text(
                f"{opened.run / 'batches'} (validation)", source, reference, _language(opened.run)
            )
    return None


def _language(run: Path) -> str | None:
    return config_of(run).data.target_language


def to_ctranslate2(opened: OpenedModel, output: Path | None, quantization: str | None) -> Artifact:
    """Writes the model to `output`, which must not be there yet, or to the cache of `translate`.

    Without `quantization`, or with auto: int8 where the BLEU that it loses on the validation text
    of the model's run is at most INT8_BLEU_LOSS, else, or without that text, float32. What it found
    is said; `translate` takes int8 where it is told to. Raises UserError for a model that
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
        found = {of: _translator(opened, folders[of], of).translate(text.source) for of in folders}
        bleu = {of: round(text.bleu(lines), 4) for of, lines in found.items()}
        return {"valid_bleu": bleu, "signature": signatures(text.language)["bleu"]}

    int8 = cached(opened, "int8", measure)
    bleu = int8.report["valid_bleu"]
    is_chosen = bool(bleu["float32"] - bleu["int8"] <= INT8_BLEU_LOSS)
    say(
        f"{'int8' if is_chosen else 'float32'}: BLEU on {len(text.source)} lines of validation "
        f"text is {bleu['int8']:.2f} with int8, {bleu['float32']:.2f} with float32, and "
        f"{INT8_BLEU_LOSS} is what int8 may lose"
    )
    if is_chosen:
        say("to translate with it: mtkit translate --compute-type int8")
    return int8 if is_chosen else float32


def _translator(opened: OpenedModel, folder: Path, compute_type: str) -> Translator:
    engine = CTranslate2Engine(folder, opened.tokenizer, compute_type)
    return Translator(engine, opened.tokenizer, Request(opened.config.decoding))


def text_to_check(opened: OpenedModel, file: Path | None) -> Text:
    """That of a file, else the test text of the model's run, else what validated it.

    Raises UserError where there is none of them, or nothing in it.
    """
    if file is not None:
        text: Text | None = Text(str(file), list(input_lines(file)))
    else:
        text = text_of_test(opened) or text_of_validation(opened)
    if text is None:
        raise UserError(
            "--check: no test or validation text beside the model: name some with --text"
        )
    if not text.source:
        raise UserError(f"--check: {text.name}: no lines to compare on: name others with --text")
    return text


def check_export(opened: OpenedModel, exported: Artifact, text: Text) -> None:
    """Compares on the text; raises MtkitError as `compare`."""
    from mtkit.decoding.pytorch import PyTorchEngine

    engine = PyTorchEngine.load([opened], EngineOptions(device="cpu"))
    ours = Translator(engine, opened.tokenizer, Request(opened.config.decoding))
    compare(text, ours, _translator(opened, exported.path, type_of(exported)))


def compare(text: Text, ours: Translator, exported: Translator) -> None:
    """Writes to stdout how far translations and scores of the two agree, and where they do not.

    Raises MtkitError where less than LEAST_IDENTICAL of the lines are the same in float32, or
    another type costs more than MOST_BLEU_LOST.
    """
    names = (ours.engine.name, exported.engine.name)
    found = [
        translator.translate_all(text.source, f"translating with {name}")
        for translator, name in zip((ours, exported), names, strict=True)
    ]
    pairs = list(enumerate(zip(*found, strict=True), 1))
    same = [pair for _, pair in pairs if pair[0].text == pair[1].text]
    share = len(same) / max(len(pairs), 1)
    difference = max((abs(a.score - b.score) for a, b in same), default=0.0)
    rows = [
        ["text", text.name],
        ["lines", f"{len(pairs):,}"],
        ["identical", f"{len(same):,} ({100 * share:.2f} %)"],
        ["largest difference of their scores", f"{difference:.1e}"],
    ]
    lost = 0.0
    if text.reference is not None:
        bleu = [text.bleu([line.text for line in translations]) for translations in found]
        lost = bleu[0] - bleu[1]
        rows += [[f"BLEU, {name}", f"{of:.2f}"] for name, of in zip(names, bleu, strict=True)]
    differing = [(number, pair) for number, pair in pairs if pair[0].text != pair[1].text]
    shown = [  # both scores: equal ones are a tie
        f"line {number}: {translation.score:.4f} {translation.text}"
        for number, pair in differing[:MOST_SHOWN]
        for translation in pair
    ]
    data_lines([*table(rows), *shown])
    if exported.engine.name.endswith("float32") and share < LEAST_IDENTICAL:
        raise MtkitError(f"only {100 * share:.2f} % of the lines are identical")
    if lost > MOST_BLEU_LOST:
        raise MtkitError(f"{exported.engine.name} loses {lost:.2f} BLEU")
