"""Export to and import from Hugging Face's transformers (MarianMTModel with MarianTokenizer).

transformers is not needed. Weights keep their values, so probabilities are the same. Beam search in
transformers differs: it counts EOS in the length |y| whose power `length_penalty` divides scores.

An import, for example of an OPUS-MT model, changes the order of symbols to ours (see `vocabulary`),
and with it the order of rows in embeddings and output. A symbol that only mtkit has gets an output
bias of -1,000. A language code such as >>yor<<, with which their sources begin, is our target tag
yor. Characters that `source.spm` lacks become <unk>, but MarianTokenizer looks them up in
`vocab.json`.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from mtkit.artifacts.manifest import Artifact, hash_file, open_artifact
from mtkit.artifacts.replacement import check_absent, create
from mtkit.artifacts.runs import WEIGHTS
from mtkit.artifacts.storage import write_json
from mtkit.config.base import validated
from mtkit.config.decoding import DecodingSettings, ModelConfig
from mtkit.config.language_codes import find_language
from mtkit.config.model import ModelSettings, TransformerSettings
from mtkit.config.target_tags import piece_of_tag
from mtkit.errors import UserError
from mtkit.extras.pretrained import m2m, marian, release
from mtkit.extras.pretrained.card import CARD, fill_template, make_exported_card
from mtkit.extras.pretrained.marian import FixedSetting, code_of_tag
from mtkit.extras.pretrained.vocabulary import SUPPRESSING_BIAS, Symbols, read_vocabulary
from mtkit.models.folder import OpenedModel, read_models, save_model_config
from mtkit.models.weights import build_without_weights, get_weights, load_model, read_weights
from mtkit.report import say, warn
from mtkit.symbols import BOS, EOS, PAD, UNK

SPECIAL_IDS = {
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "decoder_start_token_id": BOS,
}
UNSUPPORTED_SEARCH = {
    **dict.fromkeys(("sentences", "truecase", "tag"), "transformers takes lines as they are"),
    "repetition_penalty": marian.PENALTY_DIFFERS,
}
"""Our decoding settings that an export leaves out, and why."""
ACTIVATION_NAMES = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}


POST_NORM = {"norm": "post", "positions": "sinusoidal"}
"""Our settings of all MarianMT models."""


def export_to_huggingface(model: str | None, output: Path | None) -> None:
    """Write a model to the new folder `output`.

    Raises:
        UserError: MarianMT cannot represent one of its settings.
    """
    if output is None:
        raise UserError("--to huggingface: choose a new folder with -o")
    check_absent(output)
    read_models([model], lambda models: _export(models[0], output))


def _export(opened: OpenedModel, output: Path) -> None:
    is_m2m = m2m.is_m2m(opened)
    settings = _check_exportable(opened.config.model, m2m.ARCHITECTURE if is_m2m else POST_NORM)
    weights = _export_weights(opened, settings)
    if is_m2m:
        bias = weights.pop(marian.OUTPUT_BIAS)
        rows = m2m.find_rows(opened, bias[0])
        for name, weight in weights.items():
            if _has_row_per_symbol(name, weight):
                weights[name] = weight[rows]
    inputs = {"model": opened.artifact.identity}
    with create(output, "export", {"format": "huggingface"}, inputs) as folder:
        save_file(weights, folder / marian.WEIGHTS_FILE, metadata={"format": "pt"})
        config = _export_config(opened, settings)
        search = _export_search(opened)
        if is_m2m:
            m2m.change_exported_settings(config, search, len(rows))
            m2m.export_m2m_tokenizer(folder, opened, rows)
        else:
            _export_tokenizer(folder, opened)
        write_json(folder / marian.CONFIG_FILE, config)
        write_json(folder / marian.GENERATION_FILE, search)
        card = make_exported_card(opened, "transformers", _show_code(opened, output))
        (folder / CARD).write_text(card, encoding="utf-8")
    say(f"exported: {output}")
    if tags := opened.tokenizer.tags:
        say(f"to translate, {_describe_tags(tags)}")
    say(f'transformers loads it with MarianMTModel.from_pretrained("{output}")')
    changed = opened.config.decoding.model_dump(exclude_defaults=True)
    for name, reason in UNSUPPORTED_SEARCH.items():
        if name in changed:
            say(f"decoding.{name} is not exported, because {reason}")


def _check_exportable(
    settings: ModelSettings, architecture: Mapping[str, str]
) -> TransformerSettings:
    try:
        transformer = settings.as_transformer()
    except ValueError as error:
        raise UserError(f"{error}; MarianMT needs equal Transformer layers on both sides") from None
    supported: Mapping[str, Collection[str | None]] = {
        **{name: [value] for name, value in architecture.items()},
        "neighbourhood": [None],
        "activation": ACTIVATION_NAMES,
    }
    for name, values in supported.items():
        value = getattr(transformer, name)
        if value not in values:
            raise UserError(f"model.{name}: {value} is not supported by MarianMT")
    return transformer


def _export_weights(opened: OpenedModel, settings: TransformerSettings) -> dict[str, Tensor]:
    model = load_model(opened.config, opened.weights)
    weights = {marian.rename(name, settings): weight for name, weight in get_weights(model).items()}
    no_bias = torch.zeros(opened.config.target_vocab)
    bias = weights.get(marian.OUTPUT_BIAS, no_bias)
    weights[marian.OUTPUT_BIAS] = bias[None]
    return weights


def _export_config(opened: OpenedModel, settings: TransformerSettings) -> dict[str, Any]:
    pair = settings.as_pair()
    config = {
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
        "max_position_embeddings": max(1024, opened.config.decoding.max_length + 1),
        "forced_eos_token_id": None,
    }
    for side in ("encoder", "decoder"):
        for marian_name, our_name in marian.SHARED_SETTINGS.items():
            config[f"{side}_{marian_name}"] = getattr(settings, our_name)
    for name, setting in marian.FIXED_SETTINGS.items():
        config[name] = setting.supported
    for name in marian.DROPOUT_SETTINGS:
        config[name] = getattr(settings, name)
    return {**config, **SPECIAL_IDS}


def _export_search(opened: OpenedModel) -> dict[str, Any]:
    """Return the settings of transformers' search that make it search as ours does."""
    decoding = opened.config.decoding
    search = {
        marian_name: getattr(decoding, our_name)
        for marian_name, our_name in marian.SEARCH_SETTINGS.items()
    }
    return {
        **SPECIAL_IDS,
        **search,
        # A sentence ends when as many hypotheses as the beam is wide have ended.
        "early_stopping": True,
        # The length of a hypothesis counts BOS there, but not here.
        "max_length": decoding.max_length + 1,
        "suppress_tokens": [PAD, BOS, *opened.tokenizer.source_only],
        # Probabilities sum to 1 without the suppressed symbols.
        "renormalize_logits": True,
    }


