"""YAML to `Config`: `--set` overrides, and errors that say where and what to do.

The file becomes plain data and a map from each setting to its line. Overrides change the data, then
pydantic checks it, and `errors` finds the line or override of each error.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from mtkit import report
from mtkit.config.base import Key, Settings, dotted, flattened
from mtkit.config.locate import Locations, describe_errors, kinds_of, sections_in, setting_names
from mtkit.config.parse import INVALID_YAML, LOCAL, parse_file, parse_value
from mtkit.config.settings import Config
from mtkit.errors import UserError

Override = tuple[list[str], Any, str]
"""Parts of the key, the value, and the option as the user wrote it."""


def demo_config() -> Path:
    """Return the config of the demo; it is part of the package, like the demo corpus."""
    return Path(str(resources.files("mtkit.demo") / "demo.yaml"))


def load_config(path: str | Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """Return the settings of a file (default: ./mtkit.yaml) with overrides `key.path=value`.

    Raises a UserError of one line, which names the file and line, or the override, with the error.
    """
    return read_config(path, overrides, None)[0]


def load_saved_config(path: Path) -> Config:
    """Return the settings that a run saved; warn of settings that only another version has."""
    data, lines = parse_file(path)
    config = _validate(data, Locations(str(path), lines), extra="ignore")
    if unknown := flattened(data).keys() - flattened(config.model_dump()).keys():
        names = ", ".join(sorted(unknown))
        report.warn(f"{path}: ignored settings that this version of mtkit does not have: {names}")
    return config


def as_config(config: Config | str | Path) -> Config:
    """Return the config itself, or the config of a file, as `load_config` does."""
    return config if isinstance(config, Config) else load_config(config)


def read_config(
    path: str | Path | None, overrides: Sequence[str], run: str | None
) -> tuple[Config, Locations]:
    """Return the settings as `load_config` does, and where each of them was written."""
    if path is None and not LOCAL.exists():
        raise UserError(
            f"no {LOCAL} here; write one with `mtkit init`, give another config with -c, or try "
            "the demo with --demo"
        )
    data, lines = parse_file(Path(path or LOCAL))
    locations = Locations(str(path or LOCAL), lines)
    parsed: list[Override] = [] if run is None else [(["run"], run, f"--run {run}")]
    parsed += map(_split, overrides)
    # Sections before their settings, and the kind first: it drops what belongs to another kind.
    for parts, value, option in sorted(parsed, key=lambda it: (len(it[0]), it[0][-1] != "kind")):
        key = _assign(data, parts, value, option)
        if key in locations.overrides:
            also = locations.overrides[key]
            raise UserError(f"{option}: {dotted(key)} is given twice, also by {also}")
        locations.overrides[key] = option
    _add_kinds(data, Config)
    return _validate(data, locations), locations


def dump_config(config: Config) -> str:
    """Return every setting as YAML, from which `load_config` restores an equal `Config`."""
    return str(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def schema() -> str:
    """Return the JSON schema of the config, for editors."""
    return json.dumps(Config.model_json_schema(), indent=2)


def _validate(data: dict[str, Any], locations: Locations, **options: Any) -> Config:
    try:
        return Config.model_validate(data, **options)
    except ValidationError as error:
        raise UserError(describe_errors(error, data, locations)) from None


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
        return parts, parse_value(text), option
    except INVALID_YAML:
        raise UserError(f"{option}: the value is not YAML; put quotes around it") from None


def _assign(data: dict[str, Any], parts: list[str], value: Any, option: str) -> Key:
    """Apply one override to the data, and return the key of the setting that it changed."""
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
            raise UserError(f"{option}: no such setting, because {dotted(key)} is {has}")
        if len(key) < len(parts):
            section = section[key[-1]]
    if key[-1] == "kind":
        _change_kind(section, key, value, option)
    section[key[-1]] = value
    return key


def _change_kind(section: dict[str, Any], key: Key, value: Any, option: str) -> None:
    """Drop the settings that the new kind of the section does not have, and say so."""
    siblings = [(path[-1], kinds) for path, kinds in setting_names() if path[:-1] == key[:-1]]
    known, allowed = (
        {name for name, kinds in siblings if among is None or among in kinds}
        for among in (None, value)
    )
    dropped = [name for name in section if name in known - allowed] if allowed else []
    for name in dropped:
        del section[name]
    if dropped:
        kept = ", ".join(name for name in section if name != "kind") or "no setting"
        report.say(f"{option} keeps {kept}, and drops {', '.join(dropped)}")
