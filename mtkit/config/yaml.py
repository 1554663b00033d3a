"""YAML to `Config`: `--set` overrides, and errors that say where and what to do.

The file becomes plain data and a map from each setting to its line. Overrides change the data, then
pydantic checks it, and `errors` finds the line or override of each error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mtkit import report
from mtkit.arguments import describe_type, list_texts
from mtkit.config.base import Key, Settings, dotted, flattened
from mtkit.config.locate import Locations, describe_errors, kinds_of, sections_in, setting_names
from mtkit.config.parse import INVALID_YAML, LOCAL, parse_file, parse_value, write_yaml
from mtkit.config.settings import Config
from mtkit.errors import UserError


@dataclass(frozen=True)
class Override:
    """A setting on the command line."""

    parts: list[str]
    """The key, as the user wrote it, divided at its dots."""
    value: Any
    option: str
    """The option as the user wrote it, for messages."""


def demo_config() -> Path:
    """Return the config of the demo; it is part of the package, like the demo corpus."""
    return Path(str(resources.files("mtkit.demo") / "demo.yaml"))


def load_config(path: str | Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """Return the settings of a file (default: ./mtkit.yaml) with overrides `key.path=value`.

    Raises:
        UserError: one line, which names the file and line, or the override, with the error.
        TypeError: `path` is no path, or `overrides` is no list of texts.
    """
    if not (path is None or isinstance(path, str | Path)):
        raise TypeError(f"expected the path of a config file, not {describe_type(path)}")
    if isinstance(path, str) and "\n" in path:
        raise UserError("expected the path of a config file, not its text")
    return read_config(path, list_texts(overrides, "overrides", "override"), None)[0]


def load_saved_config(path: Path) -> Config:
    """Return the settings that a run saved; warn of settings that only another version has."""
    data, lines = parse_file(path)
    config = _validate(data, Locations(str(path), lines), extra="ignore")
    unknown = flattened(data).keys() - flattened(config.model_dump()).keys()
    if unknown:
        names = ", ".join(sorted(unknown))
        report.warn(f"{path}: ignored settings that this version of mtkit does not have: {names}")
    return config


def as_config(config: Config | str | Path) -> Config:
    """Return the config itself, or the config of a file; errors are as in `load_config`."""
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
    name = str(path or LOCAL)  # for messages, as the user wrote it
    data, lines = parse_file(Path(name))
    locations = Locations(name, lines)
    parsed: list[Override] = []
    if run is not None:
        parsed.append(Override(parts=["run"], value=run, option=f"--run {run}"))
    parsed += [_parse_override(text) for text in overrides]
    for override in sorted(parsed, key=_order):
        key = _assign(data, override)
        if key in locations.overrides:
            first = locations.overrides[key]
            raise UserError(
                f"{first} and {override.option} both set {dotted(key)}; keep one of them"
            )
        locations.overrides[key] = override.option
    _add_kinds(data, Config)
    return _validate(data, locations), locations


def dump_config(config: Config) -> str:
    """Return every setting as YAML, from which `load_config` restores an equal `Config`."""
    return write_yaml(config.model_dump(mode="json"))


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
        default = info.default
        if hasattr(default, "kind"):
            is_pair = "encoder" in section or "decoder" in section
            section.setdefault("kind", "encoder-decoder" if is_pair else default.kind)
        for member in sections_in(info.annotation):
            if section.get("kind") in (None, *kinds_of(member)):
                _add_kinds(section, member)


def _parse_override(text: str) -> Override:
    """Parse the argument of a `--set`, such as "training.steps=500"."""
    option = f"--set {text}"
    path, equals, value = text.partition("=")
    parts = path.strip().split(".")
    if not equals or not all(parts):
        raise UserError(f"{option}: expected key.path=value, such as training.steps=500")
    try:
        return Override(parts, parse_value(value), option)
    except INVALID_YAML:
        raise UserError(f"{option}: the value is not YAML; put quotes around it") from None


def _order(override: Override) -> tuple[int, bool]:
    """Return a key to sort overrides: sections before their settings, and the kind of each first.

    A kind comes first, because it drops the settings that only another kind has.
    """
    return len(override.parts), override.parts[-1] != "kind"


def _assign(data: dict[str, Any], override: Override) -> Key:
    """Apply one override to the data, and return the key of the setting that it changed."""
    *section_parts, last_part = override.parts
    section: Any = data
    section_key: Key = ()
    for part in section_parts:
        name = _name_in(section, part, section_key, override)
        if isinstance(section, dict) and section.get(name) is None:
            section[name] = {}  # the file leaves this section out, or empty
        section = section[name]
        section_key = (*section_key, name)
    name = _name_in(section, last_part, section_key, override)
    key = (*section_key, name)
    if name == "kind":
        _change_kind(section, key, override)
    section[name] = override.value
    return key


def _name_in(section: Any, part: str, key: Key, override: Override) -> str | int:
    """Return the name of a setting in a section, or its index in a list; `key`: of the section."""
    if isinstance(section, dict):
        return part
    if isinstance(section, list):
        if part.isdecimal() and int(part) < len(section):
            return int(part)
        content = f"entries 0 to {len(section) - 1}"
    else:
        content = repr(section)
    raise UserError(f"{override.option}: no such setting, because {dotted(key)} is {content}")


def _change_kind(section: dict[str, Any], key: Key, override: Override) -> None:
    """Drop the settings that the new kind of the section does not have, and say so."""
    known: set[str | int] = set()  # settings of all kinds of this section
    allowed: set[str | int] = set()  # settings of the new kind
    for path, kinds in setting_names():
        if path[:-1] == key[:-1]:
            known.add(path[-1])
            if override.value in kinds:
                allowed.add(path[-1])
    if not allowed:  # no such kind, which is an error later
        return
    dropped = [name for name in section if name in known - allowed]
    for name in dropped:
        del section[name]
    if dropped:
        kept = ", ".join(name for name in section if name != "kind") or "no setting"
        report.say(f"{override.option} keeps {kept}, and drops {', '.join(dropped)}")
