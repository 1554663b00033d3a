"""CTranslate2, the fastest engine on CPUs: it runs Transformers, with the results of our search.

Its search differs from ours in three ways, measured with version 4.8.5:

- It counts EOS in |y|. So this engine requests K hypotheses and ranks them by our score. If more
  than K finish, CTranslate2 keeps the K best by its own score, so the end of the list may differ.
- With a length penalty of 0 it stops later than our search; with a tiny penalty, at the same step.
- In a batch with prefixes, EOS can follow a prefix directly only if it is the best of all symbols.
  So sentences with and without a prefix are in separate batches (`Sentence.kind`).

For alignments it returns the attention of every hypothesis, which is that of our models: the mean
of all heads of the last decoder layer, with a row for each token, prefixes included, and no row or
column for EOS. But in a batch of several sentences, with a beam above 1, the first row is that of
another sentence. So this engine computes the first rows again. They depend on the source alone,
because before the first token all hypotheses are equal.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from mtkit.artifacts.manifest import Artifact
from mtkit.config.decoding import ModelConfig
from mtkit.config.model import ModelSettings
from mtkit.decoding.engines.batches import BatchQueue, SentenceBatch, divide
from mtkit.decoding.engines.engine import (
    Engine,
    EngineOptions,
    Hypothesis,
    NBestLists,
    Request,
    Sentence,
)
from mtkit.machine import available_cpus
from mtkit.symbols import BOS, PAD
from mtkit.tokenizer.codec import Tokenizer

if TYPE_CHECKING:
    import numpy as np


def _import_extension() -> Any:
    """Import only CTranslate2's extension; its package imports asyncio, which slows down starts.

    Raises:
        ImportError: CTranslate2 is not installed, or does not work here.
    """
    try:
        spec = find_spec("ctranslate2")
        if spec is None or "ctranslate2" in sys.modules:
            return import_module("ctranslate2")
        # Python imports a package before a module of it. An empty package stands in meanwhile.
        sys.modules["ctranslate2"] = module_from_spec(spec)
        try:
            return import_module("ctranslate2._ext")
        finally:
            del sys.modules["ctranslate2"]
    except Exception as error:  # of any class, as when the extension is of another version
        raise ImportError(str(error) or type(error).__name__) from error


_library = _import_extension()

INT8_BATCH_TOKENS = 800
"""Largest batch in int8 on a CPU (source tokens times beam), because larger ones are slower."""
MIN_PENALTY = 1e-6
"""The length penalty that is used instead of 0."""
PLACEHOLDER_SCORE = -1e6
"""Hypotheses with a lower score only fill up the beam, if a prefix allows fewer than K."""
POSITIONS = (1024, 8192)
"""Numbers of positions that a converted model can have."""


_translators: WeakSet[Any] = WeakSet()
"""All translators of CTranslate2 in this process."""


def _keep_translators() -> None:
    """Keep all translators for ever.

    For a forked child: the destructor of a translator waits for the translator's threads, but these
    exist only in the parent process. Without this function, the child would never exit.
    """
    for translator in _translators:
        import ctypes  # here, because the import takes 5 ms, and most children have no translator

        # One reference more than Python knows of, so that the count never falls to 0.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(translator))


os.register_at_fork(after_in_child=_keep_translators)


class CTranslate2Engine(Engine):
    """An engine that searches several batches in parallel; a started batch cannot be cancelled."""

    def __init__(self, converted: Artifact, tokenizer: Tokenizer, options: EngineOptions) -> None:
        """Open a converted model; `options.device` must name a device, not "auto"."""
        device = options.device
        compute_type = str(converted.manifest["settings"]["compute_type"])
        self.name = f"ctranslate2 {compute_type}"
        is_int8_on_cpu = device == "cpu" and compute_type.startswith("int8")
        self._max_tokens = INT8_BATCH_TOKENS if is_int8_on_cpu else math.inf
        workers, threads = _divide_cpus(options)
        self._translator = _library.Translator(
            str(converted.path),
            device,
            compute_type=compute_type,
            inter_threads=workers,
            intra_threads=threads,
            max_queued_batches=-1,  # no limit: a full queue would block the threads of `_queue`
        )
        _translators.add(self._translator)
        # Each worker has two threads here: one waits for a batch that runs, and the other prepares
        # the next batch, so that the worker never waits.
        self._queue = BatchQueue(2 * workers, self._search)
        self._source, self._target = tokenizer.vocabularies
        self._ids = {piece: i for i, piece in enumerate(self._target)}
        self._forbidden = [[self._target[i]] for i in (PAD, BOS, *tokenizer.source_only)]

    def search(
        self, sentences: Sequence[Sentence], request: Request, *, alone: bool = False
    ) -> Future[NBestLists]:
        max_tokens = request.settings.batch_tokens
        max_tokens = int(max(1, min(max_tokens, self._max_tokens / request.settings.beam)))
        batches = divide(sentences, max_tokens)
        return self._queue.search(sentences, batches, request, max_tokens, alone=alone)

    def close(self) -> None:
        self._queue.close()
        if not self._queue.lifetime.is_in_child:
            self._translator.unload_model()

    def _search(self, batch: SentenceBatch) -> NBestLists:
        """Search one batch: CTranslate2 gets and returns pieces, not ids."""
        request = batch.request
        settings = request.settings
        sources: list[list[str]] = []
        prefixes: list[list[str]] = []
        for sentence in batch.sentences:
            without_eos = sentence.source[:-1]  # CTranslate2 adds EOS
            sources.append([self._source[i] for i in without_eos])
            prefixes.append([self._target[i] for i in sentence.prefix])
        results = self._translator.translate_batch(
            sources,
            prefixes,
            beam_size=settings.beam,
            num_hypotheses=settings.beam,  # all, because they are ranked once more
            length_penalty=max(settings.length_penalty, MIN_PENALTY),
            no_repeat_ngram_size=settings.no_repeat_ngram,
            repetition_penalty=settings.repetition_penalty,
            suppress_sequences=self._forbidden,
            max_input_length=0,  # no limit; by default, longer input is cut
            max_decoding_length=settings.max_length,
            min_decoding_length=settings.min_length,
            return_scores=request.scores or settings.beam > 1,  # needed to rank hypotheses
            return_attention=batch.needs_attention,
        )
        answers = [
            self._convert(result, request, has_attention=batch.needs_attention)
            for result in results
        ]
        if batch.needs_attention and settings.beam > 1:
            first_rows = self._attend_first(sources)
            for hypotheses, first_row in zip(answers, first_rows, strict=True):
                for hypothesis in hypotheses:
                    if hypothesis.tokens and hypothesis.attention is not None:
                        hypothesis.attention[0] = first_row
        return answers

    def _convert(self, result: Any, request: Request, *, has_attention: bool) -> list[Hypothesis]:
        """Return the `n_best` hypotheses, ranked by our score."""
        # Each access to a field of a result copies the whole field.
        scores = result.scores
        attention = result.attention if has_attention else None
        ranked: list[Hypothesis] = []
        for number, pieces in enumerate(result.hypotheses):
            hypothesis = Hypothesis(
                tokens=[self._ids[piece] for piece in pieces],
                score=None,
                finished=len(pieces) < request.settings.max_length,
                attention=_as_array(attention[number]) if attention and pieces else None,
            )
            if not scores:  # `_search` requests scores unless there is only one hypothesis
                return [hypothesis]
            if scores[number] > PLACEHOLDER_SCORE:
                score = _our_score(scores[number], hypothesis, request)
                ranked.append(replace(hypothesis, score=score))
        ranked.sort(key=lambda hypothesis: -(hypothesis.score or 0.0))
        return ranked[: request.n_best]

    def _attend_first(self, sources: Sequence[Sequence[str]]) -> list[list[float]]:
        """Return for each source the attention at the prediction of the first token."""
        results = self._translator.translate_batch(
            sources,
            beam_size=1,  # with a larger beam, the rows would be those of other sentences
            max_input_length=0,
            max_decoding_length=1,
            min_decoding_length=1,  # EOS would have no row
            return_attention=True,
        )
        return [result.attention[0][0] for result in results]


def _divide_cpus(options: EngineOptions) -> tuple[int, int]:
    """Return the numbers of workers and of threads of each worker; together they use all CPUs.

    By default each CPU (a hardware thread) has a worker with one thread, because most matrix
    products are too small to be divided among threads. A GPU needs one worker.
    """
    cpus = len(available_cpus()) if options.device == "cpu" else 1
    workers = options.workers
    threads = options.threads
    if workers is None:
        threads = threads or 1
        workers = max(1, cpus // threads)
    elif threads is None:
        threads = max(1, cpus // workers)
    return workers, threads


def _our_score(their_score: float, hypothesis: Hypothesis, request: Request) -> float:
    """Return log P / |y|^alpha where |y| does not count EOS, as CTranslate2 does."""
    length = len(hypothesis.tokens)
    their_length = length + int(hypothesis.finished)  # with EOS
    ratio = their_length / max(length, 1)
    return float(their_score * ratio**request.settings.length_penalty)


def _as_array(rows: Sequence[Sequence[float]]) -> np.ndarray[Any, Any]:
    """Return attention weights as an array of tokens × source subwords."""
    # Few translations need numpy; importing it takes as long as all else.
    import numpy as np

    return np.array(rows, np.float32)


def obstacle(models: Sequence[ModelConfig], request: Request, options: EngineOptions) -> str | None:
    """Return why CTranslate2 does not support the models, request or options; None if it does."""
    first, *others = models
    if others:
        return f"an ensemble of {len(models)} models: CTranslate2 supports only one model"
    if reason := obstacle_in_model(first.model):
        return reason
    if request.sampling is not None:
        return "sampling: with CTranslate2 a sample would depend on other sentences"
    max_length = request.settings.max_length
    limit = positions(first)
    if max_length >= limit:  # BOS has a position, too
        return f"max_length {max_length}: CTranslate2 supports at most {limit - 1}"
    return _obstacle_on(resolve_device(options.device), options.compute_type)


def obstacle_in_model(model: ModelSettings) -> str | None:
    """Return why CTranslate2 does not support the model; None if it does."""
    try:
        transformer = model.as_transformer()
    except ValueError as error:
        return f"{error}; CTranslate2 supports only Transformers with equal encoder and decoder"
    if transformer.neighbourhood is not None:
        return "model.neighbourhood: CTranslate2 does not support restricted attention"
    return None


def _obstacle_on(device: str, compute_type: str) -> str | None:
    """Return why CTranslate2 cannot use a device, or a compute type on it; None if it can."""
    if device != "cpu" and not (device == "cuda" and _library.get_cuda_device_count()):
        return f"device {device}: CTranslate2 cannot use it on this machine"
    supported = sorted(_library.get_supported_compute_types(device))
    if compute_type in ("auto", *supported):
        return None
    names = ", ".join(supported)
    return f"compute type {compute_type}: on this {device} CTranslate2 supports {names}"


def resolve_device(name: str) -> str:
    """Replace "auto" by "cuda" or "cpu"; return any other name unchanged."""
    if name == "auto":
        return "cuda" if _library.get_cuda_device_count() else "cpu"
    return name


def positions(config: ModelConfig) -> int:
    """Return the number of positions of the converted model.

    It is the smallest of POSITIONS above the model's `max_length`; the largest if none is above it.
    """
    for length in POSITIONS:
        if length > config.decoding.max_length:
            return length
    return POSITIONS[-1]
