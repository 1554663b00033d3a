"""A sentence and its translation as the model reads and writes them, in subwords and in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.contract import EngineOptions, Request, Sentence
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.decoding.model import open_model
from mtkit.errors import UserError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.study.attend.weights import HeatMap, Kind, Segments, all_weights, as_subwords, is_unknown
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.symbols import BOS, EOS


@dataclass(frozen=True)
class Reading:
    """A sentence and its translation, as subwords and words."""

    translation: str
    source_ids: list[int]
    """Subwords of the sentence, without EOS."""
    target_ids: list[int]
    """Subwords of the translation, without BOS and EOS."""
    source: Segments
    target: Segments


@dataclass(frozen=True)
class Reader:
    """Reads sentences with one model."""

    model: EncoderDecoder
    tokenizer: Tokenizer
    settings: DecodingSettings
    segments: Callable[[Sequence[str]], Segments]
    """Makes words of subwords, or leaves them."""

    @classmethod
    def load(
        cls, path: str | Path | None, device: str, segments: Callable[[Sequence[str]], Segments]
    ) -> Reader:
        """With the model of a run or a model folder; UserError as `open_model`."""
        opened = open_model(path)
        model = PyTorchEngine.load(opened, EngineOptions(device=device)).model
        return cls(model, opened.tokenizer, opened.config.decoding, segments)

    def is_blank(self, text: str) -> bool:
        """Whether there is nothing for the model to read."""
        return self.tokenizer.encode_source([text]) == [[]]

    def read(self, text: str, target: str | None = None, *, name: str = "TEXT") -> Reading:
        """The model's own translation of `text`, or `target` as if it were.

        Raises UserError for what is blank, too long, or unknown to the tokenizer, calling the text
        `name`.
        """
        tokenizer = self.tokenizer
        source_ids = tokenizer.encode_source([text])[0]
        source = tokenizer.source_pieces(source_ids)
        self._check(name, source)
        if target is None:
            engine, sentence = PyTorchEngine(self.model), Sentence([*source_ids, EOS])
            found = engine.submit({(0,): sentence}, Request(self.settings)).wait()
            target_ids = found[0][0].tokens
        else:
            target_ids = tokenizer.encode_target([target])[0]
            self._check("--target", tokenizer.target_pieces(target_ids))
        return Reading(
            tokenizer.decode([target_ids])[0],
            source_ids,
            target_ids,
            self.segments(source),
            self.segments(tokenizer.target_pieces(target_ids)),
        )

    def maps(self, reading: Reading) -> dict[Kind, HeatMap]:
        """Where the model looked, by the kind of attention; UserError for a model without any."""
        begin, end = (as_subwords([it]) for it in self.tokenizer.target_pieces([BOS, EOS]))
        source, now, before = reading.source + end, reading.target + end, begin + reading.target
        sides: dict[Kind, tuple[Segments, Segments]] = {
            "cross": (now, source),
            "encoder": (source, source),
            "decoder": (now, before),
        }
        device = self.model.output_weight.device
        ids = (reading.source_ids, reading.target_ids)
        ended = (torch.tensor([[*side, EOS]], device=device) for side in ids)
        found = all_weights(self.model, *ended)
        if not found:
            raise UserError("the model has no attention (model.attention: none): nothing to see")
        return {kind: HeatMap.of(kind, found[kind], *sides[kind]) for kind in found}

    def _check(self, name: str, pieces: list[str]) -> None:
        longest = self.settings.max_length
        if not pieces:
            raise UserError(f"{name}: blank: give it a sentence")
        if len(pieces) > longest:
            raise UserError(
                f"{name}: {len(pieces)} subwords, of {longest} at most (decoding.max_length): "
                "give it one sentence"
            )
        if is_unknown(pieces):
            raise UserError(f"{name}: the tokenizer knows none of its letters: wrong language?")
