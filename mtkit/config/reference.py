"""What settings mean, in words: `mtkit info --config --explain`, and configs/SETTINGS.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

from mtkit.config.base import Key, Settings
from mtkit.config.locate import flow, kinds_of, sections_by_path
from mtkit.report import MAX_CELLS

Node = Mapping[str, Any]
"""A part of a JSON schema."""
TYPES = {"string": "text", "boolean": "true or false", "null": "null", "integer": "whole number"}
LIMITS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to"}
LIMITS |= {"exclusiveMaximum": "below"}


def explain_settings(
    settings: Mapping[str, Any], path: Key = (), indent: str = ""
) -> Iterator[str]:
    """Yield settings as lines of YAML, each known one below its meaning, values and default."""
    sections = (it for at, it in sections_by_path() if at == path and _fits(it, settings))
    nodes = next(map(setting_nodes, sections), {})
    for name, value in settings.items():
        parts = value if isinstance(value, list) else [value]
        if parts and all(isinstance(part, Mapping) for part in parts):
            yield f"{indent}{name}:"
            for part in parts:
                yield from [f"{indent}-"] * (part is not value)
                yield from explain_settings(part, (*path, name), f"{indent}  ")
            continue
        if node := nodes.get(name):
            default = f"; default: {describe_default(node)}" if "default" in node else ""
            text = f"{node.get('description', name)} ({describe_values(node)}{default})"
            yield from (f"{indent}# {line}" for line in wrap(text, MAX_CELLS - len(indent) - 2))
        yield f"{indent}{name}: {flow(value)}"


def setting_nodes(section: type[Settings]) -> dict[str, Node]:
    """Return the JSON schema of each setting of a section."""
    return dict(section.model_json_schema()["properties"])


def _fits(section: type[Settings], settings: Mapping[str, Any]) -> bool:
    kind = settings.get("kind")
    return settings.keys() <= section.model_fields.keys() and kind in (None, *kinds_of(section))


def describe_default(node: Node) -> str:
    """Return the default of a setting as YAML, or its kind if it is a section."""
    default = node.get("default")
    if isinstance(default, dict):
        return str(default.get("kind", ""))
    return flow(default) if "default" in node else ""


def describe_values(node: Node) -> str:
    """Return the values of a setting in words: "whole number from 1 to 256, or null"."""
    if alternatives := node.get("oneOf", node.get("anyOf")):
        return ", or ".join(dict.fromkeys(map(describe_values, alternatives)))
    if "enum" in node or "const" in node:
        return ", ".join(map(str, node.get("enum", [node.get("const")])))
    if "$ref" in node:
        return "section"
    if node["type"] == "array":
        return f"list of {describe_values(node['items'])}"
    if node["type"] == "integer" and node.get("exclusiveMinimum") == 0:
        node = {**node, "minimum": 1, "exclusiveMinimum": None}
    limits = [f"{word} {node[it]:,}" for it, word in LIMITS.items() if node.get(it) is not None]
    return " ".join([TYPES.get(node["type"], "number"), *limits])
