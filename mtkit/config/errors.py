"""What is wrong with a config, in one line: where it was written, what was found, what to do.

pydantic locates an error by the path of the setting, mixed with tags of union members; here that
path is led back to a line of the file or to an override, and the likely right name is looked up.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, get_args

import yaml
from pydantic import ValidationError

from mtkit.config.base import Key, Settings, complaint_of, dotted
from mtkit.config.settings import LEFT, Config

POWER = re.compile(r"\d+(\.\d+)?[eE]\+?\d+$")
"""A number as 1e5, which YAML 1.1 takes for text."""


@dataclass(frozen=True)
class Origin:
    """Where each setting was written."""

    name: str
    lines: Mapping[Key, int]
    overrides: dict[Key, str] = field(default_factory=dict)
    is_demo: bool = False
    """Whether nobody named these settings."""

    def where(self, key: Key) -> str:
        for changed, option in reversed(self.overrides.items()):
            common = min(len(changed), len(key))
            if key and changed[:common] == key[:common]:
                return option
        while key and key not in self.lines:
            key = key[:-1]
        return f"{self.name}:{self.lines[key]}" if key else self.name


def explain(error: ValidationError, data: dict[str, Any], origin: Origin) -> str:
    """The first complaint in one line, with the number of the others."""
    complaints: dict[Key, str] = {}
    details = error.errors(include_url=False)
    # A misspelt setting is often missing under its right name too: the misspelling explains both.
    for detail in sorted(details, key=lambda detail: detail["type"] != "extra_forbidden"):
        key = _key(detail, data)
        complaints.setdefault(key, _complaint(detail, key, data))
    above = {key[:length] for key in complaints for length in range(len(key))}
    first, *others = [key for key in complaints if key not in above]
    setting = f"{dotted(first)}: " if first else ""
    more = f" (and {len(others)} more error{'s' if len(others) > 1 else ''})" if others else ""
    return f"{origin.where(first)}: {setting}{complaints[first]}{more}"


def _key(detail: Mapping[str, Any], data: Any) -> Key:
    """The setting a complaint is about: pydantic's location without the tags of union members."""
    key: Key = ()
    for part in detail["loc"]:
        with suppress(LookupError, TypeError):  # tags of union members are in no data
            data = data[part]
            key = (*key, part)
    if detail["type"].startswith("union_tag") and isinstance(data, dict):
        return (*key, "kind")
    return (*key, detail["loc"][-1]) if detail["type"] == "missing" else key


def _complaint(detail: Mapping[str, Any], key: Key, data: dict[str, Any]) -> str:
    kind = detail["type"]
    if kind == "extra_forbidden":
        return f"unknown setting; {_suggestion(key, data)}"
    if kind == "missing":
        return "missing, and there is no default for it"
    if kind == "union_tag_invalid":
        context = detail["ctx"]
        return f"expected {context['expected_tags']}, found {context['tag']!r}"
    hint = ": text such as no or 12 needs quotes" if kind == "string_type" else ""
    if kind == "int_parsing" and POWER.match(str(detail["input"])):
        hint = ": write all of its digits"
    return complaint_of(detail, _shown) + hint


def flow(value: Any) -> str:
    """The value as a line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
    return str(text).removesuffix("...\n").strip()


def _shown(value: Any) -> str:
    """The value as a line of YAML, cut where it is long."""
    try:
        line = flow(value)
    except ValueError:  # Python writes no integer of over 4,300 digits
        return "a number of thousands of digits"
    return line if len(line) <= 60 else f"{line[:57]}..."


def names(
    settings: type[Settings] = Config, parent: Key = ()
) -> Iterator[tuple[Key, tuple[str, ...]]]:
    """Every setting there is, and the kinds of section that have it, where there are several."""
    for name, info in settings.model_fields.items():
        yield (*parent, name), kinds_of(settings)
        for section in sections(info.annotation):
            yield from names(section, (*parent, name))


def kinds_of(section: type[Settings]) -> tuple[str, ...]:
    """What `kind` may be in such a section; empty where it comes in one kind."""
    field = section.model_fields.get("kind")
    return get_args(field.annotation) if field else ()


def sections(annotation: Any) -> Iterator[type[Settings]]:
    """Every class of settings that a setting of this type may hold."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        yield annotation
    for member in get_args(annotation):
        yield from sections(member)


def _suggestion(key: Key, data: Any) -> str:
    """What an unknown setting was probably meant to be."""
    section, name = key[:-1], key[-1]
    if section == ("training",) and name in LEFT:
        return LEFT[str(name)][1]
    for part in key[:-1]:
        data = data[part]
    here = data.get("kind")
    plain = tuple(part for part in key if isinstance(part, str))
    known = list(names())
    if having := [kind for path, kinds in known if path == plain for kind in kinds]:
        return f"kind {' or '.join(having)} has it, {here} has not"
    if plain in [path for path, _ in known]:  # of a section that has other keys
        return f"it does not go with {', '.join(name for name in data if name != key[-1])}"
    around = [(path[-1], kinds) for path, kinds in known if path[:-1] == plain[:-1]]
    siblings = [str(name) for name, kinds in around if not kinds or here in kinds]
    close = difflib.get_close_matches(str(plain[-1]), siblings, 1)
    elsewhere = [dotted(path) for path, _ in known if path[-1] == plain[-1]]
    if close or elsewhere:
        return f"did you mean '{[*close, *elsewhere][0]}'?"
    return f"known here: {', '.join(dict.fromkeys(siblings))}"
