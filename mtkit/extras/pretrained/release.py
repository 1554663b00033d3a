"""Models of Marian itself, as OPUS-MT and the Tatoeba Challenge release them.

Such a folder has `decoder.yml`, which names an `.npz` with weights and settings, and vocabularies
in YAML or of SentencePiece. It is rewritten as a folder of transformers, for the importer: matrices
are transposed, and <pad>, from which transformers starts, is a new symbol with an embedding of 0.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
import yaml
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import pad

from mtkit.artifacts.storage import write_json
from mtkit.config.parse import INVALID_YAML
from mtkit.errors import UserError
from mtkit.extras.pretrained import marian
from mtkit.tokenizer.pieces import parse_model

DECODER_FILE = "decoder.yml"
SUPPORTED_SETTINGS = {
    "type": "transformer",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",  # dropout, add, normalise
    "transformer-decoder-autoreg": "self-attention",
    "transformer-train-position-embeddings": "false",
    "right-left": "false",
}
"""Settings of Marian, and the only value for which mtkit has layers."""
SIZES = {
    "d_model": "dim-emb",
    "encoder_layers": "enc-depth",
    "decoder_layers": "dec-depth",
    "encoder_attention_heads": "transformer-heads",
    "decoder_attention_heads": "transformer-heads",
    "encoder_ffn_dim": "transformer-dim-ffn",
    "decoder_ffn_dim": "transformer-dim-ffn",
}
"""Settings of transformers, and their names in Marian."""
EMBEDDINGS = {
    "Wemb": "model.shared.weight",
    "encoder_Wemb": "model.encoder.embed_tokens.weight",
    "decoder_Wemb": "model.decoder.embed_tokens.weight",
}
_BIAS = "decoder_ff_logit_out_b"
PARTS = {
    "self_attn.q_proj": ("self_Wq", "self_bq"),
    "self_attn.k_proj": ("self_Wk", "self_bk"),
    "self_attn.v_proj": ("self_Wv", "self_bv"),
    "self_attn.out_proj": ("self_Wo", "self_bo"),
    "self_attn_layer_norm": ("self_Wo_ln_scale", "self_Wo_ln_bias"),
    "encoder_attn.q_proj": ("context_Wq", "context_bq"),
    "encoder_attn.k_proj": ("context_Wk", "context_bk"),
    "encoder_attn.v_proj": ("context_Wv", "context_bv"),
    "encoder_attn.out_proj": ("context_Wo", "context_bo"),
    "encoder_attn_layer_norm": ("context_Wo_ln_scale", "context_Wo_ln_bias"),
    "fc1": ("ffn_W1", "ffn_b1"),
    "fc2": ("ffn_W2", "ffn_b2"),
    "final_layer_norm": ("ffn_ffn_ln_scale", "ffn_ffn_ln_bias"),
}
"""Parts of a layer in transformers, and their weight and bias in Marian."""
LAYERS: dict[str, str] = {}
for _part, (_weight, _bias) in PARTS.items():
    LAYERS[_weight] = f"{_part}.weight"
    LAYERS[_bias] = f"{_part}.bias"
_IN_LAYER = re.compile(r"(encoder|decoder)_l(\d+)_(\w+)")


def is_release(folder: Path) -> bool:
    """Return whether a folder is a model of Marian, and not one of transformers."""
    return (folder / DECODER_FILE).is_file() and not (folder / marian.CONFIG_FILE).is_file()


def find_release_files(folder: Path) -> list[Path]:
    """Return settings, weights, vocabularies and SentencePiece models, of source and target.

    Raises:
        UserError: a file is missing, or `decoder.yml` does not name one model.
    """
    path = folder / DECODER_FILE
    try:
        decoder = _read_yaml(path)
        (model,), (source, target) = decoder["models"], decoder["vocabs"]
        # Only files of this folder: a release from elsewhere could name any file of the user.
        names = [Path(name).name for name in (model, source, target)]
    except INVALID_YAML:
        raise UserError(f"{path} does not name one model and two vocabs") from None
    spm_names = [marian.SOURCE_SPM, marian.TARGET_SPM]
    if names[1].endswith(".spm"):
        spm_names = names[1:]
    return [path, *(marian.find_file(folder, name) for name in (*names, *spm_names))]


def convert_release(folder: Path, output: Path) -> None:
    """Write a release as a folder of transformers.

    Raises:
        UserError: a file is missing or damaged, or a setting or a tensor is not supported.
    """
    try:
        _convert(folder, output)
    except (*INVALID_YAML, BadZipFile, EOFError) as error:
        raise UserError(f"{folder} is not a model of Marian in an .npz ({error!r})") from None


def _convert(folder: Path, output: Path) -> None:
    decoder_file, npz, source, target, source_spm, target_spm = find_release_files(folder)
    shutil.copyfile(source_spm, output / marian.SOURCE_SPM)
    shutil.copyfile(target_spm, output / marian.TARGET_SPM)
    with np.load(npz) as file:  # which loads no pickles
        arrays = dict(file)
    settings = _parse_yaml(arrays.pop("special:model.yml").tobytes().rstrip(b"\0"))
    for name, supported in SUPPORTED_SETTINGS.items():
        value = settings.get(name, supported)
        if value != supported:
            raise UserError(f"{npz}: {name} is {value!r}, but mtkit supports only {supported!r}")
    weights: dict[str, Tensor] = {}
    for name, array in arrays.items():
        if array.dtype.kind != "f":
            raise UserError(f"{npz}: {name} is {array.dtype}, but mtkit reads only floats")
        marian_name, tensor = _convert_tensor(npz, name, torch.from_numpy(array).float())
        weights[marian_name] = tensor
    save_file(weights, output / marian.WEIGHTS_FILE)
    source_ids, target_ids = _read_ids(source), _read_ids(target)
    write_json(output / marian.VOCABULARY_FILE, source_ids)
    write_json(output / marian.TARGET_VOCABULARY_FILE, target_ids)
    write_json(output / marian.TOKENIZER_FILE, {"separate_vocabs": source != target})
    decoder = _read_yaml(decoder_file)
    config = {
        "model_type": "marian",
        "scale_embedding": True,
        "activation_function": settings["transformer-ffn-activation"],
        "vocab_size": len(source_ids),
        "decoder_vocab_size": len(target_ids),
        "share_encoder_decoder_embeddings": "Wemb" in arrays,
        "eos_token_id": target_ids["</s>"],
        "pad_token_id": target_ids["<pad>"],
        "decoder_start_token_id": target_ids["<pad>"],
        "num_beams": int(decoder.get("beam-size", 6)),
        "length_penalty": float(decoder.get("normalize", 0)),
    }
    config |= {theirs: int(settings[ours]) for theirs, ours in SIZES.items()}
    write_json(output / marian.CONFIG_FILE, config)


def _convert_tensor(npz: Path, name: str, tensor: Tensor) -> tuple[str, Tensor]:
    """Return the name of a tensor in transformers, and its value there."""
    match = _IN_LAYER.fullmatch(name)
    if match is not None and match[3] in LAYERS:
        layer = f"model.{match[1]}.layers.{int(match[2]) - 1}"
        return f"{layer}.{LAYERS[match[3]]}", tensor.T.squeeze().contiguous()
    if name in EMBEDDINGS:
        return EMBEDDINGS[name], pad(tensor, (0, 0, 0, 1))
    if name == _BIAS:
        return marian.OUTPUT_BIAS, pad(tensor, (0, 1))
    raise UserError(f"{npz}: {name} belongs to a layer that mtkit lacks")


def _read_ids(path: Path) -> dict[str, int]:
    """Return the ids of a vocabulary, with <pad> as the last one."""
    if path.suffix == ".spm":
        pieces = [entry.piece for entry in parse_model(path).pieces]
        ids = {piece: number for number, piece in enumerate(pieces)}
    else:
        ids = {piece: int(number) for piece, number in _read_yaml(path).items()}
    return ids | {"<pad>": len(ids)}


def _read_yaml(path: Path) -> dict[str, Any]:
    return _parse_yaml(path.read_bytes())


def _parse_yaml(content: bytes) -> dict[str, Any]:
    """Parse a mapping whose values are strings, because a subword may be `no` or `1.0`."""
    return dict(yaml.load(content, yaml.CBaseLoader))
