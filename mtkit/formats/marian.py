"""How Hugging Face stores a MarianMT model, in the terms of ours: what both directions share.

It is the layout of the OPUS-MT models (Tiedemann and Thottingal 2020): a post-norm Transformer with
compute_sinusoids in split halves, as Marian (Junczys-Dowmunt et al. 2018) has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mtkit.artifacts.storage import read_json
from mtkit.config.model import TransformerSettings
from mtkit.errors import UserError
from mtkit.models.weights import read_weights
from mtkit.symbols import SPACE

WEIGHTS, PICKLE = "model.safetensors", "pytorch_model.bin"
CONFIG, GENERATION = "config.json", "generation_config.json"
TOKENIZER = "tokenizer_config.json"
SOURCE_SPM, TARGET_SPM = "source.spm", "target.spm"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"

FILES = (
    *(WEIGHTS, CONFIG, GENERATION, TOKENIZER),
    *(SOURCE_SPM, TARGET_SPM, VOCABULARY, TARGET_VOCABULARY),
)
OUTPUT_BIAS = "final_logits_bias"

REPRESENTED: Mapping[str, tuple[Any, Any]] = {
    "model_type": (None, "marian"),
    "scale_embedding": (False, True),
    "normalize_before": (False, False),
    "normalize_embedding": (False, False),
    "add_final_layer_norm": (False, False),
    "static_position_embeddings": (True, True),
}
"""Settings that must have one value: what they are where they are absent, and what they must be."""
SEARCH = {
    "num_beams": "beam",
    "length_penalty": "length_penalty",
    "min_new_tokens": "min_length",
    "no_repeat_ngram_size": "no_repeat_ngram",
}
"""What a search is told, by their name and by ours."""
OTHER_PENALTY = "a beam search there lowers log P by it, ours logits"
"""Why `repetition_penalty`, which both have, stays on its side."""
ALIKE = {"attention_heads": "heads", "ffn_dim": "ffn"}
"""What its halves have in common here, by the name after encoder_ or decoder_, and by ours."""
DROPOUTS = ("dropout", "attention_dropout", "activation_dropout")
"""Settings that both call the same."""

_CODE = re.compile(f"{SPACE}?(>>.+<<)")

LAYER = {
    "self_attention.query": "self_attn.q_proj",
    "self_attention.key": "self_attn.k_proj",
    "self_attention.value": "self_attn.v_proj",
    "self_attention.output": "self_attn.out_proj",
    "self_residual.norm": "self_attn_layer_norm",
    "cross_attention.query": "encoder_attn.q_proj",
    "cross_attention.key": "encoder_attn.k_proj",
    "cross_attention.value": "encoder_attn.v_proj",
    "cross_attention.output": "encoder_attn.out_proj",
    "cross_residual.norm": "encoder_attn_layer_norm",
    "feed_forward.expand": "fc1",
    "feed_forward.contract": "fc2",
    "feed_forward_residual.norm": "final_layer_norm",
}
"""What has a weight and a bias in a layer; none of an encoder is called cross."""


class Parameter(NamedTuple):
    """A weight, by our name and by theirs."""

    ours: str
    theirs: str
    shape: tuple[int, ...]


def layer_parameters(settings: TransformerSettings) -> Iterator[Parameter]:
    """Every weight of the encoder's and the decoder's layers."""
    d_model, ffn = settings.d_model, settings.ffn
    shapes = {"feed_forward.expand": (ffn, d_model), "feed_forward.contract": (d_model, ffn)}
    pair = settings.as_pair()
    for side, half in (("encoder", pair.encoder), ("decoder", pair.decoder)):
        for i, (name, other) in product(range(half.layers), LAYER.items()):
            if side == "decoder" or not name.startswith("cross"):
                ours, theirs = f"{side}.layers.{i}.{name}", f"model.{side}.layers.{i}.{other}"
                usual = (d_model,) if name.endswith("norm") else (d_model, d_model)
                shape = shapes.get(name, usual)
                yield Parameter(f"{ours}.weight", f"{theirs}.weight", shape)
                yield Parameter(f"{ours}.bias", f"{theirs}.bias", shape[:1])


def vocabulary_parameters(
    settings: TransformerSettings, source_vocab: int, target_vocab: int
) -> list[Parameter]:
    """Embeddings and output matrix, a row for each symbol; a tied matrix once."""
    source, target = (source_vocab, settings.d_model), (target_vocab, settings.d_model)
    if settings.tie == "all":
        return [Parameter("target_embedding.weight", "model.shared.weight", target)]
    parameters = [
        Parameter("source_embedding.weight", "model.encoder.embed_tokens.weight", source),
        Parameter("target_embedding.weight", "model.decoder.embed_tokens.weight", target),
    ]
    if settings.tie == "none":
        parameters.append(Parameter("output.weight", "lm_head.weight", target))
    return parameters


def file_in(folder: Path, name: str) -> Path:
    """That very file: in the cache of the hub every name is a link. UserError where it is none."""
    path = (folder / name).resolve()
    if path.is_file():
        return path
    if name == WEIGHTS and (folder / PICKLE).exists():
        raise UserError(
            f"{folder / PICKLE}: a pickle may run any code, and is never loaded: write {name} "
            f'beside it with transformers, MarianMTModel.from_pretrained("{folder}")'
            f'.save_pretrained("{folder}")'
        )
    raise UserError(f"{folder}: no {name} here: not a MarianMT model of Hugging Face")


def json_in(folder: Path, name: str) -> dict[str, Any]:
    """UserError where there is no JSON object."""
    value = read_json(file_in(folder, name))
    if not isinstance(value, dict):
        raise UserError(f"{folder / name}: not a JSON object")
    return value


def read_arrays(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """The named weights of a file, in float32; others in it are passed over.

    Raises UserError as `open_weights`, or naming the first that is not finite.
    """
    like = {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
    return read_weights(path, like, may_hold_others=True)


def code_in(piece: str) -> str | None:
    """The code of a target language, such as >>fra<<, that a piece is, with or without a space."""
    match = _CODE.fullmatch(piece)
    return match[1] if match else None
