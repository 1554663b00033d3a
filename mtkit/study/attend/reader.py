"""A sentence, its translation, and where the model looked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.alignment.words import merge
from mtkit.decoding.beam import beam_search
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.decoding.model import open_model
from mtkit.errors import UserError
from mtkit.models.base import TranslationModel
from mtkit.study.attend.weights import HeatMap, Kind, all_weights
from mtkit.study.attend.words import Segments, is_unknown
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.symbols import BOS, EOS


@dataclass(frozen=True)
class Reading:
    """A sentence as the model read and translated it."""

    source: str
    translation: str
    maps: dict[Kind, HeatMap]
    """Heat maps by the kind of attention, of every kind that the model has."""


class Reader:
    """Reads sentences with one model; `segments` makes words of subwords, or leaves them."""

    def __init__(
        self,
        model: TranslationModel,
        tokenizer: Tokenizer,
        settings: DecodingSettings,
        segments: Callable[[Sequence[str]], Segments],
    ) -> None:
        self.model, self.tokenizer, self.settings = model, tokenizer, settings
        self.segments = segments

    @classmethod
    def load(
        cls, path: str | Path | None, device: str, segments: Callable[[Sequence[str]], Segments]
    ) -> Reader:
        """With the model of a run or a model folder; UserError as `open_model`."""
        opened = open_model(path)
        model = PyTorchEngine.load(opened, device).model
        return cls(model, opened.tokenizer, opened.config.decoding, segments)

    def is_blank(self, text: str) -> bool:
        """Whether there is nothing for the model to read."""
        return self.tokenizer.encode_source([text]) == [[]]

    def read(self, text: str, target: str | None = None, *, name: str = "TEXT") -> Reading:
        """The model's own translation of `text`, or `target` as if it were.

        Raises UserError for what is blank, too long, or unknown to the tokenizer, calling the text
        `name`; and for a model without attention.
        """
        tokenizer = self.tokenizer
        source = tokenizer.encode_source([text])[0]
        self._check(name, source, tokenizer.source_pieces(source))
        if target is None:
            written = self._search(source)
        else:
            written = tokenizer.encode_target([target])[0]
            self._check("--target", written, tokenizer.target_pieces(written))
        maps = self._maps(source, written)
        if not maps:
            raise UserError("the model has no attention (model.attention: none): nothing to see")
        return Reading(text, tokenizer.decode([written])[0], maps)

    def _search(self, source: list[int]) -> list[int]:
        found = beam_search(self.model, self._row([*source, EOS]), self.settings)
        best: list[int] = found.tokens[0, 0, : found.lengths[0, 0]].tolist()
        return best

    def _maps(self, source: list[int], written: list[int]) -> dict[Kind, HeatMap]:
        begin, end = self.tokenizer.target_pieces([BOS, EOS])
        read = self.segments(self.tokenizer.source_pieces(source)).between([], [end])
        words = self.segments(self.tokenizer.target_pieces(written))
        before, now = words.between([begin], []), words.between([], [end])
        sides: dict[Kind, tuple[Segments, Segments]] = {
            "cross": (now, read),
            "encoder": (read, read),
            "decoder": (now, before),
        }
        found = all_weights(self.model, self._row([*source, EOS]), self._row([*written, EOS]))
        maps = {}
        for kind, of_subwords in found.items():
            queries, keys = sides[kind]
            weights = merge(of_subwords.numpy(), queries.of_subword, keys.of_subword)
            layers, heads = (range(1, count + 1) for count in weights.shape[:2])
            maps[kind] = HeatMap(
                kind, queries.texts, keys.texts, torch.from_numpy(weights), layers, heads
            )
        return maps

    def _check(self, name: str, ids: list[int], pieces: list[str]) -> None:
        longest = self.settings.max_length
        if not ids:
            raise UserError(f"{name}: blank: give it a sentence")
        if len(ids) > longest:
            raise UserError(
                f"{name}: {len(ids)} subwords, of {longest} at most (decoding.max_length): "
                "give it one sentence"
            )
        if is_unknown(pieces):
            raise UserError(f"{name}: the tokenizer knows none of its letters: wrong language?")

    def _row(self, ids: list[int]) -> torch.Tensor:
        return torch.tensor([ids], device=self.model.output_weight.device)
