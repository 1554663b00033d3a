"""A page for the browser, complete in one file: point at a word to see where it looks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mtkit.study.attend.reader import Reading
from mtkit.study.attend.weights import HeatMap, Kind

TEMPLATE = Path(__file__).with_name("page.html")
TITLES: dict[Kind, str] = {
    "cross": "encoder-decoder",
    "encoder": "encoder",
    "decoder": "decoder",
}
DIGITS = 3
"""Of a weight, behind the point."""


def page(reading: Reading) -> str:
    """HTML that needs nothing else, no network above all."""
    content = {
        "source": reading.source,
        "translation": reading.translation,
        "kinds": [_kind(kind, heat_map) for kind, heat_map in reading.maps.items()],
    }
    # "</script>" in a sentence would end the script that holds the data.
    text = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
    return TEMPLATE.read_text(encoding="utf-8").replace("DATA", text, 1)


def _kind(kind: Kind, heat_map: HeatMap) -> dict[str, Any]:
    return {
        "title": TITLES[kind],
        "queries": heat_map.queries,
        "keys": heat_map.keys,
        "weights": _rounded(heat_map.weights.tolist()),
    }


def _rounded(weights: Any) -> Any:
    """Nested lists of weights, with fewer digits."""
    if isinstance(weights, list):
        return [_rounded(inner) for inner in weights]
    return round(weights, DIGITS)
