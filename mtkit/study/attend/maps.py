"""Attention between words by layer and head, as a map in the terminal, a picture, or an HTML page.

A subword that begins with SentencePiece's space symbol begins a word. Scripts without spaces have
no such symbols: there every subword is a word. (Alignments are between words that white space
separates: `mtkit.decoding.sentences.Words`.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mtkit.decoding.forced import teacher_force
from mtkit.decoding.sentences import UNSPACED
from mtkit.errors import UserError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.report import cell_width, fitted, printable, say
from mtkit.study.picture import find_fonts, make_figure, save_picture
from mtkit.symbols import SPACE

AttentionKind = Literal["cross", "encoder", "decoder"]
"""Cross-attention, self-attention of the encoder, or masked self-attention of the decoder."""
SELF_NOTE = "A word may attend to itself: its later subwords attend to its earlier ones."
LEGENDS: dict[AttentionKind, tuple[str, str, str]] = {
    "cross": ("target words", "source words", ""),
    "encoder": ("source words", "source words", ""),
    "decoder": ("target words", "earlier target words", SELF_NOTE),
}
"""What queries and keys are, and a note."""
_BYTE = re.compile("<0x([0-9A-F]{2})>")
MIN_CELLS, MAX_LABEL_CELLS = 4, 18
"""Smallest width of a column, and largest width of a word, in cells of the terminal."""
FAINT = 0.005
"""Weight below which a cell shows a dot instead of 0 per cent."""
CELL_INCHES, SMALL_CELL_INCHES, MARGIN_INCHES = 0.24, 0.17, 1.0
"""Size of a word's cell, in a short sentence and in one of over SHORT words; of the labels."""
SHORT = 15
ALTERNATIVE = ", or write a page with --view html"
MIN_INCHES, PAGE_INCHES, MAX_INCHES = 1.8, 11.0, 40.0
"""Smallest size of a map; width of a row of maps that fits a page; largest height of all maps."""
TEMPLATE = Path(__file__).with_name("page.html")


Label = tuple[str, int]
"""A word or subword as it can be shown anywhere, and its number of subwords."""


def label_subwords(pieces: Sequence[str]) -> list[Label]:
    """Return every subword as a label of its own."""
    return [(printable(piece), 1) for piece in pieces]


def label_words(pieces: Sequence[str]) -> list[Label]:
    """Return the words that the subwords make up."""
    words: list[list[str]] = []
    for piece in pieces:
        if not words or piece.startswith(SPACE) or _ends_unspaced_word(words[-1], piece):
            words.append([])
        words[-1].append(piece)
    return [(printable(_spell(word)), len(word)) for word in words]


def word_numbers(labels: Sequence[Label]) -> list[int]:
    """Return the number of the word of each subword."""
    return [number for number, (_, count) in enumerate(labels) for _ in range(count)]


def _ends_unspaced_word(word: Sequence[str], piece: str) -> bool:
    return word != [SPACE] and bool(UNSPACED.match(word[-1][-1]) or UNSPACED.match(piece))


def _spell(pieces: Sequence[str]) -> str:
    matches = ((piece, _BYTE.fullmatch(piece)) for piece in pieces)
    raw = (bytes.fromhex(byte[1]) if byte else piece.encode() for piece, byte in matches)
    return b"".join(raw).decode(errors="replace").removeprefix(SPACE) or SPACE


@dataclass(frozen=True)
class HeatMap:
    """The attention of J queries (words) to I keys by layer and head; rows sum to 1."""

    kind: AttentionKind
    queries: list[str]
    keys: list[str]
    weights: Float[Tensor, "L H J I"]
    titles: Sequence[str] = ()
    """What each map shows, row by row, once maps are selected."""


@dataclass(frozen=True)
class MapSelection:
    """Which attention maps are shown, by numbers from 1; empty: all. `average`: their mean."""

    kind: AttentionKind = "cross"
    layers: Sequence[int] = ()
    heads: Sequence[int] = ()
    average: bool = False

    def select(self, maps: Mapping[AttentionKind, HeatMap]) -> HeatMap:
        """Return the selected maps; UserError if the model has no such attention, layer or head."""
        if self.kind not in maps:
            raise UserError(f"the model has no {self.kind} attention, only {', '.join(maps)}")
        weights = maps[self.kind].weights
        layers = _check_numbers("layer", self.layers, weights.shape[0])
        heads = _check_numbers("head", self.heads, weights.shape[1])
        weights = weights[[layer - 1 for layer in layers]][:, [head - 1 for head in heads]]
        titles = [f"layer {layer}, head {head}" for layer, head in product(layers, heads)]
        if self.average and len(titles) > 1:
            weights = weights.mean(dim=(0, 1), keepdim=True)
            titles = [f"mean of {_name('layer', layers)} and {_name('head', heads)}"]
        return replace(maps[self.kind], weights=weights, titles=titles)


def _name(name: str, numbers: Sequence[int]) -> str:
    return f"{name}{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _check_numbers(name: str, numbers: Sequence[int], count: int) -> Sequence[int]:
    every = range(1, count + 1)
    for number in numbers:
        if number not in every:
            raise UserError(f"{name} {number}: this attention has {_name(name, every)}")
    return numbers or every


