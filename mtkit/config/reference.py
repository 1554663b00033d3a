"""What every setting means: `configs/SETTINGS.md`, and `mtkit info --config --explain`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

from mtkit.config.errors import flow
from mtkit.config.settings import Config
from mtkit.report import MAX_CELLS

Node = Mapping[str, Any]
"""Part of a JSON schema."""
MARKDOWN_ESCAPE = r"\\\g<0>"
TYPES = {"string": "text", "boolean": "true or false", "null": "null"}
LIMITS = {
    "minimum": "from",
    "exclusiveMinimum": "above",
    "maximum": "to",
    "exclusiveMaximum": "below",
}
INTRODUCTION = """\
# Settings

Every setting of a config, with its values and default. `mtkit info --config --explain` prints the
settings of your run with these explanations. `--set key.path=value` overrides one. This page is
generated from the [schema](schema.json) by `make schema`.
"""


def settings_page() -> str:
    """Return a page in Markdown with a table for every section of a config."""
    schema = Config.model_json_schema()
    return "\n".join([INTRODUCTION, *_tables(schema, schema, "", {})])


def explain_settings(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines of YAML: the settings, with comments on meaning, values and default."""
    schema = Config.model_json_schema()
    return _explained(schema, schema, settings, "")


def _tables(schema: Node, section: Node, key: str, shown: dict[str, str]) -> Iterator[str]:
    """Yield the table of a section, then those of its sections that are not yet shown."""
    properties = section["properties"]
    kinds = f", kind: {', '.join(_choices(properties['kind']))}" if "kind" in properties else ""
    yield f"## {key or 'Top level'}{kinds}\n\n{' '.join(section['description'].split())}\n"
    yield "| setting | values | default | meaning |\n|---|---|---|---|"
    following: list[tuple[str, Node]] = []
    for name, node in properties.items():
        inner, path = list(_sections(schema, node)), f"{key}.{name}".removeprefix(".")
        values, default = _values(node), _default(node)
        if inner:
            place = shown.setdefault(inner[0]["title"], path)
            following += [(path, it) for it in inner if place == path]
            values, default = f"see {place}", (node.get("default") or {}).get("kind", "")
        if name != "kind":
            cells = name, values, default, node.get("description", "")
            yield f"| {' | '.join(re.sub('[|<]', MARKDOWN_ESCAPE, cell) for cell in cells)} |"
    yield ""
    for path, inner_section in following:
        yield from _tables(schema, inner_section, path, shown)


def _explained(schema: Node, section: Node, settings: Node, indent: str) -> Iterator[str]:
    for name, value in settings.items():
        node = section.get("properties", {}).get(name, {})
        parts = value if isinstance(value, list) else [value]
        if parts and all(isinstance(part, Mapping) for part in parts):
            yield f"{indent}{name}:"
            for part in parts:
                yield from [f"{indent}-"] * (part is not value)
                sections = (it for it in _sections(schema, node) if _fits(it, part))
                yield from _explained(schema, next(sections, {}), part, f"{indent}  ")
            continue
        if node:
            default = f"; default: {_default(node)}" if "default" in node else ""
            text = f"{node.get('description', name)} ({_values(node)}{default})"
            yield from (f"{indent}# {line}" for line in wrap(text, MAX_CELLS - len(indent) - 2))
        yield f"{indent}{name}: {flow(value)}"


def _sections(schema: Node, node: Node) -> Iterator[Node]:
    """Yield the schema of every section that may be the value of a setting."""
    if "$ref" in node:
        yield schema["$defs"][node["$ref"].rpartition("/")[2]]
    for one in _alternatives(node):
        yield from _sections(schema, one)


def _fits(section: Node, settings: Node) -> bool:
    """Return whether a section may hold these settings."""
    properties = section["properties"]
    kind = settings.get("kind")
    return settings.keys() <= properties.keys() and (
        kind is None or kind in _choices(properties["kind"])
    )


def _alternatives(node: Node) -> list[Node]:
    return [*node.get("oneOf", ()), *node.get("anyOf", ())]


def _choices(node: Node) -> list[str]:
    return [str(value) for value in node.get("enum", [node.get("const")])]


def _default(node: Node) -> str:
    return flow(node["default"]) if "default" in node else ""


def _values(node: Node) -> str:
    """Return the values of a setting in words: "whole number from 1 to 256, or null"."""
    if "$ref" in node:
        return "section"
    if alternatives := _alternatives(node):
        return ", or ".join(dict.fromkeys(map(_values, alternatives)))
    if "enum" in node or "const" in node:
        return ", ".join(_choices(node))
    if node.get("type") == "array":
        return f"list of {_values(node['items'])}"
    if node.get("type") not in ("integer", "number"):
        return TYPES[node["type"]]
    if node["type"] == "integer" and node.get("exclusiveMinimum") == 0:
        node = {"minimum": 1, **{k: v for k, v in node.items() if k != "exclusiveMinimum"}}
    limits = [f"{word} {node[name]:,}" for name, word in LIMITS.items() if name in node]
    return " ".join(["whole number" if node["type"] == "integer" else "number", *limits])
