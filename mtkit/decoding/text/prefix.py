"""Prefixes: text of the user with which a translation begins.

The model gets the subwords of the prefix, and continues them. Then the prefix is spelled again as
the user wrote it, because the vocabulary may spell it differently.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from mtkit.corpus.text import in_one_line
from mtkit.decoding.text.line import Context, Segment, normalised_prefix, without_surrogates
from mtkit.decoding.text.text import Edit, Text


def keep_prefix(segment: Segment, context: Context) -> list[Segment]:
    """Leave the text as it is; its translation begins with the prefix of the line."""
    prefix = normalised_prefix(segment.line)
    if not prefix:
        return [segment]
    (encoded,) = context.tokenizer.encode_target([prefix])
    encoded = encoded[: context.request.settings.max_length]
    if not encoded:
        return [segment]
    (spelling,) = context.tokenizer.decode([encoded])
    own = in_one_line(without_surrogates(segment.line.prefix)).strip()
    respell = partial(_respell, spelling=spelling, own=own)
    return [replace(segment, prefix=encoded, changes=(respell, *segment.changes))]


def _respell(translation: Text, *, spelling: str, own: str) -> Text:
    """Replace the spelling of the vocabulary by that of the user."""
    if not translation.string.startswith(spelling):
        return translation
    end = len(spelling)
    if len(own.split()) == len(spelling.split()):
        spelled = translation.slice(0, end).respell_words(own)
    else:
        spelled = Text.from_one(own, translation.origin[0])
    return translation.replace([Edit(0, end, spelled)])
