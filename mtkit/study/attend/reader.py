"""A sentence, its translation, and where the model looked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float

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
    """Of every kind of attention that the model has."""


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
        weights = all_weights(self.model, self._row([*source, EOS]), self._row([BOS, *written]))
        begin, end = self.tokenizer.target_pieces([BOS, EOS])
        heard = self.segments(self.tokenizer.source_pieces(source)).between([], [end])
        words = self.segments(self.tokenizer.target_pieces(written))
        said, writing = words.between([begin], []), words.between([], [end])
        sides = {"cross": (writing, heard), "encoder": (heard, heard), "decoder": (writing, said)}
        return {kind: _heat_map(weights[kind], *sides[kind]) for kind in weights}

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


def _heat_map(
    weights: Float[torch.Tensor, "L H Q K"], queries: Segments, keys: Segments
) -> HeatMap:
    between = merge(weights.numpy(), queries.of_subword, keys.of_subword)
    return HeatMap(queries.texts, keys.texts, torch.from_numpy(between))
