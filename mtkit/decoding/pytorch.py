"""The engine for every architecture and request: the searches of this package, on any device."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mtkit.decoding.batches import BatchQueue, SentenceBatch, divide
from mtkit.decoding.beam import Beam
from mtkit.decoding.constraints import constraints_of
from mtkit.decoding.engine import Engine, EngineOptions, Hypothesis, NBestLists, Request, Sentence
from mtkit.decoding.forced import attention_to_source, check_attention
from mtkit.decoding.sampling import Sampler, uniform_noise
from mtkit.decoding.search import NEG_INF, Hypotheses, Live, Stepper, search
from mtkit.errors import UserError
from mtkit.models.device import TORCH_DTYPES, keep_freed_memory, pick_device
from mtkit.models.ensemble import Ensemble
from mtkit.models.folder import OpenedModel
from mtkit.models.interfaces import TranslationModel
from mtkit.models.weights import load_model
from mtkit.symbols import PAD


class PyTorchEngine(Engine):
    """Searches several batches at the same time on a CPU, in threads of its own.

    Most operators of a step are too small to be divided among threads.
    """

    def __init__(self, model: TranslationModel[Any, Any], workers: int | None = None) -> None:
        """Take a model in evaluation mode, and the number of batches at the same time.

        By default it is torch's number of threads on a CPU, else 1. Workers share these threads.
        """
        self.model = model
        threads = torch.get_num_threads()
        self.workers = workers or (threads if self.model.device.type == "cpu" else 1)
        limit = partial(torch.set_num_threads, max(1, threads // self.workers))
        self._queue = BatchQueue(self.workers, self._search, limit)
        self.name = str(next(model.parameters()).dtype).replace(".", " ")

    @classmethod
    def load(
        cls, models: Sequence[OpenedModel], options: EngineOptions, reason: str | None = None
    ) -> PyTorchEngine:
        """Load a model, or several as an ensemble; `reason` is why no other engine serves.

        `options.threads` sets torch's threads for the whole process. With compute types other than
        float32, rounding can let the other sentences of a batch decide between near ties.

        Raises:
            UserError: the compute type is not supported, or the weights are not the model's.
        """
        compute_type = "float32" if options.compute_type == "auto" else options.compute_type
        if compute_type not in TORCH_DTYPES:
            because = f" ({reason})" if reason else ""
            raise UserError(
                f"compute type: {compute_type}: the engine torch supports {', '.join(TORCH_DTYPES)}"
                f"{because}"
            )
        workers = options.workers
        if options.threads is not None:
            workers = workers or 1
            torch.set_num_threads(options.threads * workers)
        keep_freed_memory()
        loaded = [load_model(opened.config, opened.weights) for opened in models]
        model = Ensemble(loaded) if len(loaded) > 1 else loaded[0]
        return cls(
            model.to(pick_device(options.device), TORCH_DTYPES[compute_type]).eval(), workers
        )

    def search(
        self, sentences: Sequence[Sentence], request: Request, *, alone: bool = False
    ) -> Future[NBestLists]:
        """Start the search.

        Raises:
            UserError: attention is requested of a model that has none.
            ValueError: the model is in training mode, so that its dropout would be on.
        """
        if self.model.training:
            raise ValueError("the model is in training mode: call eval() first")
        if request.attention:
            check_attention(self.model)
        max_tokens = request.settings.batch_tokens
        share = -(-sum(len(sentence.source) for sentence in sentences) // self.workers)
        batches = divide(sentences, range(len(sentences)), min(max_tokens, share))
        return self._queue.search(sentences, batches, request, max_tokens, alone=alone)

    def close(self) -> None:
        self._queue.close()

    def _search(self, batch: SentenceBatch) -> NBestLists:
        """Search one batch; give up at the next step once nobody wants it."""

        def check_wanted(logits: Tensor, _: Live) -> Tensor:
            if batch.is_unwanted:
                raise CancelledError
            return logits

        request, sentences = batch.request, batch.sentences
        settings, device = request.settings, self.model.device
        ids = [torch.tensor(sentence.source) for sentence in sentences]
        source = pad_sequence(ids, batch_first=True, padding_value=PAD).to(device)
        prefixes = [sentence.prefix for sentence in sentences]
        constraints = [check_wanted, *constraints_of(settings, prefixes)]
        stepper: Stepper = Beam(settings.beam, settings.length_penalty)
        if (sampling := request.sampling) is not None:
            keys = [sentence.key for sentence in sentences]
            noise = uniform_noise(keys, request.n_best, settings.max_length, sampling.seed)
            stepper = Sampler(sampling, noise.to(device), settings.length_penalty)
        hypotheses = search(self.model, source, stepper, constraints, settings.max_length)
        ranked = _as_lists(hypotheses, request.n_best)
        if request.attention:
            target = hypotheses.tokens[:, : request.n_best]
            weights = attention_to_source(self.model, source, target.flatten(0, 1))  # (B·K, T, S)
            rows = iter(weights.cpu().numpy())
            lengths = [len(sentence.source) - 1 for sentence in sentences]  # without EOS
            ranked = [
                [
                    replace(one, attention=next(rows)[: len(one.tokens), :length].copy())
                    for one in of_one
                ]
                for of_one, length in zip(ranked, lengths, strict=True)
            ]
        return [
            [one for one in of_one if one.score is not None and one.score > NEG_INF]
            for of_one in ranked
        ]


def _as_lists(hypotheses: Hypotheses, count: int) -> NBestLists:
    """Return the first `count` hypotheses of each sentence as plain data."""
    fields = (field[:, :count].tolist() for field in vars(hypotheses).values())
    return [
        [
            Hypothesis(tokens[:length], score, finished)
            for tokens, length, score, finished in zip(*sentence, strict=True)
        ]
        for sentence in zip(*fields, strict=True)
    ]
