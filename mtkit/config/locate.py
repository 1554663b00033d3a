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

from pydantic import ValidationError

from mtkit.config.base import Key, Settings, dotted, error_message
from mtkit.config.parse import write_yaml
from mtkit.config.settings import Config
from mtkit.report import plural


@dataclass(frozen=True)
class Locations:
    """Where each setting of a config was written."""

    file: str
    lines: Mapping[Key, int]
    overrides: dict[Key, str] = field(default_factory=dict)

    def where(self, key: Key) -> str:
        """Return the override, or the file and line, where a setting (or its section) was set."""
        if not key:  # an error of the whole config
            return self.file
        # The last override counts; it may be for a section of the setting, or a part of it.
        for changed, option in reversed(self.overrides.items()):
            common = min(len(changed), len(key))
            if changed[:common] == key[:common]:
                return option
        for length in range(len(key), 0, -1):
            line = self.lines.get(key[:length])
            if line is not None:
                return f"{self.file}:{line}"
        return self.file


def describe_errors(error: ValidationError, data: dict[str, Any], locations: Locations) -> str:
    """Return the first error in one line, with the number of further errors."""
    messages: dict[Key, str] = {}
    details = error.errors(include_url=False)
    # A misspelt setting is often missing under its right name, too; the misspelling explains both,
    # so it comes first.
    details.sort(key=lambda detail: detail["type"] != "extra_forbidden")
    for detail in details:
        key = _key(detail, data)
        messages.setdefault(key, _message(detail, key, data))
    # A section with an error inside has errors of its own, for each other kind that it might be.
    sections: set[Key] = set()
    for key in messages:
        for length in range(len(key)):
            sections.add(key[:length])
    first, *others = [key for key in messages if key not in sections]
    setting = f"{dotted(first)}: " if first else ""
    more = f" (and {plural(len(others), 'more error')})" if others else ""
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
    if detail["type"] == "missing":  # so it is not in the data, either
        return (*key, detail["loc"][-1])
    return key


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
    return write_yaml(value, in_one_line=True).removesuffix("...\n").strip()


def _shown(value: Any) -> str:
    """Return the value as one line of YAML, shortened if it is long."""
    line = flow(value)
    return line if len(line) <= 60 else f"{line[:57]}..."


def setting_names() -> Iterator[tuple[Key, tuple[str, ...]]]:
    """Yield the key of every setting, with the kinds of its section that have it, if any."""
    for path, section in sections_by_path():
        kinds = kinds_of(section)
        for name in section.model_fields:
            yield (*path, name), kinds


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
    section = data
    for part in key[:-1]:
        section = section[part]
    kind = section.get("kind")
    # The names of settings contain no numbers, which stand for entries of lists.
    path = tuple(part for part in key if isinstance(part, str))

    is_known = False
    kinds_with_setting: list[str] = []
    siblings: list[str] = []  # settings that this section may have
    namesakes: list[str] = []  # settings of this name in other sections
    for known_path, known_kinds in setting_names():
        *_, known_name = known_path
        if known_path == path:
            is_known = True
            kinds_with_setting += known_kinds
        if known_path[:-1] == path[:-1] and (not known_kinds or kind in known_kinds):
            siblings.append(str(known_name))
        if known_name == path[-1]:
            namesakes.append(dotted(known_path))

    if kinds_with_setting:
        return f"only kind {' or '.join(kinds_with_setting)} has it, not {kind}"
    if is_known:  # another form of the section has it, such as a table instead of two texts
        other_names = [name for name in section if name != key[-1]]
        return f"it cannot be combined with {', '.join(other_names)}"
    close = difflib.get_close_matches(str(path[-1]), siblings, n=1)
    likely_names = close + namesakes
    if likely_names:
        return f"did you mean '{likely_names[0]}'?"
    return f"choose from {', '.join(dict.fromkeys(siblings))}"
