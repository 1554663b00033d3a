"""Glossaries: terms in two or more languages, of which a model needs two."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import permutations
from operator import eq
from pathlib import Path

from mtkit.config.language_codes import short_code
from mtkit.corpus.characters import is_letter
from mtkit.corpus.columns import is_column_name
from mtkit.corpus.files import tell_once
from mtkit.corpus.text import is_blank, normalise
from mtkit.decoding.glossary import GLOSSARY, Direction, Glossary
from mtkit.errors import UserError
from mtkit.extras.terms.index import TermIndex, Terms
from mtkit.report import plural, say

COMMENT = "#"
"""Begins a row that is no entry."""
QUOTED_CELL = re.compile(r'"((?:[^"]|"")+)"')
"""A cell with quotes around it."""
HEADER_OF_SIDES = "source\ttarget"
"""The header of a glossary whose languages are unknown."""
TERM_SEPARATOR = "\u2028"
"""Stands between terms in a cell of a saved glossary; no term contains a line separator."""

Concept = Sequence[Terms]
"""Terms that mean the same, in each language of the glossary."""


class TermGlossary(Glossary):
    """Terms and their translations."""

    def __init__(
        self,
        concepts: Sequence[Concept],
        languages: Sequence[str | None] = (None, None),
        name: str = "",
    ) -> None:
        """Take concepts, whose terms are normalised.

        `languages`: the tags of the columns, if the file names them. `name`: how messages name the
        glossary.
        """
        self.languages = languages
        self.name = name
        self.concepts = concepts
        self._directed: dict[Direction, TermGlossary] = {}

    def __len__(self) -> int:
        return len(self.concepts)

    @cached_property
    def entries(self) -> Mapping[str, Terms]:
        """The translations of each term in the first column; none if it stays untranslated.

        The first translation is put in, but each of them will do.
        """
        targets_of: defaultdict[str, list[str]] = defaultdict(list)
        for sources, targets, *_ in self.concepts:
            for source in sources:
                targets_of[source] += targets
        entries: dict[str, Terms] = {}
        for source, all_targets in targets_of.items():
            distinct = tuple(dict.fromkeys(all_targets))
            entries[source] = () if distinct == (source,) else distinct
        return entries

    @cached_property
    def index(self) -> TermIndex:
        """What finds the terms in a text."""
        return TermIndex(self.entries)

    def directed(self, languages: Direction) -> TermGlossary:
        """Return the glossary with the columns of a model's source and target language.

        Raises:
            UserError: the glossary is for other languages.
        """
        if languages not in self._directed:
            self._directed[languages] = self._choose_columns(languages)
        return self._directed[languages]

    def _choose_columns(self, languages: Direction) -> TermGlossary:
        def count_agreements(columns: tuple[int, int]) -> tuple[int, int]:
            own = [self.languages[column] for column in columns]
            codes = sum(map(_agree, own, languages))
            tags = sum(map(eq, own, languages))
            return codes, tags

        # Of pairs of columns that agree equally well, the first.
        columns = max(permutations(range(len(self.languages)), 2), key=count_agreements)
        agreements, _ = count_agreements(columns)
        if agreements < 2:
            source, target = languages
            raise UserError(
                f"{self.name} has terms in {', '.join(map(str, self.languages))}, but the model "
                f"translates {source} to {target}; give another file, or correct its header"
            )
        if len(self.languages) == 2 and columns == (0, 1):
            return self
        chosen = self._select(*columns)
        names = " to ".join(map(str, chosen.languages))
        left_out = plural(len(self) - len(chosen), "row")
        tell_once(
            say,
            f"{self.name}: {plural(len(chosen), 'term')} to translate {names}; left out {left_out} "
            "that lack one of these languages",
        )
        return chosen

    def _select(self, first: int, second: int) -> TermGlossary:
        """Return a glossary of two columns.

        A term without translation stays untranslated only if the file has two columns: in others
        its translation is still missing.
        """
        concepts: list[Concept] = []
        for concept in self.concepts:
            sources = concept[first]
            targets = concept[second]
            if sources and targets:
                concepts.append((sources, targets))
            elif len(concept) == 2:
                concepts.append((sources or targets, ()))
        languages = (self.languages[first], self.languages[second])
        return TermGlossary(concepts, languages, self.name)

    @cached_property
    def digest(self) -> str:
        """The sha256 of the entries, in order."""
        return hashlib.sha256(self._content).hexdigest()

    def save(self, folder: Path) -> None:
        """Write the glossary into the folder of a model, where `load_terms` reads it."""
        (folder / GLOSSARY).write_bytes(self._content)

    @property
    def _content(self) -> bytes:
        """The glossary as a file in UTF-8, which `load_terms` reads as it is."""
        # Without a header, the first entry could look like one.
        header = HEADER_OF_SIDES
        if None not in self.languages:
            header = "\t".join(map(_heading, self.languages))
        rows = [header]
        for concept in self.concepts:
            cells = map(TERM_SEPARATOR.join, concept)
            rows.append("\t".join(map(_with_quotes, cells)))
        return "".join(f"{row}\n" for row in rows).encode()


def clean_terms(texts: Iterable[str]) -> Terms:
    """Return texts as corpora are normalised, without blank ones."""
    terms: list[str] = []
    for text in texts:
        term = normalise(text)
        if term and (is_letter(term[0]) or not is_blank(term)):
            terms.append(term)
    return tuple(terms)


def split_cell(cell: str) -> Terms:
    """Return the terms in a cell, each of which has its own line."""
    lines = cell.replace(TERM_SEPARATOR, "\n").split("\n")
    return clean_terms(lines)


def _agree(language: str | None, other: str | None) -> bool:
    """Return whether two languages are one, or one of them is unknown."""
    if language is None or other is None:
        return True
    return short_code(language) == short_code(other)


def _heading(language: str | None) -> str:
    """Return the tag of a language as the header of a table; a script makes a rare code clear."""
    assert language is not None
    if is_column_name(language):
        return language
    from langcodes import Language  # takes long to import

    return f"{language}-{Language.get(language).maximize().script}"


def _with_quotes(cell: str) -> str:
    """Return a cell in quotes if `load_terms` would take it for a comment, or for quoted."""
    looks_like_comment = cell.lstrip().startswith(COMMENT)
    if not (looks_like_comment or QUOTED_CELL.fullmatch(cell)):
        return cell
    quoted = cell.replace('"', '""')
    return f'"{quoted}"'
