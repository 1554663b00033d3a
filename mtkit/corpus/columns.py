"""Recognise the columns of a table, and whether its first row is a header, from a sample of rows.

A header has names of languages or sides, a word above numbers, or up to 3 words above sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from unicodedata import category

from mtkit.config.language_codes import language_code, language_names

SIDES = ("source", "target", "src", "tgt", "trg", "text", "translation", "original", "reference")
"""Words that name a column of text; names of languages do so, too."""
MIN_SENTENCES, MIN_SENTENCES_SHARE = 3, 0.8
"""How many rows must follow a header of other words, and which share must be sentences."""

SampleRows = Sequence[Sequence[str]]
"""Rows of cells; blank rows are left out."""

_CODE = re.compile(r"[a-z]{2,3}([-_][a-z0-9]{2,4})*")
_IDENTIFIER = re.compile(r"[!-/:-~]*\d[!-~]*")
_BRACKETS = re.compile(r"\([^()]*\)")
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}\b[\s\w:.+-]{0,30}")


def find_texts(rows: SampleRows) -> list[int]:
    """Return the columns, from 0, that hold text rather than numbers, identifiers or labels."""
    return [at for at in range(len(rows[0]) if rows else 0) if _is_text(_below(rows, at))]


def has_header(rows: SampleRows, columns: Iterable[int]) -> bool:
    """Return whether the first row is a header; `columns`: the columns of source and target."""
    first = dict(enumerate(cell.strip() for cell in rows[0])) if rows else {}
    others = [(first[at], _below(rows, at)) for at in first.keys() - find_texts(rows)]
    read = [(first.get(at, ""), _below(rows, at)) for at in columns]
    return (
        all(is_column_name(cell) for cell, _ in read)
        or any(below and not re.search(r"\d", cell) and cell not in below for cell, below in others)
        or all(_is_title(cell, below) for cell, below in read)
    )


def is_column_name(cell: str) -> bool:
    """Return whether a cell is a language code such as pt-BR, or words such as "English text"."""
    name = _BRACKETS.sub("", cell).strip().lower()
    words, languages = re.findall(r"[^\W\d_]+", name), language_names()
    if _CODE.fullmatch(name) and language_code(name) in languages:
        return True
    return bool(words) and all(it in SIDES or (len(it) > 3 and it in languages) for it in words)


def _below(rows: SampleRows, at: int) -> list[str]:
    """Return the cells of column `at` below the first row; leave out blank cells."""
    return [row[at].strip() for row in rows[1:] if at < len(row) and row[at].strip()]


def _is_text(cells: list[str]) -> bool:
    """Return whether cells are text: not numbers, dates, identifiers, or a few repeated labels."""
    distinct = len(set(cells))
    is_number = not any(map(str.isalpha, "".join(cells))) or all(map(_DATE.fullmatch, cells))
    is_identifier = all(map(_IDENTIFIER.fullmatch, cells)) and distinct == len(cells)
    is_label = len(cells) > 2 and distinct <= max(1, len(cells) // 10)
    return len(cells) == 1 or not (is_number or is_identifier or is_label)


def _is_title(cell: str, below: list[str]) -> bool:
    """Return whether a cell has up to three words, and the cells below it are sentences."""
    name = _BRACKETS.sub("", cell).strip()
    words = len(name.split())
    sentences = sum(
        len(text.split()) > 2 * words or category(text[-1])[0] == "P" or len(text) > 3 * len(name)
        for text in below
    )
    is_short = words in (1, 2, 3) and category(name[-1])[0] != "P"
    return is_short and sentences >= max(MIN_SENTENCES, MIN_SENTENCES_SHARE * len(below))
