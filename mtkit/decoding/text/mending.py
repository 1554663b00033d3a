"""Mend the placeholders of a translation: each stands there once, where it should.

A model may forget a placeholder, repeat it, or write one that its source lacks. What is left tells
where the others belong: their order in the source, and the signs that touch them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from mtkit.corpus.characters import is_space, is_word_character
from mtkit.decoding.text.line import Answer
from mtkit.decoding.text.sentences import UNSPACED
from mtkit.tokenizer.hints import HINT_SYMBOLS, PLACEHOLDERS

_SYMBOL = re.compile(f"[{''.join(HINT_SYMBOLS)}]")
_PLACEHOLDER = re.compile(f"[{''.join(PLACEHOLDERS)}]")
_OPENING = frozenset("([{<\"'`“”„‚‘")
_CLOSING = frozenset(")]}>\"'`“”‘’")
_END_SIGNS = ' .!?…,;:。！？।؟)]"”“’'
"""What may stand after the last word of a text."""
_NEVER_APART = frozenset(",.;)]")
"""Signs that stand directly after a word in every language."""


@dataclass(frozen=True)
class TagPair:
    """The placeholders of a tag and of the tag that ends it."""

    opening: str
    closing: str


def mend(answer: Answer, source: str, tags: Sequence[TagPair] = ()) -> Answer:
    """Return the answer with each placeholder of the source once, and no others.

    `source`: what the model has read, in which each placeholder stands once at most. `tags`: those
    of them that stand for tags in pairs, which come back in an order that is well-formed.
    """
    expected = _PLACEHOLDER.findall(source)
    if not expected:
        return drop_symbols(answer)
    answer, missing = _assign(answer, source, expected)
    for placeholder in missing:
        answer = _insert(answer, placeholder, source, expected)
    answer = _order_tags(answer, tags)
    for placeholder in expected:
        answer = _fit_spaces(answer, placeholder, source, tags)
    return answer


def drop_symbols(answer: Answer) -> Answer:
    """Return the answer without symbols of hints and placeholders."""
    symbols = [symbol.start() for symbol in _SYMBOL.finditer(answer.text)]
    return _drop(answer, symbols) if symbols else answer


def replace_characters(answer: Answer, pieces: Sequence[str]) -> Answer:
    """Return the answer with `pieces` in place of its characters; links stay at their words."""
    text = "".join(pieces)
    if not answer.links:
        return Answer(text)
    ends = list(accumulate(map(len, pieces)))
    return Answer(text, [(word, max(0, ends[offset] - 1)) for word, offset in answer.links])


def _replace(answer: Answer, start: int, end: int, new: str) -> Answer:
    """Return the answer with `new` in place of its characters from `start` to `end`."""
    text = answer.text[:start] + new + answer.text[end:]
    growth = len(new) - (end - start)
    last = max(0, start + len(new) - 1)
    links: list[tuple[int, int]] = []
    for word, offset in answer.links:
        if offset >= end:
            offset += growth
        elif offset >= start:
            offset = last
        links.append((word, offset))
    return Answer(text, links)


def _assign(answer: Answer, source: str, expected: Sequence[str]) -> tuple[Answer, list[str]]:
    """Leave each placeholder once in the answer; return it, and those that it lacks.

    A placeholder too many takes the place of a missing one.
    """
    found = [(match.start(), match[0]) for match in _PLACEHOLDER.finditer(answer.text)]
    if sorted(placeholder for _, placeholder in found) == sorted(expected):
        return answer, []
    spare = dict(found)
    missing: list[str] = []
    for placeholder in expected:
        own = [place for place, other in spare.items() if other == placeholder]
        if own:
            del spare[_find_best(own, answer.text, placeholder, source)]
        else:
            missing.append(placeholder)
    lacking: list[str] = []
    characters = list(answer.text)
    for placeholder in missing:
        if spare:
            place = _find_best(list(spare), answer.text, placeholder, source)
            characters[place] = placeholder
            del spare[place]
        else:
            lacking.append(placeholder)
    answer = replace_characters(answer, characters)
    return _drop(answer, list(spare)), lacking


def _drop(answer: Answer, places: Sequence[int]) -> Answer:
    """Return the answer without its characters at these places.

    Without needless spaces, and without brackets and quotes in which nothing is left.
    """
    text = answer.text
    characters = list(text)
    for place in places:
        start, end = place, place + 1
        if _is_enclosed(text, place):
            start, end = place - 1, place + 2
        has_space_before = start > 0 and text[start - 1] == " "
        following = text[end : end + 1]  # empty at the end of the text
        if has_space_before and following in ("", " ", *_NEVER_APART):
            start -= 1
        characters[start:end] = [""] * (end - start)
    first = next((number for number, character in enumerate(characters) if character), None)
    if first and characters[first] == " ":
        characters[first] = ""
    return replace_characters(answer, characters)


def _find_best(places: Sequence[int], text: str, placeholder: str, source: str) -> int:
    """Return the place in a translation that is most like that of a placeholder in the source.

    First of all, it is in brackets or quotes if the placeholder is; then, the nearest one is best.
    """
    source_place = source.index(placeholder)
    is_enclosed = _is_enclosed(source, source_place)
    expected = source_place * len(text) / len(source)
    return min(
        places,
        key=lambda place: (_is_enclosed(text, place) != is_enclosed, abs(place - expected)),
    )


def _is_enclosed(text: str, place: int) -> bool:
    """Return whether a character has a bracket or a quote on both sides."""
    before, after = _neighbours(text, place)
    return before in _OPENING and after in _CLOSING


def _neighbours(text: str, place: int) -> tuple[str, str]:
    """Return the characters on both sides of a character; at an end of the text, a space."""
    before = text[place - 1] if place else " "
    after = text[place + 1 : place + 2] or " "
    return before, after


def _insert(answer: Answer, placeholder: str, source: str, expected: Sequence[str]) -> Answer:
    """Insert a placeholder that the answer lacks."""
    text = answer.text
    place = source.index(placeholder)
    if _is_enclosed(source, place):
        # Empty brackets or quotes show where it was.
        before, after = _neighbours(source, place)
        empty = re.search(rf"{re.escape(before)} ?{re.escape(after)}", text)
        if empty:
            return _replace(answer, empty.start() + 1, empty.end() - 1, placeholder)
    start = _place_for(text, place, source, expected)
    new = placeholder
    if start > 0:
        preceding = text[start - 1]
        if not is_space(preceding) and not _is_close(preceding, _OPENING):
            new = f" {new}"
    if start < len(text) and _is_word(text[start]):
        new = f"{new} "
    return _replace(answer, start, start, new)


def _place_for(text: str, place: int, source: str, expected: Sequence[str]) -> int:
    """Return where a placeholder of the source, at `place` there, belongs in the translation."""
    before = source[:place]
    has_word_before = any(map(is_word_character, before)) or bool(_PLACEHOLDER.search(before))
    if not has_word_before:
        # At the start, but behind signs if the source has as many before the placeholder.
        first_word = re.search(r"\w", text)
        start = first_word.start() if first_word else len(text)
        return start if start <= place else 0
    is_last = not source[place + 1 :].strip(_END_SIGNS)
    if is_last:
        return len(text.rstrip(_END_SIGNS))
    return _place_between(text, place, source, expected)


def _place_between(text: str, place: int, source: str, expected: Sequence[str]) -> int:
    """Return the end of a word between the nearest placeholders on both sides, in proportion."""
    source_left, left = -1, -1
    source_right, right = len(source), len(text)
    for other in expected:  # from left to right in the source
        source_place = source.index(other)
        target_place = text.find(other)
        if target_place < 0:
            continue
        if source_place < place:
            source_left, left = source_place, target_place
        elif source_place > place:
            source_right, right = source_place, target_place
            break
    if right < left:  # the translation has them in another order
        right = len(text)
    share = (place - source_left) / (source_right - source_left)
    wanted = round(left + share * (right - left))
    if UNSPACED.search(text):
        ends = list(range(len(text) + 1))
    else:
        ends = [match.start() for match in re.finditer(r"(?<=\S)(?=\s|\Z)", text)]
    ends_between = [end for end in ends if left < end <= right]
    return min(ends_between, key=lambda end: abs(end - wanted), default=left + 1)


def _order_tags(answer: Answer, tags: Sequence[TagPair]) -> Answer:
    """Return the answer with its tags in the order of the source, if they are not well-formed."""
    if not tags:
        return answer
    closing = {pair.opening: pair.closing for pair in tags}
    placeholders = {*closing.keys(), *closing.values()}
    found = [match for match in _PLACEHOLDER.finditer(answer.text) if match[0] in placeholders]
    open_tags: list[str] = []
    is_well_formed = True
    for match in found:
        if match[0] in closing:
            open_tags.append(closing[match[0]])
        elif not open_tags or open_tags.pop() != match[0]:
            is_well_formed = False
            break
    if is_well_formed:
        return answer
    characters = list(answer.text)
    for match, placeholder in zip(found, sorted(placeholders), strict=True):
        characters[match.start()] = placeholder  # their numbers are in the order of the source
    return replace_characters(answer, characters)


def _fit_spaces(answer: Answer, placeholder: str, source: str, tags: Sequence[TagPair]) -> Answer:
    """Return the answer with spaces beside a placeholder as they are in the source."""
    before, after = _neighbours(source, source.index(placeholder))
    place = answer.text.index(placeholder)
    is_opening = any(placeholder == pair.opening for pair in tags)
    is_closing = any(placeholder == pair.closing for pair in tags)
    # First the side after the placeholder, so that its place stays.
    answer = _fit_space_after(answer, place, after, is_opening_tag=is_opening)
    return _fit_space_before(answer, place, before, is_closing_tag=is_closing)


def _fit_space_after(answer: Answer, place: int, after: str, *, is_opening_tag: bool) -> Answer:
    """Add or remove the space after a placeholder; `after`: what follows it in the source."""
    text = answer.text[place + 1 : place + 3]
    if _is_apart(after):
        needs_space = bool(text) and (_is_word(text[0]) or text[0] in "([")
        return _replace(answer, place + 1, place + 1, " ") if needs_space else answer
    if len(text) < 2 or text[0] != " ":
        return answer
    following = text[1]
    # Some languages have a space before these signs, whatever the source has.
    is_sign = not is_word_character(after) and after not in ":;!?%»"
    is_same = following == after and is_sign
    is_tagged_word = is_opening_tag and _is_word(after) and _is_word(following)
    are_closing = after in _CLOSING and following in _CLOSING
    if is_same or is_tagged_word or are_closing:
        return _replace(answer, place + 1, place + 2, "")
    return answer


def _fit_space_before(answer: Answer, place: int, before: str, *, is_closing_tag: bool) -> Answer:
    """Add or remove the space before a placeholder; `before`: what precedes it in the source."""
    text = answer.text[max(0, place - 2) : place]
    if _is_apart(before):
        needs_space = bool(text) and (_is_word(text[-1]) or text[-1] in ",;:)]")
        return _replace(answer, place, place, " ") if needs_space else answer
    if len(text) < 2 or text[1] != " ":
        return answer
    preceding = text[0]
    is_same = preceding == before and not is_word_character(before)
    is_tagged_word = is_closing_tag and _is_word(before) and _is_word(preceding)
    are_opening = before in _OPENING and preceding in _OPENING
    if is_same or is_tagged_word or are_opening:
        return _replace(answer, place - 1, place, "")
    return answer


def _is_apart(neighbour: str) -> bool:
    """Return whether a placeholder stands apart from its neighbour in the source."""
    return is_space(neighbour) or UNSPACED.match(neighbour) is not None


def _is_word(character: str) -> bool:
    """Return whether a placeholder beside this character needs a space."""
    if _PLACEHOLDER.match(character):
        return True
    return is_word_character(character) and not UNSPACED.match(character)


def _is_close(character: str, signs: frozenset[str]) -> bool:
    """Return whether no space belongs between a placeholder and this character."""
    return character in signs or UNSPACED.match(character) is not None
