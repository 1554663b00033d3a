"""Prefixes: text of the user with which a translation begins.

The model gets the subwords of the prefix, and continues them. Then the prefix is spelled again as
the user wrote it, because the vocabulary may spell it differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mtkit.corpus.text import in_one_line
from mtkit.decoding.text.line import (
    Answer,
    Context,
    Line,
    Span,
    SplitSpan,
    join_answers,
    normalised_prefix,
    without_surrogates,
)
from mtkit.decoding.text.words import Words


def keep_prefixes(spans: Sequence[Span], context: Context) -> list[SplitSpan]:
    """Leave the spans as they are; their translations begin with the prefixes of their lines."""
    prefixes = [normalised_prefix(span.line) for span in spans]
    if not any(prefixes):
        return [SplitSpan([span]) for span in spans]
    max_length = context.request.settings.max_length
    encoded = [ids[:max_length] for ids in context.tokenizer.encode_target(prefixes)]
    spellings = context.tokenizer.decode(encoded)
    splits: list[SplitSpan] = []
    for number, span in enumerate(spans):
        if not encoded[number]:
            splits.append(SplitSpan([span]))
            continue
        respell = partial(_respell, spelling=spellings[number], line=span.line)
        splits.append(SplitSpan([span], respell, prefix=encoded[number]))
    return splits


def _respell(answers: Sequence[Answer], *, spelling: str, line: Line) -> Answer:
    """Replace the spelling of the vocabulary by that of the user."""
    answer = join_answers(answers)
    if not answer.text.startswith(spelling):
        return answer
    prefix = in_one_line(without_surrogates(line.prefix)).strip()
    text = prefix + answer.text[len(spelling) :]
    if not answer.links or not text.strip():
        return Answer(text)
    # The words keep their numbers, but not their offsets.
    before = Words(answer.text)
    after = Words(text)
    links = [(word, after.last_character(before.at(offset))) for word, offset in answer.links]
    return Answer(text, links)
