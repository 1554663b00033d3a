"""Stage 4: raw text in, raw text out, one line for each line (or its n best, or a JSON object)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from mtkit.config import SamplingSettings
from mtkit.decoding.lines import decode_lines, open_input, open_output, read_windows
from mtkit.decoding.splitting import LONGEST
from mtkit.decoding.translator import Translation, Translator
from mtkit.report import warn


def translate(
    model: str | None = None,
    input: Path | None = None,
    output: Path | None = None,
    *,
    beam: int | None = None,
    n_best: int | None = None,
    length_penalty: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    sampling: SamplingSettings | None = None,
    jsonl: bool = False,
    device: str = "auto",
) -> None:
    """Translates the lines of a file or of standard input as they come; None: the model's own.

    With `n_best` each line becomes that many, each of the number of the input line, the score and
    the text, separated by tabs. An output file appears when it is complete. Raises UserError before
    any work, and BrokenPipeError once nobody reads on.
    """
    with open_input(input) as source:
        settings = {
            "beam": beam,
            "length_penalty": length_penalty,
            "min_length": min_length,
            "max_length": max_length,
        }
        translator = Translator.load(model, device, **settings)
        windows = decode_lines(read_windows(source))
        number = truncated = 0
        with open_output(output) as target:
            for window in translator.stream(windows, n_best=n_best or 1, sampling=sampling):
                for translation in window:
                    number += 1
                    truncated += translation.truncated
                    target.write(_format(number, translation, n_best, jsonl).encode())
                target.flush()
    if truncated:
        warn(
            f"{truncated} of {number} translations may be incomplete: they reached max_length "
            f"{translator.settings.max_length}, or their line has over {LONGEST:,} characters"
        )


def _format(number: int, translation: Translation, n_best: int | None, jsonl: bool) -> str:
    ranked = translation.n_best or [translation]
    if jsonl:
        record = _record(translation)
        if n_best is not None:
            record["n_best"] = [_record(hypothesis) for hypothesis in ranked]
        return json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
    if n_best is None:
        return f"{translation.text}\n"
    rows = [(str(number), f"{row.score:.6f}", row.text.replace("\t", " ")) for row in ranked]
    return "".join("\t".join(row) + "\n" for row in rows)


def _record(translation: Translation) -> dict[str, Any]:
    return {
        "text": translation.text,
        "score": translation.score if math.isfinite(translation.score) else None,
        "tokens": translation.tokens,
        "truncated": translation.truncated,
    }
