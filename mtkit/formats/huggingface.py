"""Models of Hugging Face's transformers, MarianMTModel with MarianTokenizer, from ours and as ours.

Both ways without transformers or torch. Weights keep their values, and on the way out symbols their
ids: the outputs are the same, but for two conventions of its beam search: it counts end of sentence
in |y|, and `length_penalty` means the exponent of that |y|.

On the way in, as of an OPUS-MT model, the rows of embeddings and output follow the new order of the
symbols (see `symbols`). A symbol that is only ours gets so low an output bias that it has no part
in P. Of characters that `source.spm` lacks, MarianTokenizer looks a run up in `vocab.json`, as if
it were a piece; here each run is <unk>.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import ValidationError
from safetensors.torch import save_file
from torch import Tensor

from mtkit.artifacts.manifest import Artifact, create, hash_file, open_artifact, refuse_existing
from mtkit.artifacts.runs import WEIGHTS
from mtkit.artifacts.storage import write_json
from mtkit.config.base import Settings, first_error
from mtkit.config.decoding import DecodingSettings, ModelConfig
from mtkit.config.model import ModelSettings, TransformerSettings
from mtkit.errors import UserError
from mtkit.formats import marian
from mtkit.formats.symbols import Symbols, read_vocabulary
from mtkit.models.folder import OpenedModel, save_model_config
from mtkit.report import say, warn
from mtkit.symbols import BOS, EOS, PAD, UNK

LEAST_POSITIONS = 1024
"""Sinusoids go on for ever, but its table of them ends."""
IDS = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS}
SILENCE = -1000.0
"""e to this, beside any other logit, is nothing in float32."""
NO_PLACE = {
    **dict.fromkeys(("sentences", "truecase"), "transformers reads lines as they are"),
    "repetition_penalty": marian.OTHER_PENALTY,
}
"""Settings of our search that are left out, and why."""
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
Kind = TypeVar("Kind", bound=Settings)


def to_huggingface(opened: OpenedModel, output: Path | None, quantization: str | None) -> Artifact:
    """Writes the folder `output`, which must not be there yet.

    Raises UserError for a model that MarianMT cannot be, by the setting.
    """
    if quantization is not None:
        raise UserError("--quantization: only --to ctranslate2")
    if output is None:
        raise UserError("--to huggingface: name a new folder with -o")
    settings = _suitable(opened.config.model)
    weights = _their_weights(opened, settings)
    inputs = {"model": opened.artifact.identity}
    with create(output, "export", {"format": "huggingface"}, inputs) as folder:
        save_file(weights, folder / marian.WEIGHTS, metadata={"format": "pt"})
        write_json(folder / marian.CONFIG, _their_config(opened, settings))
        write_json(folder / marian.GENERATION, _their_search(opened.config.decoding))
        _write_tokenizer(folder, opened)
    say(f'transformers loads it with MarianMTModel.from_pretrained("{output}")')
    changed = opened.config.decoding.without_defaults()
    for name, reason in NO_PLACE.items():
        if name in changed:
            say(f"decoding.{name} has no place there: {reason}")
    return open_artifact(output, "export")


def _suitable(settings: ModelSettings) -> TransformerSettings:
    try:
        transformer = settings.as_transformer()
    except ValueError as error:
        raise UserError(f"{error}: MarianMT is a Transformer with halves alike") from None
    suitable: Mapping[str, Collection[str | None]] = {
        "norm": ["post"],
        "positions": ["sinusoidal"],
        "neighbourhood": [None],
        "activation": ACTIVATIONS,
    }
    for name, values in suitable.items():
        if (found := getattr(transformer, name)) not in values:
            raise UserError(f"model.{name}: {found}: MarianMT has none")
    return transformer


def _their_weights(opened: OpenedModel, settings: TransformerSettings) -> dict[str, Tensor]:
    vocabularies = opened.config.source_vocab, opened.config.target_vocab
    parameters = [
        *marian.vocabulary_parameters(settings, *vocabularies),
        *marian.layer_parameters(settings),
    ]
    shapes = {parameter.ours: parameter.shape for parameter in parameters}
    if settings.output_bias:
        shapes["output_bias"] = vocabularies[1:]
    arrays = marian.read_arrays(opened.weights, shapes)
    bias = arrays.get("output_bias", torch.zeros(vocabularies[1]))
    weights = {parameter.theirs: arrays[parameter.ours] for parameter in parameters}
    return weights | {marian.OUTPUT_BIAS: bias[None]}


def _their_config(opened: OpenedModel, settings: TransformerSettings) -> dict[str, Any]:
    pair = settings.as_pair()
    return {
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "dtype": "float32",
        "vocab_size": opened.config.source_vocab,
        "decoder_vocab_size": opened.config.target_vocab,
        "share_encoder_decoder_embeddings": settings.tie == "all",
        "tie_word_embeddings": settings.tie != "none",
        "d_model": settings.d_model,
        "encoder_layers": pair.encoder.layers,
        "decoder_layers": pair.decoder.layers,
        "activation_function": settings.activation,
        "max_position_embeddings": max(LEAST_POSITIONS, opened.config.decoding.max_length + 1),
        "forced_eos_token_id": None,
        **{
            f"{half}_{theirs}": getattr(settings, ours)
            for half, (theirs, ours) in product(("encoder", "decoder"), marian.ALIKE.items())
        },
        **{name: needed for name, (_, needed) in marian.REPRESENTED.items()},
        **{name: getattr(settings, name) for name in marian.DROPOUTS},
        **IDS,
    }


def _their_search(decoding: DecodingSettings) -> dict[str, Any]:
    """As near ours as it goes: K finished hypotheses end it, PAD and BOS never come."""
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
    files = list(tokenizer.models)  # one for both sides, or source then target
    for name, file in ((marian.SOURCE_SPM, files[0]), (marian.TARGET_SPM, files[-1])):
        (folder / name).write_bytes((opened.artifact.path / file).read_bytes())
    source, target = (
        # A target language's code stands without the space that SentencePiece has before it.
        {marian.code_in(piece) or piece: i for i, piece in enumerate(pieces)}
        for pieces in tokenizer.vocabularies
    )
    write_json(folder / marian.VOCABULARY, source)
    if source != target:
        write_json(folder / marian.TARGET_VOCABULARY, target)
    pad, unk, bos, eos = tokenizer.target_pieces([PAD, UNK, BOS, EOS])
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": source != target,
        "model_max_length": opened.config.decoding.max_length + 1,  # EOS counts
        **{"pad_token": pad, "unk_token": unk, "bos_token": bos, "eos_token": eos},
    }
    write_json(folder / marian.TOKENIZER, settings)


def from_huggingface(folder: Path | None, output: Path | None) -> None:
    """Writes the model artifact `output`, which must not be there yet.

    Of the settings of its search it takes the beam, the length penalty, the lengths and the n-grams
    that may not come twice. Raises UserError where something in the folder is missing, damaged, or
    cannot be represented.
    """
    if folder is None or output is None:
        raise UserError("--from huggingface: name its folder, and a new one with -o")
    refuse_existing(output)
    config = marian.json_in(folder, marian.CONFIG)
    if (folder / marian.GENERATION).is_file():
        config |= marian.json_in(folder, marian.GENERATION)
    model = _our_model(folder / marian.CONFIG, config)
    source, target, tokenizer = read_vocabulary(folder, config)
    weights = _our_weights(folder, model, source, target)
    settings = {
        "model": model.model_copy(update={"output_bias": "output_bias" in weights}),
        "source_vocab": tokenizer.source_vocab,
        "target_vocab": tokenizer.target_vocab,
        "decoding": _our_search(folder, config),
    }
    card = _validated(ModelConfig, folder, settings)
    there = [folder / name for name in marian.FILES if (folder / name).is_file()]
    inputs = {file.name: hash_file(file) for file in there}
    report = {"parameters": sum(weight.numel() for weight in weights.values())}
    with create(output, "model", {"of": "huggingface", **card.model_dump()}, inputs, report) as new:
        save_file(weights, new / WEIGHTS)
        save_model_config(new, card, tokenizer)
    say(f"{output}: the model of {folder}, {report['parameters']:,} parameters")


def _our_model(path: Path, config: Mapping[str, Any]) -> TransformerSettings:
    for name, (absent, needed) in marian.REPRESENTED.items():
        if (found := config.get(name, absent)) != needed:
            raise UserError(f"{path}: {name} is {found}: mtkit can only represent {needed}")
    for name in marian.ALIKE:
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
        "activation": ACTIVATIONS[activation],
        "tie": ("all" if shared else "target") if tied else "none",
        **{ours: config.get(f"encoder_{theirs}") for theirs, ours in marian.ALIKE.items()},
        **{name: config.get(name, 0.0) for name in marian.DROPOUTS},
    }
    return _validated(TransformerSettings, path, settings)


def _our_search(path: Path, config: Mapping[str, Any]) -> DecodingSettings:
    """Its lengths count the symbol that decoding starts from, but for those of new tokens."""
    there = {name: value for name, value in config.items() if value is not None}
    if there.get("repetition_penalty", 1.0) != 1.0:
        warn(f"{path}: repetition_penalty is left out: {marian.OTHER_PENALTY}")
    lengths = {name: there.get(name) for name in ("max_length", "min_length")}
    settings = {name: max(it - 1, 0) for name, it in lengths.items() if isinstance(it, int)}
    named = marian.SEARCH | {"max_new_tokens": "max_length"}  # which has the last word there, too
    settings |= {ours: there[theirs] for theirs, ours in named.items() if theirs in there}
    return _validated(DecodingSettings, path, settings)


def _validated(kind: type[Kind], path: Path, settings: Mapping[str, Any]) -> Kind:
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        parts = filter(None, (str(path), *first_error(error)))
        raise UserError(": ".join(parts)) from None


def _our_weights(
    folder: Path, settings: TransformerSettings, source: Symbols, target: Symbols
) -> dict[str, Tensor]:
    """With an output bias where there is anything in it."""
    of_symbols = marian.vocabulary_parameters(settings, source.before, target.before)
    parameters = [*marian.layer_parameters(settings), *of_symbols]
    shapes = {parameter.theirs: parameter.shape for parameter in parameters}
    shapes[marian.OUTPUT_BIAS] = (1, target.before)
    arrays = marian.read_arrays(marian.file_in(folder, marian.WEIGHTS), shapes)
    weights = {parameter.ours: arrays[parameter.theirs] for parameter in parameters}
    for name, *_ in of_symbols:
        weights[name] = weights[name][(source if name.startswith("source") else target).rows]
    bias = arrays[marian.OUTPUT_BIAS][0][target.rows]
    bias[torch.tensor(target.silent, dtype=torch.long)] = SILENCE
    return weights | {"output_bias": bias} if bias.any() else weights
