"""What a source and its translation begin with: target tags, and prefixes, which the user writes.

The model gets the subwords of a prefix, and continues them. Then the prefix is spelled again as
the user wrote it, because the vocabulary may spell it differently.

A target tag is a control symbol of the vocabulary. It joins the subwords of each part of a line
after all steps, so no step can divide, respell or copy it, and text that looks like it stays text.
In models such as NLLB, the symbol before a source tells its own language (`decoding.source_tag`),
and the translation begins with the tag.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from mtkit.config.target_tags import list_tags
from mtkit.corpus.text import in_one_line
from mtkit.decoding.text.line import Context, Line, Segment, normalised_prefix, without_surrogates
from mtkit.decoding.text.text import Edit, Text
from mtkit.errors import UserError
from mtkit.tokenizer.codec import Tokenizer


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


def find_symbols(line: Line, context: Context) -> tuple[list[int], list[int]]:
    """Return the language symbols that a line and its translation begin with, as ids.

    The tag is that of the line, or that of the request.

    Raises:
        UserError: the model has tags but the line has none, or a tag is unknown.
    """
    settings = context.request.settings
    tag = line.tag or settings.tag
    check_tag(tag, context.tokenizer)
    if settings.source_tag is not None:
        check_tag(settings.source_tag, context.tokenizer)
    return context.tokenizer.language_symbols(tag, settings.source_tag)


def check_tag(tag: str | None, tokenizer: Tokenizer) -> None:
    """Raise UserError unless the model has this tag; None is right for a model without tags."""
    if tag is None and not tokenizer.tags:
        return
    if tag is not None and tokenizer.find_tag(tag) is not None:
        return
    tags = sorted(tokenizer.tags)
    choices = list_tags(tags)
    if not tags:
        raise UserError(f"tag: this model has no target tags; leave out the tag {tag!r}")
    if tag is None:
        raise UserError(
            f"this model translates into several languages; choose one by its tag ({choices}): "
            f"--tag {tags[0]}, in Python tag={tags[0]!r}"
        )
    raise UserError(f"tag: {tag!r} is unknown to this model; choose from {choices}")
