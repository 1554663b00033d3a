"""`mtkit attend`: attention between words, as a heat map in the terminal or as an HTML page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mtkit.decoding.alignment import merge
from mtkit.decoding.output import check_output, open_output
from mtkit.decoding.search.forced import check_attention, teacher_force
from mtkit.errors import UserError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.report import cell_width, data, fitted, plural, printable, say, styled
from mtkit.study.attend.reading import (
    OVERFLOW,
    Label,
    Reader,
    Reading,
    label_subwords,
    named_sentences,
    replace_invalid,
    word_numbers,
)
from mtkit.symbols import BOS, EOS

AttentionKind = Literal["cross", "encoder", "decoder"]
"""Cross-attention, self-attention of the encoder, or masked self-attention of the decoder."""
MIN_CELLS, MAX_LABEL_CELLS = 4, 18
"""Smallest width of a column, and largest width of a word, in terminal cells."""
FAINT = 0.005
"""For a smaller weight a cell shows a dot instead of 0 per cent."""
TEMPLATE = Path(__file__).with_name("page.html")


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
    sentence, with every layer and head of every kind of attention.

    Raises:
        UserError: `output` does not end in .html; see also `Reader.read`.
    """
    if output is not None and output.suffix.lower() != ".html":
        raise UserError(f"{output} is not the name of a page; choose one that ends in .html")
    if output is not None:
        check_output(output)
    reader = Reader.load(model, device, subwords=subwords)
    sentences = named_sentences(text)
    if text is None:
        sentences = (named for named in sentences if named[1].strip())
    if output is not None or target is not None:
        sentences = _only(list(sentences))
    for name, sentence in sentences:
        reading = reader.read(sentence, target and replace_invalid(target), name=name)
        maps = heat_maps(reader, reading)
        if output is None:
            width = get_terminal_size().columns
            data(styled(draw_terminal(reading.translation, maps["cross"], width)))
            continue
        with open_output(output) as (file, _):
            file.write(make_page(sentence, reading.translation, maps).encode())
        say(f"wrote {output}")
        data(f"{reading.translation}\n")


def _only(sentences: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    if len(sentences) != 1:
        raise UserError(
            f"{plural(len(sentences), 'sentence')} given; a page or a target needs exactly one"
        )
    return iter(sentences)


@dataclass(frozen=True)
class HeatMap:
    """The attention of J queries (words) to I keys, by layer and head; rows sum to 1."""

    queries: list[str]
    keys: list[str]
    weights: Float[Tensor, "L H J I"]


def heat_maps(reader: Reader, reading: Reading) -> dict[AttentionKind, HeatMap]:
    """Return the attention weights by kind; UserError if the model has none."""
    model = reader.model
    check_attention(model)
    begin, end = (label_subwords([it]) for it in reader.tokenizer.target_pieces([BOS, EOS]))
    source, target, before = reading.source + end, reading.target + end, begin + reading.target
    axes: dict[AttentionKind, tuple[list[Label], list[Label]]]
    axes = {"cross": (target, source), "encoder": (source, source), "decoder": (target, before)}
    ids = (reading.source_ids, reading.target_ids)
    ended = (torch.tensor([[*side, EOS]], device=model.device) for side in ids)
    maps: dict[AttentionKind, HeatMap] = {}
    for kind, weights in attention_weights(model, *ended).items():
        merged = merge(weights.numpy(), *map(word_numbers, axes[kind]))
        queries, keys = ([text for text, _ in labels] for labels in axes[kind])
        maps[kind] = HeatMap(queries, keys, torch.from_numpy(merged))
    return maps


@torch.inference_mode()
def attention_weights(
    model: EncoderDecoder, source: Int[Tensor, "1 S"], target: Int[Tensor, "1 T"]
) -> dict[AttentionKind, Float[Tensor, "L H Q K"]]:
    """Return the weights of every kind of attention that the model has, in float32 on the CPU.

    Both `source` and `target` end in EOS. The decoder has one query for each predicted symbol.

    Raises:
        UserError: a weight is not finite.
    """
    memory, decoded = teacher_force(model, source, target, encoder=True)
    weights: dict[AttentionKind, Tensor | None] = {
        "cross": decoded.attention,
        "encoder": torch.stack(memory.attention, dim=1) if memory.attention else None,
        "decoder": decoded.self_attention,
    }
    present = {kind: of[0].float().cpu() for kind, of in weights.items() if of is not None}
    if not all(bool(of.isfinite().all()) for of in present.values()):
        raise UserError(OVERFLOW)
    return present


def draw_terminal(translation: str, heat_map: HeatMap, width: int) -> Iterator[tuple[str, str]]:
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
