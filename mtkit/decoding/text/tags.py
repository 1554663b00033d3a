"""Target tags: the symbol before a text that tells the model what to translate into.

A tag is a control symbol of the source vocabulary. It joins the subwords of each part of a line
after all steps, so no step can split, respell or copy it, and text that looks like it stays text.
Nothing has to be removed from the translation, because a control symbol decodes to no text; only
word alignments must skip it.
"""

from __future__ import annotations

from mtkit.decoding.text.line import Context, Line
from mtkit.errors import UserError
from mtkit.tokenizer.codec import Tokenizer


def find_tag(line: Line, context: Context) -> int | None:
    """Return the id of the tag of a line: its own, or that of the request; None without tags.

    Raises:
        UserError: the model has tags but the line has none, or the tag is unknown.
    """
    tag = line.tag or context.request.settings.tag
    check_tag(tag, context.tokenizer)
    return None if tag is None else context.tokenizer.tags[tag]


def check_tag(tag: str | None, tokenizer: Tokenizer) -> None:
    """Raise UserError unless the model has this tag; None is right for a model without tags."""
    if tag in tokenizer.tags:
        return
    if tag is None and not tokenizer.tags:
        return
    tags = sorted(tokenizer.tags)
    choices = ", ".join(tags)
    if not tags:
        raise UserError(f"tag: this model has no target tags; leave out the tag {tag!r}")
    if tag is None:
        raise UserError(
            f"this model translates into several languages; choose one by its tag ({choices}): "
            f"--tag {tags[0]}, in Python tag={tags[0]!r}"
        )
    raise UserError(f"tag: {tag!r} is unknown to this model; choose from {choices}")