def _export_tokenizer(folder: Path, opened: OpenedModel) -> None:
    tokenizer = opened.tokenizer
    models = list(tokenizer.models.values())  # one for both sides, or source then target
    (folder / marian.SOURCE_SPM).write_bytes(models[0])
    (folder / marian.TARGET_SPM).write_bytes(models[-1])
    codes = {piece_of_tag(tag): code_of_tag(tag) for tag in tokenizer.tags}
    source, target = (_assign_ids(pieces, codes) for pieces in tokenizer.vocabularies)
    write_json(folder / marian.VOCABULARY_FILE, source)
    if source != target:
        write_json(folder / marian.TARGET_VOCABULARY_FILE, target)
    pad, unk, bos, eos = tokenizer.target_pieces([PAD, UNK, BOS, EOS])
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": source != target,
        # The length of a source counts EOS there, but not here.
        "model_max_length": opened.config.decoding.max_length + 1,
        "pad_token": pad,
        "unk_token": unk,
        "bos_token": bos,
        "eos_token": eos,
    }
    write_json(folder / marian.TOKENIZER_FILE, settings)


def _assign_ids(pieces: Iterable[str], codes: Mapping[str, str]) -> dict[str, int]:
    """Return the ids of pieces as vocab.json has them; `codes`: the target tags of theirs."""
    ids = {}
    for number, piece in enumerate(pieces):
        # MarianTokenizer looks a language code up without SentencePiece's space.
        ids[codes.get(piece) or marian.language_code_in(piece) or piece] = number
    return ids


