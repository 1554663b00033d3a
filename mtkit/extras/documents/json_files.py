"""JSON: every text is translated; of WebExtensions only messages; keys with an @ are metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from mtkit.extras.documents.units import DocumentError, TextUnit, unit_at

_TOKEN = re.compile(
    r"(?P<opens>[{\[])|(?P<closes>[}\]])|\"(?P<text>(?:[^\"\\]|\\.)*+)\"(?P<is_key>\s*:)?"
)
MESSAGE = "message"
"""The key of the text in each entry of a WebExtension."""


def read_json_texts(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each text that is a value.

    Raises:
        DocumentError: the document is not JSON, or nested too deeply.
    """
    try:
        content = json.loads(document)
    except RecursionError:
        raise DocumentError(0, "nested too deeply") from None
    except ValueError as error:
        raise DocumentError(getattr(error, "pos", 0), f"not JSON: {error}") from None
    is_extension = isinstance(content, dict) and all(map(_has_message, content.values()))
    ensure_ascii = document.isascii() and r"\u" in document

    def escape(text: str) -> str:
        return json.dumps(text, ensure_ascii=ensure_ascii)[1:-1]

    keys = [""]
    for token in _TOKEN.finditer(document):
        if token["opens"]:
            keys.append("")
        elif token["closes"]:
            keys.pop()
        elif token["is_key"]:
            keys[-1] = token["text"]
        else:
            is_metadata = any(key.startswith("@") for key in keys)
            is_message = len(keys) == 3 and keys[-1] == MESSAGE
            if is_message or not (is_metadata or is_extension):
                text = json.loads(f'"{token["text"]}"')
                yield unit_at(text, *token.span("text"), escape)


def _has_message(entry: object) -> bool:
    """Return whether this is an entry of a WebExtension."""
    return isinstance(entry, dict) and MESSAGE in entry
