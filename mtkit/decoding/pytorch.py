"""The engine for every architecture and option: the searches of this package, on any device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mtkit.decoding.beam import Beam
from mtkit.decoding.constraints import constraints_of
from mtkit.decoding.engine import (
    NO_HYPOTHESIS,
    Engine,
    EngineOptions,
    Found,
    Hypothesis,
    Key,
    Pending,
    Request,
    Sentence,
    begin,
    in_batches,
)
from mtkit.decoding.forced import attention_to_source, check_attention
from mtkit.decoding.sampling import Sampler, uniform_noise
from mtkit.decoding.search import NEVER, Hypotheses, Live, Stepper, search
from mtkit.errors import UserError
from mtkit.models.device import TORCH_DTYPES, keep_freed_memory, pick_device
from mtkit.models.ensemble import Ensemble
from mtkit.models.folder import OpenedModel
from mtkit.models.interfaces import TranslationModel
from mtkit.models.weights import load_model
from mtkit.symbols import PAD


class PyTorchEngine(Engine):
    """Searches in threads of its own from the moment of `submit`.

    On a CPU it works on several batches side by side: most operators of a step are too small to be
    divided among threads.
    """

    def __init__(self, model: TranslationModel[Any, Any], workers: int | None = None) -> None:
        """`workers`: batches side by side; None: on a CPU as many as torch uses threads.

        They share the threads that torch would use for one operator.
        """
        self.model = model
        threads = torch.get_num_threads()
        self.workers = workers or (threads if self.model.device.type == "cpu" else 1)
        limit = partial(torch.set_num_threads, max(1, threads // self.workers))
        self._pool = ThreadPoolExecutor(self.workers, initializer=limit)
        self.name = str(next(model.parameters()).dtype).replace(".", " ")

    @classmethod
    def load(
        cls, models: Sequence[OpenedModel], options: EngineOptions, why: str | None = None
    ) -> PyTorchEngine:
        """Several models are an ensemble. Sets torch's threads, if told how many of each worker.

        Types other than float32, which auto is, are faster where the processor multiplies them, and
        lose some digits: there, batch-mates can decide between hypotheses that are almost equal.
        Raises UserError for a type that there is not, adding `why` it was asked of this engine, and
        for weights that are not this model's, or not finite.
        """
        compute_type = "float32" if options.compute_type == "auto" else options.compute_type
        if compute_type not in TORCH_DTYPES:
            because = f" ({why})" if why else ""
            types = ", ".join(TORCH_DTYPES)
            raise UserError(f"compute type: {compute_type}: the engine torch has {types}{because}")
        workers = options.workers
        if options.threads is not None:
            workers = workers or 1
            torch.set_num_threads(options.threads * workers)
        keep_freed_memory()
        loaded = [load_model(it.config, it.weights) for it in models]
        model = Ensemble(loaded) if len(loaded) > 1 else loaded[0]
        return cls(
            model.to(pick_device(options.device), TORCH_DTYPES[compute_type]).eval(), workers
        )

    def submit(self, sentences: Mapping[Key, Sentence], request: Request) -> Pending:
        """Raises ValueError for a model in training mode: its dropout would be on."""
        if self.model.training:
            raise ValueError("the model is in training mode: eval() first")
        if request.attention:
            check_attention(self.model)
        share = -(-sum(len(sentence.source) for sentence in sentences.values()) // self.workers)
        batches = list(in_batches(sentences, min(request.settings.batch_tokens, share)))
        unwanted = Event()
        searching = partial(self._search, request, unwanted)
        pending = begin(self._pool, searching, batches, list(sentences))

        def cancel() -> None:
            unwanted.set()
            pending.cancel()

        return Pending(pending.wait, cancel)

    def _search(
        self, request: Request, unwanted: Event, sentences: Mapping[Key, Sentence]
    ) -> Found:
        """Gives up at the next step once it is `unwanted`: a batch can take a minute."""

        def go_on(logits: Tensor, _: Live) -> Tensor:
            if unwanted.is_set():
                raise CancelledError
            return logits

        settings, count = request.settings, request.count
        device = self.model.device
        ids = [torch.tensor(sentence.source) for sentence in sentences.values()]
        source = pad_sequence(ids, batch_first=True, padding_value=PAD).to(device)
        prefixes = [sentence.prefix for sentence in sentences.values()]
        constraints = [go_on, *constraints_of(settings, prefixes)]
        stepper: Stepper = Beam(settings.beam, settings.length_penalty)
        if (sampling := request.sampling) is not None:
            noise = uniform_noise(list(sentences), count, settings.max_length, sampling.seed)
            stepper = Sampler(sampling, noise.to(device), settings.length_penalty)
        found = search(self.model, source, stepper, constraints, settings.max_length)
        ranked = _ranked(found, count)
        if not request.attention:
            return ranked
        target = found.tokens[:, :count].flatten(0, 1)
        weights = iter(attention_to_source(self.model, source, target).cpu().numpy())
        lengths = [len(sentence.source) - 1 for sentence in sentences.values()]  # without EOS
        return [
            [
                replace(one, attention=next(weights)[: len(one.tokens), :length].copy())
                for one in of_one
            ]
            for of_one, length in zip(ranked, lengths, strict=True)
        ]


def _ranked(found: Hypotheses, count: int) -> Found:
    """The first `count` of each sentence, as plain data."""
    fields = (field[:, :count].tolist() for field in vars(found).values())
    return [
        [
            Hypothesis(tokens[:length], score, finished) if score > NEVER else NO_HYPOTHESIS
            for tokens, length, score, finished in zip(*sentence, strict=True)
        ]
        for sentence in zip(*fields, strict=True)
    ]
