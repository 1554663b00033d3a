"""CTranslate2, the fastest engine on CPUs. It runs Transformers, and finds what our search finds.

Both search alike: 2K candidates a step, a sentence stops at K finished hypotheses, those that reach
`max_length` stand as they are, suppressed symbols are left out before the softmax, and constraints
are applied in the same order. Three differences remain, measured with 4.8.5:

- It counts EOS in |y|. So K hypotheses are asked for and ranked again by our score. If more than K
  have finished, it keeps the K best by its own score, which may change the tail of the list; the
  best can be lost only among very short ones, by a model that is sure of none.
- With a length penalty of 0 it stops elsewhere, but not with one that is next to 0.
- In a batch with prefixes, EOS may follow a prefix at once only if it is the best of all symbols.
  So sentences without a prefix are searched apart from those that have one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any

from mtkit.artifacts.manifest import Artifact
from mtkit.config.decoding import ModelConfig
from mtkit.config.model import ModelSettings
from mtkit.decoding.batches import BatchQueue, SentenceBatch, divide
from mtkit.decoding.engine import Engine, EngineOptions, Hypothesis, NBestLists, Request, Sentence
from mtkit.errors import UserError
from mtkit.machine import available_cpus
from mtkit.symbols import BOS, PAD
from mtkit.tokenizer.codec import Tokenizer


def _import_extension() -> Any:
    """Import only CTranslate2's extension: the package imports asyncio, a sixth of a cold start."""
    spec = find_spec("ctranslate2")
    if spec is None or "ctranslate2" in sys.modules:
        return import_module("ctranslate2")
    sys.modules["ctranslate2"] = module_from_spec(spec)  # without running its __init__
    try:
        return import_module("ctranslate2._ext")
    finally:
        del sys.modules["ctranslate2"]


_library = _import_extension()

INT8_BATCH_TOKENS = 800
"""Largest batch in int8 on a CPU, source tokens times the beam: larger products are slower."""
MIN_PENALTY = 1e-6
"""Stands for a length penalty of 0."""
ON_CPU = EngineOptions(device="cpu")
PLACEHOLDER_SCORE = -1e6
"""Lower scores belong to what fills a beam where a prefix leaves it one hypothesis."""
POSITIONS = (1024, 8192)
"""Lengths of the table of positions that a converted model may have."""


