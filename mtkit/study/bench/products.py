"""The matrix products that a training step cannot do without: their shapes, from the settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from mtkit.config.model import ModelSettings, Seq2SeqSettings, TransformerSettings
from mtkit.errors import UserError
from mtkit.study.bench.parts import ATTENTION, FEED_FORWARD, OUTPUT, RECURRENT


@dataclass(frozen=True)
class Shape:
    """Of a batch."""

    sentences: int
    source: int
    """Length, padding and EOS included, as is the target's."""
    target: int
    target_tokens: int
    """Real ones."""


@dataclass(frozen=True)
class Product:
    """`count` products of (rows, inner) and (inner, columns) matrices, `batch` at a time each."""

    part: str
    rows: int
    inner: int
    columns: int
    layout: Literal["nt", "nn", "tn"]
    """Which operand is stored transposed, in the letters of BLAS."""
    batch: int = 1
    count: int = 1

    @property
    def flops(self) -> int:
        return 2 * self.count * self.batch * self.rows * self.inner * self.columns


def products_of(settings: ModelSettings, shape: Shape, target_vocab: int) -> list[Product]:
    """Forward, and backward to inputs and weights, of every product of one update."""
    match settings:
        case TransformerSettings():
            inside = _transformer(settings, shape)
        case Seq2SeqSettings():
            inside = _seq2seq(settings, shape)
        case _:
            raise UserError(f"bench: the products of a {settings.name} are not known")
    has_bias = isinstance(settings, TransformerSettings) and settings.output_bias
    inputs = settings.d_model + has_bias  # as in `TranslationModel.output_factors`
    output = _affine(OUTPUT, shape.target_tokens, inputs, target_vocab)
    return [product for product in (*inside, *output) if product.count]


def _transformer(settings: TransformerSettings, shape: Shape) -> Iterator[Product]:
    width, heads = settings.d_model, settings.heads * shape.sentences
    encoder = settings.encoder_layers or settings.layers
    decoder = settings.decoder_layers or settings.layers
    source, target = shape.sentences * shape.source, shape.sentences * shape.target
    # Query, key, value, output; of encoder-decoder attention keys and values lie on the source.
    yield from _affine(ATTENTION, source, width, width, count=4 * encoder + 2 * decoder)
    yield from _affine(ATTENTION, target, width, width, count=6 * decoder)
    radius, depth = settings.neighbourhood, width // settings.heads
    if radius is None:
        yield from _attend(shape.source, shape.source, depth, heads, encoder)
    else:
        blocks = -(-shape.source // radius)
        yield from _attend(radius, 3 * radius, depth, heads * blocks, encoder)
    yield from _attend(shape.target, shape.target, depth, heads, decoder)
    yield from _attend(shape.target, shape.source, depth, heads, decoder)
    expanded = settings.ffn * (2 if settings.activation == "gated" else 1)
    for rows, layers in ((source, encoder), (target, decoder)):
        yield from _affine(FEED_FORWARD, rows, width, expanded, count=layers)
        yield from _affine(FEED_FORWARD, rows, settings.ffn, width, count=layers)


def _seq2seq(settings: Seq2SeqSettings, shape: Shape) -> Iterator[Product]:
    width, layers, rows = settings.d_model, settings.layers, shape.sentences
    directions = 2 if settings.bidirectional else 1
    half, passes = width // directions, layers * directions
    yield from _affine(RECURRENT, rows * shape.source, width, 4 * half, count=passes)
    # The first state is zero: no gradient is asked of it.
    yield from _steps(RECURRENT, rows, half, 4 * half, shape.source, passes, backward=-1)
    yield from _affine(RECURRENT, rows, width, 2 * width, count=layers)
    yield from _steps(RECURRENT, rows, width, 4 * width, shape.target, layers)
    if settings.input_feeding:
        yield from _steps(RECURRENT, rows, 2 * width, 4 * width, shape.target, 1)
        yield from _steps(RECURRENT, rows, width, 4 * width, shape.target, layers - 1)
    else:
        yield from _affine(RECURRENT, rows * shape.target, width, 4 * width, count=layers)
    yield from _recurrent_attention(settings, shape)


def _recurrent_attention(settings: Seq2SeqSettings, shape: Shape) -> Iterator[Product]:
    if settings.attention == "none":
        return
    width, rows, source = settings.d_model, shape.sentences, shape.source
    queries, times = (1, shape.target) if settings.input_feeding else (shape.target, 1)
    if settings.attention != "dot":
        yield from _affine(ATTENTION, rows * source, width, width)
    if settings.attention == "additive":
        yield from _steps(ATTENTION, rows * queries, width, width, times, 1)
        yield from _affine(ATTENTION, rows * queries * source, width, 1, count=times)
        yield from _affine(ATTENTION, queries, width, source, batch=rows, count=times)
    else:
        yield from _attend(queries, source, width, rows, times)
    yield from _steps(ATTENTION, rows * queries, 2 * width, width, times, 1)


def _affine(
    part: str, rows: int, inputs: int, outputs: int, *, batch: int = 1, count: int = 1
) -> Iterator[Product]:
    """y = x W^T, and the gradients of x and of W."""
    yield Product(part, rows, inputs, outputs, "nt", batch, count)
    yield Product(part, rows, outputs, inputs, "nn", batch, count)
    yield Product(part, outputs, rows, inputs, "tn", batch, count)


def _attend(queries: int, keys: int, depth: int, batch: int, count: int) -> Iterator[Product]:
    """Scores and context: what is one's product forward is the other's backward."""
    yield from _affine(ATTENTION, queries, depth, keys, batch=batch, count=2 * count)


def _steps(
    part: str, rows: int, inputs: int, outputs: int, steps: int, count: int, *, backward: int = 0
) -> Iterator[Product]:
    """As `_affine`, where each of `steps` waits for the last; the weights' gradient waits for none.

    `backward`: how many more steps (or fewer) ask for the gradient of x.
    """
    yield Product(part, rows, inputs, outputs, "nt", count=count * steps)
    yield Product(part, rows, outputs, inputs, "nn", count=count * (steps + backward))
    yield Product(part, outputs, rows * steps, inputs, "tn", count=count)
