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
        request = batch.request
        settings = request.settings
        ids = [torch.tensor(sentence.source) for sentence in batch.sentences]
        padded = pad_sequence(ids, batch_first=True, padding_value=PAD)
        source = padded.to(self.model.device)
        prefixes = [sentence.prefix for sentence in batch.sentences]
        hypotheses = search(
            self.model,
            source,
            self._stepper(batch),
            [check_wanted, *constraints_of(settings, prefixes)],
            settings.max_length,
        )
        best = hypotheses.tokens[:, : request.n_best]
        attention = None
        if request.alignments:
            weights = attention_to_source(self.model, source, best.flatten(0, 1))  # (B·K, T, S)
            attention = weights.unflatten(0, best.shape[:2]).cpu().numpy()
        # As lists, because reading single numbers from a tensor is slow.
        tokens = best.tolist()
        lengths = hypotheses.lengths.tolist()
        scores = hypotheses.scores.tolist()
        finished = hypotheses.finished.tolist()
        answers: NBestLists = []
        for row, sentence in enumerate(batch.sentences):
            width = len(sentence.source) - 1  # without EOS
            ranked: list[Hypothesis] = []
            for rank in range(best.shape[1]):
                if not scores[row][rank] > NEG_INF:  # an empty place, or NaN after an overflow
                    continue
                length = lengths[row][rank]
                hypothesis = Hypothesis(
                    tokens=tokens[row][rank][:length],
                    score=scores[row][rank],
                    finished=finished[row][rank],
                )
                if attention is not None:
                    # A copy, because a view would keep the attention of the whole batch in memory.
                    attended = attention[row, rank, :length, :width].copy()
                    hypothesis = replace(hypothesis, attention=attended)
                ranked.append(hypothesis)
            answers.append(ranked)
        return answers

    def _stepper(self, batch: SentenceBatch) -> Stepper:
        """Return beam search, or sampling if the request asks for samples."""
        request = batch.request
        settings = request.settings
        if request.sampling is None:
            return Beam(settings.beam, settings.length_penalty)
        noise = uniform_noise(
            keys=[sentence.key for sentence in batch.sentences],
            count=request.n_best,
            length=settings.max_length,
            seed=request.sampling.seed,
        )
        return Sampler(request.sampling, noise.to(self.model.device), settings.length_penalty)
