"""Which engine: the one that was asked for, or the fastest that can do what is asked."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.decoding.contract import Engine, EngineOptions, Request
from mtkit.decoding.model import OpenedModel
from mtkit.errors import UserError
from mtkit.report import warn

if TYPE_CHECKING:
    from mtkit.decoding.engines.ctranslate2 import CTranslate2Engine
    from mtkit.decoding.engines.pytorch import PyTorchEngine

ON_CPU = EngineOptions(device="cpu")


def load_engine(opened: OpenedModel, options: EngineOptions, request: Request) -> Engine:
    """The engine that was asked for; auto: CTranslate2 wherever it can do what is asked.

    Raises UserError for an engine or an option of it that there is not, and for one that was asked
    for by name but cannot do what is requested of this model.
    """
    if options.engine == "torch":
        return _pytorch(opened, options)
    if options.engine not in ("auto", "ctranslate2"):
        raise UserError(f"engine: {options.engine}: there are auto, torch and ctranslate2")
    from mtkit.decoding.engines.ctranslate2 import obstacle, outdated

    cannot, is_old = obstacle(opened.config, request, options), outdated()
    if options.engine == "ctranslate2":
        if reason := is_old or cannot:
            raise UserError(f"{reason}: use --engine torch")
        return _ctranslate2(opened, options)
    if cannot:
        return _pytorch(opened, options, cannot)
    if is_old:
        warn(f"{is_old}: the slower engine torch has to do")
        return _pytorch(opened, options)
    try:
        return _ctranslate2(opened, options)
    except OSError as error:
        warn(f"{error.filename}: {error.strerror}: the slower engine torch has to do")
        return _pytorch(opened, options)


def _pytorch(opened: OpenedModel, options: EngineOptions, why: str | None = None) -> PyTorchEngine:
    """`why`: what keeps CTranslate2, which knows more compute types, from doing it."""
    from mtkit.decoding.engines.pytorch import COMPUTE_TYPES, PyTorchEngine

    compute_type = "float32" if options.compute_type == "auto" else options.compute_type
    if compute_type not in COMPUTE_TYPES:
        because = f" ({why})" if why else ""
        types = ", ".join(COMPUTE_TYPES)
        raise UserError(f"compute type: {compute_type}: the engine torch has {types}{because}")
    return PyTorchEngine.load(
        opened, options.device, compute_type, options.workers, options.threads
    )


def _ctranslate2(opened: OpenedModel, options: EngineOptions) -> CTranslate2Engine:
    from mtkit.decoding.engines.cache import cached, type_of
    from mtkit.decoding.engines.ctranslate2 import pick_device

    device = pick_device(options.device)
    wanted = options.compute_type
    if wanted == "auto" and device != "cpu":
        wanted = "float32"  # what was measured is int8 on a CPU
    model = cached(opened, wanted)
    return run_converted(model.path, opened, type_of(model), replace(options, device=device))


def run_converted(
    folder: Path, opened: OpenedModel, compute_type: str, options: EngineOptions = ON_CPU
) -> CTranslate2Engine:
    """The engine of a model that is converted already; of `options` device and threads count."""
    from mtkit.decoding.engines.ctranslate2 import CTranslate2Engine, obstacle_on

    if reason := obstacle_on(options.device, compute_type):
        raise UserError(reason)
    workers, threads = _share_cores(options)
    return CTranslate2Engine(
        folder,
        opened.tokenizer,
        device=options.device,
        compute_type=compute_type,
        workers=workers,
        threads=threads,
    )


def _share_cores(options: EngineOptions) -> tuple[int, int]:
    """Workers and threads of each: one thread for every core, unless told otherwise.

    Several workers of one thread are faster than the reverse: most products are too small to be
    divided. A GPU needs one of each.
    """
    cores = len(os.sched_getaffinity(0)) if options.device == "cpu" else 1
    threads = options.threads or max(1, cores // (options.workers or cores))
    return options.workers or max(1, cores // threads), threads