@torch.inference_mode()
def attention_weights(
    model: EncoderDecoder, source: Int[Tensor, "1 S"], target: Int[Tensor, "1 T"]
) -> dict[AttentionKind, Float[Tensor, "L H Q K"]]:
    """Return the weights of every kind of attention that the model has, in float32 on the CPU.

    Both `source` and `target` end in EOS: there is a query for each symbol that is predicted.
    """
    memory, decoded = teacher_force(model, source, target, encoder=True)
    weights: dict[AttentionKind, Tensor | None] = {
        "cross": decoded.attention,
        "encoder": torch.stack(memory.attention, dim=1) if memory.attention else None,
        "decoder": decoded.self_attention,
    }
    return {kind: of[0].float().cpu() for kind, of in weights.items() if of is not None}


def draw_terminal(translation: str, heat_map: HeatMap, width: int) -> Iterator[tuple[str, str]]:
    """Yield the translation and the first map, as wide as `width` cells: text, and its style."""
    labels = [fitted(word, MAX_LABEL_CELLS) for word in heat_map.queries]
    indent = max(map(cell_width, labels)) + 1
    yield f"{printable(translation)}\n\n", "bold"
    weights = heat_map.weights[0, 0].tolist()
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
    queries, keys, note = LEGENDS[heat_map.kind]
    yield f"rows: {queries}; columns: {keys}\n", "dim"
    yield f"attention weights in per cent, {heat_map.titles[0]}\n{note}\n", "dim"


def _blocks(words: Sequence[str], width: int) -> Iterator[list[tuple[int, str, int]]]:
    """Yield the columns of each block: number, word and width in cells."""
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
    """Return ink on a shade of grey, which stretches small weights: more light, more attention."""
    light = round(255 * weight**0.6)
    ink = "black" if light > 128 else "white" if weight >= FAINT else "grey62"
    return f"{ink} on rgb({light},{light},{light})"


def _lay_out(layers: int, heads: int, words: Sequence[int]) -> tuple[int, int, float, float]:
    """Return rows and columns of maps of (queries, keys), and height and width of one in inches."""
    inches = SMALL_CELL_INCHES if max(words) > SHORT else CELL_INCHES
    height, width = (max(MIN_INCHES, inches * count) for count in words)
    fitting = (n for n in range(2, heads + 1) if heads % n == 0 and n * width <= PAGE_INCHES)
    columns = max(fitting, default=1)
    rows = layers * heads // columns
    return rows, columns, min(height, MAX_INCHES / rows), min(width, MAX_INCHES)


def draw_picture(title: str, heat_map: HeatMap, path: Path) -> None:
    """Write a .png or .svg file with a map for each head, in as many rows per layer as they need.

    A message names the options that show less if the words of so many maps are too small to read.
    """
    layers, heads, *shape = heat_map.weights.shape
    rows, columns, height, width = _lay_out(layers, heads, shape)
    cell, is_long = min(height / shape[0], width / shape[1]), max(shape) > SHORT
    if cell < SMALL_CELL_INCHES:
        say(f"{path}: the words are small; show fewer maps with --layer, --head or --average")
    margins = MARGIN_INCHES * (rows if is_long else 1)  # for the keys
    page = (columns * width + 2 * MARGIN_INCHES, rows * height + margins + 0.5)
    drawn, panels = make_figure(width=page[0], height=page[1], rows=rows, columns=columns)
    shown = "".join([title, *heat_map.queries, *heat_map.keys])
    font: dict[str, Any] = {"parse_math": False, "fontfamily": find_fonts(shown, ALTERNATIVE)}
    words = font | {"fontsize": min(9.0, 0.75 * 72 * cell)}
    all_keys, all_queries = (
        [fitted(word, MAX_LABEL_CELLS) for word in edge]
        for edge in (heat_map.keys, heat_map.queries)
    )
    weights = heat_map.weights.flatten(0, 1).numpy()  # (L·H, J, I)
    for index, (panel, name) in enumerate(zip(panels, heat_map.titles, strict=True)):
        image = panel.imshow(weights[index], cmap="Blues", vmin=0, vmax=1, aspect="auto")
        panel.grid(visible=False)
        panel.set_title(name, fontsize=9)
        # Words stand along the edges of the picture; those of a long sentence below each row.
        keys = all_keys if index >= len(panels) - columns or is_long else []
        queries = all_queries if index % columns == 0 else []
        panel.set_xticks(range(len(keys)), keys, rotation=90, **words)
        panel.set_yticks(range(len(queries)), queries, **words)
        panel.tick_params(length=0)
    queries_name, keys_name, note = LEGENDS[heat_map.kind]
    drawn.suptitle(fitted(printable(title), int(10 * page[0])), fontsize=10, **font)
    drawn.supylabel(f"queries: {queries_name}", fontsize=9)
    notes = f"{heat_map.queries[-1]}: the end of the sentence. {note}"
    drawn.supxlabel(f"keys: {keys_name}\n{notes}", fontsize=9, parse_math=False)
    shrink = min(1, 3 / rows / height)
    drawn.colorbar(image, ax=panels, label="attention weight", fraction=0.05, shrink=shrink)
    save_picture(drawn, path)


def make_page(text: str, translation: str, maps: Mapping[AttentionKind, HeatMap]) -> str:
    """Return a self-contained HTML page, which needs no network."""
    kinds = [
        {
            "title": "encoder-decoder" if kind == "cross" else kind,
            "queries": heat_map.queries,
            "keys": heat_map.keys,
            "weights": heat_map.weights.double().round(decimals=3).tolist(),
        }
        for kind, heat_map in maps.items()
    ]
    content = {"source": text, "translation": translation, "kinds": kinds}
    # "</script>" in a sentence would end the script that holds the data.
    encoded = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
    return TEMPLATE.read_text(encoding="utf-8").replace("DATA", encoded, 1)
