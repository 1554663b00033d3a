"""The engine of a `Translator`: it chooses an engine for each request."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from mtkit.decoding.engines.engine import (
    Engine,
    EngineOptions,
    Lifetime,
    NBestLists,
    Request,
    Sentence,
)
from mtkit.errors import UserError
from mtkit.models.folder import OpenedModel
from mtkit.report import warn


class AutoEngine(Engine):
    """An engine that uses CTranslate2 for every request it supports, and PyTorch for the rest.

    If CTranslate2 fails, a warning says why, and PyTorch serves all requests. If the options name
    an engine, that engine serves all requests.
    """

    def __init__(
        self, models: Sequence[OpenedModel], options: EngineOptions, request: Request
    ) -> None:
        """Open the engine for `request`, or raise UserError if no allowed engine supports it."""
        self._models = models
        self._options = options
        self._lifetime = Lifetime()
        self._ctranslate2: Engine | None = None
        self._torch: Engine | None = None
        self._failure: str | None = None
        """Why CTranslate2 does not work here; None if it works, or has not been tried."""
        self.name = self.engine_for(request).name

    def search(
        self, sentences: Sequence[Sentence], request: Request, *, alone: bool = False
    ) -> Future[NBestLists]:
        return self.engine_for(request).search(sentences, request, alone=alone)

    def close(self) -> None:
        if not self._lifetime.is_in_child:
            self._lifetime.end()  # from now on, no call opens another engine
            for engine in (self._ctranslate2, self._torch):
                if engine is not None:
                    engine.close()

    def engine_for(self, request: Request) -> Engine:
        """Return the engine for this request; open it if this is its first use.

        Raises:
            UserError: no engine that the options allow supports the request.
            MtkitError: as `Lifetime.locked`.
        """
        with self._lifetime.locked():
            reason = None  # why CTranslate2, if asked, cannot serve the request
            if self._options.engine != "torch":
                reason = self._failure or self._try_ctranslate2(request)
                if self._ctranslate2 is not None and reason is None:
                    return self._ctranslate2
                if self._options.engine == "ctranslate2":
                    raise UserError(f"{reason}; use the engine torch")
            if self._torch is None:
                from mtkit.decoding.engines.pytorch import PyTorchEngine

                self._torch = PyTorchEngine.load(self._models, self._options, reason)
            return self._torch

    def _try_ctranslate2(self, request: Request) -> str | None:
        """Open CTranslate2 if it supports the request, and return None; else return why not.

        If CTranslate2 fails, remember why, and warn if PyTorch takes its place.
        """
        try:
            from mtkit.decoding.engines.conversion import open_converted
            from mtkit.decoding.engines.ctranslate2 import obstacle

            configs = [model.config for model in self._models]
            reason = obstacle(configs, request, self._options)
            if reason is None and self._ctranslate2 is None:
                self._ctranslate2 = open_converted(self._models[0], self._options)
        except (ImportError, OSError, RuntimeError) as error:
            reason = f"CTranslate2 does not work here: {str(error).rstrip('.')}"
            self._failure = reason
            if self._options.engine == "auto":
                warn(f"{reason}; using the slower engine torch")
        return reason
