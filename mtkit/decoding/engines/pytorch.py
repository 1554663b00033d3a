"""The engine with mtkit's own search, which supports every model, request and device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
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
from mtkit.decoding.search.constraints import constraints_of, forbid
from mtkit.decoding.search.forced import check_attention, find_attention
from mtkit.decoding.search.sampling import Sampler, uniform_noise
from mtkit.decoding.search.search import NEG_INF, Hypotheses, Live, Stepper, search
from mtkit.errors import UserError
from mtkit.models.acceleration import find_acceleration
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

    def __init__(
        self,
        model: TranslationModel[Any, Any],
        workers: int | None = None,
        forbidden: Sequence[int] = (),
    ) -> None:
        """Start workers (default: 1, on a CPU one per torch thread); call `model.eval()` before.

        `forbidden`: symbols that no hypothesis has, besides PAD and BOS.
        """
        self.model = model
        self._forbidden = torch.tensor(forbidden, dtype=torch.long)
        threads = torch.get_num_threads()
        default_workers = threads if model.device.type == "cpu" else 1
        self.workers = workers or default_workers
        self._threads_per_worker = max(1, threads // self.workers)
        self._queue = BatchQueue(self.workers, self._search)
        dtype = next(model.parameters()).dtype
        self.name = str(dtype).replace(".", " ")  # such as "torch float32"

    @classmethod
    def load(
        cls, models: Sequence[OpenedModel], options: EngineOptions, reason: str | None = None
    ) -> PyTorchEngine:
        """Load a model, or several as an ensemble.

        `options.threads`: threads of each worker; with it the default is 1 worker, and torch's
        number of threads is set for the whole process. In other compute types than float32, the
        choice between nearly equal hypotheses can depend on the rest of the batch. `reason`: why
        CTranslate2 is not used, for the message; None: it was not tried.

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
        model = model.to(pick_device(options.device), TORCH_DTYPES[compute_type])
        find_acceleration(model.device.type).accelerate_search(model)
        return cls(model.eval(), workers, models[0].tokenizer.source_only)

    def search(
        self, sentences: Sequence[Sentence], request: Request, *, alone: bool = False
    ) -> Future[NBestLists]:
        """Start the search; raise ValueError if the model is in training mode (dropout)."""
        if self.model.training:
            raise ValueError("the model is in training mode; call eval() first")
        if request.alignments:
            check_attention(self.model)
        max_tokens = request.settings.batch_tokens
        tokens = sum(len(sentence.source) for sentence in sentences)
        share = math.ceil(tokens / self.workers)  # smaller batches, so that all workers have work
        batches = divide(sentences, min(max_tokens, share))
        return self._queue.search(sentences, batches, request, max_tokens, alone=alone)

    def close(self) -> None:
        self._queue.close()

    def _search(self, batch: SentenceBatch) -> NBestLists:
        """Search one batch; stop at the next step once every caller has cancelled."""

        def raise_if_unwanted(logits: Tensor, _: Live) -> Tensor:
            # The search calls constraints at each step; this one changes no logits.
            if batch.is_unwanted:
                raise CancelledError
            return logits

        torch.set_num_threads(self._threads_per_worker)  # of this worker thread alone
        request = batch.request
        settings = request.settings
        ids = [torch.tensor(sentence.source) for sentence in batch.sentences]
        padded = pad_sequence(ids, batch_first=True, padding_value=PAD)
        source = padded.to(self.model.device)  # (B, S)
        prefixes = [sentence.prefix for sentence in batch.sentences]
        constraints = [raise_if_unwanted, *constraints_of(settings, prefixes)]
        if len(self._forbidden):
            constraints.insert(0, partial(forbid, symbols=self._forbidden))
        hypotheses = search(
            self.model,
            source,
            self._stepper(batch),
            constraints,
            settings.max_length,
        )
        attention = None
        if batch.needs_attention:
            best = hypotheses.tokens[:, : request.n_best]  # (B, K, T)
            weights = find_attention(self.model, source, best.flatten(0, 1))  # (B·K, T, S)
            if weights is not None:
                attention = weights.unflatten(0, best.shape[:2]).cpu().numpy()  # (B, K, T, S)
        return _convert(hypotheses, batch, attention)

    def _stepper(self, batch: SentenceBatch) -> Stepper:
        """Return sampling if the request asks for samples, else beam search."""
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


def _convert(
    hypotheses: Hypotheses, batch: SentenceBatch, attention: Float[np.ndarray, "B K T S"] | None
) -> NBestLists:
    """Return for each sentence of the batch its `n_best` hypotheses, without empty places."""
    # As lists, because reading single numbers from a tensor is slow.
    tokens = hypotheses.tokens.tolist()
    lengths = hypotheses.lengths.tolist()
    scores = hypotheses.scores.tolist()
    finished = hypotheses.finished.tolist()
    answers: NBestLists = []
    for row, sentence in enumerate(batch.sentences):
        source_length = len(sentence.source) - 1  # without EOS
        ranked: list[Hypothesis] = []
        for rank, score in enumerate(scores[row][: batch.request.n_best]):
            if score == NEG_INF or math.isnan(score):  # an empty place, or an overflow
                continue
            length = lengths[row][rank]
            attended = None
            if attention is not None:
                # A copy, because a view would keep the attention of the whole batch in memory.
                attended = attention[row, rank, :length, :source_length].copy()
            hypothesis = Hypothesis(
                tokens=tokens[row][rank][:length],
                score=score,
                finished=finished[row][rank],
                attention=attended,
            )
            ranked.append(hypothesis)
        answers.append(ranked)
    return answers
