"""YAML to plain data, with the line of each setting."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from mtkit.config.base import Key, dotted
from mtkit.errors import UserError

LOCAL = Path("mtkit.yaml")
"""Config that is read by default."""
MAX_SETTINGS = 10_000
"""Most settings in a file; with aliases of aliases a short file could have any number."""
INVALID_YAML = (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""Errors for text that is not YAML, and for values that JSON does not have, such as !!binary."""


class _Loader(yaml.SafeLoader):
    """YAML with the scalars of version 1.2: only true and false are booleans, 1e5 is a number."""


def _resolvers_without(*kinds: str) -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Return PyYAML's patterns of scalars by their first character, without those of `kinds`."""
    kept: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items():
        kept[first] = [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(kinds)]
    return kept


# YAML 1.1 reads no, on and 2024-01-01 as other values than text.
_Loader.yaml_implicit_resolvers = _resolvers_without(":bool", ":timestamp")
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("(true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def parse_value(text: str) -> Any:
    """Return a value in YAML as plain data, or raise one of INVALID_YAML."""
    value = yaml.load(text, _Loader)
    return json.loads(json.dumps(value))  # refuses what JSON does not have, such as !!binary


def parse_file(path: Path) -> tuple[dict[str, Any], Mapping[Key, int]]:
    """Return the data of a YAML file, and the line of each of its settings.

    Raises:
        UserError: the file cannot be read, or is not YAML; the error names the line.
    """
    name = str(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{name} is not a config file, because it is not UTF-8 text") from None
    except OSError as error:
        raise UserError(f"{name}: the config cannot be read ({error.strerror})") from None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise UserError(
                f"{name}: expected settings (key: value), at least run, data and training"
            )
        lines = dict(islice(_lines(name, node, ()), MAX_SETTINGS + 1))
        if len(lines) > MAX_SETTINGS:
            raise UserError(f"{name} has more than {MAX_SETTINGS:,} settings")
        document = loader.construct_document(node)
        # Copy what aliases refer to, so that an override changes only one place.
        data: dict[str, Any] = json.loads(json.dumps(document))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        has_tab = "\\t" in str(error.problem)  # PyYAML names it as an escape
        hint = "; indent with spaces, not tabs" if has_tab else ""
        raise UserError(f"{name}:{line}: not YAML ({error.problem}){hint}") from None
    except INVALID_YAML as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{name}: not YAML ({reason}); put quotes around text") from None
    return data, lines


def _lines(name: str, node: yaml.Node, key: Key) -> Iterator[tuple[Key, int]]:
    """Yield (setting, line) pairs; raise UserError for a repeated key, which YAML allows."""
    match node:
        case yaml.SequenceNode():
            for index, child in enumerate(node.value):
                item: Key = (*key, index)
                yield item, child.start_mark.line + 1
                yield from _lines(name, child, item)
        case yaml.MappingNode():
            line_of: dict[str, int] = {}
            for label, child in node.value:
                line = label.start_mark.line + 1
                if label.tag != "tag:yaml.org,2002:str":
                    raise UserError(
                        f"{name}:{line}: keys must be text: put quotes around numbers; merge keys "
                        "(<<) are not supported"
                    )
                setting: Key = (*key, label.value)
                if label.value in line_of:
                    raise UserError(
                        f"{name}:{line}: {dotted(setting)} is already set in line "
                        f"{line_of[label.value]}; remove one"
                    )
                line_of[label.value] = line
                yield setting, line
                yield from _lines(name, child, setting)
