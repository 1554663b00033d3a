"""The attention weights of a translation, with the words that attend to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mtkit.decoding.alignment import merge
from mtkit.decoding.reading import OVERFLOW, Label, Reader, Reading, label_subwords, word_numbers
from mtkit.decoding.search.forced import check_attention, teacher_force
from mtkit.errors import UserError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.symbols import BOS, EOS

AttentionKind = Literal["encoder", "decoder", "cross"]
"""Self-attention of the encoder, masked self-attention of the decoder, or cross-attention."""


@dataclass(frozen=True)
class AttentionMap:
    """The attention of J queries to I keys in L layers with H heads; rows sum to 1."""

    kind: AttentionKind
    queries: list[str]
    """In the encoder the words of the source; otherwise the words or subwords to predict."""
    keys: list[str]
    """In the decoder BOS and the target subwords so far; otherwise the words of the source."""
    weights: Float[Tensor, "L H J I"]


def attention_maps(reader: Reader, reading: Reading) -> dict[AttentionKind, AttentionMap]:
    """Return the attention weights of a sentence, by kind; only the kinds that the model has.

    Raises:
        UserError: the model has no attention, or a weight is not finite.
    """
    model = reader.model
    tokenizer = reader.tokenizer
    check_attention(model)
    begin_piece, end_piece = tokenizer.target_pieces([BOS, EOS])
    begin = label_subwords([begin_piece])
    end = label_subwords([end_piece])
    source = reading.source + end
    target = reading.target + end
    # Words would hide the mask: a later subword of a word attends to earlier ones of the same word.
    subwords = label_subwords(tokenizer.target_pieces(reading.target_ids))
    axes: dict[AttentionKind, tuple[list[Label], list[Label]]] = {
        "encoder": (source, source),
        "decoder": (subwords + end, begin + subwords),
        "cross": (target, source),
    }
    source_ids = torch.tensor([[*reading.source_ids, EOS]], device=model.device)
    target_ids = torch.tensor([[*reading.target_ids, EOS]], device=model.device)
    maps: dict[AttentionKind, AttentionMap] = {}
    for kind, weights in attention_weights(model, source_ids, target_ids).items():
        queries, keys = axes[kind]
        # The model attends to subwords; the subwords of a word become one row or column.
        merged = merge(weights.numpy(), word_numbers(queries), word_numbers(keys))
        maps[kind] = AttentionMap(
            kind,
            queries=[text for text, _ in queries],
            keys=[text for text, _ in keys],
            weights=torch.from_numpy(merged),
        )
    return maps


@torch.inference_mode()
def attention_weights(
    model: EncoderDecoder, source: Int[Tensor, "1 S"], target: Int[Tensor, "1 T"]
) -> dict[AttentionKind, Float[Tensor, "L H Q K"]]:
    """Return the weights of every kind of attention that the model has, in float32 on the CPU.

    Both `source` and `target` end in EOS. The decoder has one query for each predicted symbol.

    Raises:
        UserError: a weight is not finite.
    """
    memory, decoded = teacher_force(model, source, target, keep_encoder_attention=True)
    weights: dict[AttentionKind, Tensor | None] = {
        "encoder": torch.stack(memory.attention, dim=1) if memory.attention else None,
        "decoder": decoded.self_attention,
        "cross": decoded.attention,
    }
    present: dict[AttentionKind, Tensor] = {}
    for kind, of_batch in weights.items():
        if of_batch is None:
            continue
        present[kind] = of_batch[0].float().cpu()
        if not bool(present[kind].isfinite().all()):
            raise UserError(OVERFLOW)
    return present
