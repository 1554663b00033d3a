"""`mtkit score`: translations against references, several systems side by side."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from mtkit.errors import UserError
from mtkit.report import data, warn
from mtkit.scoring.metrics import LONGEST, METRICS, Score, bleu_tokenizer, evaluate, language_code

STDIN = "stdin"
MISSING = "-"


def score(
    references: Path,
    hypotheses: Sequence[Path] = (),
    *,
    language: str | None = None,
    as_json: bool = False,
) -> None:
    """Writes a table (or JSON) of every metric for every file of hypotheses, else for stdin.

    Metrics that are made for sentences are left out where a line is over LONGEST, with a warning.
    `language`, that of the text, chooses BLEU's tokenization, and adds the metrics that need it.
    Raises UserError for files that are missing, empty, not UTF-8 or of unequal length.
    """
    paths: Sequence[Path | None] = hypotheses or [None]
    expected = _read_lines(references)
    systems = {str(path or STDIN): _read_lines(path) for path in paths}
    for name, lines in systems.items():
        if len(lines) != len(expected):
            raise UserError(
                f"{name}: {len(lines)} lines, but {references} has {len(expected)}: "
                "they must be parallel"
            )
        if sum(line.endswith(" .") for line in lines) * 4 > len(lines):
            warn(f"{name}: looks tokenised; BLEU, chrF and TER want text as people write it")
    for name, lines in {str(references): expected, **systems}.items():
        _warn_of_length(name, lines)
    _warn_of_characters(language)
    scores = {name: evaluate(lines, expected, language) for name, lines in systems.items()}
    data(_json(scores, len(expected)) if as_json else _table(scores))


def _read_lines(path: Path | None) -> list[str]:
    """Text of lines that end at line feeds alone; carriage returns there are dropped."""
    name = str(path or STDIN)
    if path is None and sys.stdin is None:
        raise UserError(f"{name}: closed: name a file of hypotheses")
    try:
        raw = path.read_bytes() if path else sys.stdin.buffer.read()
    except OSError as error:
        raise UserError(f"{name}: cannot be read ({error.strerror})") from None
    if not raw:
        raise UserError(f"{name}: empty: nothing to score")
    lines = raw.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").split(b"\n")
    texts = []
    for number, line in enumerate(lines, start=1):
        try:
            texts.append(line.removesuffix(b"\r").decode())
        except UnicodeDecodeError:
            raise UserError(f"{name}:{number}: not UTF-8: convert the file") from None
    return texts


def _warn_of_length(name: str, lines: Sequence[str]) -> None:
    for number, line in enumerate(lines, start=1):
        if len(line) > LONGEST:
            counted = f"{name}:{number}: {len(line):,} characters, over {LONGEST:,}"
            warn(
                f"{counted}: only BLEU and chrF are counted; give a sentence a line for the others"
            )
            return


def _warn_of_characters(language: str | None) -> None:
    if bleu_tokenizer(language) == "char":
        extra = f"sacrebleu[{language_code(language)}]"
        warn(f"BLEU is counted on characters: for words, pip install '{extra}'")


def _json(scores: Mapping[str, Mapping[str, Score]], lines: int) -> str:
    """A list with an object per system."""
    systems = [
        {
            "hypotheses": name,
            "lines": lines,
            **{
                key: {"score": round(found.value, 4), "signature": found.signature}
                for key, found in of_system.items()
            },
        }
        for name, of_system in scores.items()
    ]
    return json.dumps(systems, indent=2, ensure_ascii=False) + "\n"


def _table(scores: Mapping[str, Mapping[str, Score]]) -> str:
    """A row per metric, a column per system, and the signatures below."""
    every = {key: found for of_system in scores.values() for key, found in of_system.items()}
    metrics = {key: every[key] for key in METRICS if key in every}
    rows = [["", *scores]]
    for key, metric in metrics.items():
        found = [of_system.get(key) for of_system in scores.values()]
        rows.append([metric.name, *(f"{one.value:.2f}" if one else MISSING for one in found)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([name.ljust(widths[0]), *map(str.rjust, values, widths[1:])]).rstrip()
        for name, *values in rows
    ]
    lines += ["", *(f"{metric.name}  {metric.signature}" for metric in metrics.values())]
    return "".join(f"{line}\n" for line in lines)
