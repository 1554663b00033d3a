"""Conversion of Transformers to CTranslate2's format, cached in the user's cache directory.

A converted model is an artifact: mtkit verifies its hashes, because CTranslate2 trusts its files.
Hashes show damage, but not who wrote a file: nobody else should be able to write to the cache.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.artifacts.cache import cache_folder
from mtkit.artifacts.locks import lock_path
from mtkit.artifacts.manifest import MANIFEST, Artifact
from mtkit.artifacts.recipe import Recipe
from mtkit.artifacts.stage import Stage
from mtkit.decoding.engines.ctranslate2 import CTranslate2Engine, positions, resolve_device
from mtkit.decoding.engines.engine import EngineOptions, Request, Sentence
from mtkit.errors import UserError
from mtkit.models.folder import OpenedModel
from mtkit.report import say
from mtkit.symbols import BOS, EOS, UNK

if TYPE_CHECKING:  # a cached model needs neither numpy nor torch
    import numpy as np
    from torch import Tensor, nn


ALL_HEADS = 0
"""CTranslate2's number for the mean of all heads, which our alignments use, too."""


def open_converted(opened: OpenedModel, options: EngineOptions) -> CTranslate2Engine:
    """Open the converted model and search once, because some libraries fail only at first use.

    Raises what CTranslate2 raises if it does not work here.
    """
    device = resolve_device(options.device)
    options = options.model_copy(update={"device": device})
    compute_type = "float32" if options.compute_type == "auto" else options.compute_type
    converted = cached(opened, compute_type)
    engine = CTranslate2Engine(converted, opened.tokenizer, options)
    one_word = Sentence([UNK, EOS])
    settings = opened.config.decoding.model_copy(update={"max_length": 1, "min_length": 0})
    engine.search([one_word], Request(settings)).result()
    return engine


def cached(opened: OpenedModel, compute_type: str) -> Artifact:
    """Return the converted model from the cache; convert it if it is missing, damaged or stale.

    Raises:
        UserError: somebody has put other files into its folder.
    """
    name = f"ctranslate2-{compute_type}-{positions(opened.config)}"
    path = cache_folder() / opened.artifact.identity / name
    stage = _stage(opened, compute_type, path)
    converted = stage.current()
    if converted is not None:
        for entry in converted.path.iterdir():  # CTranslate2 might read other files
            if entry.name not in (*converted.files, MANIFEST):
                raise UserError(f"{entry} does not belong to the converted model; move it away")
        return converted
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock_path(path.with_name(f".{path.name}.lock"), wait=True):
        converted = stage.current()
        if converted is not None:  # another process has converted it meanwhile
            return converted
        if path.exists():
            say(f"{path} is damaged or of another version; converting it again")
        else:
            say(f"preparing {opened.name} for CTranslate2 ({compute_type}), once")
        return convert_to(path, opened, compute_type)


def convert_to(
    path: Path, opened: OpenedModel, compute_type: str, card: str | None = None
) -> Artifact:
    """Convert the model and write it as the artifact `path`; `card`: the text of its README.md."""
    stage = _stage(opened, compute_type, path)
    with stage.write() as draft:
        spec = _build_spec(opened)
        spec.validate()
        spec.optimize(quantization=compute_type)
        spec.save(str(draft.folder))
        opened.tokenizer.copy_to(draft.folder)
        if card is not None:
            (draft.folder / "README.md").write_text(card, encoding="utf-8")
    return stage.open()


def _stage(opened: OpenedModel, compute_type: str, path: Path) -> Stage:
    """Return the stage that converts a model; its settings say how."""
    settings = {
        "format": "ctranslate2",
        "version": version("ctranslate2"),
        "compute_type": compute_type,
        "positions": positions(opened.config),
        "alignment_heads": ALL_HEADS,
    }
    return Stage("export", path, Recipe(settings), {"model": opened.artifact.identity})


