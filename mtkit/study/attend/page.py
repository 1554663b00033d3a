"""A page for the browser, complete in one file: point at a word to see where it looks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from mtkit.study.attend.weights import HeatMap, Kind

TEMPLATE = Path(__file__).with_name("page.html")
TITLES: dict[Kind, str] = {
    "cross": "encoder-decoder",
    "encoder": "encoder",
    "decoder": "decoder",
}
DIGITS = 3
"""Number of digits of a weight behind the point."""


def page(text: str, translation: str, maps: Mapping[Kind, HeatMap]) -> str:
    """HTML that needs nothing else, no network above all."""
    kinds = [
        {
            "title": TITLES[kind],
            "queries": heat_map.queries,
            "keys": heat_map.keys,
            "weights": heat_map.weights.double().round(decimals=DIGITS).tolist(),
        }
        for kind, heat_map in maps.items()
    ]
    content = {"source": text, "translation": translation, "kinds": kinds}
    # "</script>" in a sentence would end the script that holds the data.
    encoded = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
    return TEMPLATE.read_text(encoding="utf-8").replace("DATA", encoded, 1)
