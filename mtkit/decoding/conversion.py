"""Conversion of Transformers to CTranslate2's format, cached in the user's cache directory.

A converted model is an artifact, whose hashes are verified because CTranslate2 trusts its files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.recipe import Recipe
from mtkit.artifacts.stage import Stage
from mtkit.decoding.ctranslate2 import CTranslate2Engine, choose_device, positions
from mtkit.decoding.engine import EngineOptions, Request, Sentence
from mtkit.models.folder import OpenedModel
from mtkit.report import say
from mtkit.symbols import BOS, EOS, UNK

if TYPE_CHECKING:  # a cached model needs neither numpy nor torch
    import numpy as np
    from torch import Tensor, nn

    from mtkit.models.encoder_decoder import EncoderDecoder

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
"""Part of a CTranslate2 layer → parts of our layer, whose matrices are concatenated."""


def open_converted(opened: OpenedModel, options: EngineOptions) -> CTranslate2Engine:
    """Open the converted model and test it, because some libraries fail only at the first use."""
    options = replace(options, device=choose_device(options.device))
    compute_type = "float32" if options.compute_type == "auto" else options.compute_type
    engine = CTranslate2Engine(cached(opened, compute_type), opened.tokenizer, options)
    shortest = opened.config.decoding.model_copy(update={"max_length": 1, "min_length": 0})
    engine.search([Sentence([UNK, EOS])], Request(shortest)).result()
    return engine


def cached(opened: OpenedModel, compute_type: str) -> Artifact:
    """Return the converted model from the cache; convert it if it is missing, damaged or old."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = f"ctranslate2-{compute_type}-{positions(opened.config)}"
    path = cache / "mtkit" / opened.artifact.identity / name
    stage = _stage(opened, compute_type, path)
    if current := stage.current():
        return current
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}.lock")):
        if current := stage.current():  # another process has converted it meanwhile
            return current
        if path.exists():
            say(f"{path} is damaged or of another version; converting it again")
        else:
            say(f"converting the model for CTranslate2 ({compute_type}); later runs use {path}")
        return convert_to(path, opened, compute_type)


def convert_to(path: Path, opened: OpenedModel, compute_type: str) -> Artifact:
    """Convert the model to the new artifact `path`."""
    stage = _stage(opened, compute_type, path)
    with stage.write() as draft:
        spec = _build_spec(opened)
        spec.validate()
        spec.optimize(quantization=compute_type)
        spec.save(str(draft.folder))
        opened.tokenizer.copy_to(draft.folder)
    return stage.open()


def _stage(opened: OpenedModel, compute_type: str, path: Path) -> Stage:
    settings = {
        "format": "ctranslate2",
        "version": version("ctranslate2"),
        "compute_type": compute_type,
        "positions": positions(opened.config),
    }
    return Stage("export", path, Recipe(settings), {"model": opened.artifact.identity})


def _build_spec(opened: OpenedModel) -> Any:
    """Return the model's weights and vocabularies as a specification of CTranslate2."""
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    from mtkit.models.weights import load_model

    model = load_model(opened.config, opened.weights)
    settings, length = model.settings.as_transformer(), positions(opened.config)
    is_gated = settings.activation == "gated"
    spec: Any = TransformerSpec.from_config(
        (model.settings.encoder.layers, model.settings.decoder.layers),
        settings.heads,
        pre_norm=settings.norm == "pre",
        activation=Activation["SWISH" if is_gated else settings.activation.upper()],
        ffn_glu=is_gated,
    )
    _fill_half(spec.encoder, model, model.encoder, model.source_embedding, length)
    _fill_half(spec.decoder, model, model.decoder, model.target_embedding, length)
    if settings.norm == "pre":
        _fill(spec.encoder.layer_norm, [model.encoder_norm])
        _fill(spec.decoder.layer_norm, [model.decoder_norm])
    if is_gated:  # our matrix is gate and value, one after the other
        for layer in [*spec.encoder.layer, *spec.decoder.layer]:
            gate, value = layer.ffn.linear_0, layer.ffn.linear_0_noact
            half = len(gate.bias) // 2
            gate.weight, value.weight = gate.weight[:half], gate.weight[half:]
            gate.bias, value.bias = gate.bias[:half], gate.bias[half:]
    spec.decoder.projection.weight = _array(model.output_weight)
    if model.output_bias is not None:
        spec.decoder.projection.bias = _array(model.output_bias)
    source, target = opened.tokenizer.vocabularies
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    config = spec.config
    config.unk_token, config.bos_token, config.eos_token = target[UNK], target[BOS], target[EOS]
    config.decoder_start_token, config.add_source_eos = target[BOS], True
    return spec


def _fill_half(
    spec: Any, model: EncoderDecoder, half: nn.Module, embedding: nn.Embedding, positions: int
) -> None:
    """Fill the spec of the encoder or decoder."""
    table = spec.embeddings  # a list in encoders, which may have several
    (table[0] if isinstance(table, list) else table).weight = _array(embedding.weight)
    spec.position_encodings.encodings = _array(model.positions(0, positions))
    for layer_spec, layer in zip(spec.layer, cast("nn.ModuleList", half.layers), strict=True):
        for place, parts in LAYER.items():
            if hasattr(layer, parts[0].partition(".")[0]):  # only decoders have cross-attention
                part_spec = layer_spec
                for step in place.split("."):
                    part_spec = part_spec[int(step)] if step.isdigit() else getattr(part_spec, step)
                _fill(part_spec, [layer.get_submodule(part) for part in parts])


def _fill(spec: Any, modules: Sequence[nn.Module]) -> None:
    """Copy a norm, or concatenated linear layers."""
    import numpy as np

    weight, bias = (
        np.concatenate([_array(cast("Tensor", getattr(module, name))) for module in modules])
        for name in ("weight", "bias")
    )
    if hasattr(spec, "gamma"):
        spec.gamma, spec.beta = weight, bias
    else:
        spec.weight, spec.bias = weight, bias


def _array(tensor: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    return tensor.detach().float().numpy()
