"""Sentences as a model reads and translates them: subwords, their words, and attention weights.

A subword that begins with SentencePiece's space symbol begins a word. In scripts without spaces,
every subword is a word. (Alignments use other words, separated by white space:
`mtkit.decoding.text.words.spaced_words`.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mtkit.config.decoding import DecodingSettings
from mtkit.corpus.text import is_blank, normalise
from mtkit.decoding.alignment import merge
from mtkit.decoding.engines.engine import Request
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.decoding.search.forced import check_attention, teacher_force
from mtkit.decoding.text.line import Line
from mtkit.decoding.text.pipeline import open_window
from mtkit.decoding.text.prefix import check_tag
from mtkit.decoding.text.words import UNSPACED
from mtkit.errors import UserError
from mtkit.models.device import pick_device
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.folder import OpenedModel, Place, read_models
from mtkit.models.weights import load_model
from mtkit.report import plural, printable
from mtkit.symbols import BOS, EOS, SPACE
from mtkit.tokenizer.codec import Tokenizer

_BYTE = re.compile("<0x([0-9A-F]{2})>")

OVERFLOW = "the model computes numbers that are not finite, so its weights are damaged"

Label = tuple[str, int]
"""A word or subword in printable form, and its number of subwords."""


def label_subwords(pieces: Sequence[str]) -> list[Label]:
    """Return a label for every subword."""
    return [(printable(piece), 1) for piece in pieces]


def label_words(pieces: Sequence[str]) -> list[Label]:
    """Return a label for every word that the subwords form."""
    words: list[list[str]] = []
    for piece in pieces:
        if not words or piece.startswith(SPACE) or _ends_unspaced_word(words[-1], piece):
            words.append([])
        words[-1].append(piece)
    return [(printable(_spell(word)), len(word)) for word in words]


def word_numbers(labels: Sequence[Label]) -> list[int]:
    """Return for each subword the number of its word."""
    return [number for number, (_, count) in enumerate(labels) for _ in range(count)]


def _ends_unspaced_word(word: Sequence[str], piece: str) -> bool:
    return word != [SPACE] and bool(UNSPACED.match(word[-1][-1]) or UNSPACED.match(piece))


def _spell(pieces: Sequence[str]) -> str:
    matches = ((piece, _BYTE.fullmatch(piece)) for piece in pieces)
    raw = (bytes.fromhex(byte[1]) if byte else piece.encode() for piece, byte in matches)
    return b"".join(raw).decode(errors="replace").removeprefix(SPACE) or SPACE


@dataclass(frozen=True)
class Reading:
    """A sentence and its translation, as subwords (without BOS and EOS) and words."""

    translation: str
    source_ids: list[int]
    target_ids: list[int]
    source: list[Label]
    target: list[Label]


@dataclass(frozen=True)
class Reader:
    """Reads sentences with one model."""

    model: EncoderDecoder
    tokenizer: Tokenizer
    settings: DecodingSettings
    opened: OpenedModel | None = None
    """The folder of the model, if any."""

    @classmethod
    def of(cls, opened: OpenedModel, device: str) -> Reader:
        """Load the weights of an opened model."""
        model = load_model(opened.config, opened.weights).to(pick_device(device)).eval()
        return cls(model, opened.tokenizer, opened.config.decoding, opened)

    @classmethod
    def load(cls, path: Place | None, device: str, tag: str | None = None) -> Reader:
        """Open and load the model of a run or a model folder; see `open_model`.

        `tag`: the target tag of all sentences, for a model of several languages.
        """
        reader = read_models([path], lambda models: cls.of(models[0], device))
        request = Request(reader.settings).changed(tag=tag)
        check_tag(request.settings.tag, reader.tokenizer)
        return replace(reader, settings=request.settings)

    def read(
        self, text: str, target: str | None = None, *, name: str = "text", subwords: bool = False
    ) -> Reading:
        """Return the sentence with the model's translation, or with `target` instead.

        `name`: what errors call the text. `subwords`: label each subword, not each word.

        Raises:
            UserError: text or target is blank or too long, the text is not one sentence, or all
                scores overflow.
        """
        tokenizer, request = self.tokenizer, Request(self.settings, search_again=False)
        sentences = open_window([Line(text)], tokenizer, request).sentences
        if len(sentences) > 1:
            raise UserError(
                f"{name} is translated in {len(sentences)} parts; give one short sentence"
            )
        source_ids = sentences[0].source[:-1] if sentences else []
        if not source_ids:
            fault = "is blank" if is_blank(text) else "has nothing to translate"
            raise UserError(f"{name} {fault}; give a sentence")
        if target is None:
            with closing(PyTorchEngine(self.model)) as engine:
                (hypotheses,) = engine.search(sentences, request).result()
            if not hypotheses:
                raise UserError(OVERFLOW)
            target_ids = hypotheses[0].tokens
        else:
            target_ids = tokenizer.encode_target([normalise(target)])[0]
            if not 0 < len(target_ids) <= self.settings.max_length:
                longest = self.settings.max_length
                raise UserError(
                    f"target: {plural(len(target_ids), 'subword')}; give 1 to {longest}"
                )
        source, written = tokenizer.source_pieces(source_ids), tokenizer.target_pieces(target_ids)
        translation = tokenizer.decode([target_ids])[0]
        label = label_subwords if subwords else label_words
        return Reading(translation, source_ids, target_ids, label(source), label(written))


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
