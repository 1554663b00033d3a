"""Rules on the text of one pair alone: each says whether it is a fault.

They are made to accuse seldom: where two languages may rightly differ, they do not.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from html import unescape
from itertools import pairwise

from mtkit.corpus.characters import unspaced

LONGEST_WORD = 50
"""Characters: more are no word, unless a link, or of a script that writes without spaces."""
LONGEST_LOOP = 30
"""Words, or characters, of what is repeated."""
MOST_LOOPED = 2_000
"""Characters of a line, from its start, in which repetition is looked for."""

_LINK = re.compile(
    r"(?:https?://|www\.)[^\s<>\"'()（）]+"
    r"|[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}",
    re.IGNORECASE,
)
_PATH = re.compile(rf"\w/\w|\]\(|{_LINK.pattern}", re.IGNORECASE)
"""A link, a path of files, or a link as Markdown has it: as long as it has to be."""
_MAY_BE_MARKUP = re.compile(r"[<&{%\\|>]")
_MARKUP = re.compile(
    r"</?[A-Za-z][A-Za-z0-9]*(?:\s[^<>]*)?/?>|<!--|\\u[0-9a-fA-F]{4}|\{\{|\}\}"
    r"|\s>\s+\S.*\s>\s"  # a path of titles
)
_BAR = re.compile(r"(?<![\u0900-\u0dff])\s\|\s")
"""Between titles; after letters of India it ends a sentence."""
_ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
_PLACEHOLDER = re.compile(r"(?<![\d%])%(?:\d+\$)?[sd@]\b|\$?\{\w*\}")
_MARKED_LETTER = re.compile(r"[^\W\d_][^\w\s]*")
_NUMBERED = re.compile(r"^%\d+\$")
_DAMAGED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd\ue000-\uf8ff]")
_MAY_BE_MOJIBAKE = re.compile("[^\x00-\x7f]{2}|[ÂÃ]")
_BRACKETS = re.compile(r"[()\[\]（）［］【】]")
_OPENING = frozenset("([（［【")
_SMILEY = re.compile(r"[:;=8xX]['’]?-?[()\[\]]+|[()]-?[:;=]")
_LISTED = re.compile(r"^\s*\(?\w{1,3}\)")
QUOTES = '"“”„‟«»「」『』＂'
_CLOSING = " \t\"'“”„«»‹›’‘)]}）】］」』》*_"
QUESTION = "?？؟;՞፧⸮"
STATEMENT = ".。．｡!！…।॥|։።۔:：;；"


def glued(source: str, target: str) -> bool:
    """Whether a word is longer than words are, and does not stand in the other side, too."""
    return any(
        len(text) > LONGEST_WORD
        and any(
            len(word) > LONGEST_WORD
            and word not in other
            and not _PATH.search(word)
            and not unspaced(word)
            for word in text.split()
        )
        for text, other in ((source, target), (target, source))
    )


def links_differ(source: str, target: str) -> bool:
    """Whether one side has other links or addresses than the other; their languages may differ."""
    return _links(source) != _links(target)


def _links(text: str) -> Counter[str]:
    if "://" not in text and "@" not in text and "www." not in text.lower():
        return Counter()
    return Counter(map(_site, _LINK.findall(text)))


def _site(link: str) -> str:
    """An address, or the longest part of a host: de.wikipedia.org and en.wikipedia.org are one."""
    if "@" in link:
        return link.casefold().rstrip(".")
    host = re.split(r"[/?#:]", link.casefold().split("://")[-1])[0]
    found = re.match(r"[a-z0-9.-]+", host) or [host]  # other letters after it are of the sentence
    parts = found[0].removeprefix("www.").strip(".").split(".")
    return max(parts[:-1] or parts, key=len)


def markup(source: str, target: str) -> bool:
    """Tags, entities, escapes, paths of titles; or placeholders that only one side has."""
    for text in (source, target):
        if _MAY_BE_MARKUP.search(text) and (
            _MARKUP.search(text) or any(unescape(found) != found for found in _ENTITY.findall(text))
        ):
            return True
    bars = len(_BAR.findall(source)), len(_BAR.findall(target))
    if bars[0] != bars[1] and max(bars) > 1:
        return True
    return _placeholders(source) != _placeholders(target)


def _placeholders(text: str) -> list[str]:
    """What programs put something in the place of; %2$s is a %s whose place was changed."""
    if "%" not in text and "{" not in text:
        return []
    return sorted(_NUMBERED.sub("%", found) for found in _PLACEHOLDER.findall(text))


def mojibake(source: str, target: str) -> bool:
    """Text read in a wrong encoding, or with characters that stand for lost ones."""
    return any(
        not (text.isascii() and text.isprintable())
        and (_DAMAGED.search(text) or (_MAY_BE_MOJIBAKE.search(text) and _is_bad(text)))
        for text in (source, target)
    )


def _is_bad(text: str) -> bool:
    from ftfy.badness import is_bad

    return bool(is_bad(text))


def repetition(source: str, target: str) -> bool:
    """Whether one side says the same again and again, and the other does not say it twice."""
    ours, theirs = _units(source), _units(target)
    is_ours = _loops(ours)
    if is_ours == _loops(theirs):
        return False
    other = theirs if is_ours else ours
    return not any(one == following for one, following in pairwise(other))


def _units(text: str) -> list[str]:
    """Its words, or characters where it has no spaces between them, but for what ends them."""
    units = text[:MOST_LOOPED].casefold().split()
    if 10 * len(units) < len(text[:MOST_LOOPED]):
        units = _MARKED_LETTER.findall(text[:MOST_LOOPED])
    return [unit.strip(",.!?;:") for unit in units]


def _loops(units: list[str]) -> bool:
    """Whether the same stands there three times in a row, or one word or character four times."""
    if len(units) - len(set(units)) < 2:
        return False
    for length in range(1, min(len(units) // 3, LONGEST_LOOP) + 1):
        wanted, run = max(2 * length, 3), 0
        for one, later in zip(units, units[length:], strict=False):
            run = run + 1 if one == later else 0
            if run == wanted:
                return True
    return False


def copied(source: str, target: str) -> bool:
    """Whether the letters of both are the same, and more than a name."""
    ours, theirs = letters_of(source), letters_of(target)
    return ours == theirs and (len(ours) >= 10 or (len(ours) >= 6 and len(source.split()) > 1))


def letters_of(text: str) -> str:
    return "".join(filter(str.isalpha, text.casefold()))


def normalised(text: str) -> str:
    """What two lines have in common that differ in case, punctuation and spaces alone."""
    words = unicodedata.normalize("NFKC", text).casefold().translate(_WORDS_ALONE).split()
    return " ".join(words) or text


class _WordsAlone(dict[int, int]):
    """For `str.translate`: a space for each character that is of no word.

    The vowels of Hindi, Thai and others are marks, which are of words too, but for those that only
    choose between shapes of a character, as of emoji.
    """

    def __missing__(self, code: int) -> int:
        character = chr(code)
        is_mark = unicodedata.category(character)[0] == "M" and not 0xFE00 <= code <= 0xFE0F
        self[code] = code if character.isalnum() or character == "_" or is_mark else ord(" ")
        return self[code]


_WORDS_ALONE = _WordsAlone()


def brackets_differ(source: str, target: str) -> bool:
    """Whether one side has other brackets than the other, or stands in quotation marks alone."""
    return _bracketed(source) != _bracketed(target) or _quoted(source) != _quoted(target)


def _quoted(text: str) -> bool:
    """Whether all of the line is a quotation; speech may be marked otherwise."""
    text = text.strip()
    return text[:1] in QUOTES and text[-1:] in QUOTES and len(text) > 1


def _bracketed(text: str) -> tuple[int, int]:
    """Numbers of opening and closing brackets; smileys and numbers of lists are none."""
    if not _BRACKETS.search(text):
        return 0, 0
    found = _BRACKETS.findall(_SMILEY.sub("", _LISTED.sub("", text)))
    opening = sum(bracket in _OPENING for bracket in found)
    return opening, len(found) - opening


def ending(text: str) -> str:
    """How a line ends: as a question (?), a statement (.), or otherwise (-)."""
    last = text.rstrip(_CLOSING)[-1:]
    return "?" if last in QUESTION and last else "." if last in STATEMENT and last else "-"
