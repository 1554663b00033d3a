"""A model, its tokenizer and its settings: lines of text in, as many lines of text out, in order.

What comes out for a line depends on that line, not on the lines around it. A line of white space
becomes an empty line without any model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from mtkit.config import DecodingSettings, SamplingSettings
from mtkit.decoding.beam import beam_search
from mtkit.decoding.model import load_model
from mtkit.decoding.sampling import Key, sample
from mtkit.decoding.splitting import LONGEST, join_parts, split_line
from mtkit.errors import UserError
from mtkit.models import TranslationModel
from mtkit.symbols import EOS, PAD
from mtkit.tokenizer import Tokenizer


@dataclass(frozen=True)
class Translation:
    """What became of a line."""

    text: str
    score: float
    """log P / |y|^alpha of the tokens; of all parts together where the line was split."""
    tokens: list[str]
    truncated: bool
    """Whether it may miss something: it ran into `max_length`, or its line was over LONGEST."""
    n_best: list[Translation] = field(default_factory=list)
    """The K best, or K samples, where more than one was asked for."""


class Translator:
    """Translates lines; any number of translators may share a model."""

    def __init__(
        self, model: TranslationModel, tokenizer: Tokenizer, settings: DecodingSettings
    ) -> None:
        self.model, self.tokenizer, self.settings = model, tokenizer, settings

    @classmethod
    def load(
        cls, path: str | Path | None = None, device: str = "auto", **changes: int | float | None
    ) -> Translator:
        """The model of a run or a model folder; `changes` replace its own decoding settings.

        Without a path: $MTKIT_MODEL, else the last run of this directory. Raises UserError where
        there is no model, or a damaged one, and for settings that cannot be.
        """
        return cls(*load_model(path, device, changes))

    def translate(self, lines: Sequence[str]) -> list[str]:
        """The best translation of each line."""
        return [translation.text for window in self.stream([lines]) for translation in window]

    def stream(
        self,
        windows: Iterable[Sequence[str]],
        *,
        n_best: int = 1,
        sampling: SamplingSettings | None = None,
    ) -> Iterator[list[Translation]]:
        """For each window of lines its translations, before the next window is asked for.

        `n_best` counts samples where there is `sampling`; otherwise UserError if it is above the
        beam.
        """
        if sampling is None and n_best > self.settings.beam:
            raise UserError(f"n_best: {n_best} of a beam of {self.settings.beam}: raise the beam")
        first = 0
        for lines in windows:
            parts = self._parts(lines, first)
            found: dict[Key, list[Translation]] = {}
            for keys in self._batches(parts):
                found |= self._search({key: parts[key] for key in keys}, n_best, sampling)
            of_line: list[list[list[Translation]]] = [[] for _ in lines]
            for key in parts:
                of_line[key[0] - first].append(found[key])
            yield [
                self._whole(of_parts, n_best, is_cut=len(line) > LONGEST)
                for line, of_parts in zip(lines, of_line, strict=True)
            ]
            first += len(lines)

    def _parts(self, lines: Sequence[str], first: int) -> dict[Key, list[int]]:
        """What the model is to read, by number of line and of part; nothing of white space."""
        texts = {first + i: line[:LONGEST] for i, line in enumerate(lines) if line.strip()}
        parts: dict[Key, list[int]] = {}
        encoded = self.tokenizer.encode_source(list(texts.values()))
        for (number, line), ids in zip(texts.items(), encoded, strict=True):
            pieces = [ids] if self._fits(ids) else self._split(line)
            parts |= {(number, index): [*ids, EOS] for index, ids in enumerate(pieces) if ids}
        return parts

    def _split(self, line: str) -> list[list[int]]:
        """Subwords of its parts; a character that has too many of them is split as well."""
        encode, most = self.tokenizer.encode_source, self.settings.max_length
        parts = encode(split_line(line, lambda text: self._fits(encode([text])[0])))
        return [ids[start : start + most] for ids in parts for start in range(0, len(ids), most)]

    def _fits(self, ids: list[int]) -> bool:
        return len(ids) <= self.settings.max_length

    def _batches(self, parts: dict[Key, list[int]]) -> Iterator[list[Key]]:
        """Parts of like length: as many as `batch_tokens` has room for, padding included."""
        batch: list[Key] = []
        for key in sorted(parts, key=lambda key: len(parts[key])):
            if batch and (len(batch) + 1) * len(parts[key]) > self.settings.batch_tokens:
                yield batch
                batch = []
            batch.append(key)
        if batch:
            yield batch

    def _search(
        self, parts: dict[Key, list[int]], n_best: int, sampling: SamplingSettings | None
    ) -> dict[Key, list[Translation]]:
        """The `n_best` hypotheses or samples of each part."""
        ids = [torch.tensor(ids) for ids in parts.values()]
        source = pad_sequence(ids, batch_first=True, padding_value=PAD)
        source = source.to(self.model.output_weight.device)
        with _evaluating(self.model):
            if sampling is None:
                found = beam_search(self.model, source, self.settings)
            else:
                found = sample(
                    self.model, source, self.settings, sampling, count=n_best, keys=list(parts)
                )
        rows = zip(
            *(field[:, :n_best].flatten(0, 1).tolist() for field in vars(found).values()),
            strict=True,
        )
        hypotheses = [
            (tokens[:length], score, finished) for tokens, length, score, finished in rows
        ]
        texts = self.tokenizer.decode([tokens for tokens, _, _ in hypotheses])
        flat = [
            Translation(text, score, self.tokenizer.target_pieces(tokens), not finished)
            for text, (tokens, score, finished) in zip(texts, hypotheses, strict=True)
        ]
        return {key: flat[n_best * i : n_best * (i + 1)] for i, key in enumerate(parts)}

    def _whole(
        self, of_parts: list[list[Translation]], n_best: int, *, is_cut: bool
    ) -> Translation:
        """The line of the parts: the best of each, then the second best of each, and so on."""
        wholes = [self._joined([ranked[k] for ranked in of_parts]) for k in range(n_best)]
        if is_cut:
            wholes = [replace(whole, truncated=True) for whole in wholes]
        return replace(wholes[0], n_best=wholes) if n_best > 1 else wholes[0]

    def _joined(self, parts: Sequence[Translation]) -> Translation:
        if len(parts) == 1:
            return parts[0]
        tokens = [token for part in parts for token in part.tokens]
        log_prob = sum(part.score * self._scale(part.tokens) for part in parts)
        return Translation(
            join_parts(part.text for part in parts),
            log_prob / self._scale(tokens),
            tokens,
            any(part.truncated for part in parts),
        )

    def _scale(self, tokens: Sequence[str]) -> float:
        return float(max(len(tokens), 1) ** self.settings.length_penalty)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout inside the block, and afterwards as before."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
