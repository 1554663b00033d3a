"""Laws of `Text`: it is a list of characters, each with its origin, whatever is done to it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mtkit.decoding.text.text import Edit, Text, concatenate, join_texts

Characters = list[tuple[str, int]]
"""The independent reference: characters and their origins."""


STRINGS = st.text("ab 犬。", max_size=8)


def text_of(string: str, start: int = 0) -> Text:
    """Return a text whose origins are not in order, as those of a translation."""
    return Text(string, [start - 2 * place for place in range(len(string))])


def characters_of(text: Text) -> Characters:
    return list(zip(text.string, text.origin, strict=True))


@given(STRINGS, st.integers(0, 9), st.integers(0, 9))
def test_slicing_and_cutting_are_those_of_lists(string: str, start: int, end: int) -> None:
    text = text_of(string)
    sliced = characters_of(text)[start:end]
    assert characters_of(text.slice(start, end)) == sliced
    while sliced and sliced[0][0].isspace():
        del sliced[0]
    while sliced and sliced[-1][0].isspace():
        del sliced[-1]
    assert characters_of(text.cut(start, end)) == sliced


@given(STRINGS, st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), STRINGS)))
def test_replacing_ranges_is_replacing_slices_of_a_list(
    string: str, ranges: list[tuple[int, int, str]]
) -> None:
    text = text_of(string)
    edits: list[Edit] = []
    last = 0
    for start, end, new in sorted(ranges):
        if last <= start <= end <= len(text):
            edits.append(Edit(start, end, text_of(new, start=99)))
            last = end
    characters = characters_of(text)
    for edit in reversed(edits):
        characters[edit.start : edit.end] = characters_of(edit.new)
    assert characters_of(text.replace(edits)) == characters


@given(STRINGS, st.data())
def test_every_piece_of_a_respelled_character_has_its_origin(
    string: str, data: st.DataObject
) -> None:
    text = text_of(string)
    size = len(text)
    pieces = data.draw(st.lists(st.text("xyz", max_size=3), min_size=size, max_size=size))
    expected: Characters = []
    for piece, (_, origin) in zip(pieces, characters_of(text), strict=True):
        expected += [(letter, origin) for letter in piece]
    assert characters_of(text.respell(pieces)) == expected


@given(st.lists(STRINGS))
def test_joining_adds_only_the_spaces_that_are_needed(strings: list[str]) -> None:
    parts = [text_of(string, start=number) for number, string in enumerate(strings)]
    everything: Characters = []
    for part in parts:
        everything += characters_of(part)
    assert characters_of(concatenate(parts)) == everything if parts else True
    expected: Characters = []
    for part in parts:
        ends = expected[-1:] + characters_of(part)[:1]
        is_close = all(letter in "犬。" for letter, _ in ends)
        if expected and part.string and not is_close:
            expected.append((" ", part.origin[0]))
        expected += characters_of(part)
    assert characters_of(join_texts(parts)) == expected


@given(st.text("ab 犬", max_size=9), st.integers(0, 9), st.integers(0, 9))
def test_characters_of_a_line_are_found_by_their_offsets(line: str, start: int, end: int) -> None:
    first, last = sorted((start, end))
    found = slice(*Text.of_line(line).find(first, last))
    assert line[found] == line[first:last]
