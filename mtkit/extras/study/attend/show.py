"""`mtkit attend`: attention between words, as a heat map in the terminal or as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size

from mtkit.artifacts.output import check_output, open_output
from mtkit.decoding.reading import AttentionMap, Reader, attention_maps
from mtkit.errors import UserError
from mtkit.extras.study.attend.page import make_page, page_content
from mtkit.extras.study.attend.sentences import named_sentences
from mtkit.report import cell_width, data, fitted, plural, printable, say, styled

MIN_CELLS = 4
"""Smallest width of a column, in terminal cells: three digits and a space."""
MAX_LABEL_CELLS = 18
"""Largest width of a word, in terminal cells."""
FAINT = 0.005
"""For a smaller weight a cell shows a dot instead of 0 per cent."""


def attend(
    model: str | None = None,
    text: str | None = None,
    output: Path | None = None,
    *,
    device: str = "auto",
    tag: str | None = None,
) -> None:
    """Show the attention weights of the translation of `text`, or of each line of stdin.

    Blank lines are left out. The heat map in the terminal shows cross-attention, averaged over
    layers and heads. The page `output` shows one sentence: every layer and head of every kind of
    attention, positional encodings, the learning rate of the run, and the beam search. `tag`:
    target tag, for a model of several languages.

    Raises:
        UserError: `output` does not end in .html; see also `Reader.read`.
    """
    if output is not None:
        if output.suffix.lower() != ".html":
            raise UserError(f"{output} is not the name of a page; choose one that ends in .html")
        check_output(output)
    reader = Reader.load(model, device, tag)
    sentences = named_sentences(text)
    if text is None:
        sentences = (named for named in sentences if named[1].strip())
    if output is None:
        width = get_terminal_size().columns
        for name, sentence in sentences:
            reading = reader.read(sentence, name=name)
            cross = attention_maps(reader, reading)["cross"]
            data(styled(draw_terminal(reading.translation, cross, width)))
        return
    given = list(sentences)
    if len(given) != 1:
        raise UserError(f"{plural(len(given), 'sentence')} given; a page needs exactly one")
    ((name, sentence),) = given
    reading = reader.read(sentence, name=name)
    content = page_content(sentence, reading, reader)
    with open_output(output) as (file, _):
        file.write(make_page(content).encode())
    say(f"wrote {output}")
    data(f"{reading.translation}\n")


def draw_terminal(
    translation: str, heat_map: AttentionMap, width: int
) -> Iterator[tuple[str, str]]:
    """Yield (text, style) for the translation and the mean heat map, at most `width` cells wide.

    Columns that do not fit side by side follow below, as further blocks. In a narrow terminal, a
    block is wider than `width` if a single column is.
    """
    labels = [fitted(word, MAX_LABEL_CELLS) for word in heat_map.queries]
    indent = max(map(cell_width, labels)) + 1
    # A row for each query; the mean is over layers and heads.
    weights = heat_map.weights.mean(dim=(0, 1)).tolist()
    yield f"{printable(translation)}\n\n", "bold"
    for block in _blocks(heat_map.keys, width - indent):
        header = " " * indent
        for column in block:
            # Formats count characters, but some characters take two cells, and others none.
            characters = column.cells - cell_width(column.word) + len(column.word)
            header += f"{column.word:^{characters}}"
        yield header.rstrip() + "\n", ""
        for label, row in zip(labels, weights, strict=True):
            margin = " " * (indent - 1 - cell_width(label))
            yield f"{margin}{label} ", ""
            for column in block:
                weight = row[column.key]
                shown = "·" if weight < FAINT else f"{100 * weight:.0f}"
                yield f"{shown:^{column.cells}}", _style(weight)
            yield "\n", ""
        yield "\n", ""
    yield "rows: target words; columns: source words\n", "dim"
    yield "attention weights in per cent, mean of all layers and heads\n\n", "dim"


@dataclass(frozen=True)
class _Column:
    """A column of a heat map: the number of its key, its word, and its width in cells."""

    key: int
    word: str
    cells: int


def _blocks(words: Sequence[str], width: int) -> Iterator[list[_Column]]:
    """Divide the columns into blocks of at most `width` cells, but with at least one column."""
    block: list[_Column] = []
    for key, word in enumerate(words):
        word = fitted(word, max(1, min(MAX_LABEL_CELLS, width - 1)))
        column = _Column(key, word, cells=max(MIN_CELLS, cell_width(word) + 1))
        taken = sum(other.cells for other in block)
        if block and taken + column.cells > width:
            yield block
            block = []
        block.append(column)
    yield block


def _style(weight: float) -> str:
    """Return the colours of a cell: a lighter grey for more attention.

    The exponent makes small weights differ more than large weights.
    """
    light = round(255 * weight**0.6)
    if light > 128:
        ink = "black"
    elif weight >= FAINT:
        ink = "white"
    else:
        ink = "grey62"  # the dot is paler than digits
    return f"{ink} on rgb({light},{light},{light})"
