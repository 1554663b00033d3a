"""Whether an exported model says what the model says: both engines on the same lines."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from mtkit.artifacts import Artifact
from mtkit.decoding.contract import EngineOptions, Request
from mtkit.decoding.engines.cache import type_of
from mtkit.decoding.engines.ctranslate2 import CTranslate2Engine
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.decoding.model import OpenedModel
from mtkit.decoding.parts import Translation
from mtkit.decoding.translator import Translator
from mtkit.errors import MtkitError, UserError
from mtkit.formats.texts import Text, read_text, text_of_test, text_of_validation
from mtkit.report import data_lines, table
from mtkit.scoring.metrics import corpus_bleu

LEAST_IDENTICAL = 0.995
"""Share of lines that float32 must translate alike."""
MOST_BLEU_LOST = 0.4
"""BLEU that another type may cost."""
MOST_SHOWN = 10
"""Lines that differ, on stdout."""


def check_export(opened: OpenedModel, exported: Artifact, file: Path | None) -> None:
    """Compares on a file, else on the test text of the model's run, else on what validated it.

    Raises UserError where there is none of them, MtkitError as `compare`.
    """
    text = read_text(file) if file else text_of_test(opened) or text_of_validation(opened)
    if text is None:
        raise UserError(
            "--check: no test or validation text beside the model: name some with --text"
        )
    engines = (
        PyTorchEngine.load(opened, EngineOptions(device="cpu")),
        CTranslate2Engine(exported.path, opened.tokenizer, type_of(exported)),
    )
    request = Request(opened.config.decoding)
    compare(text, *(Translator(it, opened.tokenizer, request) for it in engines))


def compare(text: Text, ours: Translator, exported: Translator) -> None:
    """Writes to stdout how far translations and scores of the two agree, and where they do not.

    Raises MtkitError where less than LEAST_IDENTICAL of the lines are the same in float32, or
    another type costs more than MOST_BLEU_LOST.
    """
    found = [
        translator.translate_all(text.source, f"translating with {translator.engine.name}")
        for translator in (ours, exported)
    ]
    pairs = list(zip(*found, strict=True))
    same = [pair for pair in pairs if pair[0].text == pair[1].text]
    share = len(same) / max(len(pairs), 1)
    difference = max((abs(a.score - b.score) for a, b in same), default=0.0)
    rows = [
        ["text", text.name],
        ["lines", f"{len(pairs):,}"],
        ["identical", f"{len(same):,} ({100 * share:.2f} %)"],
        ["largest difference of their scores", f"{difference:.1e}"],
    ]
    losses = [0.0]
    if text.reference is not None:
        scores = [_bleu(translations, text) for translations in found]
        losses.append(scores[0] - scores[1])
        names = (ours.engine.name, exported.engine.name)
        rows += [
            [f"BLEU, {name}", f"{score:.2f}"] for name, score in zip(names, scores, strict=True)
        ]
    data_lines([*table(rows), *_differences(pairs)])
    if exported.engine.name.endswith("float32") and share < LEAST_IDENTICAL:
        raise MtkitError(f"only {100 * share:.2f} % of the lines are identical")
    if max(losses) > MOST_BLEU_LOST:
        raise MtkitError(f"{exported.engine.name} loses {max(losses):.2f} BLEU")


def _bleu(translations: Sequence[Translation], text: Text) -> float:
    assert text.reference is not None
    return corpus_bleu([found.text for found in translations], text.reference, text.language)


def _differences(pairs: Sequence[tuple[Translation, Translation]]) -> list[str]:
    """The first lines that differ, with both scores: equal ones are a tie."""
    differing = [
        (number, pair) for number, pair in enumerate(pairs, 1) if pair[0].text != pair[1].text
    ]
    return [
        f"line {number}: {translation.score:.4f} {translation.text}"
        for number, pair in islice(differing, MOST_SHOWN)
        for translation in pair
    ]
