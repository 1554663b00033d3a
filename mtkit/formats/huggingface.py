"""A model as Hugging Face's transformers loads it: MarianMTModel with MarianTokenizer.

Written without transformers or torch. Weights keep their values and symbols their ids: the outputs
are the same, but for two conventions of its beam search: it counts end of sentence in |y|, and
`length_penalty` means the exponent of that |y|.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from mtkit.artifacts import Artifact, create, open_artifact
from mtkit.config.decoding import DecodingSettings
from mtkit.config.model import ModelSettings, TransformerSettings
from mtkit.config.storage import write_json
from mtkit.decoding.model import OpenedModel
from mtkit.errors import UserError
from mtkit.formats import marian
from mtkit.formats.marian import Array
from mtkit.report import say
from mtkit.tokenizer.symbols import BOS, EOS, PAD, UNK

LEAST_POSITIONS = 1024
"""Sinusoids go on for ever, but its table of them ends."""
IDS = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS}


def to_huggingface(opened: OpenedModel, output: Path | None, quantization: str | None) -> Artifact:
    """Writes the folder `output`, which must not be there yet.

    Raises UserError for a model that MarianMT cannot be, by the setting.
    """
    if quantization is not None:
        raise UserError("--quantization: only --to ctranslate2")
    if output is None:
        raise UserError("--to huggingface: name a new folder with -o")
    settings = _suitable(opened.config.model)
    weights = _weights(opened, settings)
    inputs = {"model": opened.artifact.identity}
    with create(output, "export", {"format": "huggingface"}, inputs) as folder:
        save_file(weights, folder / marian.WEIGHTS, metadata={"format": "pt"})
        write_json(folder / marian.CONFIG, _config(opened, settings))
        write_json(folder / marian.GENERATION, _generation(opened.config.decoding))
        _write_tokenizer(folder, opened)
    say(f'transformers loads it with MarianMTModel.from_pretrained("{output}")')
    return open_artifact(output, "export")


def _suitable(settings: ModelSettings) -> TransformerSettings:
    try:
        transformer = settings.as_transformer()
    except ValueError as error:
        raise UserError(f"{error}: MarianMT is a Transformer with halves alike") from None
    needed = {"norm": "post", "positions": "sinusoidal", "neighbourhood": None}
    for name, value in needed.items():
        if (found := getattr(transformer, name)) != value:
            raise UserError(f"model.{name}: {found}: MarianMT has none")
    if transformer.activation == "gated":
        raise UserError("model.activation: gated: MarianMT has none")
    return transformer


def _weights(opened: OpenedModel, settings: TransformerSettings) -> dict[str, Array]:
    vocabularies = opened.config.source_vocab, opened.config.target_vocab
    parameters = [
        *marian.vocabulary_parameters(settings, *vocabularies),
        *marian.layer_parameters(settings),
    ]
    shapes = {parameter.ours: parameter.shape for parameter in parameters}
    if settings.output_bias:
        shapes["output_bias"] = vocabularies[1:]
    arrays = marian.read_arrays(opened.weights, shapes)
    bias = arrays.get("output_bias", np.zeros(vocabularies[1], np.float32))
    weights = {parameter.theirs: arrays[parameter.ours] for parameter in parameters}
    return weights | {marian.OUTPUT_BIAS: bias[np.newaxis]}


def _config(opened: OpenedModel, settings: TransformerSettings) -> dict[str, Any]:
    return {
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "dtype": "float32",
        "vocab_size": opened.config.source_vocab,
        "decoder_vocab_size": opened.config.target_vocab,
        "share_encoder_decoder_embeddings": settings.tie == "all",
        "tie_word_embeddings": settings.tie != "none",
        "d_model": settings.d_model,
        "encoder_layers": settings.encoder_layers or settings.layers,
        "decoder_layers": settings.decoder_layers or settings.layers,
        "encoder_attention_heads": settings.heads,
        "decoder_attention_heads": settings.heads,
        "encoder_ffn_dim": settings.ffn,
        "decoder_ffn_dim": settings.ffn,
        "activation_function": settings.activation,
        "max_position_embeddings": max(LEAST_POSITIONS, _longest(opened)),
        "forced_eos_token_id": None,
        **{name: needed for name, (_, needed) in marian.REPRESENTED.items()},
        **{name: getattr(settings, name) for name in marian.DROPOUTS},
        **IDS,
    }


def _longest(opened: OpenedModel) -> int:
    """`max_length` subwords, and EOS or BOS with them."""
    return opened.config.decoding.max_length + 1


def _generation(decoding: DecodingSettings) -> dict[str, Any]:
    """Its search as near ours as it goes: K finished hypotheses end it, PAD and BOS never come."""
    return {
        **IDS,
        **{theirs: getattr(decoding, ours) for theirs, ours in marian.SEARCH.items()},
        "early_stopping": True,
        "max_length": decoding.max_length + 1,  # BOS counts
        "suppress_tokens": [PAD, BOS],
        "renormalize_logits": True,  # P is among what may follow
    }


def _write_tokenizer(folder: Path, opened: OpenedModel) -> None:
    """Two SentencePiece models, and the ids of their pieces: once where both agree."""
    tokenizer = opened.tokenizer
    files = tokenizer.file_names  # one for both sides, or source then target
    for name, file in ((marian.SOURCE_SPM, files[0]), (marian.TARGET_SPM, files[-1])):
        (folder / name).write_bytes((opened.artifact.path / file).read_bytes())
    source = _ids_of_pieces(tokenizer.source_pieces(list(range(tokenizer.source_vocab))))
    target = _ids_of_pieces(tokenizer.target_pieces(list(range(tokenizer.target_vocab))))
    write_json(folder / marian.VOCABULARY, source)
    if source != target:
        write_json(folder / marian.TARGET_VOCABULARY, target)
    pad, unk, bos, eos = tokenizer.target_pieces([PAD, UNK, BOS, EOS])
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": source != target,
        "model_max_length": _longest(opened),
        **{"pad_token": pad, "unk_token": unk, "bos_token": bos, "eos_token": eos},
    }
    write_json(folder / marian.TOKENIZER, settings)


def _ids_of_pieces(pieces: list[str]) -> dict[str, int]:
    """A target language's code stands without the space that SentencePiece has before it."""
    return {marian.code_in(piece) or piece: i for i, piece in enumerate(pieces)}
