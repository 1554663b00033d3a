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

from mtkit.errors import UserError
from mtkit.formats import marian
from mtkit.formats.marian import language_code_in
from mtkit.report import warn
from mtkit.symbols import BOS, EOS, PAD, SPACE, UNK
from mtkit.tokenizer.codec import JOINT_MODEL, SOURCE_MODEL, TARGET_MODEL, Tokenizer
from mtkit.tokenizer.pieces import SPECIAL_PIECES, parse_model, special_pieces, with_pieces


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
    paths = [folder / marian.SOURCE_SPM, folder / marian.TARGET_SPM]
    models = [parse_model(marian.find_file(folder, path.name)) for path in paths]
    source, target = _read_sides(folder, config, models)
    spms = [
        _rewrite(paths[0], models[0], source.pieces, reads_codes=True),
        _rewrite(paths[1], models[1], target.pieces, reads_codes=False),
    ]
    if codes := [code for piece in source.pieces if (code := language_code_in(piece))]:
        warn(
            f"{folder} translates into several languages; start each line with a code, such as "
            f"{codes[0]}; when a long line is split, only its first part has the code"
        )
    names = [JOINT_MODEL] if spms[0] == spms[1] else [SOURCE_MODEL, TARGET_MODEL]
    return source, target, Tokenizer(dict(zip(map(Path, names), spms, strict=False)))


def _read_sides(
    folder: Path, config: Mapping[str, Any], models: list[Any]
) -> tuple[Symbols, Symbols]:
    name = marian.TOKENIZER_FILE
    settings = marian.read_json_object(folder, name) if (folder / name).is_file() else {}
    separate = bool(settings.get("separate_vocabs"))
    if separate and config.get("share_encoder_decoder_embeddings", True):
        raise UserError(
            f"{folder} has two vocabularies (separate_vocabs), but shares one embedding"
        )
    name = marian.TARGET_VOCABULARY_FILE if separate else marian.VOCABULARY_FILE
    source_size = config.get("vocab_size")
    source_ids = _read_ids(folder, marian.VOCABULARY_FILE, source_size)
    target_ids = _read_ids(folder, name, config.get("decoder_vocab_size") or source_size)
    for symbol, setting in (("<pad>", "pad_token_id"), ("</s>", "eos_token_id")):
        if config.get(setting) != target_ids[symbol]:
            raise UserError(
                f"{folder}: {setting} is {config.get(setting)}, but should be the id of {symbol}"
            )
    start = config.get("decoder_start_token_id")
    if not separate:
        both = _order_symbols(folder / name, target_ids, start, models)
        return both, both
    unused = source_ids.get(SPECIAL_PIECES[BOS], source_ids[SPECIAL_PIECES[PAD]])
    source = _order_symbols(folder / marian.VOCABULARY_FILE, source_ids, unused, models[:1])
    return source, _order_symbols(folder / name, target_ids, start, models[1:])


def _read_ids(folder: Path, name: str, size: int | None) -> dict[str, int]:
    """Read the ids 0 … `size` - 1 by their pieces."""
    ids = marian.read_json_object(folder, name)
    numbers = [i for i in ids.values() if type(i) is int]
    if len(numbers) != len(ids) or len(ids) != size or sorted(numbers) != list(range(size)):
        raise UserError(
            f"{folder / name}: the ids must be 0 to {len(ids) - 1}, each exactly once, and the "
            f"config of the model says {size}"
        )
    for symbol in ("<pad>", "<unk>", "</s>"):
        if symbol not in ids:
            raise UserError(f"{folder / name} has no symbol {symbol}")
    return dict(sorted(ids.items(), key=lambda item: item[1]))


def _order_symbols(path: Path, ids: Mapping[str, int], start: Any, models: list[Any]) -> Symbols:
    """Order the vocabulary `ids` of the file `path`, and all other pieces that `models` produce.

    `start` is the id of the symbol that decoding starts from, our BOS. In Marian this is <pad>,
    which we replace by another symbol.
    """
    special = {PAD: ids["<pad>"], UNK: ids["<unk>"], BOS: start, EOS: ids["</s>"]}
    if start not in ids.values() or start in (special[UNK], special[EOS]):
        raise UserError(
            f"{path}: decoder_start_token_id is {start}, which is not the id of a symbol"
        )
    others = {  # SentencePiece puts a space before the code that a line starts with
        f"{SPACE}{piece}" if language_code_in(piece) == piece else piece: i
        for piece, i in ids.items()
        if i not in special.values()
    }
    if taken := others.keys() & set(SPECIAL_PIECES.values()):
        raise UserError(f"{path}: decoding must start from {min(taken)}, but does not")
    known = others.keys() | set(SPECIAL_PIECES.values())
    pieces = (piece for model in models for piece in model.pieces)
    produced = [p.piece for p in pieces if p.type in (p.NORMAL, p.USER_DEFINED, p.BYTE)]
    unknown = [piece for piece in dict.fromkeys(produced) if piece not in known]
    first = len(SPECIAL_PIECES) + len(others)
    return Symbols(
        [*SPECIAL_PIECES.values(), *others, *unknown],
        [*special.values(), *others.values()] + [special[UNK]] * len(unknown),
        [*range(first, first + len(unknown))] + [PAD] * (start == special[PAD]),
    )


def _rewrite(path: Path, model: Any, pieces: list[str], *, reads_codes: bool) -> bytes:
    """Return the model of `path` with exactly `pieces`, in their order; it splits text as before.

    A piece that the old model lacked can occur in output, but not in input, except language codes.
    """
    kinds = model.SentencePiece
    rewritten = {piece: kinds(piece=piece, type=kinds.UNUSED) for piece in pieces}
    rewritten |= {piece.piece: piece for piece in model.pieces if piece.piece in rewritten}
    rewritten |= {special.piece: special for special in special_pieces(model)}
    foreign = sum(piece.type == kinds.UNUSED for piece in rewritten.values())
    if foreign and model.trainer_spec.model_type == model.trainer_spec.BPE:
        # BPE would merge unused pieces and split them again.
        raise UserError(
            f"{path} is a BPE model that lacks {foreign} pieces of the shared vocabulary"
        )
    if reads_codes:
        codes = [piece for piece in pieces if language_code_in(piece)]
        rewritten |= {piece: kinds(piece=piece, type=kinds.USER_DEFINED) for piece in codes}
    return with_pieces(model, (rewritten[piece] for piece in pieces))
