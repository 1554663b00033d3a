"""Target tags: names that tell a model of several languages what to translate into.

Johnson et al. 2017: each source begins with a symbol for the language of its target. Users name it
by a short word, mostly the code of the language; the vocabulary has it as a piece such as <2yor>.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator

MAX_TAG_CHARACTERS = 40
MAX_SHOWN_TAGS = 20
"""Number of target tags that a message names."""
_SPELLINGS = (re.compile("<2(.+)>"), re.compile("<(.+)>"), re.compile(">>(.+)<<"))
"""How people write the tag yor besides yor: <2yor>, <yor>, and >>yor<< in OPUS-MT."""
_NAME = re.compile(r"\w[\w.-]*")
_PIECE = re.compile(r"<2(\w[\w.-]*)>")


def standard_tag(text: str) -> str:
    """Return the name of a target tag: yor for yor, <2yor>, <yor> and >>yor<<.

    Raises:
        ValueError: the text cannot be the name of a tag.
    """
    # A longer text is not a tag; the cut bounds the time of the patterns.
    name = text.strip()[: MAX_TAG_CHARACTERS + len(">><<") + 1]
    for spelling in _SPELLINGS:
        match = spelling.fullmatch(name)
        if match is not None:
            name = match[1]
            break
    if len(name) > MAX_TAG_CHARACTERS or not _NAME.fullmatch(name):
        raise ValueError(f"expected a short name, such as yor or <2yor>, found {text[:60]!r}")
    return name


def piece_of_tag(name: str) -> str:
    """Return the piece of the vocabulary for the tag `name`: <2yor> for yor."""
    return f"<2{name}>"


def tag_in_piece(piece: str) -> str | None:
    """Return the name of the tag that a control symbol of a vocabulary stands for, if any."""
    match = _PIECE.fullmatch(piece)
    return match[1] if match else None


def list_tags(tags: Iterable[str]) -> str:
    """Return tags in alphabetical order, for messages; some models have hundreds."""
    names = sorted(tags)
    shown = ", ".join(names[:MAX_SHOWN_TAGS])
    more = len(names) - MAX_SHOWN_TAGS
    return f"{shown} and {more:,} more" if more > 0 else shown


TargetTag = Annotated[str, AfterValidator(standard_tag)]
"""A tag in any spelling, which `standard_tag` replaces by its name."""
