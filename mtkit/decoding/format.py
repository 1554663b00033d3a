"""How translations are written: as text, in columns, or as JSON objects."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from mtkit.decoding.parts import Translation


@dataclass(frozen=True)
class Format:
    """What is written of each line."""

    n_best: int | None = None
    """So many rows, each of number, score and text."""
    jsonl: bool = False
    alignments: bool = False
    """With the links between source and target words in Pharaoh format; in JSON their weights."""

    @property
    def rows(self) -> int:
        """Lines written for a line of input."""
        return 1 if self.jsonl or self.n_best is None else self.n_best

    def write(self, number: int, translation: Translation) -> str:
        """What is written of line `number`."""
        return self._json(translation) if self.jsonl else self._text(number, translation)

    def _text(self, number: int, translation: Translation) -> str:
        """The text alone, or fields separated by tabs, a line for each of the n best."""
        if self.n_best is None and not self.alignments:
            return f"{translation.text}\n"
        lines = []
        for row in translation.n_best or [translation]:
            fields = [row.text.replace("\t", " ")]
            if self.n_best is not None:
                fields = [str(number), f"{row.score:.6f}", *fields]
            if self.alignments:
                fields.append(_pharaoh(row))
            lines.append("\t".join(fields) + "\n")
        return "".join(lines)

    def _json(self, translation: Translation) -> str:
        """An object on a line."""
        record = self._record(translation)
        if self.n_best is not None:
            ranked = translation.n_best or [translation]
            record["n_best"] = [self._record(hypothesis) for hypothesis in ranked]
        return json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"

    def _record(self, translation: Translation) -> dict[str, Any]:
        record: dict[str, Any] = {
            "text": translation.text,
            "score": translation.score if math.isfinite(translation.score) else None,
            "tokens": translation.tokens,
            "truncated": translation.truncated,
        }
        if self.alignments:
            record["alignment"] = _pharaoh(translation)
            record["soft_alignment"] = translation.alignment.weights
        return record


def _pharaoh(translation: Translation) -> str:
    from mtkit.decoding.alignment.links import to_pharaoh

    return to_pharaoh(translation.alignment.links)
