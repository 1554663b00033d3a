"""What chat clients put around a text: instructions, separators, numbers and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any

from mtkit.config.language_codes import is_language_code, is_language_name
from mtkit.corpus.files import tell_once
from mtkit.errors import UserError
from mtkit.report import say

PROMPTS = (
    # Subtitle Edit, all engines
    "Translate from {source} to {target}, *: {text}",
    # Immersive Translate, of a paragraph
    "Translate to {target} (output translation only): {text}",
    "Translate * to {target}, *: {text}",
    # PDFMathTranslate, and Immersive Translate before 2025
    "*Treat next line as plain text input and translate it into {target}, output*Input: {text}",
    "*Translate the following markdown source text to {target}. *"
    "Source Text: {text} Translated Text:",
    # Tools for SakuraLLM
    "将下面的日文文本翻译成中文：{text}",
    # What people write, Pot, and Immersive Translate of several paragraphs
    "Translate * from {source} to {target}: {text}",
    "Translate * into {target}: {text}",
    "Translate * to {target}: {text}",
    "Please translate * into {target}: {text}",
    "Please translate * to {target}: {text}",
)
"""Forms of a message: * stands for up to 200 characters but colons, a space for any white space.

For no characters, the space before * is not needed, either.
"""
# "Translate this letter to Anna to German" names one language.
_LANGUAGE = r"(?:(?!\s(?:from|to|into)\s)[^\n:]){1,40}?"
FIELDS = {
    "{source}": f"(?P<source>{_LANGUAGE})",
    "{target}": f"(?P<target>{_LANGUAGE})",
    # Without colons, because the text begins after one.
    " *": r"(?:\s[^:]{0,200}?)?",
    "*": r"[^:]{0,200}?",
    " ": r"\s+",
}
_FIELD = re.compile(r"(\{source\}|\{target\}| ?\*| )")
_WRAPPED = re.compile(r'"""(.*)"""|```(?:\w*\n)?(.*)```|<text>(.*)</text>', re.DOTALL)
"""A text in quotes, in a fence that may name a language, or in tags."""
_NUMBER = re.compile(r"[ \t]*[\[(<#]?(\d{1,6})[\])>.:|]+[ \t]+")
"""The number of an item, such as "1. " or "[1] "."""
_KEPT_LINE = re.compile(r"[\W\d_]*|\s*=+ ?\w+ ?=+\s*")
"""A line that is no text: a separator, such as %% or ==PART==, a number, or the time of a cue."""
MAX_INSTRUCTION = 1_000
"""Longest instruction; no time is spent on a longer one."""
TEXT_KEYS = frozenset(["text", "source", "content", "input"])
"""Keys of JSON objects that have the text; in an object without them, all values are texts."""
SLOT = "\ue000"
"""Stands for a text in JSON; a character for private use."""


@dataclass(frozen=True)
class ChatText:
    """The texts of a chat message, and what stands around them, there and in the answer."""

    texts: Sequence[str]
    literals: Sequence[str]
    """What stands before each text, and after the last one."""
    encode: Callable[[str], str] = str
    """Returns a text as it stands in the answer."""
    source: str = ""
    target: str = ""
    """Languages that the instruction names."""


def read_message(content: str, own_prompts: Sequence[str] = ()) -> ChatText:
    """Return the texts of a message: the values of its JSON, or its lines.

    If the message has the form of a prompt, they are those of the text in the prompt, and the
    instruction, which is left out, gives the languages.
    """
    stripped = content.strip()
    for prompt in (*own_prompts, *PROMPTS):
        before, after = compile_prompt(prompt)
        match = before.match(stripped[:MAX_INSTRUCTION])
        end = len(stripped) - len(after)
        if match is None or stripped[end:].lower() != after.lower():
            continue
        languages: dict[str, Any] = match.groupdict()
        if all(map(_is_language, languages.values())):  # else a text, such as "… to the left: …"
            text = _unwrap(stripped[match.end() : end].strip())
            found = _read_json(text) or _read_lines(text)
            return replace(found, **languages)
    items = _read_json(content)
    if items is None and "translat" in content[:MAX_INSTRUCTION].lower():
        tell_once(say, "a message with an unknown instruction is translated as it is; see --prompt")
    return items or _read_lines(content)


def _is_language(name: str) -> bool:
    plain = name.partition(" (")[0]
    return is_language_name(plain) or is_language_code(plain)


@cache
def compile_prompt(prompt: str) -> tuple[re.Pattern[str], str]:
    """Return the pattern of what stands before the text, and what stands after it.

    Raises:
        UserError: the text or another field does not stand in the prompt exactly once.
    """
    before, text, after = " ".join(prompt.split()).partition("{text}")
    try:
        parts = [FIELDS.get(part, re.escape(part)) for part in _FIELD.split(before)]
        pattern = re.compile("".join(parts), re.DOTALL | re.IGNORECASE)
    except re.error:  # a field stands there twice
        text = ""
    if not text or "{" in after or "*" in after:
        raise UserError(f"--prompt {prompt!r}: {{text}} must stand in it, after the other fields")
    return pattern, after.strip()


def _unwrap(text: str) -> str:
    """Return a text without the quotes, the fence or the tags around it."""
    match = _WRAPPED.fullmatch(text)
    return match[match.lastindex or 0].strip() if match else text


def _read_lines(text: str) -> ChatText:
    """Return a message with a text for each line; the numbers of items are no text."""
    lines = text.split("\n")
    numbers = [int(match[1]) for line in lines if (match := _NUMBER.match(line))]
    steps = {other - one for one, other in pairwise(numbers)}
    has_items = steps == {1}
    texts: list[str] = []
    literals: list[str] = []
    for line in lines:
        kept = _KEPT_LINE.fullmatch(line) or (has_items and _NUMBER.match(line))
        start = kept.end() if kept else 0
        texts.append(line[start:])
        literals.append(f"\n{line[:start]}")
    literals[0] = literals[0].removeprefix("\n")
    return ChatText(texts, [*literals, ""])


def _read_json(content: str) -> ChatText | None:
    """Return the texts of a JSON array or object; None if the content is not that."""
    if not content.lstrip().startswith(("[", "{")):
        return None
    source = target = ""
    texts: list[str] = []
    try:
        value = json.loads(content)
        match value:  # Weblate, which expects an array
            case {
                "source_language": str(source),
                "target_language": str(target),
                "strings": list(strings),
            }:
                value = [each["source"] for each in strings]
        answer = json.dumps(_take_texts(value, texts), ensure_ascii=False)
        "".join([answer, *texts]).encode()  # fails if there are halves of surrogate pairs
    except (ValueError, RecursionError, TypeError, KeyError):
        return None
    literals = answer.split(f'"{SLOT}"')
    if not texts or len(literals) != len(texts) + 1:
        return None
    return ChatText(texts, literals, partial(json.dumps, ensure_ascii=False), source, target)


def _take_texts(value: Any, texts: list[str]) -> Any:
    """Return a value of JSON with slots for its texts, which are added to `texts`."""
    if isinstance(value, str) and value.strip():
        texts.append(value)
        return SLOT
    if isinstance(value, list):
        return [_take_texts(each, texts) for each in value]
    if isinstance(value, dict):
        keys = value.keys() & TEXT_KEYS or value.keys()
        return value | {key: _take_texts(value[key], texts) for key in value if key in keys}
    return value
