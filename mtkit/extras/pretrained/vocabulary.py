"""The vocabulary of a MarianMT folder with our ids, and SentencePiece models with the same ids.

In such a folder SentencePiece only splits the text. `vocab.json` maps pieces to ids, usually for
both sides, and a piece that it lacks is <unk>. In mtkit the ids are those of SentencePiece. So the
pieces are sorted into an order that starts with our special symbols, the SentencePiece model of
each side is rewritten to hold all pieces in this order, and the rows of the weights are reordered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtkit.config.target_tags import list_tags, piece_of_tag, standard_tag, tag_in_piece
from mtkit.errors import UserError
from mtkit.extras.pretrained import marian
from mtkit.extras.pretrained.marian import language_code_in
from mtkit.report import say
from mtkit.symbols import BOS, EOS, PAD, UNK
from mtkit.tokenizer.codec import JOINT_MODEL, SOURCE_MODEL, TARGET_MODEL, Tokenizer
from mtkit.tokenizer.pieces import SPECIAL_PIECES, parse_model, special_pieces, with_pieces

SUPPRESSING_BIAS = -1000.0
"""Output bias of a symbol that must never be produced: its probability is 0 in float32."""


@dataclass(frozen=True)
class Symbols:
    """A vocabulary in our order."""

    pieces: list[str]
    rows: list[int]
    """The former id of each symbol, which is its row in the weights."""
    suppressed: list[int]
    """Our ids without a former id; the model must never produce these symbols."""

    @property
    def size(self) -> int:
        return max(self.rows) + 1


def read_vocabulary(folder: Path, config: Mapping[str, Any]) -> tuple[Symbols, Symbols, Tokenizer]:
    """Read the symbols of source and target, and build a tokenizer with these symbols.

    Raises:
        UserError: a file is missing, damaged, or not supported.
    """
    source_spm = parse_model(marian.find_file(folder, marian.SOURCE_SPM))
    target_spm = parse_model(marian.find_file(folder, marian.TARGET_SPM))
    source, target = _read_sides(folder, config, source_spm, target_spm)
    source_model = rewrite_model(folder / marian.SOURCE_SPM, source_spm, source.pieces)
    target_model = rewrite_model(folder / marian.TARGET_SPM, target_spm, target.pieces)
    if source_model == target_model:
        models = {Path(JOINT_MODEL): source_model}
    else:
        models = {Path(SOURCE_MODEL): source_model, Path(TARGET_MODEL): target_model}
    tokenizer = Tokenizer(models)
    if tokenizer.tags:
        tags = list_tags(tokenizer.tags)
        say(f"{folder} translates into several languages; choose one with --tag: {tags}")
    return source, target, tokenizer


def _read_sides(
    folder: Path, config: Mapping[str, Any], source_spm: Any, target_spm: Any
) -> tuple[Symbols, Symbols]:
    """Return the vocabularies of source and target; the models are those of SentencePiece."""
    has_two = _has_two_vocabularies(folder, config)
    source_path = folder / marian.VOCABULARY_FILE
    target_path = folder / marian.TARGET_VOCABULARY_FILE if has_two else source_path
    source_size = config.get("vocab_size")
    source_ids = read_ids(source_path, source_size)
    target_ids = read_ids(target_path, config.get("decoder_vocab_size") or source_size)
    for symbol, setting in (("<pad>", "pad_token_id"), ("</s>", "eos_token_id")):
        if config.get(setting) != target_ids[symbol]:
            raise UserError(
                f"{folder}: {setting} is {config.get(setting)}, but should be the id of {symbol}"
            )
    start = config.get("decoder_start_token_id")
    if not has_two:
        both = order_symbols(target_path, target_ids, start, [source_spm, target_spm])
        return both, both
    # No source starts with BOS, so any symbol can take its place.
    unused = source_ids.get(SPECIAL_PIECES[BOS], source_ids[SPECIAL_PIECES[PAD]])
    source = order_symbols(source_path, source_ids, unused, [source_spm])
    target = order_symbols(target_path, target_ids, start, [target_spm])
    return source, target


def _has_two_vocabularies(folder: Path, config: Mapping[str, Any]) -> bool:
    if not (folder / marian.TOKENIZER_FILE).is_file():
        return False
    settings = marian.read_json_object(folder, marian.TOKENIZER_FILE)
    has_two = bool(settings.get("separate_vocabs"))
    if has_two and config.get("share_encoder_decoder_embeddings", True):
        raise UserError(
            f"{folder} has two vocabularies (separate_vocabs), but shares one embedding"
        )
    return has_two


def read_ids(path: Path, size: int | None = None) -> dict[str, int]:
    """Read the ids 0 … `size` - 1 by their pieces; by default, `size` is the number of pieces."""
    ids = marian.read_json_object(path.parent, path.name)
    are_numbers = all(type(number) is int for number in ids.values())  # a bool is no id
    is_complete = are_numbers and sorted(ids.values()) == list(range(len(ids)))
    if size is None:
        size = len(ids)
    if not is_complete or len(ids) != size:
        raise UserError(
            f"{path}: the ids must be 0 to {len(ids) - 1}, each exactly once, and the "
            f"config of the model says {size}"
        )
    for symbol in ("<pad>", "<unk>", "</s>"):
        if symbol not in ids:
            raise UserError(f"{path} has no symbol {symbol}")
    return dict(sorted(ids.items(), key=lambda item: item[1]))


def order_symbols(path: Path, ids: Mapping[str, int], start: Any, models: list[Any]) -> Symbols:
    """Order the vocabulary `ids` of the file `path`, and all other pieces that `models` produce.

    `start` is the id of the symbol that decoding starts from, our BOS. In Marian this is <pad>,
    which we replace by another symbol; in fairseq it is </s>, which is our EOS, too.
    """
    special = {PAD: ids["<pad>"], UNK: ids["<unk>"], BOS: start, EOS: ids["</s>"]}
    if start not in ids.values() or start == special[UNK]:
        raise UserError(
            f"{path}: decoder_start_token_id is {start}, which is not the id of a symbol"
        )
    others: dict[str, int] = {}
    for piece, number in ids.items():
        if number not in special.values():
            others[_mtkit_piece(piece)] = number
    taken = others.keys() & set(SPECIAL_PIECES.values())
    if taken:
        raise UserError(f"{path}: decoding must start from {min(taken)}, but does not")
    known = others.keys() | set(SPECIAL_PIECES.values())
    unknown = [piece for piece in _find_produced(models) if piece not in known]

    first_unknown = len(SPECIAL_PIECES) + len(others)
    suppressed = list(range(first_unknown, first_unknown + len(unknown)))
    if start == special[PAD]:  # the new BOS has its row, so our PAD must not be produced
        suppressed.append(PAD)
    if start == special[EOS]:
        suppressed.append(BOS)
    return Symbols(
        pieces=[*SPECIAL_PIECES.values(), *others, *unknown],
        rows=[*special.values(), *others.values(), *(special[UNK] for _ in unknown)],
        suppressed=suppressed,
    )


def _mtkit_piece(piece: str) -> str:
    """Return our name for a piece of theirs: the code >>fra<< is the target tag <2fra>."""
    code = language_code_in(piece)
    if code is None:
        return piece
    try:
        return piece_of_tag(standard_tag(code))
    except ValueError:  # it cannot be the name of a tag
        return piece


def _find_produced(models: list[Any]) -> list[str]:
    """Return the pieces that SentencePiece models can produce, each once."""
    produced = dict[str, None]()
    for model in models:
        for piece in model.pieces:
            if piece.type in (piece.NORMAL, piece.USER_DEFINED, piece.BYTE):
                produced[piece.piece] = None
    return list(produced)


def rewrite_model(
    path: Path, model: Any, pieces: list[str], *, may_have_unused: bool = False
) -> bytes:
    """Return the SentencePiece model of `path` with exactly `pieces`, in their order.

    It splits text as before. A piece that the old model lacked can occur in output, but not in
    input. Target tags become control symbols, which are no text.

    Raises:
        UserError: a BPE model lacks some of the pieces.
    """
    entry_class = model.SentencePiece
    rewritten = {}
    for text in pieces:
        is_tag = tag_in_piece(text) is not None
        kind = entry_class.CONTROL if is_tag else entry_class.UNUSED
        rewritten[text] = entry_class(piece=text, type=kind)
    for entry in model.pieces:
        if entry.piece in rewritten:
            rewritten[entry.piece] = entry
    for entry in special_pieces(model):
        rewritten[entry.piece] = entry
    unused = sum(entry.type == entry_class.UNUSED for entry in rewritten.values())
    is_bpe = model.trainer_spec.model_type == model.trainer_spec.BPE
    if unused and is_bpe and not may_have_unused:
        # BPE merges letters into unused pieces, too, so it would split text in another way.
        raise UserError(f"{path} is a BPE model that lacks {unused} pieces of the vocabulary")
    return with_pieces(model, (rewritten[piece] for piece in pieces))
