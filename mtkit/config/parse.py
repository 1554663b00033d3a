"""YAML to plain data, with the line of each setting."""

from __future__ import annotations

import json
import math
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
MAX_CONFIG_BYTES = 1 << 20
"""Largest config that is read; parsing this much takes up to 8 seconds."""
MAX_SETTINGS = 10_000
"""Most settings in a file; with aliases of aliases a short file could have any number."""
INVALID_YAML = (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""Errors for text that is not YAML, and for values that JSON does not have, such as !!binary."""


CORE_SCHEMA = {
    "null": "null|Null|NULL|~|",
    "bool": "true|True|TRUE|false|False|FALSE",
    "int": "[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
    "merge": "<<",  # only to refuse it: YAML 1.2 has no merge keys
}
"""Which plain scalars are not text: the core schema of YAML 1.2.2, section 10.3.2.

PyYAML has the rules of YAML 1.1, in which 010 is 8, 1:30 is 90, and no is false.
"""


class _Loader(yaml.SafeLoader):
    """YAML with the scalars of CORE_SCHEMA."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - as PyYAML declares it


class _Dumper(yaml.SafeDumper):
    """YAML that versions 1.1 and 1.2 read alike: text is quoted if one of them needs quotes."""


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text if base == 10 else text[2:], base)


for _kind, _pattern in CORE_SCHEMA.items():
    for _class in (_Loader, _Dumper):
        # None: scalars with any first character.
        _class.add_implicit_resolver(
            f"tag:yaml.org,2002:{_kind}", re.compile(rf"(?:{_pattern})\Z"), [None]
        )
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


def parse_value(text: str) -> Any:
    """Return a value in YAML as plain data, or raise one of INVALID_YAML."""
    value = yaml.load(text, _Loader)
    return json.loads(json.dumps(value))  # refuses what JSON does not have, such as !!binary


def write_yaml(value: Any, *, in_one_line: bool = False) -> str:
    """Return plain data as YAML, from which `parse_value` restores it."""
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True}
    if in_one_line:
        options |= {"default_flow_style": True, "width": math.inf}
    return str(yaml.dump(value, Dumper=_Dumper, **options))


def parse_file(path: Path) -> tuple[dict[str, Any], Mapping[Key, int]]:
    """Return the data of a YAML file, and the line of each of its settings.

    Raises:
        UserError: the file cannot be read, or is not YAML; the error names the line.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_CONFIG_BYTES + 1)
        if len(content) > MAX_CONFIG_BYTES:
            raise UserError(f"{name} is no config: it is larger than {MAX_CONFIG_BYTES >> 20} MiB")
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{name} is not a config file, because it is not UTF-8 text") from None
    except IsADirectoryError:
        raise UserError(f"{name} is a folder; give a config file, such as mtkit.yaml") from None
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
