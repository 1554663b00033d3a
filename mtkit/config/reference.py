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
TYPES = {
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "integer": "whole number",
}
LIMITS = {
    "minimum": "from",
    "exclusiveMinimum": "above",
    "maximum": "to",
    "exclusiveMaximum": "below",
}


def explain_settings(
    settings: Mapping[str, Any], path: Key = (), indent: str = ""
) -> Iterator[str]:
    """Yield settings as lines of YAML, each known one below its meaning, values and default."""
    section = section_at(path, settings)
    nodes = {} if section is None else setting_nodes(section)
    for name, value in settings.items():
        is_list = isinstance(value, list)
        parts = value if is_list else [value]
        are_sections = bool(parts) and all(isinstance(part, Mapping) for part in parts)
        if are_sections:
            yield f"{indent}{name}:"
            for part in parts:
                if is_list:
                    yield f"{indent}-"
                yield from explain_settings(part, (*path, name), f"{indent}  ")
            continue
        node = nodes.get(name)
        if node is not None:
            width = MAX_CELLS - len(indent) - len("# ")
            for line in wrap(_describe(name, node), width):
                yield f"{indent}# {line}"
        yield f"{indent}{name}: {flow(value)}"


def section_at(path: Key, settings: Mapping[str, Any]) -> type[Settings] | None:
    """Return the class of a section with these settings; None if it is no known section."""
    for section_path, section in sections_by_path():
        if section_path == path and _fits(section, settings):
            return section
    return None


def _describe(name: str, node: Node) -> str:
    """Return the meaning of a setting, with its values and its default."""
    facts = describe_values(node)
    if "default" in node:
        facts += f"; default: {describe_default(node)}"
    return f"{node.get('description', name)} ({facts})"


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
    alternatives = node.get("oneOf") or node.get("anyOf")
    if alternatives:
        descriptions = map(describe_values, alternatives)
        return ", or ".join(dict.fromkeys(descriptions))  # each once
    if "enum" in node:
        return ", ".join(map(str, node["enum"]))
    if "const" in node:
        return str(node["const"])
    if "$ref" in node:
        return "section"
    if node["type"] == "array":
        return f"list of {describe_values(node['items'])}"
    if node["type"] == "integer" and node.get("exclusiveMinimum") == 0:  # "from 1", not "above 0"
        node = {**node, "minimum": 1, "exclusiveMinimum": None}
    words = [TYPES.get(node["type"], "number")]
    for limit, word in LIMITS.items():
        if node.get(limit) is not None:
            words.append(f"{word} {node[limit]:,}")
    return " ".join(words)
