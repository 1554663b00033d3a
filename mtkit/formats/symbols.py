"""The vocabulary of a MarianMT folder under our ids, and its SentencePiece models to match.

In such a folder SentencePiece only cuts the text; `vocab.json` gives the pieces their ids, one list
for both sides as a rule, and a piece that it does not know is <unk>. Here SentencePiece's ids are
the model's. So the pieces are put in an order that begins with our special symbols, the model of
each side is rewritten to hold all of them in that order, and the weights' rows follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor

from mtkit.errors import UserError
from mtkit.formats import marian
from mtkit.formats.marian import code_in
from mtkit.report import warn
from mtkit.symbols import BOS, EOS, PAD, SPACE, UNK
from mtkit.tokenizer.codec import JOINT, SOURCE, TARGET, Tokenizer

SPECIAL = {PAD: "<pad>", UNK: "<unk>", BOS: "<s>", EOS: "</s>"}


@dataclass(frozen=True)
class Symbols:
    """A vocabulary in our order."""

    pieces: list[str]
    """As SentencePiece is to name them."""
    rows: list[int]
    """The id that each had: the row of the weights that is its."""
    silent: list[int]
    """Those of our ids that had none of their own, and must never be produced."""

    @property
    def before(self) -> int:
        """How many symbols there were; each of them is still there."""
        return max(self.rows) + 1


def read_vocabulary(folder: Path, config: Mapping[str, Any]) -> tuple[Symbols, Symbols, Tokenizer]:
    """The symbols of source and target, and the tokenizer that has them.

    Raises UserError where a file is missing, damaged, or cannot be represented.
    """
    paths = [folder / marian.SOURCE_SPM, folder / marian.TARGET_SPM]
    models = [_read_model(path) for path in paths]
    source, target = _both_sides(folder, config, models)
    spms = [
        _rewritten(paths[0], models[0], source.pieces, reads_codes=True),
        _rewritten(paths[1], models[1], target.pieces, reads_codes=False),
    ]
    if codes := [code for piece in source.pieces if (code := code_in(piece))]:
        warn(
            f"{folder}: translates into several languages: begin each line with its code, as "
            f"{codes[0]}; where a line is too long and is split, only its first part has it"
        )
    names = [JOINT] if spms[0] == spms[1] else [SOURCE, TARGET]
    return source, target, Tokenizer(dict(zip(map(Path, names), spms, strict=False)))


def _both_sides(
    folder: Path, config: Mapping[str, Any], models: list[Any]
) -> tuple[Symbols, Symbols]:
    settings = (folder / marian.TOKENIZER).is_file() and marian.json_in(folder, marian.TOKENIZER)
    separate = bool(settings and settings.get("separate_vocabs"))
    if separate and config.get("share_encoder_decoder_embeddings", True):
        raise UserError(f"{folder}: two vocabularies (separate_vocabs), but one embedding of both")
    name = marian.TARGET_VOCABULARY if separate else marian.VOCABULARY
    source_size = config.get("vocab_size")
    source_ids = _read_ids(folder, marian.VOCABULARY, source_size)
    target_ids = _read_ids(folder, name, config.get("decoder_vocab_size") or source_size)
    for symbol, setting in (("<pad>", "pad_token_id"), ("</s>", "eos_token_id")):
        if config.get(setting) != target_ids[symbol]:
            raise UserError(f"{folder}: {setting} is {config.get(setting)}, not that of {symbol}")
    start = config.get("decoder_start_token_id")
    if not separate:
        both = _symbols(folder / name, target_ids, start, models)
        return both, both
    unused = source_ids.get(SPECIAL[BOS], source_ids[SPECIAL[PAD]])  # nothing starts on this side
    source = _symbols(folder / marian.VOCABULARY, source_ids, unused, models[:1])
    return source, _symbols(folder / name, target_ids, start, models[1:])


def _read_model(path: Path) -> Any:
    """A protocol buffer, which has no types."""
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

    model = marian.file_in(path.parent, path.name).read_bytes()
    try:
        processor = SentencePieceProcessor(model_proto=model)
        processor.id_to_piece(list(range(processor.vocab_size())))  # they may be no UTF-8
    except (RuntimeError, ValueError):
        raise UserError(f"{path}: not a SentencePiece model") from None
    return ModelProto.FromString(model)


def _read_ids(folder: Path, name: str, size: int | None) -> dict[str, int]:
    """The ids 0 … `size` - 1 by their pieces."""
    ids = marian.json_in(folder, name)
    if len(ids) != size:
        raise UserError(f"{folder / name}: {len(ids)} symbols, but its config has {size}")
    if any(type(i) is not int for i in ids.values()) or sorted(ids.values()) != list(range(size)):
        raise UserError(f"{folder / name}: its ids are not those from 0 to {size - 1}, each once")
    for symbol in ("<pad>", "<unk>", "</s>"):
        if symbol not in ids:
            raise UserError(f"{folder / name}: has no {symbol}")
    return dict(sorted(ids.items(), key=lambda item: item[1]))


def _symbols(path: Path, ids: Mapping[str, int], start: Any, models: list[Any]) -> Symbols:
    """The vocabulary `ids` of the file `path`, and every other piece that `models` cut.

    `start` is the symbol that decoding starts from, our BOS: in Marian <pad>, whose place is then
    taken by one of our own.
    """
    special = {PAD: ids["<pad>"], UNK: ids["<unk>"], BOS: start, EOS: ids["</s>"]}
    if start not in ids.values() or start in (special[UNK], special[EOS]):
        raise UserError(f"{path}: decoder_start_token_id is {start}: no symbol to start from")
    others = {  # SentencePiece sees a space before the code that a line begins with
        f"{SPACE}{piece}" if code_in(piece) == piece else piece: i
        for piece, i in ids.items()
        if i not in special.values()
    }
    if taken := others.keys() & set(SPECIAL.values()):
        raise UserError(f"{path}: {min(taken)} is not what decoding starts from: mtkit needs it so")
    known = others.keys() | set(SPECIAL.values())
    pieces = (piece for model in models for piece in model.pieces)
    cut = [p.piece for p in pieces if p.type in (p.NORMAL, p.USER_DEFINED, p.BYTE)]
    unknown = [piece for piece in dict.fromkeys(cut) if piece not in known]
    first = len(SPECIAL) + len(others)
    silent = [*range(first, first + len(unknown))] + [PAD] * (start == special[PAD])
    return Symbols(
        [*SPECIAL.values(), *others, *unknown],
        [*special.values(), *others.values()] + [special[UNK]] * len(unknown),
        silent,
    )


def _rewritten(path: Path, model: Any, pieces: list[str], *, reads_codes: bool) -> bytes:
    """The model that was at `path` with just `pieces`, in their order; it cuts text as before.

    Pieces that it did not have it can write, but never reads, but for a target language's code.
    """
    kinds = model.SentencePiece
    special = dict.fromkeys(SPECIAL.values(), kinds.CONTROL) | {SPECIAL[UNK]: kinds.UNKNOWN}
    made = {piece: kinds(piece=piece, type=kinds.UNUSED) for piece in pieces}
    made |= {piece.piece: piece for piece in model.pieces if piece.piece in made}
    made |= {piece: kinds(piece=piece, type=kind) for piece, kind in special.items()}
    foreign = sum(piece.type == kinds.UNUSED for piece in made.values())
    if foreign and model.trainer_spec.model_type == model.trainer_spec.BPE:
        # It would merge them all the same, and take them apart again.
        raise UserError(f"{path}: a BPE model without {foreign} of the shared vocabulary's pieces")
    if reads_codes:
        codes = [piece for piece in pieces if code_in(piece)]
        made |= {piece: kinds(piece=piece, type=kinds.USER_DEFINED) for piece in codes}
    new = type(model)()
    new.CopyFrom(model)
    del new.pieces[:]
    new.pieces.extend(made[piece] for piece in pieces)
    new.trainer_spec.vocab_size = len(pieces)
    for name, i in {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS}.items():
        setattr(new.trainer_spec, f"{name}_id", i)
        setattr(new.trainer_spec, f"{name}_piece", SPECIAL[i])
    return bytes(new.SerializeToString(deterministic=True))
