"""M2M-100 and NLLB models of transformers (Fan et al. 2021, NLLB Team 2022): dense ones.

They are pre-norm Transformers with fairseq's sinusoids. A source begins with the symbol of its
language (`decoding.source_tag`), and a target with that of its own, the target tag.

Their ids are in fairseq's order: <s>, <pad>, </s>, <unk>, the pieces, the languages, and rows
without a piece. M2M-100 lists the pieces in `vocab.json`; NLLB has those of SentencePiece, in its
order. Decoding starts from </s>. So our BOS has the row of </s>, and is never produced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from mtkit.artifacts.storage import write_json
from mtkit.config.target_tags import piece_of_tag, tag_in_piece
from mtkit.errors import UserError
from mtkit.extras.pretrained import marian
from mtkit.extras.pretrained.marian import FixedSetting
from mtkit.extras.pretrained.vocabulary import (
    SUPPRESSING_BIAS,
    Symbols,
    order_symbols,
    read_ids,
    rewrite_model,
)
from mtkit.models.folder import OpenedModel
from mtkit.report import say
from mtkit.symbols import EOS, PAD, UNK
from mtkit.tokenizer.codec import JOINT_MODEL, Tokenizer
from mtkit.tokenizer.pieces import model_from_bytes, parse_model

MODEL_TYPE = "m2m_100"
FAIRSEQ_IDS = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
START_ID = FAIRSEQ_IDS["</s>"]
FAIRSEQ_SPECIAL_IDS = {
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": START_ID,
    "decoder_start_token_id": START_ID,
}
M2M_SETTINGS = {
    "model_type": FixedSetting(default=None, supported=MODEL_TYPE),
    "scale_embedding": FixedSetting(default=True, supported=True),
    "tie_word_embeddings": FixedSetting(default=True, supported=True),
    **{
        name: FixedSetting(default=number, supported=number)
        for name, number in FAIRSEQ_SPECIAL_IDS.items()
    },
}
ARCHITECTURE = {"norm": "pre", "positions": "fairseq"}
"""Our settings of all these models."""
DEFAULT_SOURCES = ("eng_Latn", "en")
"""The language of sources unless the user names another, in NLLB and in M2M-100."""
_UNNAMED = re.compile(r"<unnamed\d+>")
MAX_UNNAMED = 1000
"""Most rows without a symbol, at the end of an embedding; M2M-100 has 8."""
FIRST_UNNAMED = "<unnamed0>"
"""Our name for <s> of theirs, because our BOS has its name."""
RARE = -1e9
"""The score of a piece that SentencePiece does not know: it merges all others first."""


def read_m2m_vocabulary(folder: Path, config: Mapping[str, Any]) -> tuple[Symbols, Tokenizer]:
    """Read the symbols of both sides, and build a tokenizer with these symbols.

    Raises:
        UserError: a file is missing, damaged, or not supported.
    """
    path = folder / marian.SENTENCEPIECE_FILE
    model = parse_model(marian.find_file(folder, marian.SENTENCEPIECE_FILE))
    ids = _assign_symbol_ids(folder, model, config.get("vocab_size"))
    symbols = order_symbols(path, ids, START_ID, [model])
    kinds = model.SentencePiece
    known = {piece.piece for piece in model.pieces}
    for piece in symbols.pieces:
        if piece not in known:
            kind = kinds.UNUSED if _is_text(piece) else kinds.CONTROL
            model.pieces.add(piece=piece, score=RARE, type=kind)
    content = rewrite_model(path, model, symbols.pieces, may_have_unused=True)
    return symbols, Tokenizer({Path(JOINT_MODEL): content})


def _assign_symbol_ids(folder: Path, model: Any, size: object) -> dict[str, int]:
    """Return all ids of theirs by our names of the pieces, in their order.

    `size`: the number of rows in their embedding, as the config says.
    """
    path = folder / marian.VOCABULARY_FILE
    ids = _assign_nllb_ids(model)
    if path.is_file():
        ids = read_ids(path)
    for piece, number in FAIRSEQ_IDS.items():
        if ids.get(piece) != number:
            raise UserError(f"{folder}: the id of {piece} must be {number}, as in fairseq")
    for name in _read_languages(folder):
        ids.setdefault(piece_of_tag(name), len(ids))
    if not isinstance(size, int) or not len(ids) <= size <= len(ids) + MAX_UNNAMED:
        raise UserError(
            f"{folder}: the vocabulary has {len(ids):,} symbols, but the config of the "
            f"model says {size}"
        )
    ids[FIRST_UNNAMED] = ids.pop("<s>")
    for number in range(len(ids), size):
        ids[f"<unnamed{number}>"] = number
    return dict(sorted(ids.items(), key=lambda item: item[1]))


def _assign_nllb_ids(model: Any) -> dict[str, int]:
    """Return the ids of pieces, which are those of SentencePiece plus one."""
    ids = dict(FAIRSEQ_IDS)
    for number, piece in enumerate(model.pieces):
        if piece.type not in (piece.CONTROL, piece.UNKNOWN):
            ids[piece.piece] = number + 1
    return ids


def _read_languages(folder: Path) -> list[str]:
    """Return the codes of the languages in the order of their ids."""
    settings: dict[str, Any] = {}
    for name in (marian.TOKENIZER_FILE, marian.SYMBOLS_FILE):
        if (folder / name).is_file():
            settings |= marian.read_json_object(folder, name)
    symbols = settings.get("additional_special_tokens") or settings.get("extra_special_tokens")
    if not isinstance(symbols, list) or not symbols:
        raise UserError(f"{folder} has no {marian.SYMBOLS_FILE} that lists its languages")
    languages: list[str] = []
    for symbol in symbols:
        if isinstance(symbol, dict):
            symbol = symbol.get("content")
        languages.append(str(symbol).strip("_"))
    return languages


def choose_source(tokenizer: Tokenizer) -> str:
    """Return the language of sources, unless the user names another, and say so."""
    source = min(tokenizer.tags)
    for usual in DEFAULT_SOURCES:
        if usual in tokenizer.tags:
            source = usual
    say(
        f"the model has {len(tokenizer.tags):,} languages; choose the target with --tag, such as "
        f"--tag de; the source is {source} unless you choose another with --source-tag"
    )
    return source


def is_m2m(opened: OpenedModel) -> bool:
    """Return whether a model has the architecture of M2M-100."""
    encoder = opened.config.model.as_pair().encoder
    has_positions = getattr(encoder, "positions", None) == ARCHITECTURE["positions"]
    return has_positions and getattr(encoder, "norm", None) == ARCHITECTURE["norm"]


def find_rows(opened: OpenedModel, bias: Tensor) -> list[int]:
    """Return our id of each of their symbols, in their order.

    `bias`: our output bias, which theirs do not have.

    Raises:
        UserError: the bias was trained, or the vocabulary is not one of theirs.
    """
    is_silent = bias == SUPPRESSING_BIAS
    if bias[~is_silent].any():
        raise UserError(
            "model.output_bias: M2M-100 has no output bias, so a trained one cannot be exported"
        )
    pieces, _ = opened.tokenizer.vocabularies
    if FIRST_UNNAMED not in pieces:
        raise UserError("the vocabulary is not that of M2M-100 or NLLB, so it cannot be exported")
    first = pieces.index(FIRST_UNNAMED)
    rows = [first, PAD, EOS, UNK]
    for number in range(len(FAIRSEQ_IDS), len(pieces)):
        is_theirs = not is_silent[number]
        if is_theirs and number != first:
            rows.append(number)
    return rows


def change_exported_settings(config: dict[str, Any], search: dict[str, Any], size: int) -> None:
    """Change the settings of an exported MarianMT model to those of an M2M-100 model.

    `size`: the number of their symbols.
    """
    config["architectures"] = ["M2M100ForConditionalGeneration"]
    config["vocab_size"] = size
    config["decoder_vocab_size"] = size
    for name, setting in M2M_SETTINGS.items():
        config[name] = setting.supported
    search.update(FAIRSEQ_SPECIAL_IDS)
    search["suppress_tokens"] = [FAIRSEQ_IDS["<pad>"]]


def export_m2m_tokenizer(folder: Path, opened: OpenedModel, rows: list[int]) -> None:
    """Write the files of M2M100Tokenizer, or those of NllbTokenizer if tags name scripts.

    `rows`: our id of each of their symbols.
    """
    ours, _ = opened.tokenizer.vocabularies
    pieces = [ours[row] for row in rows]
    tags: list[str] = []
    for piece in pieces:
        tag = tag_in_piece(piece)
        if tag is not None:
            tags.append(tag)
    is_nllb = any("_" in tag for tag in tags)
    if is_nllb:
        tokenizer, symbols = "NllbTokenizer", tags
    else:
        tokenizer, symbols = "M2M100Tokenizer", [f"__{tag}__" for tag in tags]
        text = filter(_is_text, [*FAIRSEQ_IDS, *pieces[len(FAIRSEQ_IDS) :]])
        ids = {piece: number for number, piece in enumerate(text)}
        write_json(folder / marian.VOCABULARY_FILE, ids)
    write_json(folder / marian.SYMBOLS_FILE, {"additional_special_tokens": symbols})
    write_json(folder / marian.TOKENIZER_FILE, {"tokenizer_class": tokenizer})
    content = _restore_sentencepiece(opened.tokenizer.models[JOINT_MODEL])
    (folder / marian.SENTENCEPIECE_FILE).write_bytes(content)


def _restore_sentencepiece(content: bytes) -> bytes:
    """Return a SentencePiece model with its special symbols where SentencePiece has them."""
    model = model_from_bytes(content)
    _, unk, bos, eos, *others = list(model.pieces)
    del model.pieces[:]
    model.pieces.extend([unk, bos, eos])
    model.pieces.extend(entry for entry in others if _is_text(entry.piece))
    trainer = model.trainer_spec
    trainer.vocab_size = len(model.pieces)
    trainer.pad_id = -1
    trainer.unk_id = 0
    trainer.bos_id = 1
    trainer.eos_id = 2
    return bytes(model.SerializeToString(deterministic=True))


def _is_text(piece: str) -> bool:
    """Return whether a piece is neither a language nor a row without a piece."""
    if _UNNAMED.fullmatch(piece):
        return False
    return tag_in_piece(piece) is None
