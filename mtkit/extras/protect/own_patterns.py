"""Patterns of a project's own: `decoding.protect`.

They are matched by RE2, which pyarrow brings along: it takes linear time for every pattern and
text, and refuses what would take more, such as (?=a) and \\1.
https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

from collections.abc import Sequence

from mtkit.decoding.text.demands import MARK


def check_patterns(patterns: Sequence[str]) -> None:
    """Check the patterns of a config.

    Raises:
        ValueError: a text is no pattern of RE2, or matches the empty text.
    """
    for pattern in (*patterns, _any_of(patterns)):
        try:
            is_empty = bool(_surround("", pattern))
        except ValueError as error:
            raise ValueError(f"{error}; write a regular expression of RE2") from None
        if is_empty:
            raise ValueError(f"{pattern!r} matches the empty text, which stands everywhere")


def find_matches(text: str, patterns: Sequence[str]) -> list[tuple[int, int]]:
    """Return where the matches of the patterns begin and end, in order."""
    matches: list[tuple[int, int]] = []
    start = 0
    for number, part in enumerate(_surround(text, _any_of(patterns)).split(MARK)):
        end = start + len(part)
        is_match = number % 2 == 1
        if is_match and part:
            matches.append((start, end))
        start = end
    return matches


def _any_of(patterns: Sequence[str]) -> str:
    return "|".join(f"(?:{pattern})" for pattern in patterns)


def _surround(text: str, pattern: str) -> str:
    """Return the text with a mark on both sides of each match."""
    # Imported here, because it takes a third of a second, which most lines need not spend.
    import pyarrow
    from pyarrow.compute import replace_substring_regex

    surrounded: str = replace_substring_regex(
        pyarrow.scalar(text), pattern=pattern, replacement=f"{MARK}\\0{MARK}"
    ).as_py()
    return surrounded
