"""SentencePiece models from elsewhere, rewritten so that special symbols have the ids of mtkit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mtkit.config.target_tags import piece_of_tag, tag_in_piece
from mtkit.errors import UserError
from mtkit.report import warn
from mtkit.symbols import BOS, EOS, PAD, UNK
from mtkit.tokenizer.codec import open_processor, read_model

SPECIAL_PIECES = {PAD: "<pad>", UNK: "<unk>", BOS: "<s>", EOS: "</s>"}


def adopt_model(path: Path, tags: Sequence[str] = ()) -> bytes:
    """Return a SentencePiece model that splits text as the model in the file does.

    First come the special symbols of mtkit, then the subwords in their old order, then those target
    tags of `tags` that the model lacks.

    Raises:
        UserError: the file cannot be read, or is not a SentencePiece model.
    """
    model = parse_model(path)
    rule = model.normalizer_spec.name
    if rule != "identity":
        warn(
            f"{path} normalises text ({rule or 'by its own rules'}); translations will be "
            "normalised the same way"
        )
    subwords = _subwords(model)
    reserved = set(SPECIAL_PIECES.values())
    taken = reserved.intersection(subword.piece for subword in subwords)
    if taken:
        raise UserError(
            f"{path} defines {min(taken)} as an ordinary subword, but mtkit reserves it as a "
            "special symbol"
        )
    return with_pieces(model, special_pieces(model) + _with_tags(model, subwords, tags))


def _with_tags(model: Any, subwords: list[Any], tags: Sequence[str]) -> list[Any]:
    """Return the pieces of a model with exactly these target tags as control symbols.

    Raises:
        UserError: the model has a tag as ordinary text.
    """
    kinds = model.SentencePiece
    pieces: list[Any] = []
    missing = {piece_of_tag(name) for name in tags}
    for subword in subwords:
        is_control = subword.type == kinds.CONTROL
        if subword.piece in missing:
            if not is_control:
                raise UserError(
                    f"the tokenizer has {subword.piece} as an ordinary subword, so it cannot be a "
                    "target tag; choose another name"
                )
            missing.remove(subword.piece)
        elif is_control and tag_in_piece(subword.piece) is not None:
            # The tag of a language that this model will not be trained on.
            subword = kinds(piece=subword.piece, type=kinds.UNUSED)
        pieces.append(subword)
    return pieces + [kinds(piece=piece, type=kinds.CONTROL) for piece in sorted(missing)]


def _subwords(model: Any) -> list[Any]:
    """Return the pieces of a model without its special symbols, in their order."""
    kinds = model.SentencePiece
    trainer = model.trainer_spec
    special_names = {trainer.pad_piece, trainer.bos_piece, trainer.eos_piece}
    special_names.update(SPECIAL_PIECES.values())
    subwords: list[Any] = []
    for piece in model.pieces:
        # Other control symbols, such as <2de>, stay; so does text that has a special name.
        is_special = piece.type == kinds.CONTROL and piece.piece in special_names
        if piece.type != kinds.UNKNOWN and not is_special:
            subwords.append(piece)
    return subwords


def parse_model(path: Path) -> Any:
    """Read a SentencePiece model as a protocol buffer, which has no types.

    Raises:
        UserError: the file cannot be read, or is not a SentencePiece model.
    """
    model = read_model(path)
    open_processor(path, model)
    return model_from_bytes(model)


def model_from_bytes(model: bytes) -> Any:
    """Return a serialised SentencePiece model as a protocol buffer, which has no types."""
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

    return ModelProto.FromString(model)


def special_pieces(model: Any) -> list[Any]:
    """Return the special symbols of mtkit in the order of their ids, as pieces of a model."""
    kinds = model.SentencePiece
    pieces: list[Any] = []
    for symbol in sorted(SPECIAL_PIECES):
        kind = kinds.UNKNOWN if symbol == UNK else kinds.CONTROL
        pieces.append(kinds(piece=SPECIAL_PIECES[symbol], type=kind))
    return pieces


def with_pieces(model: Any, pieces: Iterable[Any]) -> bytes:
    """Serialise a copy of the model with these pieces; special symbols must come first."""
    new = type(model)()
    new.CopyFrom(model)
    del new.pieces[:]
    new.pieces.extend(pieces)
    new.trainer_spec.vocab_size = len(new.pieces)
    symbols = {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS}
    for name, symbol in symbols.items():
        setattr(new.trainer_spec, f"{name}_id", symbol)
        setattr(new.trainer_spec, f"{name}_piece", SPECIAL_PIECES[symbol])
    # The file has a hash, so the same model must always give the same bytes.
    return bytes(new.SerializeToString(deterministic=True))
