"""A Transformer in CTranslate2's form: what the library needs to know, filled in from our weights.

Both sides store a linear layer as (outputs, inputs) and normalise with an epsilon of 1e-5. There,
the projections that read the same input are one matrix, and positions are a table of given length.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np
from ctranslate2.specs import TransformerSpec
from ctranslate2.specs.common_spec import Activation
from torch import Tensor, nn

from mtkit.config.model import TransformerSettings
from mtkit.models.attention import MultiHeadAttention
from mtkit.models.base import TranslationModel
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.layers import FeedForward
from mtkit.models.transformer import DecoderLayer, EncoderLayer
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.symbols import BOS, EOS, UNK

ACTIVATIONS = {
    "relu": Activation.RELU,
    "gelu": Activation.GELU,
    "swish": Activation.SWISH,
    "gated": Activation.SWISH,
}


def convert(
    model: TranslationModel, tokenizer: Tokenizer, folder: Path, positions: int, compute_type: str
) -> None:
    """Writes the model into `folder` for `ctranslate2.Translator`, for up to `positions` symbols.

    The vocabularies are SentencePiece's, whose models come with it; the library adds EOS to
    sources. Raises ValueError for what is no Transformer with halves alike.
    """
    assert isinstance(model, EncoderDecoder)
    settings = model.settings.as_transformer()
    spec = _empty_spec(settings)
    _fill_stack(spec.encoder, model, model.encoder, model.source_embedding, positions)
    _fill_stack(spec.decoder, model, model.decoder, model.target_embedding, positions)
    if settings.norm == "pre":
        _fill_norm(spec.encoder.layer_norm, model.encoder_norm)
        _fill_norm(spec.decoder.layer_norm, model.decoder_norm)
    spec.decoder.projection.weight = _array(model.output_weight)
    if model.output_bias is not None:
        spec.decoder.projection.bias = _array(model.output_bias)
    _name_symbols(spec, tokenizer)
    spec.validate()
    spec.optimize(quantization=compute_type)
    spec.save(str(folder))
    tokenizer.copy_to(folder)


def _empty_spec(settings: TransformerSettings) -> Any:
    return TransformerSpec.from_config(
        (settings.encoder_layers or settings.layers, settings.decoder_layers or settings.layers),
        settings.heads,
        pre_norm=settings.norm == "pre",
        activation=ACTIVATIONS[settings.activation],
        ffn_glu=settings.activation == "gated",
    )


def _name_symbols(spec: Any, tokenizer: Tokenizer) -> None:
    source = tokenizer.source_pieces(list(range(tokenizer.source_vocab)))
    target = tokenizer.target_pieces(list(range(tokenizer.target_vocab)))
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (
        target[UNK],
        target[BOS],
        target[EOS],
    )
    spec.config.decoder_start_token = target[BOS]
    spec.config.add_source_eos = True


def _fill_stack(
    spec: Any, model: EncoderDecoder, half: nn.Module, embedding: nn.Embedding, positions: int
) -> None:
    first = spec.embeddings  # an encoder may have several, for factors of words
    (first[0] if isinstance(first, list) else first).weight = _array(embedding.weight)
    spec.position_encodings.encodings = _array(model.positions(0, positions))
    layers = cast(nn.ModuleList, half.layers)
    for into, module in zip(spec.layer, layers, strict=True):
        layer = cast(EncoderLayer | DecoderLayer, module)
        _fill_self_attention(into.self_attention, layer)
        if isinstance(layer, DecoderLayer):
            _fill_cross_attention(into.attention, layer)
        _fill_feed_forward(into.ffn, layer)


def _fill_self_attention(spec: Any, layer: EncoderLayer | DecoderLayer) -> None:
    attention = layer.self_attention
    _fill_linear(spec.linear[0], [attention.query, attention.key, attention.value])
    _fill_linear(spec.linear[1], [attention.output])
    _fill_norm(spec.layer_norm, layer.self_residual.norm)


def _fill_cross_attention(spec: Any, layer: DecoderLayer) -> None:
    attention: MultiHeadAttention = layer.cross_attention
    _fill_linear(spec.linear[0], [attention.query])
    _fill_linear(spec.linear[1], [attention.key, attention.value])
    _fill_linear(spec.linear[2], [attention.output])
    _fill_norm(spec.layer_norm, layer.cross_residual.norm)


def _fill_feed_forward(spec: Any, layer: EncoderLayer | DecoderLayer) -> None:
    inner: FeedForward = layer.feed_forward
    _fill_linear(spec.linear_0, [inner.expand])
    if inner.activation == "gated":  # gate and value are two halves of one matrix
        for into, part in ((spec.linear_0, 0), (spec.linear_0_noact, 1)):
            into.weight = np.split(_array(inner.expand.weight), 2)[part]
            into.bias = np.split(_array(inner.expand.bias), 2)[part]
    _fill_linear(spec.linear_1, [inner.contract])
    _fill_norm(spec.layer_norm, layer.feed_forward_residual.norm)


def _fill_linear(spec: Any, layers: Iterable[nn.Linear]) -> None:
    """The layers side by side."""
    layers = list(layers)
    spec.weight = np.concatenate([_array(layer.weight) for layer in layers])
    spec.bias = np.concatenate([_array(layer.bias) for layer in layers])


def _fill_norm(spec: Any, norm: nn.Module) -> None:
    norm = cast(nn.LayerNorm, norm)
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    return tensor.detach().float().numpy()
