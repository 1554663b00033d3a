"""SentencePiece models from elsewhere, rewritten so that special symbols have the ids of mtkit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mtkit.errors import UserError
from mtkit.report import warn
from mtkit.symbols import BOS, EOS, PAD, UNK
from mtkit.tokenizer.codec import open_processor, read_model

SPECIAL_PIECES = {PAD: "<pad>", UNK: "<unk>", BOS: "<s>", EOS: "</s>"}


def adopt_model(path: Path) -> bytes:
    """Return a SentencePiece model that splits text as the model in the file does.

    First come the special symbols of mtkit, then the subwords in their old order.

    Raises:
        UserError: the file cannot be read, or is not a SentencePiece model.
    """
    model = parse_model(path)
    trainer, kinds = model.trainer_spec, model.SentencePiece
    replaced = {*SPECIAL_PIECES.values(), trainer.pad_piece, trainer.bos_piece, trainer.eos_piece}
    others = [
        piece
        for piece in model.pieces
        if piece.type != kinds.UNKNOWN
        and not (piece.type == kinds.CONTROL and piece.piece in replaced)
    ]
    if (rule := model.normalizer_spec.name) != "identity":
        warn(f"{path} rewrites text ({rule or 'by its own rules'}), and so will translations be")
    if taken := {piece.piece for piece in others} & {*SPECIAL_PIECES.values()}:
        raise UserError(f"{path} uses {min(taken)} for text, but mtkit for a special symbol")
    return with_pieces(model, [*special_pieces(model), *others])


def parse_model(path: Path) -> Any:
    """Read a SentencePiece model as a protocol buffer, which has no types.

    Raises:
        UserError: the file cannot be read, or is not a SentencePiece model.
    """
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

    model = read_model(path)
    open_processor(path, model)
    return ModelProto.FromString(model)


def special_pieces(model: Any) -> list[Any]:
    """Return the special symbols of mtkit in the order of their ids, as pieces of a model."""
    kinds = model.SentencePiece
    return [
        kinds(piece=piece, type=kinds.UNKNOWN if i == UNK else kinds.CONTROL)
        for i, piece in sorted(SPECIAL_PIECES.items())
    ]


def with_pieces(model: Any, pieces: Iterable[Any]) -> bytes:
    """Serialise a copy of the model with these pieces; special symbols must come first."""
    new = type(model)()
    new.CopyFrom(model)
    del new.pieces[:]
    new.pieces.extend(pieces)
    new.trainer_spec.vocab_size = len(new.pieces)
    for name, i in {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS}.items():
        setattr(new.trainer_spec, f"{name}_id", i)
        setattr(new.trainer_spec, f"{name}_piece", SPECIAL_PIECES[i])
    return bytes(new.SerializeToString(deterministic=True))
