"""Errors in a config, in one line: where it was written, what is wrong, what to do.

pydantic locates an error by the path of the setting, mixed with the tags of unions. This module
finds the line of the file or the override for this path, and suggests the name probably meant.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, get_args

import yaml
from pydantic import ValidationError

from mtkit.config.base import Key, Settings, dotted, error_message
from mtkit.config.settings import Config


@dataclass(frozen=True)
class Locations:
    """Where each setting of a config was written."""

    file: str
    lines: Mapping[Key, int]
    overrides: dict[Key, str] = field(default_factory=dict)

    def where(self, key: Key) -> str:
        """Return the override, or the file and line, where a setting (or its section) was set."""
        for changed, option in reversed(self.overrides.items()):
            common = min(len(changed), len(key))
            if key and changed[:common] == key[:common]:
                return option
        while key and key not in self.lines:
            key = key[:-1]
        return f"{self.file}:{self.lines[key]}" if key else self.file


def describe_errors(error: ValidationError, data: dict[str, Any], locations: Locations) -> str:
    """Return the first error in one line, with the number of further errors."""
    messages: dict[Key, str] = {}
    details = error.errors(include_url=False)
    # A misspelt setting is often missing under its right name, too; the misspelling explains both.
    for detail in sorted(details, key=lambda detail: detail["type"] != "extra_forbidden"):
        key = _key(detail, data)
        messages.setdefault(key, _message(detail, key, data))
    above = {key[:length] for key in messages for length in range(len(key))}
    first, *others = [key for key in messages if key not in above]
    setting = f"{dotted(first)}: " if first else ""
    more = f" (and {len(others)} more error{'s' if len(others) > 1 else ''})" if others else ""
    return f"{locations.where(first)}: {setting}{messages[first]}{more}"


def _key(detail: Mapping[str, Any], data: Any) -> Key:
    """Return the setting that has the error: pydantic's location without tags of unions."""
    key: Key = ()
    for part in detail["loc"]:
        with suppress(LookupError, TypeError):  # a tag is not in the data
            data = data[part]
            key = (*key, part)
    if detail["type"].startswith("union_tag") and isinstance(data, dict):
        return (*key, "kind")
    return (*key, detail["loc"][-1]) if detail["type"] == "missing" else key


def _message(detail: Mapping[str, Any], key: Key, data: dict[str, Any]) -> str:
    match detail["type"]:
        case "extra_forbidden":
            return f"unknown setting; {_suggestion(key, data)}"
        case "missing":
            return "missing; set it, because it has no default"
        case "union_tag_invalid":
            context = detail["ctx"]
            return f"expected {context['expected_tags']}, found {context['tag']!r}"
        case "string_type":
            return f"{error_message(detail, _shown)}; put quotes around text such as 12 or true"
    return error_message(detail, _shown)


def flow(value: Any) -> str:
    """Return the value as one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
    return str(text).removesuffix("...\n").strip()


def _shown(value: Any) -> str:
    """Return the value as one line of YAML, shortened if it is long."""
    line = flow(value)
    return line if len(line) <= 60 else f"{line[:57]}..."


def setting_names() -> Iterator[tuple[Key, tuple[str, ...]]]:
    """Yield the key of every setting, with the kinds of its section that have it, if any."""
    for path, section in sections_by_path():
        yield from (((*path, name), kinds_of(section)) for name in section.model_fields)


def sections_by_path(
    section: type[Settings] = Config, path: Key = ()
) -> Iterator[tuple[Key, type[Settings]]]:
    """Yield every class of settings, with the path of the section."""
    yield path, section
    for name, info in section.model_fields.items():
        for inner in sections_in(info.annotation):
            yield from sections_by_path(inner, (*path, name))


def kinds_of(section: type[Settings]) -> tuple[str, ...]:
    """Return the possible values of `kind` in a section; empty if it has no `kind`."""
    kind = section.model_fields.get("kind")
    return get_args(kind.annotation) if kind else ()


def sections_in(annotation: Any) -> Iterator[type[Settings]]:
    """Yield every class of settings in a type."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        yield annotation
    for member in get_args(annotation):
        yield from sections_in(member)


def _suggestion(key: Key, data: Any) -> str:
    """Return a hint for an unknown setting: the name probably meant, or why it cannot be set."""
    for part in key[:-1]:
        data = data[part]
    current = data.get("kind")
    plain = tuple(part for part in key if isinstance(part, str))
    known = list(setting_names())
    if having := [kind for path, kinds in known if path == plain for kind in kinds]:
        return f"only kind {' or '.join(having)} has it, not {current}"
    if plain in [path for path, _ in known]:  # another form of the section has it
        return f"it cannot be combined with {', '.join(name for name in data if name != key[-1])}"
    around = [(path[-1], kinds) for path, kinds in known if path[:-1] == plain[:-1]]
    siblings = [str(name) for name, kinds in around if not kinds or current in kinds]
    close = difflib.get_close_matches(str(plain[-1]), siblings, 1)
    elsewhere = [dotted(path) for path, _ in known if path[-1] == plain[-1]]
    if close or elsewhere:
        return f"did you mean '{[*close, *elsewhere][0]}'?"
    return f"choose from {', '.join(dict.fromkeys(siblings))}"
