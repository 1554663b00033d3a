"""The layout of a MarianMT folder of Hugging Face, for export and import.

OPUS-MT models have this layout (Tiedemann and Thottingal 2020): a post-norm Transformer with all
sines before all cosines, as in Marian (Junczys-Dowmunt et al. 2018).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtkit.artifacts.storage import read_json
from mtkit.config.model import TransformerSettings
from mtkit.errors import UserError
from mtkit.symbols import SPACE

WEIGHTS_FILE, PICKLE_FILE = "model.safetensors", "pytorch_model.bin"
INDEX_FILE, PICKLE_INDEX_FILE = f"{WEIGHTS_FILE}.index.json", f"{PICKLE_FILE}.index.json"
"""A large model has its weights in several files, the shards, and an index of them."""
CONFIG_FILE, GENERATION_FILE = "config.json", "generation_config.json"
TOKENIZER_FILE = "tokenizer_config.json"
SOURCE_SPM, TARGET_SPM = "source.spm", "target.spm"
VOCABULARY_FILE, TARGET_VOCABULARY_FILE = "vocab.json", "target_vocab.json"
SENTENCEPIECE_FILE, SYMBOLS_FILE = "sentencepiece.bpe.model", "special_tokens_map.json"
"""Files of M2M-100 and NLLB models, which have no `source.spm` and `target.spm`."""
MODEL_FILES = (
    WEIGHTS_FILE,
    INDEX_FILE,
    CONFIG_FILE,
    GENERATION_FILE,
    TOKENIZER_FILE,
    SOURCE_SPM,
    TARGET_SPM,
    VOCABULARY_FILE,
    TARGET_VOCABULARY_FILE,
    SENTENCEPIECE_FILE,
    SYMBOLS_FILE,
)
"""All files that an import reads, except shards."""


@dataclass(frozen=True)
class FixedSetting:
    """A setting of theirs for which mtkit supports only one value."""

    default: Any
    """What transformers takes if a config lacks the setting."""
    supported: Any


FIXED_SETTINGS = {
    "model_type": FixedSetting(default=None, supported="marian"),
    "scale_embedding": FixedSetting(default=False, supported=True),
    "normalize_before": FixedSetting(default=False, supported=False),
    "normalize_embedding": FixedSetting(default=False, supported=False),
    "add_final_layer_norm": FixedSetting(default=False, supported=False),
    "static_position_embeddings": FixedSetting(default=True, supported=True),
}
SEARCH_SETTINGS = {
    "num_beams": "beam",
    "length_penalty": "length_penalty",
    "min_new_tokens": "min_length",
    "no_repeat_ngram_size": "no_repeat_ngram",
}
"""Decoding settings: their name and ours."""
PENALTY_DIFFERS = "in a beam search transformers lowers log P by it, mtkit lowers logits"
"""Why `repetition_penalty`, which both have, is not converted."""
SHARED_SETTINGS = {"attention_heads": "heads", "ffn_dim": "ffn"}
"""Settings of encoder and decoder: their name (after encoder_ or decoder_) and ours."""
DROPOUT_SETTINGS = ("dropout", "attention_dropout", "activation_dropout")

OUTPUT_BIAS = "final_logits_bias"
PARAMETER_NAMES = {
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
"""Parts of a layer, each with a weight and a bias; an encoder layer has no cross attention."""

_SHARD = re.compile(r"[\w.-]+\.safetensors")
_CODE = re.compile(f"{SPACE}?(>>.+<<)")


def rename(name: str, settings: TransformerSettings) -> str:
    """Return the name that MarianMT has for our weight `name`."""
    names = {
        "source_embedding.weight": "model.encoder.embed_tokens.weight",
        "target_embedding.weight": "model.decoder.embed_tokens.weight",
        "output.weight": "lm_head.weight",
        "output_bias": OUTPUT_BIAS,
    }
    if settings.tie == "all":
        names["target_embedding.weight"] = "model.shared.weight"
    if name in names:
        return names[name]
    if "_norm." in name and ".layers." not in name:  # of a pre-norm model, after the last layer
        return f"model.{name.replace('_norm', '.layer_norm')}"
    side, _, layer, part, inner, kind = name.split(".")
    return f"model.{side}.layers.{layer}.{PARAMETER_NAMES[f'{part}.{inner}']}.{kind}"


def find_file(folder: Path, name: str) -> Path:
    """Return the path of a file, with links resolved, because the hub's cache has only links."""
    path = Path(os.path.realpath(folder / name))
    if path.is_file():
        return path
    for pickle in (PICKLE_FILE, PICKLE_INDEX_FILE):
        if name == WEIGHTS_FILE and (folder / pickle).exists():
            raise UserError(
                f"{folder / pickle} is never loaded, because a pickle may run any code; "
                f"write {name} "
                f'beside it with transformers, AutoModelForSeq2SeqLM.from_pretrained("{folder}")'
                f'.save_pretrained("{folder}")'
            )
    if _SHARD.fullmatch(name) and name != WEIGHTS_FILE:
        raise UserError(f"{folder} has no {name}, which {INDEX_FILE} names; add that file")
    raise UserError(f"{folder} has no {name}, so it is not a model that mtkit imports")


def find_shards(folder: Path) -> dict[str, str]:
    """Return the name of the shard that holds each weight; empty if one file holds all weights."""
    if (folder / WEIGHTS_FILE).is_file() or not (folder / INDEX_FILE).is_file():
        return {}
    shards = read_json_object(folder, INDEX_FILE).get("weight_map")
    if not isinstance(shards, dict):
        raise UserError(f"{folder / INDEX_FILE} has no weight_map, which lists the shards")
    for shard in shards.values():
        # An index from elsewhere could name any file of the user.
        if not isinstance(shard, str) or _SHARD.fullmatch(shard) is None:
            raise UserError(f"{folder / INDEX_FILE} names {shard!r}, which is not a shard")
    return shards


def find_files(folder: Path) -> list[Path]:
    """Return the files of a folder that an import reads.

    Raises:
        UserError: weights are missing.
    """
    shards = dict.fromkeys(find_shards(folder).values())
    for name in shards or [WEIGHTS_FILE]:
        find_file(folder, name)
    return [folder / name for name in (*MODEL_FILES, *shards) if (folder / name).is_file()]


def read_json_object(folder: Path, name: str) -> dict[str, Any]:
    """Read a file of the folder; raise a UserError if it is not a JSON object."""
    value = read_json(find_file(folder, name))
    if not isinstance(value, dict):
        raise UserError(f"{folder / name} is not a JSON object")
    return value


def code_of_tag(tag: str) -> str:
    """Return the language code with which a source begins: >>fra<< for the target tag fra."""
    return f">>{tag}<<"


def language_code_in(piece: str) -> str | None:
    """Return the piece without its space if it is a target language code such as >>fra<<."""
    match = _CODE.fullmatch(piece)
    return match[1] if match else None
