"""Saying a meaning in both languages: the templates filled, and the words of the two aligned.

A template is a text with `{slot:form~keys}` where something is said, and `word~keys` for a word of
its own; each letter of `keys` ties it to the words of the other language with that letter. What
stands without a space behind a slot is attached to the word before it.
"""

import re
from typing import NamedTuple

from grammar import english, korean
from grammar.draw import Meaning
from grammar.meaning import Clause, NounPhrase, Word, suffixed, words
from grammar.numerals import cardinal, native, ordinal, sino

_ITEM = re.compile(r"(\s*)(?:\{(\w+):?([^~}]*)~?(\w*)\}|([^\s{}~]+)~?(\w*))")

_NUMERALS = {
    **{("en", ""): cardinal, ("en", "ordinal"): ordinal},
    **{("ko", ""): sino, ("ko", "native"): native},
}


class Pair(NamedTuple):
    """A sentence in both languages; `i-j` in its alignment says that word i is said by word j."""

    english: str
    korean: str
    alignment: str


def pair(meaning: Meaning) -> Pair:
    """The sentence that a meaning is, with its word alignment."""
    source, target = said(meaning, "en"), said(meaning, "ko")
    links = (
        f"{i}-{j}"
        for i, word in enumerate(source)
        for j, other in enumerate(target)
        if word.keys & other.keys
    )
    english, korean = (" ".join(word.text for word in side) for side in (source, target))
    return Pair(english[0].upper() + english[1:], korean, " ".join(links))


def said(meaning: Meaning, side: str) -> list[Word]:
    """The words of a meaning on one side, `en` or `ko`, with the keys of what they say."""
    out: list[Word] = []
    for space, slot, form, letters, text, own in _ITEM.findall(meaning.template[side]):
        glued = bool(out) and not space
        if text:
            out = suffixed(out, text, own) if glued else out + words(text, *own)
            continue
        host = out.pop() if glued else Word("")  # what a copula leans on
        filled = [word.under(slot) for word in _slot(meaning, slot, form, side, host.text)]
        if glued:
            filled[0] = Word(filled[0].text, filled[0].keys | host.keys)
        out += suffixed(filled, "", letters) if letters else filled
    return out


def _slot(meaning: Meaning, slot: str, form: str, side: str, host: str) -> list[Word]:
    """What stands in a slot; `host` is the word that a copula leans on."""
    value = meaning[slot]
    match value:
        case Meaning():
            return said(value, side)
        case int():
            return words(_NUMERALS[side, form](value), "count")
        case NounPhrase() if side == "en":
            return english.noun_phrase(value, form)
        case NounPhrase():
            return korean.noun_phrase(value, form, meaning.level)
        case Clause() if side == "en":
            return english.verb(meaning.clause(slot), form)
        case Clause():
            return korean.predicate(meaning.clause(slot), form, meaning.level, host)
    return []
