"""Target tags: the symbol before a text that tells the model what to translate into.

In models such as NLLB, the symbol before a text tells its own language (`decoding.source_tag`), and
the translation begins with the symbol of the target language.

A tag is a control symbol of the source vocabulary. It joins the subwords of each part of a line
after all steps, so no step can split, respell or copy it, and text that looks like it stays text.
Nothing has to be removed from the translation, because a control symbol decodes to no text; only
word alignments must skip it.
"""

from __future__ import annotations

from mtkit.config.target_tags import list_tags
from mtkit.decoding.text.line import Context, Line
from mtkit.errors import UserError
from mtkit.tokenizer.codec import Tokenizer


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
