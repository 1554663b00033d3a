"""A Transformer in CTranslate2's form: what the library needs to know, filled in from our weights.

Both sides store a linear layer as (outputs, inputs) and normalise with an epsilon of 1e-5. There,
the projections that read the same input are one matrix, and positions are a table of given length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from ctranslate2.specs import TransformerSpec
from ctranslate2.specs.common_spec import Activation
from torch import Tensor, nn

from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.folder import OpenedModel
from mtkit.models.weights import load_model
from mtkit.symbols import BOS, EOS, UNK
from mtkit.tokenizer.codec import Tokenizer

LAYER: Mapping[str, tuple[str, ...]] = {
    "self_attention.linear.0": tuple(
        f"self_attention.{part}" for part in ("query", "key", "value")
    ),
    "self_attention.linear.1": ("self_attention.output",),
    "self_attention.layer_norm": ("self_residual.norm",),
    "attention.linear.0": ("cross_attention.query",),
    "attention.linear.1": ("cross_attention.key", "cross_attention.value"),
    "attention.linear.2": ("cross_attention.output",),
    "attention.layer_norm": ("cross_residual.norm",),
    "ffn.linear_0": ("feed_forward.expand",),
    "ffn.linear_1": ("feed_forward.contract",),
    "ffn.layer_norm": ("feed_forward_residual.norm",),
}
"""What of a layer of ours goes where in a layer of CTranslate2's."""


def convert(opened: OpenedModel, folder: Path, positions: int, compute_type: str) -> None:
    """Writes the model into `folder` for `ctranslate2.Translator`, for up to `positions` symbols.

    The vocabularies are SentencePiece's, whose models come with it; the library adds EOS to
    sources. Raises ValueError for what is no Transformer with halves alike, UserError for weights
    that are not this model's.
    """
    model = load_model(opened.config, opened.weights)
    settings = model.settings.as_transformer()
    is_gated = settings.activation == "gated"
    spec: Any = TransformerSpec.from_config(
        (model.settings.encoder.layers, model.settings.decoder.layers),
        settings.heads,
        pre_norm=settings.norm == "pre",
        activation=Activation["SWISH" if is_gated else settings.activation.upper()],
        ffn_glu=is_gated,
    )
    _fill_half(spec.encoder, model, model.encoder, model.source_embedding, positions)
    _fill_half(spec.decoder, model, model.decoder, model.target_embedding, positions)
    if settings.norm == "pre":
        _fill(spec.encoder.layer_norm, [model.encoder_norm])
        _fill(spec.decoder.layer_norm, [model.decoder_norm])
    if is_gated:
        _split_gates([*spec.encoder.layer, *spec.decoder.layer])
    spec.decoder.projection.weight = _array(model.output_weight)
    if model.output_bias is not None:
        spec.decoder.projection.bias = _array(model.output_bias)
    _name_symbols(spec, opened.tokenizer)
    spec.validate()
    spec.optimize(quantization=compute_type)
    spec.save(str(folder))
    opened.tokenizer.copy_to(folder)


def _name_symbols(spec: Any, tokenizer: Tokenizer) -> None:
    source, target = tokenizer.vocabularies
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    config = spec.config
    config.unk_token, config.bos_token, config.eos_token = target[UNK], target[BOS], target[EOS]
    config.decoder_start_token = target[BOS]
    config.add_source_eos = True


def _fill_half(
    spec: Any, model: EncoderDecoder, half: nn.Module, embedding: nn.Embedding, positions: int
) -> None:
    first = spec.embeddings  # an encoder may have several, for factors of words
    (first[0] if isinstance(first, list) else first).weight = _array(embedding.weight)
    spec.position_encodings.encodings = _array(model.positions(0, positions))
    for into, layer in zip(spec.layer, cast(nn.ModuleList, half.layers), strict=True):
        for place, parts in LAYER.items():
            if hasattr(layer, parts[0].partition(".")[0]):  # only decoders look at the source
                _fill(_at(into, place), [layer.get_submodule(part) for part in parts])


def _at(spec: Any, place: str) -> Any:
    for step in place.split("."):
        spec = spec[int(step)] if step.isdigit() else getattr(spec, step)
    return spec


def _fill(spec: Any, modules: Sequence[nn.Module]) -> None:
    """Linear layers side by side, or a norm."""
    weight, bias = (
        np.concatenate([_array(cast(Tensor, getattr(module, name))) for module in modules])
        for name in ("weight", "bias")
    )
    if isinstance(modules[0], nn.LayerNorm):
        spec.gamma, spec.beta = weight, bias
    else:
        spec.weight, spec.bias = weight, bias


def _split_gates(layers: Iterable[Any]) -> None:
    """Gate and value are two halves of one matrix of ours."""
    for layer in layers:
        gate, value = layer.ffn.linear_0, layer.ffn.linear_0_noact
        gate.weight, value.weight = np.split(gate.weight, 2)
        gate.bias, value.bias = np.split(gate.bias, 2)


def _array(tensor: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    return tensor.detach().float().numpy()
