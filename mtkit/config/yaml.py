"""YAML to `Config`: line marks, `--set` overrides, and errors that say where, what and what to do.

The file becomes plain data beside a map from each setting to its line; overrides are laid over the
data; pydantic checks the result; `complaints` leads each error back to its line or its `--set`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from mtkit import report
from mtkit.artifacts.runs import locked
from mtkit.artifacts.storage import temporary_path, write_text
from mtkit.config.base import Key, Settings, dotted
from mtkit.config.errors import Origin, explain, kinds_of, names, sections
from mtkit.config.settings import Config
from mtkit.errors import MtkitError, UserError

LOCAL, SETTINGS = Path("mtkit.yaml"), "config.yaml"
"""Where settings are looked for by default, and where those of a run lie in its folder."""
MOST_SETTINGS = 10_000
"""Number of settings in a file, at most: aliases of aliases can make any number of a few lines."""


def load_config(
    path: str | Path | None = None, overrides: Sequence[str] = (), run: str | None = None
) -> Config:
    """The settings of `path` (default: ./mtkit.yaml, else the demo's) under `key.path=value`s.

    Raises UserError with one line that leads to the file and line, or to the override, at fault.
    """
    return read_config(path, overrides, run)[0]


def config_of(run: Path) -> Config:
    """The settings that the run in this folder is made with; UserError where there is none."""
    if not (run / SETTINGS).is_file():
        raise UserError(f"{run}: no run here")
    return load_config(run / SETTINGS)


def read_config(
    path: str | Path | None, overrides: Sequence[str], run: str | None
) -> tuple[Config, Origin]:
    """The same, and where each setting was written."""
    path = LOCAL if path is None and LOCAL.exists() else path
    name, text = _read(path or str(resources.files("mtkit.demo") / "demo.yaml"))
    data, lines = _parse(name, text)
    origin = Origin(name, lines, is_demo=path is None)
    _name_kinds(data, Config)
    pairs = [_split(override) for override in overrides]
    _check_once(pairs, run)
    # Whole sections before their parts, and of these the kind first: it clears what was set.
    for parts, value, option in sorted(pairs, key=_order):
        origin.overrides[_assign(data, parts, value, option)] = option
    if run is not None:
        data["run"] = run
        origin.overrides[("run",)] = f"--run {run}"
    _name_kinds(data, Config)
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        raise UserError(explain(error, data, origin)) from None
    for key in _truth_values_as_numbers(data, config.model_dump(), ()):
        where = f"{origin.where(key)}: {dotted(key)}"
        raise UserError(f"{where}: expected a number, found true or false")
    return config, origin


def dump_config(config: Config) -> str:
    """Every setting, as YAML that `load_config` reads back to an equal `Config`."""
    return str(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def save_config(config: Config) -> None:
    """Writes the resolved settings to RUN/config.yaml; the run must be locked.

    So they are those that the run is made with, never those of a command that was refused.
    """
    write_text(Path(config.run) / SETTINGS, dump_config(config))


@contextmanager
def at_work(config: Config) -> Iterator[None]:
    """Around what a stage writes to `config.run`: locked, and in the end the settings beside it.

    A stage that fails leaves those of what lies there. Raises what `locked` raises.
    """
    with locked(Path(config.run)):
        yield
        save_config(config)


def complete_settings(config: Config) -> None:
    """Writes those of a run where a kill came before them, or left them half written.

    What is complete stays of use where nothing can be written, or while another process is at work.
    """
    settings = Path(config.run) / SETTINGS
    if not settings.exists() or temporary_path(settings).exists():
        with suppress(MtkitError), at_work(config):
            pass


def schema() -> str:
    """JSON schema of the config, for editors."""
    return json.dumps(Config.model_json_schema(), indent=2)


def _read(path: str | Path) -> tuple[str, str]:
    path = Path(path)
    try:
        return str(path), path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{path}: no such config file") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a config file: it is not UTF-8 text") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def _parse(name: str, text: str) -> tuple[dict[str, Any], dict[Key, int]]:
    """The data of a YAML file, and the line of each of its settings."""
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            raise UserError(f"{name}: empty: a config needs at least run, data and training")
        if not isinstance(node, yaml.MappingNode):
            found = "a list" if isinstance(node, yaml.SequenceNode) else "text"
            raise UserError(f"{name}:1: expected settings (key: value), found {found}")
        lines: dict[Key, int] = {}
        for key, line in _lines(name, node, ()):  # aliases of aliases have no end
            lines[key] = line
            if len(lines) > MOST_SETTINGS:
                raise UserError(f"{name}: more than {MOST_SETTINGS:,} settings")
        data: dict[str, Any] = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        hint = ": indent with spaces, not tabs" if "\\t" in str(error.problem) else ""
        raise UserError(f"{name}:{line}: not YAML: {error.problem}{hint}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{name}: not YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise UserError(f"{name}: nested without end") from None
    except (ValueError, KeyError, AttributeError) as error:  # a date that is none, or alike
        raise UserError(f"{name}: a value that is none ({error}): put quotes around it") from None
    return _unshared(data), lines


def _unshared(tree: Any) -> Any:
    """Data in which an alias is a copy of what it stands for: to change one changes no other."""
    if isinstance(tree, dict):
        return {name: _unshared(value) for name, value in tree.items()}
    return [_unshared(value) for value in tree] if isinstance(tree, list) else tree


def _lines(name: str, node: yaml.Node, key: Key) -> Iterator[tuple[Key, int]]:
    """(setting, line) pairs. Refuses repeated keys, of which YAML keeps the last in silence."""
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
            raise UserError(f"{name}:{line}: <<: sections are not merged: write the settings out")
        if child_key.tag != "tag:yaml.org,2002:str":
            raise UserError(f"{name}:{line}: a key must be text: put quotes around it")
        inner: Key = (*key, label)
        if label in seen:
            raise UserError(f"{name}:{line}: {dotted(inner)}: already set in line {seen[label]}")
        seen[label] = line
        yield inner, line
        yield from _lines(name, child, inner)


def _name_kinds(data: dict[str, Any], settings: type[Settings]) -> None:
    """Writes the default `kind` into sections that leave it out."""
    for name, info in settings.model_fields.items():
        section = data.get(name)
        if not isinstance(section, dict):
            continue
        if hasattr(info.default, "kind"):  # a pair of halves needs no name of its own
            has_halves = section.keys() & {"encoder", "decoder"}
            section.setdefault("kind", "encoder-decoder" if has_halves else info.default.kind)
        for member in sections(info.annotation):
            if section.get("kind") in (None, *kinds_of(member)):
                _name_kinds(section, member)


def _truth_values_as_numbers(data: Any, settings: Any, key: Key) -> Iterator[Key]:
    """Settings where pydantic took yes for 1 or no for 0."""
    if isinstance(data, bool) and not isinstance(settings, bool):
        yield key
    if isinstance(data, list):
        data = dict(enumerate(data))
    if isinstance(data, dict):
        for name, value in data.items():
            if isinstance(value, bool | list | dict):
                yield from _truth_values_as_numbers(value, settings[name], (*key, name))


def _split(override: str) -> tuple[list[str], Any, str]:
    option = f"--set {override}"
    path, equals, text = override.partition("=")
    parts = path.strip().split(".")
    if not equals or not all(parts):
        raise UserError(f"{option}: expected key.path=value, such as training.steps=500")
    try:
        return parts, yaml.safe_load(text), option
    except (yaml.YAMLError, ValueError, KeyError, AttributeError, RecursionError):
        raise UserError(f"{option}: the value is not YAML: put quotes around it") from None


def _order(pair: tuple[list[str], Any, str]) -> float:
    parts, _, _ = pair
    return len(parts) - (0.5 if parts[-1] == "kind" else 0.0)


def _check_once(pairs: Sequence[tuple[list[str], Any, str]], run: str | None) -> None:
    """Raises UserError for a setting that is given twice: one of its values would be lost."""
    given: dict[tuple[str, ...], str] = {} if run is None else {("run",): f"--run {run}"}
    for parts, _, option in pairs:
        if tuple(parts) in given:
            setting = ".".join(parts)
            raise UserError(f"{option}: {setting} is given twice, also by {given[tuple(parts)]}")
        given[tuple(parts)] = option


def _assign(data: dict[str, Any], parts: list[str], value: Any, option: str) -> Key:
    """Lays one override over the data; the path of the setting it changed."""
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
            raise UserError(f"{option}: nothing there to set: {dotted(key)} holds {has}")
        if len(key) < len(parts):
            section = section[key[-1]]
    if key[-1] == "kind" and (kind := section.get("kind", value)) != value:
        # adam and adamw, for one, have the same settings, which stay
        alike = any(kind in kinds and value in kinds for path, kinds in names() if path == key)
        if not alike:
            dropped = ", ".join(name for name in section if name != "kind")
            section.clear()
            if dropped:
                report.say(f"{option}: starts from the defaults of {value}; dropped: {dropped}")
    section[key[-1]] = value
    return key
