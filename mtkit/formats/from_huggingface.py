"""A MarianMT folder of Hugging Face, such as an OPUS-MT model, as a model of ours.

The numbers stay as they are; rows of embeddings and output follow the new order of the symbols
(see `symbols`). A symbol that is only ours gets so low an output bias that it has no part in P.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from safetensors.numpy import save_file

from mtkit.artifacts import create, hash_file
from mtkit.config.base import Settings, first_complaint
from mtkit.config.decoding import DecodingSettings, ModelConfig
from mtkit.config.model import TransformerSettings
from mtkit.config.storage import write_json
from mtkit.decoding.model import CONFIG, WEIGHTS
from mtkit.errors import UserError
from mtkit.formats import marian
from mtkit.formats.export import refuse_existing
from mtkit.formats.marian import Array
from mtkit.formats.symbols import Symbols, read_vocabulary
from mtkit.report import say

SILENCE = -1000.0
"""e to this, beside any other logit, is nothing in float32."""
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
Kind = TypeVar("Kind", bound=Settings)


def from_huggingface(folder: Path | None, output: Path | None) -> None:
    """Writes the model artifact `output`, which must not be there yet.

    Of the settings of its search it takes the beam, the length penalty and the lengths. Raises
    UserError where something in the folder is missing, damaged, or cannot be represented.
    """
    if folder is None or output is None:
        raise UserError("--from huggingface: name its folder, and a new one with -o")
    refuse_existing(output)
    config = marian.json_in(folder, marian.CONFIG)
    if (folder / marian.GENERATION).is_file():
        config |= marian.json_in(folder, marian.GENERATION)
    model = _model(folder / marian.CONFIG, config)
    source, target, tokenizer = read_vocabulary(folder, config)
    weights = _weights(folder, model, source, target)
    settings = {
        "model": model.model_copy(update={"output_bias": "output_bias" in weights}),
        "source_vocab": tokenizer.source_vocab,
        "target_vocab": tokenizer.target_vocab,
        "decoding": _decoding(folder, config),
    }
    card = _validated(ModelConfig, folder, settings).model_dump()
    there = [folder / name for name in marian.FILES if (folder / name).is_file()]
    inputs = {file.name: hash_file(file) for file in there}
    report = {"parameters": sum(weight.size for weight in weights.values())}
    with create(output, "model", {"of": "huggingface", **card}, inputs, report) as new:
        save_file(weights, new / WEIGHTS)
        write_json(new / CONFIG, card)
        tokenizer.copy_to(new)
    say(f"{output}: the model of {folder}, {report['parameters']:,} parameters")


def _model(path: Path, config: Mapping[str, Any]) -> TransformerSettings:
    for name, (absent, needed) in marian.REPRESENTED.items():
        if (found := config.get(name, absent)) != needed:
            raise UserError(f"{path}: {name} is {found}: mtkit can only represent {needed}")
    for name in ("attention_heads", "ffn_dim"):
        if config.get(f"encoder_{name}") != config.get(f"decoder_{name}"):
            raise UserError(f"{path}: {name} of encoder and decoder differ")
    activation = str(config.get("activation_function"))
    if activation not in ACTIVATIONS:
        raise UserError(f"{path}: activation_function is {activation}: mtkit has none such")
    tied = config.get("tie_word_embeddings", True)
    shared = config.get("share_encoder_decoder_embeddings", True)
    settings = {
        "layers": config.get("encoder_layers"),
        "decoder_layers": config.get("decoder_layers"),
        "d_model": config.get("d_model"),
        "ffn": config.get("encoder_ffn_dim"),
        "heads": config.get("encoder_attention_heads"),
        "activation": ACTIVATIONS[activation],
        "tie": ("all" if shared else "target") if tied else "none",
        **{name: config.get(name, 0.0) for name in marian.DROPOUTS},
    }
    return _validated(TransformerSettings, path, settings)


def _decoding(path: Path, config: Mapping[str, Any]) -> DecodingSettings:
    """Its `max_length` counts the symbol that decoding starts from."""
    there = {name: value for name, value in config.items() if value is not None}
    settings = {ours: there[theirs] for theirs, ours in marian.SEARCH.items() if theirs in there}
    if isinstance(longest := there.get("max_length"), int):
        settings["max_length"] = longest - 1
    return _validated(DecodingSettings, path, settings)


def _validated(kind: type[Kind], path: Path, settings: Mapping[str, Any]) -> Kind:
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        raise UserError(f"{path}: {': '.join(first_complaint(error))}") from None


def _weights(
    folder: Path, settings: TransformerSettings, source: Symbols, target: Symbols
) -> dict[str, Array]:
    """Under our names; with an output bias where there is anything in it."""
    layers = marian.layer_parameters(settings)
    of_symbols = marian.vocabulary_parameters(settings, source.before, target.before)
    shapes = {parameter.theirs: parameter.shape for parameter in [*layers, *of_symbols]}
    shapes[marian.OUTPUT_BIAS] = (1, target.before)
    arrays = marian.read_arrays(marian.file_in(folder, marian.WEIGHTS), shapes)
    weights = {layer.ours: arrays[layer.theirs] for layer in layers}
    for parameter in of_symbols:
        rows = source.rows if parameter.ours.startswith("source") else target.rows
        weights[parameter.ours] = arrays[parameter.theirs][rows]
    bias = arrays[marian.OUTPUT_BIAS][0][target.rows]
    bias[target.silent] = SILENCE
    return weights | {"output_bias": bias} if bias.any() else weights
