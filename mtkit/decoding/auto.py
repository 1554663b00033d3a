"""The choice of the engine: the one that is named, or the fastest that supports the request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Lock

from mtkit.decoding.engine import Engine, EngineOptions, NBestLists, Request, Sentence
from mtkit.errors import UserError
from mtkit.models.folder import OpenedModel
from mtkit.report import warn


class UnavailableError(UserError):
    """An engine that does not work on this machine."""


def load_engine(models: Sequence[OpenedModel], options: EngineOptions, request: Request) -> Engine:
    """Return the engine that the options name, or with "auto" one that picks for each request.

    Several models are an ensemble. The engine for `request` is opened at once.

    Raises:
        UserError: an option is not supported, or the named engine does not support the request.
    """
    if options.engine == "auto":
        return AutoEngine(models, options, request)
    if options.engine == "torch":
        return _open_torch(models, options)
    if reason := _obstacle(models, options, request):
        raise UserError(f"{reason}: use the engine torch")
    return _open_ctranslate2(models[0], options)


class AutoEngine(Engine):
    """CTranslate2 for all requests that it supports, PyTorch for the others.

    If CTranslate2 does not work, PyTorch does everything, with one warning.
    """

    def __init__(
        self, models: Sequence[OpenedModel], options: EngineOptions, request: Request
    ) -> None:
        self._models, self._options = models, options
        self._lock = Lock()
        self._fast: Engine | None = None
        self._torch: Engine | None = None
        self._is_fast_broken = False
        self.name = self.engine_for(request).name

    def search(
        self, sentences: Sequence[Sentence], request: Request, *, alone: bool = False
    ) -> Future[NBestLists]:
        return self.engine_for(request).search(sentences, request, alone=alone)

    def close(self) -> None:
        for engine in filter(None, (self._fast, self._torch)):
            engine.close()

    def engine_for(self, request: Request) -> Engine:
        """Return the engine that serves the request; it is opened when it is first needed."""
        with self._lock:
            reason = None
            if not self._is_fast_broken:
                try:
                    if not (reason := _obstacle(self._models, self._options, request)):
                        self._fast = self._fast or _open_ctranslate2(self._models[0], self._options)
                        return self._fast
                except UnavailableError as error:
                    self._is_fast_broken = True
                    warn(f"{error}: using the slower engine torch")
            self._torch = self._torch or _open_torch(self._models, self._options, reason)
            return self._torch


@contextmanager
def _as_unavailable() -> Iterator[None]:
    """Turn what CTranslate2 raises when it is imported, opened or tried into one error."""
    try:
        yield
    except (ImportError, OSError, RuntimeError) as error:
        reason = str(error).rstrip(".")
        if isinstance(error, OSError) and error.filename:
            reason = f"{error.filename}: {error.strerror}"
        raise UnavailableError(f"CTranslate2 does not work here: {reason}") from error


def _obstacle(
    models: Sequence[OpenedModel], options: EngineOptions, request: Request
) -> str | None:
    """Return what CTranslate2 does not support, if anything."""
    with _as_unavailable():
        from mtkit.decoding.ctranslate2 import obstacle

        return obstacle([model.config for model in models], request, options)


def _open_ctranslate2(model: OpenedModel, options: EngineOptions) -> Engine:
    with _as_unavailable():
        from mtkit.decoding.conversion import open_converted

        return open_converted(model, options)


def _open_torch(
    models: Sequence[OpenedModel], options: EngineOptions, reason: str | None = None
) -> Engine:
    from mtkit.decoding.pytorch import PyTorchEngine

    return PyTorchEngine.load(models, options, reason)
