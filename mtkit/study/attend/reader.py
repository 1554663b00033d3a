"""Reads a sentence and its translation with a model, as `mtkit translate` would read them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import torch

from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.alignment import merge
from mtkit.decoding.engine import Request, Sentence
from mtkit.decoding.lines import input_lines
from mtkit.decoding.pytorch import PyTorchEngine
from mtkit.decoding.segment import Line, segment
from mtkit.errors import UserError
from mtkit.models.device import pick_device
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.folder import open_model
from mtkit.models.weights import load_model
from mtkit.study.attend.weights import (
    AttentionKind,
    HeatMap,
    Labels,
    attention_weights,
    is_unknown,
    label_subwords,
    label_words,
)
from mtkit.symbols import BOS, EOS
from mtkit.tokenizer.codec import Tokenizer


@dataclass(frozen=True)
class Reading:
    """A sentence and its translation, as subwords and words."""

    translation: str
    source_ids: list[int]
    """Subwords of the sentence, without EOS."""
    target_ids: list[int]
    """Subwords of the translation, without BOS and EOS."""
    source: Labels
    target: Labels


@dataclass(frozen=True)
class Reader:
    """Reads sentences with one model."""

    model: EncoderDecoder
    tokenizer: Tokenizer
    settings: DecodingSettings
    label: Callable[[Sequence[str]], Labels] = label_words
    """Makes words of subwords, or leaves them."""

    @classmethod
    def load(cls, path: str | Path | None, device: str, *, subwords: bool = False) -> Reader:
        """Load the model of a run or a model folder.

        Raises:
            UserError: see `open_model`.
        """
        opened = open_model(path)
        model = load_model(opened.config, opened.weights).to(pick_device(device)).eval()
        label = label_subwords if subwords else label_words
        return cls(model, opened.tokenizer, opened.config.decoding, label)

    def is_blank(self, text: str) -> bool:
        """Return whether nothing of the text is translated."""
        return not self._sentences(text)

    def read(self, text: str, target: str | None = None, *, name: str = "text") -> Reading:
        """Return the sentence with the model's own translation, or with `target` instead.

        Raises:
            UserError: the text, which the error calls `name`, or the target is blank, too long or
                unknown to the tokenizer, or the text is several sentences.
        """
        tokenizer, sentences = self.tokenizer, self._sentences(text)
        if len(sentences) > 1:
            raise UserError(f"{name}: translated in {len(sentences)} parts: give a short sentence")
        source_ids = sentences[0].source[:-1] if sentences else []
        source = tokenizer.source_pieces(source_ids)
        self._check(name, source)
        if target is None:
            with closing(PyTorchEngine(self.model)) as engine:
                ((best,),) = engine.search(sentences, Request(self.settings)).result()
            target_ids = best.tokens
        else:
            target_ids = tokenizer.encode_target([target])[0]
            self._check("target", tokenizer.target_pieces(target_ids))
        labels = map(self.label, (source, tokenizer.target_pieces(target_ids)))
        return Reading(tokenizer.decode([target_ids])[0], source_ids, target_ids, *labels)

    def heat_maps(self, reading: Reading) -> dict[AttentionKind, HeatMap]:
        """Return the attention weights between the words, by the kind of attention.

        Raises:
            UserError: the model has no attention.
        """
        begin, end = (label_subwords([it]) for it in self.tokenizer.target_pieces([BOS, EOS]))
        source, target, before = reading.source + end, reading.target + end, begin + reading.target
        axes: dict[AttentionKind, tuple[Labels, Labels]] = {
            "cross": (target, source),
            "encoder": (source, source),
            "decoder": (target, before),
        }
        ids = (reading.source_ids, reading.target_ids)
        ended = (torch.tensor([[*side, EOS]], device=self.model.device) for side in ids)
        maps: dict[AttentionKind, HeatMap] = {}
        for kind, weights in attention_weights(self.model, *ended).items():
            queries, keys = axes[kind]
            merged = merge(weights.numpy(), queries.of_subword, keys.of_subword)
            maps[kind] = HeatMap(kind, queries.texts, keys.texts, torch.from_numpy(merged))
        if not maps:
            raise UserError("the model has no attention (model.attention: none)")
        return maps

    def _sentences(self, text: str) -> list[Sentence]:
        """Return what `mtkit translate` translates one by one."""
        segments = segment(Line(text), self.tokenizer, Request(self.settings))
        return [each for each in segments if isinstance(each, Sentence)]

    def _check(self, name: str, pieces: list[str]) -> None:
        longest = self.settings.max_length
        if not pieces:
            raise UserError(f"{name}: blank: give a sentence")
        if len(pieces) > longest:
            raise UserError(
                f"{name}: {len(pieces)} subwords, more than decoding.max_length ({longest}): "
                "give a shorter sentence"
            )
        if is_unknown(pieces):
            raise UserError(f"{name}: the tokenizer knows none of its letters: wrong language?")


def named_sentences(text: str | None) -> Iterator[tuple[str, str]]:
    """Yield `text`, or the lines of stdin, after what an error calls each.

    Raises:
        UserError: stdin is empty.
    """
    if text is not None:
        yield "text", replace_invalid(text)
        return
    number = 0
    for number, line in enumerate(input_lines(None), start=1):
        yield f"input line {number}", line
    if not number:
        raise UserError("stdin: empty: give a sentence")


def replace_invalid(argument: str) -> str:
    """Return a command-line argument with invalid UTF-8 replaced."""
    return os.fsencode(argument).decode(errors="replace")
