"""Settings with their reasons as YAML that people read: a comment above what it explains."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import yaml

from mtkit.report import printable
from mtkit.study.init.reasons import Chosen

COLUMNS = 100


def yaml_of(heading: str, run: str, choices: Iterable[Chosen]) -> str:
    """The text of a config; neighbouring choices of a section stand together."""
    lines = [*_comment(heading, ""), f"run: {_flow(run)}"]
    for section, of_section in groupby(choices, key=lambda choice: choice.section):
        lines += ["", f"{section}:"]
        for choice in of_section:
            lines += _comment(choice.reason, "  ")
            lines += [f"  {name}: {_flow(value)}" for name, value in choice.settings.items()]
    return "\n".join(lines) + "\n"


def _comment(text: str, indent: str) -> Iterator[str]:
    marked = f"{indent}# "
    yield from textwrap.wrap(
        printable(text),
        COLUMNS,
        initial_indent=marked,
        subsequent_indent=marked,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _flow(value: Any) -> str:
    """A value on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
    return str(text).removesuffix("...\n").strip()