def _build_spec(opened: OpenedModel) -> Any:
    """Return the model's weights and vocabularies as a specification of CTranslate2."""
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    from mtkit.models.weights import load_model

    model = load_model(opened.config, opened.weights)
    settings = model.settings.as_transformer()
    length = positions(opened.config)
    is_gated = settings.activation == "gated"
    spec: Any = TransformerSpec.from_config(
        (model.settings.encoder.layers, model.settings.decoder.layers),
        settings.heads,
        pre_norm=settings.norm == "pre",
        activation=Activation["SWISH" if is_gated else settings.activation.upper()],
        ffn_glu=is_gated,
        alignment_heads=ALL_HEADS,  # CTranslate2's default is the last layer
    )
    _fill_half(spec.encoder, model.encoder, model.source_embedding, length)
    _fill_half(spec.decoder, model.decoder, model.target_embedding, length)
    if settings.norm == "pre":
        _fill(spec.encoder.layer_norm, model.encoder_norm)
        _fill(spec.decoder.layer_norm, model.decoder_norm)
    spec.decoder.projection.weight = _array(model.output_weight)
    if model.output_bias is not None:
        spec.decoder.projection.bias = _array(model.output_bias)
    source, target = opened.tokenizer.vocabularies
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token = target[UNK]
    spec.config.bos_token = target[BOS]
    spec.config.eos_token = target[EOS]
    spec.config.decoder_start_token = target[BOS]
    spec.config.add_source_eos = True
    return spec


def _fill_half(spec: Any, half: Any, embedding: nn.Embedding, positions: int) -> None:
    """Fill the spec of the encoder or decoder; `half`: ours, `positions`: how many."""
    table = spec.embeddings
    if isinstance(table, list):  # in encoders, which may have several
        (table,) = table
    table.weight = _array(embedding.weight)
    # Without this table CTranslate2 would compute sinusoids, so `positions: none` gives zeros.
    spec.position_encodings.encodings = _array(half.positions(0, positions))
    for layer_spec, layer in zip(spec.layer, half.layers, strict=True):
        _fill_layer(layer_spec, layer)


def _fill_layer(spec: Any, layer: Any) -> None:
    """Fill the spec of a layer; the order of linear layers is CTranslate2's."""
    attention = layer.self_attention
    inputs, outputs = spec.self_attention.linear
    _fill(inputs, attention.query, attention.key, attention.value)
    _fill(outputs, attention.output)
    _fill(spec.self_attention.layer_norm, layer.self_residual.norm)
    attention = getattr(layer, "cross_attention", None)
    if attention is not None:  # in decoders
        queries, keys_values, outputs = spec.attention.linear
        _fill(queries, attention.query)
        _fill(keys_values, attention.key, attention.value)
        _fill(outputs, attention.output)
        _fill(spec.attention.layer_norm, layer.cross_residual.norm)
    _fill_feed_forward(spec.ffn, layer.feed_forward)
    _fill(spec.ffn.layer_norm, layer.feed_forward_residual.norm)


def _fill_feed_forward(spec: Any, feed_forward: Any) -> None:
    """Fill the spec of a feed-forward sublayer, gated or not."""
    gate = spec.linear_0
    _fill(gate, feed_forward.expand)
    value = getattr(spec, "linear_0_noact", None)
    if value is not None:  # gated: our matrix has the rows of the gate, then those of the value
        gate.weight, value.weight = gate.weight.reshape(2, -1, gate.weight.shape[1])
        gate.bias, value.bias = gate.bias.reshape(2, -1)
    _fill(spec.linear_1, feed_forward.contract)


def _fill(spec: Any, *modules: Any) -> None:
    """Copy a norm, or linear layers; the matrices of several layers are concatenated."""
    import torch

    weight = _array(torch.cat([module.weight for module in modules]))
    bias = _array(torch.cat([module.bias for module in modules]))
    if hasattr(spec, "gamma"):  # a norm
        spec.gamma = weight
        spec.beta = bias
    else:
        spec.weight = weight
        spec.bias = bias


def _array(tensor: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return weights as float32, which `optimize` converts to the compute type."""
    return tensor.detach().float().numpy()
