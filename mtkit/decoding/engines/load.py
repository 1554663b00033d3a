"""The engines: one contract, in `base`, and a file for each that keeps it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.decoding.engines.base import Engine, Search
from mtkit.decoding.model import OpenedModel
from mtkit.errors import UserError
from mtkit.report import warn

if TYPE_CHECKING:
    from mtkit.decoding.engines.ctranslate2 import CTranslate2Engine
    from mtkit.decoding.engines.pytorch import PyTorchEngine


@dataclass(frozen=True)
class EngineOptions:
    """Which engine, and on what it runs; None and auto are for us to decide."""

    engine: str = "auto"
    compute_type: str = "auto"
    """auto: float32 with PyTorch; with CTranslate2 int8, where it was found as good."""
    device: str = "auto"
    workers: int | None = None
    """Batches that are searched side by side."""
    threads: int | None = None
    """Threads of each."""


def load_engine(opened: OpenedModel, options: EngineOptions) -> Engine:
    """The engine that was asked for; auto: CTranslate2 wherever it can do what is asked.

    Raises UserError for an engine or an option of it that there is not, and for one that was asked
    for by name but cannot run the model.
    """
    match options.engine:
        case "torch":
            return _pytorch(opened, options)
        case "ctranslate2":
            if reason := _outdated() or _obstacle(opened, options):
                raise UserError(f"{reason}: use --engine torch")
            return _ctranslate2(opened, options)
        case "auto":
            if _obstacle(opened, options):
                return _pytorch(opened, options)
            if reason := _outdated():
                warn(f"{reason}: the slower engine torch has to do")
                return _pytorch(opened, options)
            try:
                return _ctranslate2(opened, options)
            except OSError as error:
                warn(f"{error.filename}: {error.strerror}: the slower engine torch has to do")
                return _pytorch(opened, options)
    raise UserError(f"engine: {options.engine}: there are auto, torch and ctranslate2")


def _obstacle(opened: OpenedModel, options: EngineOptions) -> str | None:
    """Why CTranslate2 cannot do it, or None."""
    from mtkit.decoding.engines.ctranslate2 import obstacle, obstacle_in, obstacle_on, pick_device

    if options.device == "mps":
        return "device: CTranslate2 knows cpu and cuda"
    return (
        obstacle(opened.config.model)
        or obstacle_in(Search(opened.config.decoding))
        or obstacle_on(pick_device(options.device), options.compute_type)
    )


def _outdated() -> str | None:
    from mtkit.decoding.engines.ctranslate2 import outdated

    return outdated()


def _pytorch(opened: OpenedModel, options: EngineOptions) -> PyTorchEngine:
    from mtkit.decoding.engines.pytorch import COMPUTE_TYPES, PyTorchEngine

    compute_type = "float32" if options.compute_type == "auto" else options.compute_type
    if compute_type not in COMPUTE_TYPES:
        reason = _obstacle(opened, options)
        because = f" ({reason})" if reason else ""
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
    folder: Path,
    opened: OpenedModel,
    compute_type: str,
    options: EngineOptions = EngineOptions(device="cpu"),
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
