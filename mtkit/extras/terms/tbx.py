"""Read termbases (`.tbx`, ISO 30042): entries that have terms in several languages.

Versions 2 and 3 are read, in all dialects. A document type is accepted, but never loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mtkit.config.language_codes import find_language
from mtkit.corpus.files import PACKING_ERRORS, open_existing, unpack
from mtkit.errors import UserError
from mtkit.extras.terms.glossary import Concept, TermGlossary, clean_terms
from mtkit.extras.terms.index import Terms

ENTRIES = ("{*}termEntry", "{*}conceptEntry")
SECTIONS = ("{*}langSet", "{*}langSec")
GROUPS = ("{*}tig", "{*}ntig", "{*}termSec")
STATUSES = ("administrativeStatus", "normativeAuthorization")
"""What says whether a term may be used: the type of a note, or the name of an element."""
STATUS_ELEMENTS = ("{*}termNote", "{*}administrativeStatus", "{*}normativeAuthorization")
FORBIDDEN = ("deprecated", "superseded", "obsolete", "forbidden")
"""How the status of a term begins that nobody shall use."""
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
"""The attribute xml:lang, as lxml names it."""


def read_termbase(path: str) -> TermGlossary:
    """Read a termbase. Of each language, preferred terms come first; forbidden ones are left out.

    Raises:
        UserError: the file is damaged or not TBX, or has not two languages.
    """
    entries = [terms for terms in _read_entries(path) if len(terms) > 1]
    if not entries:
        raise UserError(f"{path}: no entry has terms in two languages; export it again as TBX")
    languages: dict[str, None] = {}
    for terms in entries:
        languages |= dict.fromkeys(terms)
    concepts: list[Concept] = []
    for terms in entries:
        concepts.append([terms.get(language, ()) for language in languages])
    return TermGlossary(concepts, list(languages), path)


def _read_entries(path: str) -> Iterator[dict[str, Terms]]:
    """Yield the terms of each entry, by their languages."""
    from lxml.etree import XMLSyntaxError, iterparse

    with open_existing(path) as file:
        packing, content = unpack(file, path)
        try:
            # libxml2 refuses entities that expand to much text.
            for _, entry in iterparse(content, tag=ENTRIES, resolve_entities="internal"):
                yield _read_entry(entry)
                entry.clear()
        except XMLSyntaxError as error:
            problem = f"{path}:{error.lineno or 1}: not XML ({error.msg})"
            raise UserError(f"{problem}; export it again as TBX") from None
        except PACKING_ERRORS as error:
            raise UserError(f"{path}: the {packing} data is damaged ({error})") from None


def _read_entry(entry: Any) -> dict[str, Terms]:
    terms: dict[str, Terms] = {}
    for section in entry.iter(*SECTIONS):
        language = find_language(section.get(LANGUAGE) or section.get("lang") or "")
        if language is None:
            continue
        preferred: list[str] = []
        others: list[str] = []
        for group in section.iter(*GROUPS):
            status = _status_of(group)
            if status.startswith(FORBIDDEN):
                continue
            words = preferred if status.startswith("preferred") else others
            for term in group.iter("{*}term"):
                words.append("".join(term.itertext()))
        cleaned = clean_terms([*preferred, *others])
        if cleaned:
            terms[language] = cleaned
    return terms


def _status_of(group: Any) -> str:
    """Return whether a term may be used, such as "deprecatedTerm-admn-sts"; "" if it is unknown."""
    for note in group.iter(*STATUS_ELEMENTS):
        if note.get("type", STATUSES[0]) in STATUSES:
            return note.get("value") or note.text or ""
    return ""
