"""Which engine: the one that was asked for, or the fastest that can do what is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mtkit.decoding.engine import Engine, EngineOptions, Request
from mtkit.errors import UserError
from mtkit.models.folder import OpenedModel
from mtkit.report import warn


def load_engine(models: Sequence[OpenedModel], options: EngineOptions, request: Request) -> Engine:
    """The engine that was asked for; auto: CTranslate2 wherever it can do what is asked.

    Several models are an ensemble. Raises UserError for an engine or an option of it that there is
    not, and for one that was asked for by name but cannot do what is requested of these models.
    """
    if options.engine not in ("auto", "torch", "ctranslate2"):
        raise UserError(f"engine: {options.engine}: there are auto, torch and ctranslate2")
    cannot = None
    if options.engine != "torch":
        from mtkit.decoding.ctranslate2 import obstacle, outdated

        cannot, is_old = obstacle([it.config for it in models], request, options), outdated()
        if options.engine == "ctranslate2":
            if reason := is_old or cannot:
                raise UserError(f"{reason}: use --engine torch")
            return _ctranslate2(models[0], options)
        if is_old and not cannot:
            warn(f"{is_old}: the slower engine torch has to do")
        elif not cannot:
            try:
                return _ctranslate2(models[0], options)
            except OSError as error:
                warn(f"{error.filename}: {error.strerror}: the slower engine torch has to do")
    from mtkit.decoding.pytorch import PyTorchEngine

    return PyTorchEngine.load(models, options, cannot)


def _ctranslate2(opened: OpenedModel, options: EngineOptions) -> Engine:
    from mtkit.decoding.cache import cached, type_of
    from mtkit.decoding.ctranslate2 import CTranslate2Engine, pick_device

    device = pick_device(options.device)
    model = cached(opened, "float32" if options.compute_type == "auto" else options.compute_type)
    on_device = replace(options, device=device)
    return CTranslate2Engine(model.path, opened.tokenizer, type_of(model), on_device)
