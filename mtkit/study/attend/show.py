"""`mtkit attend`: attention between words, as a heat map in the terminal or as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import get_terminal_size

from mtkit.decoding.attention import AttentionMap, attention_maps
from mtkit.decoding.output import check_output, open_output
from mtkit.decoding.reading import Reader
from mtkit.errors import UserError
from mtkit.report import cell_width, data, fitted, plural, printable, say, styled
from mtkit.study.attend.page import make_page, page_content
from mtkit.study.attend.sentences import named_sentences, replace_invalid
from mtkit.study.attend.tree import search_tree

MIN_CELLS, MAX_LABEL_CELLS = 4, 18
"""Smallest width of a column, and largest width of a word, in terminal cells."""
FAINT = 0.005
"""For a smaller weight a cell shows a dot instead of 0 per cent."""


def attend(
    model: str | None = None,
    text: str | None = None,
    output: Path | None = None,
    *,
    target: str | None = None,
    subwords: bool = False,
    device: str = "auto",
) -> None:
    """Show the attention weights of the translation of `text`, or of each line of stdin.

    `target` replaces the model's translation; blank lines are left out. The heat map in the
    terminal shows cross-attention, averaged over layers and heads. The page `output` shows one
    sentence: every layer and head of every kind of attention, positional encodings, the learning
    rate of the run, and the beam search.

    Raises:
        UserError: `output` does not end in .html; see also `Reader.read`.
    """
    if output is not None and output.suffix.lower() != ".html":
        raise UserError(f"{output} is not the name of a page; choose one that ends in .html")
    if output is not None:
        check_output(output)
    reader = Reader.load(model, device)
    sentences = named_sentences(text)
    if text is None:
        sentences = (named for named in sentences if named[1].strip())
    if output is not None or target is not None:
        sentences = _only(list(sentences))
    for name, sentence in sentences:
        given = target and replace_invalid(target)
        reading = reader.read(sentence, given, name=name, subwords=subwords)
        if output is None:
            cross = attention_maps(reader, reading)["cross"]
            width = get_terminal_size().columns
            data(styled(draw_terminal(reading.translation, cross, width)))
            continue
        tree = search_tree(reader, reading.source_ids) if target is None else None
        content = page_content(sentence, reading, reader, tree)
        with open_output(output) as (file, _):
            file.write(make_page(content).encode())
        say(f"wrote {output}")
        data(f"{reading.translation}\n")


def _only(sentences: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    if len(sentences) != 1:
        raise UserError(
            f"{plural(len(sentences), 'sentence')} given; a page or a target needs exactly one"
        )
    return iter(sentences)


def draw_terminal(
    translation: str, heat_map: AttentionMap, width: int
) -> Iterator[tuple[str, str]]:
    """Yield (text, style) for the translation and the mean heat map, at most `width` cells wide."""
    labels = [fitted(word, MAX_LABEL_CELLS) for word in heat_map.queries]
    indent = max(map(cell_width, labels)) + 1
    yield f"{printable(translation)}\n\n", "bold"
    weights = heat_map.weights.mean(dim=(0, 1)).tolist()
    for block in _blocks(heat_map.keys, width - indent):
        words = (f"{word:^{cells - cell_width(word) + len(word)}}" for _, word, cells in block)
        yield f"{' ' * indent}{''.join(words)}".rstrip() + "\n", ""
        for label, row in zip(labels, weights, strict=True):
            yield " " * (indent - 1 - cell_width(label)) + f"{label} ", ""
            for key, _, cells in block:
                shown = "·" if row[key] < FAINT else f"{100 * row[key]:.0f}"
                yield f"{shown:^{cells}}", _style(row[key])
            yield "\n", ""
        yield "\n", ""
    yield "rows: target words; columns: source words\n", "dim"
    yield "attention weights in per cent, mean of all layers and heads\n\n", "dim"


def _blocks(words: Sequence[str], width: int) -> Iterator[list[tuple[int, str, int]]]:
    """Yield blocks of columns; a column is its number, word, and width in cells."""
    block: list[tuple[int, str, int]] = []
    for number, word in enumerate(words):
        word = fitted(word, max(1, min(MAX_LABEL_CELLS, width - 1)))
        cells = max(MIN_CELLS, cell_width(word) + 1)
        if block and sum(column[2] for column in block) + cells > width:
            yield block
            block = []
        block.append((number, word, cells))
    yield block


def _style(weight: float) -> str:
    """Return the colours of a cell: lighter grey for more attention; small weights differ more."""
    light = round(255 * weight**0.6)
    ink = "black" if light > 128 else "white" if weight >= FAINT else "grey62"
    return f"{ink} on rgb({light},{light},{light})"
