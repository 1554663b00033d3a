"""What both programs share that translate a file with another library; mtkit is not used here."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

Translate = Callable[[list[str]], list[str]]


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """The options that every such program has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("model")
    parser.add_argument("input", type=Path)
    parser.add_argument("--compute-type", default="float32")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--max-length", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path)
    return parser


def time_passes(translate: Translate, options: argparse.Namespace, *, warm_up: int = 0) -> None:
    """Translates the file; writes {"seconds": [of each pass]} to stdout.

    `warm_up` lines are translated before anything counts.
    """
    lines = options.input.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    if warm_up:
        translate(lines[:warm_up])
    seconds, translations = [], []
    for _ in range(options.passes):
        began = time.perf_counter()
        translations = translate(lines)
        seconds.append(time.perf_counter() - began)
    if options.output:
        options.output.write_text("".join(f"{line}\n" for line in translations), encoding="utf-8")
    print(json.dumps({"seconds": seconds}))
