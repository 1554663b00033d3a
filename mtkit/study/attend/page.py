"""A page for the browser, complete in one file: point at a word to see where it looks."""

from __future__ import annotations

import json
from pathlib import Path

from mtkit.study.attend.reader import Reading
from mtkit.study.attend.weights import Kind

TEMPLATE = Path(__file__).with_name("page.html")
TITLES: dict[Kind, str] = {
    "cross": "encoder-decoder",
    "encoder": "encoder",
    "decoder": "decoder",
}
DIGITS = 3
"""Digits of a weight behind the point."""


def page(reading: Reading) -> str:
    """HTML that needs nothing else, no network above all."""
    kinds = [
        {
            "title": TITLES[kind],
            "queries": heat_map.queries,
            "keys": heat_map.keys,
            "weights": heat_map.weights.double().round(decimals=DIGITS).tolist(),
        }
        for kind, heat_map in reading.maps.items()
    ]
    content = {"source": reading.source, "translation": reading.translation, "kinds": kinds}
    # "</script>" in a sentence would end the script that holds the data.
    text = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
    return TEMPLATE.read_text(encoding="utf-8").replace("DATA", text, 1)
