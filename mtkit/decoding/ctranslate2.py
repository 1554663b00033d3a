"""CTranslate2, the fastest engine on CPUs: for Transformers, where it finds what our search finds.

Both search alike: 2K candidates a step, a sentence stops at K finished hypotheses, those of
`max_length` stand as they are, what may not follow is left out before the softmax, and constraints
are applied in the same order. Three differences remain, measured with 4.8.5:

- It counts end of sentence in |y|. So K hypotheses are asked for and ranked anew by our score.
  Where more than K have finished it keeps the K best by its own, which may change the tail of the
  list; the best can be lost only among very short ones, by a model that is sure of none.
- With a length penalty of 0 it stops elsewhere; not with one that is next to 0.
- Where prefixes are given, the end may follow one at once only as the best of all symbols. So
  sentences without a prefix are searched apart from those that have one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import ctranslate2

from mtkit.config.decoding import ModelConfig
from mtkit.config.model import ModelSettings
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
from mtkit.errors import UserError
from mtkit.machine import processors
from mtkit.symbols import BOS, PAD
from mtkit.tokenizer.codec import Tokenizer

INT8_BATCH_TOKENS = 800
"""Source tokens of a batch, at most, times the beam, in int8 on a CPU: its products lose by size,
not gain.
"""
LEAST_PENALTY = 1e-6
ON_CPU = EngineOptions(device="cpu")
NEEDED = (4, 8, 5)
"""The version whose search was compared with ours."""
NOWHERE = -1e6
"""Scores below are of what fills a beam where a prefix leaves it one hypothesis."""
POSITIONS = (1024, 8192)
"""Lengths of the table of positions that a converted model has."""


class CTranslate2Engine(Engine):
    """Searches in threads of its own from the moment of `submit`, several batches side by side.

    The library holds no more than the batches that are searched and the next: what it has taken it
    brings to its end, and nobody could stop it.
    """

    def __init__(
        self, folder: Path, tokenizer: Tokenizer, compute_type: str, options: EngineOptions = ON_CPU
    ) -> None:
        """`folder`: a model as `conversion` writes it; nothing in it is checked any more.

        Of `options` device, workers and threads count. Raises UserError where the device has no
        operations for the type.
        """
        device = options.device
        # A thread for every core, unless told otherwise. Several workers of one thread are faster
        # than the reverse: most products are too small to be divided. A GPU needs one of each.
        cores = len(processors()) if device == "cpu" else 1
        threads = options.threads or max(1, cores // (options.workers or cores))
        workers = options.workers or max(1, cores // threads)
        if reason := obstacle_on(device, compute_type):
            raise UserError(reason)
        self.name = f"ctranslate2 {compute_type}"
        is_int8_on_cpu = device == "cpu" and compute_type.startswith("int8")
        self._most_tokens = INT8_BATCH_TOKENS if is_int8_on_cpu else math.inf
        self._translator = ctranslate2.Translator(
            str(folder),
            device,
            compute_type=compute_type,
            inter_threads=workers,
            intra_threads=threads,
            max_queued_batches=-1,
        )
        self._callers = ThreadPoolExecutor(2 * workers)  # so that there is always a next batch
        self._source, self._target = tokenizer.vocabularies
        self._ids = {piece: i for i, piece in enumerate(self._target)}

    def submit(self, sentences: Mapping[Key, Sentence], request: Request) -> Pending:
        if reason := obstacle_in_request(request):
            raise UserError(f"{reason}: load the model with the engine torch")
        beam, most = request.settings.beam, request.settings.batch_tokens
        most = int(max(1, min(most, self._most_tokens / beam)))
        free = {key: sentence for key, sentence in sentences.items() if not sentence.prefix}
        bound = {key: sentence for key, sentence in sentences.items() if sentence.prefix}
        batches = [*in_batches(free, most), *in_batches(bound, most)]
        return begin(self._callers, partial(self._search, request), batches, list(sentences))

    def _search(self, request: Request, batch: Mapping[Key, Sentence]) -> Found:
        settings = request.settings
        results = self._translator.translate_batch(
            [[self._source[i] for i in sentence.source[:-1]] for sentence in batch.values()],
            [[self._target[i] for i in sentence.prefix] for sentence in batch.values()],
            beam_size=settings.beam,
            num_hypotheses=settings.beam,
            length_penalty=max(settings.length_penalty, LEAST_PENALTY),
            no_repeat_ngram_size=settings.no_repeat_ngram,
            repetition_penalty=settings.repetition_penalty,
            suppress_sequences=[[self._target[PAD]], [self._target[BOS]]],
            max_input_length=0,
            max_decoding_length=settings.max_length,
            min_decoding_length=settings.min_length,
            return_scores=request.scores or settings.beam > 1,
        )
        return [self._ranked(result, request) for result in results]

    def _ranked(self, found: ctranslate2.TranslationResult, request: Request) -> list[Hypothesis]:
        longest, alpha = request.settings.max_length, request.settings.length_penalty
        scored = []
        for score, pieces in zip(found.scores or [math.nan], found.hypotheses, strict=True):
            is_finished = len(pieces) < longest
            # It is divided by a length that counts end of sentence, and is to be by ours.
            ratio = (len(pieces) + is_finished) / max(len(pieces), 1)
            scored.append((float(score * ratio**alpha), pieces, is_finished))
        ranked = [
            Hypothesis([self._ids[piece] for piece in pieces], score, is_finished)
            for score, pieces, is_finished in sorted(scored, key=lambda it: -it[0])[: request.count]
            if score > NOWHERE or not found.scores
        ]
        missing = request.count - len(ranked)  # a small vocabulary has fewer
        return ranked + [NO_HYPOTHESIS] * missing


def obstacle(models: Sequence[ModelConfig], request: Request, options: EngineOptions) -> str | None:
    """What CTranslate2 cannot do of all that is asked of it, or None."""
    if len(models) > 1:
        return f"an ensemble of {len(models)} models: CTranslate2 searches with one"
    if options.device == "mps":
        return "device: CTranslate2 knows cpu and cuda"
    return (
        obstacle_in_model(models[0].model)
        or obstacle_in_request(request)
        or obstacle_on(pick_device(options.device), options.compute_type)
    )


def obstacle_in_model(model: ModelSettings) -> str | None:
    """The setting of a model that CTranslate2 cannot honour, or None."""
    try:
        transformer = model.as_transformer()
    except ValueError as error:
        return f"{error}: CTranslate2 runs Transformers with halves alike"
    if transformer.neighbourhood is not None:
        return "model.neighbourhood: CTranslate2 has no restricted attention"
    return None


def obstacle_in_request(request: Request) -> str | None:
    """What is wanted of a translation that CTranslate2 cannot honour, or None."""
    if request.sampling is not None:
        return "--sample: in CTranslate2 a line's samples depend on the lines around it"
    if request.attention:
        return "--alignments: CTranslate2 does not give attention to every hypothesis"
    if request.settings.max_length >= POSITIONS[-1]:
        return f"max_length: {request.settings.max_length}: CTranslate2 takes {POSITIONS[-1] - 1}"
    return None


def pick_device(name: str) -> str:
    """`auto` is a GPU where CTranslate2 finds one; UserError for one that is not there."""
    gpus: int = ctranslate2.get_cuda_device_count()
    if name == "auto":
        return "cuda" if gpus else "cpu"
    if name not in ("cpu", "cuda") or (name == "cuda" and not gpus):
        raise UserError(f"device: no {name} for CTranslate2 on this machine: use auto or cpu")
    return name


def obstacle_on(device: str, compute_type: str) -> str | None:
    """Why a processor has no fast operations for the type, or None; auto always goes."""
    there = sorted(ctranslate2.get_supported_compute_types(device))
    if compute_type in ("auto", *there):
        return None
    return f"compute type: {compute_type}: CTranslate2 has {', '.join(there)} on this {device}"


def outdated() -> str | None:
    """Says which version of the library our models need, where an older one is installed."""
    installed = ctranslate2.__version__
    if tuple(int(number) for number in re.findall(r"\d+", installed)[:3]) >= NEEDED:
        return None
    needed = ".".join(map(str, NEEDED))
    return f"CTranslate2 {installed} is installed, and the model needs {needed} or newer"


def positions(config: ModelConfig) -> int:
    """How many positions a converted model needs: all that are learned, or as many as a search."""
    if (learned := config.model.as_pair().learned_positions) is not None:
        return learned
    longest = config.decoding.max_length
    return next((length for length in POSITIONS if length > longest), POSITIONS[-1])
