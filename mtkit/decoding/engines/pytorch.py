"""The engine with mtkit's own search, which supports every model, request and device."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mtkit.decoding.engines.batches import BatchQueue, SentenceBatch, divide
from mtkit.decoding.engines.engine import (
    Engine,
    EngineOptions,
    Hypothesis,
    NBestLists,
    Request,
    Sentence,
)
from mtkit.decoding.search.beam import Beam
from mtkit.decoding.search.constraints import constraints_of
from mtkit.decoding.search.forced import attention_to_source, check_attention
from mtkit.decoding.search.sampling import Sampler, uniform_noise
from mtkit.decoding.search.search import NEG_INF, Live, Stepper, search
from mtkit.errors import UserError
from mtkit.models.device import TORCH_DTYPES, keep_freed_memory, pick_device
from mtkit.models.ensemble import Ensemble
from mtkit.models.folder import OpenedModel
from mtkit.models.interfaces import TranslationModel
from mtkit.models.weights import load_model
from mtkit.symbols import PAD


class PyTorchEngine(Engine):
    """An engine whose worker threads search one batch each.

    On a CPU one thread per batch is fastest: most operations are too small to share among threads.
    """

    def __init__(self, model: TranslationModel[Any, Any], workers: int | None = None) -> None:
        """Start workers (default: 1, on a CPU one per torch thread); call `model.eval()` before."""
        self.model = model
        threads = torch.get_num_threads()
        self.workers = workers or (threads if self.model.device.type == "cpu" else 1)
        self._threads_per_worker = max(1, threads // self.workers)
        self._queue = BatchQueue(self.workers, self._search)
        self.name = str(next(model.parameters()).dtype).replace(".", " ")

    @classmethod
    def load(
        cls, models: Sequence[OpenedModel], options: EngineOptions, reason: str | None = None
    ) -> PyTorchEngine:
        """Load a model, or several as an ensemble.

        `options.threads` sets torch's threads for the whole process. In other compute types than
        float32, the choice between nearly equal hypotheses can depend on the rest of the batch.
        `reason`: why CTranslate2 is not used, for the message.

        Raises:
            UserError: the compute type is not supported, or the weights do not fit the model.
        """
        compute_type = "float32" if options.compute_type == "auto" else options.compute_type
        if compute_type not in TORCH_DTYPES:
            supported = ", ".join(TORCH_DTYPES) + (f" ({reason})" if reason else "")
            raise UserError(f"compute type {compute_type}: the engine torch supports {supported}")
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
        """Start the search; raise ValueError if the model is in training mode (dropout)."""
        if self.model.training:
            raise ValueError("the model is in training mode; call eval() first")
        if request.alignments:
            check_attention(self.model)
        max_tokens = request.settings.batch_tokens
        share = -(-sum(len(sentence.source) for sentence in sentences) // self.workers)
        batches = divide(sentences, range(len(sentences)), min(max_tokens, share))
        return self._queue.search(sentences, batches, request, max_tokens, alone=alone)

    def close(self) -> None:
        self._queue.close()

    def _search(self, batch: SentenceBatch) -> NBestLists:
        """Search one batch; stop at the next step once every caller has cancelled."""

        def check_wanted(logits: Tensor, _: Live) -> Tensor:
            if batch.is_unwanted:
                raise CancelledError
            return logits

        torch.set_num_threads(self._threads_per_worker)  # of this worker thread alone
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
        attention = None
        if request.alignments:
            target = hypotheses.tokens[:, : request.n_best]
            weights = attention_to_source(self.model, source, target.flatten(0, 1))  # (B·K, T, S)
            attention = weights.unflatten(0, target.shape[:2]).cpu().numpy()
        columns = [field[:, : request.n_best].tolist() for field in vars(hypotheses).values()]
        answers: NBestLists = [[] for _ in sentences]
        for row, of_sentence in enumerate(zip(*columns, strict=True)):
            width = len(sentences[row].source) - 1  # without EOS
            for rank, fields in enumerate(zip(*of_sentence, strict=True)):
                tokens, length, score, finished = fields
                if score > NEG_INF:
                    one = Hypothesis(tokens[:length], score, finished)
                    if attention is not None:
                        one = replace(one, attention=attention[row, rank, :length, :width].copy())
                    answers[row].append(one)
        return answers
