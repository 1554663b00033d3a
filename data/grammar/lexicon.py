"""The words of `lexicon.yaml`: nouns by category, predicates by group."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from grammar.conjugation import Stem
from grammar.english import with_s
from grammar.meaning import Noun, Predicate

Entry = TypeVar("Entry", Noun, Predicate)
_TABLES = yaml.safe_load((Path(__file__).parent / "lexicon.yaml").read_text(encoding="utf-8"))
_NOUN = re.compile(r"([^/:=]+)/?([^:=]*):?(.*)=([^/]*)/?(.*)")


def _nouns(group: str, words: str, **features: Any) -> Iterable[Noun]:
    """Entries `english/plural:pronoun=korean/familiar`."""
    for entry in words.split():
        english, plural, pronoun, korean, familiar = _NOUN.findall(entry.replace("_", " "))[0]
        said = (english, plural or with_s(english), pronoun or "it", korean, familiar or korean)
        yield Noun(*said, group, **features)


def _predicate(
    kind: str, en: str, ko: str, objects: str = "", places: str = "", **stems: str
) -> Predicate:
    """A row of a table: `춥/ㅂ` is an irregular stem, `키가_크` one with its prefix."""

    def stem(text: str) -> Stem:
        root, _, irregular = text.partition("/")
        return Stem(root, irregular, quality=kind != "verb")

    english, *forms = (form.replace("_", " ") for form in en.split())
    prefix, _, root = ko.rpartition("_")
    said = (english, tuple(forms), prefix, stem(root))
    others: Any = {name: stem(text) for name, text in stems.items()}
    return Predicate(*said, kind, named(NOUNS, objects), named(NOUNS, places), **others)


def _by_name(groups: dict[str, list[Entry]]) -> dict[str, list[Entry]]:
    """The groups; under English words that are no group, the first entry of that word."""
    entries = [entry for group in groups.values() for entry in group]
    return {entry.english.replace(" ", "_"): [entry] for entry in reversed(entries)} | groups


def named(table: dict[str, list[Entry]], names: str) -> list[Entry]:
    """The entries of these groups, or with these English words."""
    return [entry for name in names.split() for entry in table[name]]


NOUNS = _by_name({row["group"]: list(_nouns(**row)) for row in _TABLES["nouns"]})
PREDICATES = _by_name(
    {
        group: [_predicate(kind, **row) for row in rows]
        for kind, groups in _TABLES["predicates"].items()
        for group, rows in groups.items()
    }
)
