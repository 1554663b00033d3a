"""YAML to `Config`: line numbers, `--set` overrides, and errors that say where and what to do.

The file becomes plain data beside a map from each setting to its line. Overrides are laid over the
data, pydantic checks the result, and `errors` leads each error back to its line or override.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from mtkit import report
from mtkit.config.base import Key, Settings, dotted
from mtkit.config.errors import Locations, describe_errors, kinds_of, sections_in, setting_names
from mtkit.config.settings import Config
from mtkit.errors import UserError

LOCAL = Path("mtkit.yaml")
"""Config that is read by default."""
MAX_SETTINGS = 10_000
"""Most settings in a file: aliases of aliases could make any number of a few lines."""
INVALID_YAML = (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""What text that is not YAML raises, or a value without JSON, such as !!binary."""

Override = tuple[list[str], Any, str]
"""Parts of the key, value, and the option as it was written."""


class _Loader(yaml.SafeLoader):
    """YAML with the scalars of version 1.2: only true and false are booleans, 1e5 is a number."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern) for tag, pattern in resolvers if not tag.endswith((":bool", ":timestamp"))
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("(true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def load_config(
    path: str | Path | None = None, overrides: Sequence[str] = (), run: str | None = None
) -> Config:
    """Return the settings of a file (default: ./mtkit.yaml, else the demo) and `key.path=value`s.

    Raises UserError in one line that names the file and line, or the override, at fault.
    """
    return read_config(path, overrides, run)[0]


def read_config(
    path: str | Path | None, overrides: Sequence[str], run: str | None
) -> tuple[Config, Locations]:
    """Return the settings as `load_config` does, and where each was written."""
    path = LOCAL if path is None and LOCAL.exists() else path
    name, text = _read(path or str(resources.files("mtkit.demo") / "demo.yaml"))
    data, lines = _parse(name, text)
    locations = Locations(name, lines, is_demo=path is None)
    _add_kinds(data, Config)
    parsed: list[Override] = [] if run is None else [(["run"], run, f"--run {run}")]
    parsed += map(_split, overrides)
    # Sections before their settings, and the kind first: it clears the section.
    for parts, value, option in sorted(parsed, key=lambda it: (len(it[0]), it[0][-1] != "kind")):
        key = _assign(data, parts, value, option)
        if key in locations.overrides:
            also = locations.overrides[key]
            raise UserError(f"{option}: {dotted(key)} is given twice, also by {also}")
        locations.overrides[key] = option
    _add_kinds(data, Config)
    try:
        return Config.model_validate(data), locations
    except ValidationError as error:
        raise UserError(describe_errors(error, data, locations)) from None


def dump_config(config: Config) -> str:
    """Return every setting as YAML that `load_config` reads back to an equal `Config`."""
    return str(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def schema() -> str:
    """Return the JSON schema of the config, for editors."""
    return json.dumps(Config.model_json_schema(), indent=2)


def _read(path: str | Path) -> tuple[str, str]:
    path = Path(path)
    try:
        return str(path), path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a config file, because it is not UTF-8 text") from None
    except OSError as error:
        raise UserError(f"{path}: the config cannot be read ({error.strerror})") from None


def _parse(name: str, text: str) -> tuple[dict[str, Any], dict[Key, int]]:
    """Return the data of a YAML file, and the line of each of its settings."""
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
        # An alias becomes a copy, so that an override changes one place only.
        data: dict[str, Any] = json.loads(json.dumps(loader.construct_document(node)))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        hint = "; indent with spaces, not tabs" if "\\t" in str(error.problem) else ""
        raise UserError(f"{name}:{line}: not YAML ({error.problem}){hint}") from None
    except INVALID_YAML as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{name}: not YAML ({reason}); put quotes around text") from None
    return data, lines


def _lines(name: str, node: yaml.Node, key: Key) -> Iterator[tuple[Key, int]]:
    """Yield (setting, line) pairs; raise UserError for a repeated key, which YAML allows."""
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            yield (*key, index), child.start_mark.line + 1
            yield from _lines(name, child, (*key, index))
    if not isinstance(node, yaml.MappingNode):
        return
    seen: dict[str, int] = {}
    for child_key, child in node.value:
        line, label = child_key.start_mark.line + 1, child_key.value
        if child_key.tag == "tag:yaml.org,2002:merge":
            raise UserError(
                f"{name}:{line}: merging sections by << is not supported; write the settings out"
            )
        if child_key.tag != "tag:yaml.org,2002:str":
            raise UserError(f"{name}:{line}: a key must be text; put quotes around it")
        inner: Key = (*key, label)
        if label in seen:
            raise UserError(
                f"{name}:{line}: {dotted(inner)} is already set in line {seen[label]}; remove one"
            )
        seen[label] = line
        yield inner, line
        yield from _lines(name, child, inner)


def _add_kinds(data: dict[str, Any], settings: type[Settings]) -> None:
    """Add the default `kind` to sections that leave it out."""
    for name, info in settings.model_fields.items():
        section = data.get(name)
        if not isinstance(section, dict):
            continue
        if hasattr(info.default, "kind"):
            is_pair = section.keys() & {"encoder", "decoder"}
            section.setdefault("kind", "encoder-decoder" if is_pair else info.default.kind)
        for member in sections_in(info.annotation):
            if section.get("kind") in (None, *kinds_of(member)):
                _add_kinds(section, member)


def _split(override: str) -> Override:
    option = f"--set {override}"
    path, equals, text = override.partition("=")
    parts = path.strip().split(".")
    if not equals or not all(parts):
        raise UserError(f"{option}: expected key.path=value, such as training.steps=500")
    try:
        return parts, json.loads(json.dumps(yaml.load(text, _Loader))), option
    except INVALID_YAML:
        raise UserError(f"{option}: the value is not YAML; put quotes around it") from None


def _assign(data: dict[str, Any], parts: list[str], value: Any, option: str) -> Key:
    """Lay one override over the data, and return the key of the setting that it changed."""
    section: Any = data
    key: Key = ()
    for part in parts:
        if isinstance(section, list) and part.isdecimal() and int(part) < len(section):
            key = (*key, int(part))
        elif isinstance(section, dict):
            key = (*key, part)
            if len(key) < len(parts) and section.get(part) is None:
                section[part] = {}
        else:
            has = f"entries 0 to {len(section) - 1}" if isinstance(section, list) else repr(section)
            raise UserError(f"{option}: there is no such setting, because {dotted(key)} is {has}")
        if len(key) < len(parts):
            section = section[key[-1]]
    if key[-1] == "kind":
        _change_kind(section, key, value, option)
    section[key[-1]] = value
    return key


def _change_kind(section: dict[str, Any], key: Key, value: Any, option: str) -> None:
    """Clear a section whose kind changes, unless both kinds have the same settings, and say so."""
    kind = section.get("kind", value)
    is_same_class = any(
        kind in kinds and value in kinds for path, kinds in setting_names() if path == key
    )
    if kind == value or is_same_class:
        return
    dropped = ", ".join(name for name in section if name != "kind")
    section.clear()
    if dropped:
        report.say(f"{option} starts from the defaults of {value}; it drops the earlier {dropped}")