def _show_code(opened: OpenedModel, output: Path) -> str:
    """Return Markdown that shows how to translate with transformers, and with mtkit."""
    tags = opened.tokenizer.tags
    code = fill_template(
        "transformers",
        folder=output.name,
        shell_folder=shlex.quote(output.name),
        code=f"{code_of_tag(min(tags))} " if tags else "",
        option=f" --tag {min(tags)}" if tags else "",
    )
    return f"{code}\nWith transformers, {_describe_tags(tags)}\n" if tags else code


def _describe_tags(tags: Iterable[str]) -> str:
    """Say how transformers chooses the language of the targets."""
    codes = [code_of_tag(tag) for tag in sorted(tags)]
    return (
        f"start each source with the code of its target language ({', '.join(codes)}), such as: "
        f"{codes[0]} This is a sentence."
    )


def from_huggingface(folder: Path | None, output: Path | None) -> None:
    """Import the model in `folder` as the new model folder `output`.

    Beam, length penalty, length limits and `no_repeat_ngram` are imported, too.

    Raises:
        UserError: something in the folder is missing, damaged, or not supported.
    """
    if folder is None or output is None:
        raise UserError(
            "--from huggingface: give the folder of the model, and a new folder with -o"
        )
    check_absent(output)
    model = import_model(folder, output, {"place": str(folder)})
    say(f"{output} holds the model of {folder}, with {model.report['parameters']:,} parameters")


def import_model(folder: Path, output: Path, origin: Mapping[str, str]) -> Artifact:
    """Write the model of a MarianMT folder as the artifact `output`, and return it.

    `origin`: what its report says of where it came from.

    Raises:
        UserError: something in the folder is missing, damaged, or not supported.
    """
    if release.is_release(folder):
        with TemporaryDirectory() as converted:
            release.convert_release(folder, Path(converted))
            try:
                return import_model(Path(converted), output, origin)
            except UserError as error:
                raise UserError(str(error).replace(converted, str(folder))) from None
    config = marian.read_json_object(folder, marian.CONFIG_FILE)
    if (folder / marian.GENERATION_FILE).is_file():
        config |= marian.read_json_object(folder, marian.GENERATION_FILE)
    is_m2m = config.get("model_type") == m2m.MODEL_TYPE
    fixed = m2m.M2M_SETTINGS if is_m2m else marian.FIXED_SETTINGS
    model = _import_model(folder / marian.CONFIG_FILE, config, fixed)
    decoding = _import_search(folder, config)
    if is_m2m:
        model = model.model_copy(update=m2m.ARCHITECTURE)
        target, tokenizer = m2m.read_m2m_vocabulary(folder, config)
        source = target
        source_tag = m2m.choose_source(tokenizer)
        # They were trained on single sentences.
        language = {"source_tag": source_tag, "sentences": find_language(source_tag)}
        decoding = decoding.model_copy(update=language)
    else:
        source, target, tokenizer = read_vocabulary(folder, config)
    weights = _import_weights(folder, model, source, target)
    values = {
        "model": model.model_copy(update={"output_bias": "output_bias" in weights}),
        "source_vocab": tokenizer.source_vocab,
        "target_vocab": tokenizer.target_vocab,
        "decoding": decoding,
    }
    model_config = validated(ModelConfig, values, str(folder))
    settings = {"of": "huggingface", **model_config.model_dump()}
    inputs = {file.name: hash_file(file) for file in marian.find_files(folder)}
    parameters = sum(weight.numel() for weight in weights.values())
    report = {"parameters": parameters, "origin": dict(origin)}
    with create(output, "model", settings, inputs, report) as draft:
        save_file(weights, draft / WEIGHTS)
        save_model_config(draft, model_config, tokenizer)
    return open_artifact(output, "model")


def _import_model(
    path: Path, config: Mapping[str, Any], fixed: Mapping[str, FixedSetting]
) -> TransformerSettings:
    _check_importable(path, config, fixed)
    activation = str(config.get("activation_function"))
    settings = {
        "layers": config.get("encoder_layers"),
        "decoder_layers": config.get("decoder_layers"),
        "d_model": config.get("d_model"),
        "activation": ACTIVATION_NAMES[activation],
        "tie": _import_tie(config),
    }
    for marian_name, our_name in marian.SHARED_SETTINGS.items():
        settings[our_name] = config.get(f"encoder_{marian_name}")
    for name in marian.DROPOUT_SETTINGS:
        settings[name] = config.get(name, 0.0)
    return validated(TransformerSettings, settings, str(path))


