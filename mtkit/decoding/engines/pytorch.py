"""The engine for every architecture and option: the searches of this package, on any device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from mtkit.decoding.beam import Beam
from mtkit.decoding.constraints import constraints_of
from mtkit.decoding.contract import (
    NO_HYPOTHESIS,
    Engine,
    Hypothesis,
    Key,
    Pending,
    Request,
    Sentence,
)
from mtkit.decoding.engines.batches import in_batches
from mtkit.decoding.forced import attention_to_source, check_attention
from mtkit.decoding.model import OpenedModel
from mtkit.decoding.sampling import Sampler, uniform_noise
from mtkit.decoding.search import NEVER, Hypotheses, Stepper, search
from mtkit.models.device import keep_freed_memory, pick_device
from mtkit.models.encoder_decoder import TranslationModel
from mtkit.models.weights import load_model
from mtkit.tokenizer.symbols import PAD

COMPUTE_TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class PyTorchEngine(Engine):
    """Searches when it is waited for.

    On a CPU it works on several batches side by side, each in a thread of its own: most operators
    of a step are too small to be divided among threads.
    """

    def __init__(self, model: TranslationModel, workers: int | None = None) -> None:
        """`workers`: batches side by side; None: on a CPU as many as torch uses threads."""
        self.model, self.workers = model, workers
        self.name = str(model.output_weight.dtype).replace(".", " ")

    @classmethod
    def load(
        cls,
        opened: OpenedModel,
        device: str,
        compute_type: str = "float32",
        workers: int | None = None,
        threads: int | None = None,
    ) -> PyTorchEngine:
        """Sets torch's threads, if told how many of each worker.

        Types other than float32 are faster where the processor multiplies them, and lose some
        digits: there, batch-mates can decide between hypotheses that are almost equal. Raises
        UserError for weights that are not this model's, or not finite.
        """
        if threads is not None:
            workers = workers or 1
            torch.set_num_threads(threads * workers)
        keep_freed_memory()
        model = load_model(opened.config, opened.weights).to(
            pick_device(device), COMPUTE_TYPES[compute_type]
        )
        return cls(model.eval(), workers)

    def submit(self, sentences: Mapping[Key, Sentence], request: Request) -> Pending:
        if request.attention:
            check_attention(self.model)
        return _Postponed(partial(self._search, sentences, request))

    def _search(
        self, sentences: Mapping[Key, Sentence], request: Request
    ) -> list[list[Hypothesis]]:
        on_device = torch.get_num_threads() if self._device.type == "cpu" else 1
        workers = self.workers or on_device
        share = -(-sum(len(sentence.source) for sentence in sentences.values()) // workers)
        batches = list(in_batches(sentences, min(request.settings.batch_tokens, share)))

        def of_batch(keys: list[Key]) -> list[list[Hypothesis]]:
            return self._search_batch({key: sentences[key] for key in keys}, request)

        found: dict[Key, list[Hypothesis]] = {}
        with _evaluating(self.model), _side_by_side(min(workers, len(batches))) as map_batches:
            for keys, hypotheses in zip(batches, map_batches(of_batch, batches), strict=True):
                found |= zip(keys, hypotheses, strict=True)
        return [found[key] for key in sentences]

    def _search_batch(
        self, sentences: dict[Key, Sentence], request: Request
    ) -> list[list[Hypothesis]]:
        source = _padded([it.source for it in sentences.values()]).to(self._device)
        constraints = constraints_of(request.settings, [it.prefix for it in sentences.values()])
        stepper = self._stepper(list(sentences), request)
        longest = request.settings.max_length
        hypotheses = search(self.model, source, stepper, constraints, longest)
        ranked = _ranked(hypotheses, request.count)
        return self._with_attention(source, hypotheses, ranked) if request.attention else ranked

    @property
    def _device(self) -> torch.device:
        return self.model.output_weight.device

    def _stepper(self, keys: list[Key], request: Request) -> Stepper:
        settings, sampling = request.settings, request.sampling
        if sampling is None:
            return Beam(settings.beam, settings.length_penalty)
        noise = uniform_noise(keys, request.count, settings.max_length, sampling.seed)
        return Sampler(sampling, noise.to(self._device), settings.length_penalty)

    def _with_attention(
        self, source: torch.Tensor, found: Hypotheses, ranked: list[list[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        count = len(ranked[0])
        weights = attention_to_source(self.model, source, found.tokens[:, :count].flatten(0, 1))
        lengths = ((source != PAD).sum(dim=1) - 1).tolist()
        return [
            [
                replace(hypothesis, attention=of_one[: len(hypothesis.tokens), :length].copy())
                for hypothesis, of_one in zip(of_sentence, of_all, strict=True)
            ]
            for of_sentence, of_all, length in zip(
                ranked, weights.unflatten(0, (-1, count)).cpu().numpy(), lengths, strict=True
            )
        ]


@dataclass(frozen=True)
class _Postponed:
    """A search that begins when it is waited for."""

    search: Callable[[], list[list[Hypothesis]]]

    def wait(self) -> list[list[Hypothesis]]:
        return self.search()

    def cancel(self) -> None:
        """It never began."""


def _padded(ids: list[list[int]]) -> torch.Tensor:
    return pad_sequence([torch.tensor(line) for line in ids], batch_first=True, padding_value=PAD)


def _ranked(found: Hypotheses, count: int) -> list[list[Hypothesis]]:
    """The first `count` of each sentence, as plain data."""
    return [
        [
            Hypothesis(tokens[:length], score, finished) if score > NEVER else NO_HYPOTHESIS
            for tokens, length, score, finished in zip(*sentence, strict=True)
        ]
        for sentence in zip(
            *(field[:, :count].tolist() for field in vars(found).values()), strict=True
        )
    ]


@contextmanager
def _side_by_side(workers: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """A `map` in so many threads, which share what threads torch would use for one operator."""
    if workers <= 1:
        yield map
        return
    threads = torch.get_num_threads()
    limit = partial(torch.set_num_threads, max(1, threads // workers))
    try:
        with ThreadPoolExecutor(workers, initializer=limit) as pool:
            yield pool.map
    finally:
        torch.set_num_threads(threads)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout inside the block, and afterwards as before."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