class CTranslate2Engine(Engine):
    """Searches several batches at the same time, in threads of its own.

    A batch that the library has taken cannot be stopped.
    """

    def __init__(
        self, converted: Artifact, tokenizer: Tokenizer, options: EngineOptions = ON_CPU
    ) -> None:
        """Open a model that `conversion` wrote; `options` gives device, workers and threads.

        Raises:
            UserError: the device does not support the compute type.
        """
        device = options.device
        compute_type = str(converted.manifest["settings"]["compute_type"])
        # By default one thread a core: several workers of one thread are faster than the reverse,
        # as most products are too small to be divided. A GPU needs one of each.
        cores = len(available_cpus()) if device == "cpu" else 1
        threads = options.threads or max(1, cores // (options.workers or cores))
        workers = options.workers or max(1, cores // threads)
        if reason := obstacle_on(device, compute_type):
            raise UserError(reason)
        self.name = f"ctranslate2 {compute_type}"
        is_int8_on_cpu = device == "cpu" and compute_type.startswith("int8")
        self._max_tokens = INT8_BATCH_TOKENS if is_int8_on_cpu else math.inf
        self._translator = _library.Translator(
            str(converted.path),
            device,
            compute_type=compute_type,
            inter_threads=workers,
            intra_threads=threads,
            max_queued_batches=-1,
        )
        self._queue = BatchQueue(2 * workers, self._search)  # so that there is always a next batch
        self._source, self._target = tokenizer.vocabularies
        self._ids = {piece: i for i, piece in enumerate(self._target)}

    def search(
        self, sentences: Sequence[Sentence], request: Request, *, alone: bool = False
    ) -> Future[NBestLists]:
        if reason := obstacle_in_request(request):
            raise UserError(f"{reason}: load the model with the engine torch")
        max_tokens = request.settings.batch_tokens
        max_tokens = int(max(1, min(max_tokens, self._max_tokens / request.settings.beam)))
        free = [place for place, sentence in enumerate(sentences) if not sentence.prefix]
        bound = [place for place, sentence in enumerate(sentences) if sentence.prefix]
        batches = [batch for kind in (free, bound) for batch in divide(sentences, kind, max_tokens)]
        return self._queue.search(sentences, batches, request, max_tokens, alone=alone)

    def close(self) -> None:
        self._queue.close()
        self._translator.unload_model()

    def _search(self, batch: SentenceBatch) -> NBestLists:
        request, settings = batch.request, batch.request.settings
        results = self._translator.translate_batch(
            [[self._source[i] for i in sentence.source[:-1]] for sentence in batch.sentences],
            [[self._target[i] for i in sentence.prefix] for sentence in batch.sentences],
            beam_size=settings.beam,
            num_hypotheses=settings.beam,
            length_penalty=max(settings.length_penalty, MIN_PENALTY),
            no_repeat_ngram_size=settings.no_repeat_ngram,
            repetition_penalty=settings.repetition_penalty,
            suppress_sequences=[[self._target[PAD]], [self._target[BOS]]],
            max_input_length=0,
            max_decoding_length=settings.max_length,
            min_decoding_length=settings.min_length,
            return_scores=request.scores or settings.beam > 1,
        )
        return [self._ranked(result, request) for result in results]

    def _ranked(self, result: Any, request: Request) -> list[Hypothesis]:
        """Return the best hypotheses by our score."""
        max_length, alpha = request.settings.max_length, request.settings.length_penalty
        if not result.scores:
            (pieces,) = result.hypotheses
            return [Hypothesis(self._as_ids(pieces), None, len(pieces) < max_length)]
        scored = []
        for score, pieces in zip(result.scores, result.hypotheses, strict=True):
            is_finished = len(pieces) < max_length
            # The library divides by a length that counts EOS; ours does not.
            ratio = (len(pieces) + is_finished) / max(len(pieces), 1)
            if score > PLACEHOLDER_SCORE:
                scored.append((float(score * ratio**alpha), pieces, is_finished))
        scored.sort(key=lambda one: -one[0])
        return [
            Hypothesis(self._as_ids(pieces), score, is_finished)
            for score, pieces, is_finished in scored[: request.n_best]
        ]

    def _as_ids(self, pieces: Sequence[str]) -> list[int]:
        return [self._ids[piece] for piece in pieces]


def obstacle(models: Sequence[ModelConfig], request: Request, options: EngineOptions) -> str | None:
    """Return what CTranslate2 does not support of the models, the request and the options."""
    if len(models) > 1:
        return f"an ensemble of {len(models)} models: CTranslate2 searches with one"
    if options.device == "mps":
        return "device: CTranslate2 supports cpu and cuda"
    return (
        obstacle_in_model(models[0].model)
        or obstacle_in_request(request, positions(models[0]))
        or obstacle_on(choose_device(options.device), options.compute_type)
    )


def obstacle_in_model(model: ModelSettings) -> str | None:
    """Return the model setting that CTranslate2 does not support, if any."""
    try:
        transformer = model.as_transformer()
    except ValueError as error:
        return f"{error}: CTranslate2 runs Transformers whose encoder and decoder are alike"
    if transformer.neighbourhood is not None:
        return "model.neighbourhood: CTranslate2 has no restricted attention"
    return None


def obstacle_in_request(request: Request, length: int = POSITIONS[-1]) -> str | None:
    """Return what CTranslate2 does not support of a request to a model of `length` positions."""
    if request.sampling is not None:
        return "sampling: CTranslate2's samples depend on the other sentences of the batch"
    if request.attention:
        return "alignments: CTranslate2 does not return the attention of every hypothesis"
    if request.settings.max_length >= length:
        return f"max_length: {request.settings.max_length}: CTranslate2 takes {length - 1}"
    return None


def choose_device(name: str) -> str:
    """Return "cpu" or "cuda"; auto is a GPU if CTranslate2 can use one.

    Raises:
        UserError: CTranslate2 cannot use the device on this machine.
    """
    gpus: int = _library.get_cuda_device_count()
    if name == "auto":
        return "cuda" if gpus else "cpu"
    if name not in ("cpu", "cuda") or (name == "cuda" and not gpus):
        raise UserError(f"device: no {name} for CTranslate2 on this machine: use auto or cpu")
    return name


def obstacle_on(device: str, compute_type: str) -> str | None:
    """Return why the device does not support the compute type, or None; it always supports auto."""
    supported = sorted(_library.get_supported_compute_types(device))
    if compute_type in ("auto", *supported):
        return None
    names = ", ".join(supported)
    return f"compute type: {compute_type}: CTranslate2 supports {names} on this {device}"


def positions(config: ModelConfig) -> int:
    """Return the number of positions that a converted model needs: all learned ones, or enough."""
    if (learned := config.model.as_pair().learned_positions) is not None:
        return learned
    max_length = config.decoding.max_length
    return next((length for length in POSITIONS if length > max_length), POSITIONS[-1])