def _check_importable(
    path: Path, config: Mapping[str, Any], fixed: Mapping[str, FixedSetting]
) -> None:
    for name, setting in fixed.items():
        value = config.get(name, setting.default)
        if value != setting.supported:
            raise UserError(
                f"{path}: {name} is {value}, but mtkit supports only {setting.supported}"
            )
    for name in marian.SHARED_SETTINGS:
        if config.get(f"encoder_{name}") != config.get(f"decoder_{name}"):
            raise UserError(
                f"{path}: encoder and decoder differ in {name}, which mtkit does not support"
            )
    activation = str(config.get("activation_function"))
    if activation not in ACTIVATION_NAMES:
        raise UserError(f"{path}: activation_function {activation} is not supported by mtkit")


def _import_tie(config: Mapping[str, Any]) -> str:
    """Return which embeddings share weights with the output layer, as our setting `tie` says."""
    if not config.get("tie_word_embeddings", True):
        return "none"
    return "all" if config.get("share_encoder_decoder_embeddings", True) else "target"


def _import_search(path: Path, config: Mapping[str, Any]) -> DecodingSettings:
    present = {name: value for name, value in config.items() if value is not None}
    if present.get("repetition_penalty", 1.0) != 1.0:
        warn(f"{path}: repetition_penalty is ignored, because {marian.PENALTY_DIFFERS}")
    settings = {}
    for name in ("max_length", "min_length"):
        length = present.get(name)
        if isinstance(length, int):
            settings[name] = max(length - 1, 0)  # these lengths count the start symbol
    # Numbers of new tokens do not count it. If both are given, transformers obeys these.
    named = marian.SEARCH_SETTINGS | {"max_new_tokens": "max_length"}
    for marian_name, our_name in named.items():
        if marian_name in present:
            settings[our_name] = present[marian_name]
    return validated(DecodingSettings, settings, str(path))


def _has_row_per_symbol(name: str, weight: Tensor) -> bool:
    is_norm = weight.dim() == 1
    return ".layers." not in name and not is_norm


def _read_tensors(folder: Path, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Read the weights that `expected` names, from one file or from shards."""
    shards = marian.find_shards(folder)
    missing = expected.keys() - shards.keys()
    if shards and missing:
        raise UserError(f"{folder / marian.INDEX_FILE}: {min(missing)} is missing")
    expected_by_file: dict[str, dict[str, Tensor]] = {}
    for name, tensor in expected.items():
        file_name = shards.get(name, marian.WEIGHTS_FILE)
        expected_by_file.setdefault(file_name, {})[name] = tensor
    tensors: dict[str, Tensor] = {}
    for file_name, some in expected_by_file.items():
        path = marian.find_file(folder, file_name)
        tensors |= read_weights(path, some, may_hold_others=True)
    return tensors


def _import_weights(
    folder: Path, settings: TransformerSettings, source: Symbols, target: Symbols
) -> dict[str, Tensor]:
    """Read the weights under our names, with rows in our order of symbols."""
    model = build_without_weights(settings, source.size, target.size)
    marian_names = {name: marian.rename(name, settings) for name, _ in model.named_parameters()}
    expected: dict[str, Tensor] = {
        marian_names[name]: weight for name, weight in model.named_parameters()
    }
    has_bias = settings.norm == "post"  # M2M-100 has none
    if has_bias:
        expected[marian.OUTPUT_BIAS] = torch.empty(1, target.size, device="meta")
    tensors = _read_tensors(folder, expected)
    weights = {}
    for name, marian_name in marian_names.items():
        weight = tensors[marian_name]
        if _has_row_per_symbol(name, weight):
            symbols = source if name.startswith("source") else target
            weight = weight[symbols.rows]
        weights[name] = weight
    bias = torch.zeros(len(target.rows))
    if has_bias:
        bias = tensors[marian.OUTPUT_BIAS][0][target.rows]
    suppressed = torch.tensor(target.suppressed, dtype=torch.long)
    bias[suppressed] = SUPPRESSING_BIAS
    if bias.any():
        weights["output_bias"] = bias
    return weights
