"""`load` and `Translator`: translation for commands and for Python.

The translation of a line does not depend on other lines.
"""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any, Literal, TypeVar
from weakref import ref

from mtkit.config.base import validated
from mtkit.config.decoding import DecodingSettings, SamplingSettings
from mtkit.decoding.auto import AutoEngine
from mtkit.decoding.engine import Engine, EngineOptions, NBestLists, Request, Sentence
from mtkit.decoding.segment import Line, Translation, join, segment
from mtkit.errors import UserError
from mtkit.models.folder import OpenedModel, Place, open_models
from mtkit.prefetch import Prefetcher
from mtkit.tokenizer.codec import Tokenizer

MAX_WINDOW = 1024
"""Largest number of lines that are sorted by length and translated together."""
FIRST_WINDOW = 32
"""Size of the first window, small so that output starts early; each later window doubles."""
PATIENCE_SECONDS = 0.1
"""How long a line waits for others to join its window."""
REQUEST_SETTINGS = ("n_best", "alignments", "scores", "sample")
"""Settings of `make_request` that are in no section of a config."""
READY_SECONDS = 0.02
"""How long to wait for a full window before finished translations are yielded."""

_Section = TypeVar("_Section", DecodingSettings, SamplingSettings)


@dataclass
class Translator:
    """A model or ensemble with its tokenizer and settings. Thread-safe.

    PyTorch's number of threads and the messages on stderr belong to the whole process.
    """

    engine: Engine
    tokenizer: Tokenizer
    request: Request
    """The default request of all calls."""
    models: Sequence[OpenedModel] = field(default=(), repr=False)
    """The models that the engine searches with; empty for a model that is not in a folder."""

    def translate(self, lines: Iterable[str | Line], **settings: Any) -> list[str]:
        """Return the best translation of each line; `settings` are as in `make_request`."""
        request = self.make_request(scores=False, **settings)
        return [translation.text for translation in self.submit(lines, request).result()]

    def results(
        self, lines: Iterable[str | Line], request: Request | None = None, **settings: Any
    ) -> Iterator[Translation]:
        """Yield the translation of each line, in order, while `lines` still arrive.

        `settings` change the request as in `make_request`. Another thread iterates over `lines`.
        Memory use does not depend on their number.
        """
        request = _change_request(request or self.request, settings)
        return chain.from_iterable(self.stream(lines, request))

    def stream(
        self, lines: Iterable[str | Line], request: Request | None = None
    ) -> Iterator[list[Translation]]:
        """Yield the translations of `results` in lists, as soon as each list is complete."""
        window, running = FIRST_WINDOW, deque[Future[list[Translation]]]()
        arriving = Prefetcher(_as_lines(lines), MAX_WINDOW, lambda line: 1 + len(line.text) // 1024)
        try:
            with closing(arriving):
                while taken := arriving.take(window, PATIENCE_SECONDS):
                    running.append(self.submit(taken, request, alone=True))
                    del taken  # so that translated lines do not stay in memory
                    window = min(2 * window, MAX_WINDOW)
                    # Start the next window early, but never let finished translations wait for it.
                    while len(running) > 1 or (
                        running and not arriving.ready_within(READY_SECONDS, window)
                    ):
                        yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()

    def submit(
        self, lines: Iterable[str | Line], request: Request | None = None, *, alone: bool = False
    ) -> Future[list[Translation]]:
        """Start to translate, and return the future of the list of translations.

        Concurrent calls with equal requests share batches, unless they are `alone`. Cancelling the
        future stops the search.

        Raises:
            UserError: the engine does not support the request.
        """
        request, batch = request or self.request, list(_as_lines(lines))
        segmented = [segment(line, self.tokenizer, request) for line in batch]
        sentences = [one for of_line in segmented for one in of_line if isinstance(one, Sentence)]

        def join_all(n_best_lists: NBestLists) -> list[Translation]:
            answers = iter(n_best_lists)
            return [
                join(line, segments, answers, self.tokenizer, request)
                for line, segments in zip(batch, segmented, strict=True)
            ]

        search = self.engine.search(sentences, _with_spare_hypotheses(request), alone=alone)
        return _then(search, join_all)

    def make_request(self, **settings: Any) -> Request:
        """Return this translator's request with some settings changed; None changes nothing.

        Settings are `n_best` (translations per line), `alignments` (between words), `scores` (False
        saves time), `sample` (by `SamplingSettings`), and all fields of `DecodingSettings`.

        Raises:
            UserError: a setting is unknown or invalid.
        """
        return _change_request(self.request, settings)

    def close(self) -> None:
        """Wait for all searches, then release the threads and memory of the engines."""
        self.engine.close()


def load(
    path: Place | Sequence[Place] | None = None,
    device: str = "auto",
    *,
    engine: Literal["auto", "torch", "ctranslate2"] | str = "auto",
    compute_type: str = "auto",
    workers: int | None = None,
    threads: int | None = None,
    **settings: Any,
) -> Translator:
    """Load the model of a run or a model folder, or several models as an ensemble.

    The default model is $MTKIT_MODEL, else that of the run of ./mtkit.yaml, else the last run of
    this directory. An ensemble uses the settings of its first model. Further options are as in
    `EngineOptions`; `settings` are as in `Translator.make_request`, and become the default of all
    calls.

    Raises:
        UserError: a model is missing or damaged, the models do not fit together, or a setting is
            unknown, invalid, or not supported by the engine.
    """
    _check_names(settings, [field.name for field in fields(EngineOptions)])
    models = open_models([path] if path is None or isinstance(path, Place) else path)
    request = _change_request(Request(models[0].config.decoding), settings)
    changed = {"decoding": request.settings}
    models = [replace(it, config=it.config.model_copy(update=changed)) for it in models]
    options = EngineOptions(engine, compute_type, device, workers, threads)
    return Translator(AutoEngine(models, options, request), models[0].tokenizer, request, models)


def _change_request(base: Request, settings: Mapping[str, Any]) -> Request:
    _check_names(settings)
    changes = {name: value for name, value in settings.items() if value is not None}
    own = {name: changes.pop(name) for name in REQUEST_SETTINGS if name in changes}
    is_sampled = own.pop("sample", base.sampling is not None)
    sampling = changes.keys() & SamplingSettings.model_fields.keys()
    if sampling and not is_sampled:
        raise UserError(f"{min(sampling)} needs sample=True")
    drawn = _change(base.sampling or SamplingSettings(), changes) if is_sampled else None
    return replace(base, settings=_change(base.settings, changes), sampling=drawn, **own)


def _change(section: _Section, changes: Mapping[str, Any]) -> _Section:
    """Return the section with those changes that are settings of it."""
    own = {name: value for name, value in changes.items() if name in type(section).model_fields}
    return validated(type(section), section.model_dump() | own)


def _check_names(settings: Mapping[str, Any], others: Iterable[str] = ()) -> None:
    """Raise UserError with the name that was probably meant for a setting that does not exist."""
    sections = (DecodingSettings.model_fields, SamplingSettings.model_fields)
    names = [*REQUEST_SETTINGS, *chain(*sections), *others]
    for name in settings:
        if name not in names:
            similar = [it for it in names if it in name] or difflib.get_close_matches(name, names)
            hint = f"did you mean '{similar[0]}'?" if similar else f"choose from {', '.join(names)}"
            raise UserError(f"{name}: unknown setting; {hint}")


def _with_spare_hypotheses(request: Request) -> Request:
    """Return the request for the whole beam, of twice the width if it asks for an n-best list.

    Hypotheses with half characters are left out, and of several with the same text only one stays.
    A batch of twice the beam has half as many sentences, so it takes no more memory.
    """
    settings = request.settings
    if request.sampling is not None:
        return request
    if request.n_best == 1:
        return replace(request, n_best=settings.beam)
    wider = {"beam": 2 * settings.beam, "batch_tokens": max(1, settings.batch_tokens // 2)}
    return replace(request, settings=settings.model_copy(update=wider), n_best=2 * settings.beam)


def _as_lines(lines: Iterable[str | Line]) -> Iterator[Line]:
    if isinstance(lines, str):  # otherwise each character would be a line
        raise TypeError("translate: expected a list of lines, not a string")
    for number, line in enumerate(lines):
        line = Line(line) if isinstance(line, str) else line
        yield line if line.id is not None else replace(line, id=number)


def _then(
    search: Future[NBestLists], join_all: Callable[[NBestLists], list[Translation]]
) -> Future[list[Translation]]:
    """Return a future of `join_all` of the search's result; cancelling it cancels the search."""
    joined: Future[list[Translation]] = Future()
    searching = ref(search)  # a cycle of references would keep the results in memory

    def finish(search: Future[NBestLists]) -> None:
        if joined.set_running_or_notify_cancel():
            try:
                joined.set_result(join_all(search.result()))
            except BaseException as error:
                joined.set_exception(error)

    def cancel(joined: Future[list[Translation]]) -> None:
        if joined.cancelled() and (search := searching()) is not None:
            search.cancel()

    joined.add_done_callback(cancel)
    search.add_done_callback(finish)
    return joined
