"""The one door to translation: a `Translator` for commands, Python, servers and documents.

The translation of a line does not depend on the lines around it. A blank line becomes an empty line
without the model.
"""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal, TypeVar, overload
from weakref import ref

from mtkit.config.base import Settings, validated
from mtkit.config.decoding import DecodingSettings, SamplingSettings
from mtkit.decoding.auto import AutoEngine
from mtkit.decoding.engine import Engine, EngineOptions, NBestLists, Request, Sentence
from mtkit.decoding.segment import Line, Translation, join, segment
from mtkit.errors import UserError
from mtkit.models.folder import OpenedModel, Place, open_models
from mtkit.prefetch import Prefetcher
from mtkit.tokenizer.codec import Tokenizer

MAX_WINDOW = 1024
"""Lines that are sorted by length and translated together."""
FIRST_WINDOW = 32
"""Size of the first window, so that the first translations come soon; each later one doubles."""
PATIENCE_SECONDS = 0.1
"""Time that a line waits for others."""
READY_SECONDS = 0.02
"""Time in which lines that can be read at once arrive."""

_AnySettings = TypeVar("_AnySettings", bound=Settings)


@dataclass
class Translator:
    """Translates with one model or ensemble, from any number of threads.

    Engines, whose threads do the work, are opened when they are needed. PyTorch's number of threads
    and the messages on stderr (`mtkit.report`) belong to the whole process.
    """

    engine: Engine
    tokenizer: Tokenizer
    request: Request
    """What a call without settings asks for."""
    models: Sequence[OpenedModel] = field(default=(), repr=False)
    """The models of the engine, if they are artifacts."""

    @overload
    def translate(
        self, lines: Iterable[str | Line], *, n_best: None = None, **settings: Any
    ) -> list[str]: ...

    @overload
    def translate(
        self, lines: Iterable[str | Line], *, n_best: int, **settings: Any
    ) -> list[list[str]]: ...

    def translate(
        self, lines: Iterable[str | Line], *, n_best: int | None = None, **settings: Any
    ) -> list[str] | list[list[str]]:
        """Return the translation of each line, or with `n_best` its best translations.

        `settings` are those of `make_request`, for this call.
        """
        request = self.make_request(n_best=n_best, scores=False, **settings)
        translations = self.submit(list(_as_lines(lines)), request).result()
        if n_best is None:
            return [translation.text for translation in translations]
        return [[it.text for it in (one, *one.alternatives)] for one in translations]

    def results(
        self, lines: Iterable[str | Line], request: Request | None = None
    ) -> Iterator[Translation]:
        """Yield the translation of each line, in order, while `lines` still arrive.

        Memory does not grow with the number of lines. Another thread iterates over `lines`.
        """
        return chain.from_iterable(self.stream(lines, request))

    def stream(
        self, lines: Iterable[str | Line], request: Request | None = None
    ) -> Iterator[list[Translation]]:
        """Yield the translations as `results` does, in lists as they are done."""
        window, running = FIRST_WINDOW, deque[Future[list[Translation]]]()
        arriving = Prefetcher(_as_lines(lines), MAX_WINDOW, lambda line: 1 + len(line.text) // 1024)
        try:
            with closing(arriving):
                while taken := arriving.take(window, PATIENCE_SECONDS):
                    running.append(self._start(taken, request or self.request, alone=True))
                    del taken  # so that lines are held until they are translated, and no longer
                    window = min(2 * window, MAX_WINDOW)
                    # The next window starts early, but translations never wait for lines to come.
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
        self, lines: Sequence[str | Line], request: Request | None = None
    ) -> Future[list[Translation]]:
        """Start to translate, and return the future of the translations of these lines.

        Calls of several threads with equal requests share batches. Cancelling the future stops the
        search. Raises UserError if the engine does not support the request.
        """
        return self._start(list(_as_lines(lines)), request or self.request, alone=False)

    def make_request(self, **settings: Any) -> Request:
        """Return this translator's request with other settings; None keeps its own.

        `n_best`: number of translations of each line. `alignments`: which words belong together.
        `scores`: False saves time if nobody reads them. `sample`: draw at random, by
        `SamplingSettings`. All others are `DecodingSettings`, such as `beam`.

        Raises:
            UserError: a setting is unknown or invalid.
        """
        return _change_request(self.request, settings, self.models)

    def close(self) -> None:
        """Wait for all searches, then free the threads and the memory of the engines."""
        self.engine.close()

    def _start(
        self, lines: Sequence[Line], request: Request, *, alone: bool
    ) -> Future[list[Translation]]:
        segmented = [segment(line, self.tokenizer, request) for line in lines]
        sentences = [one for of_line in segmented for one in of_line if isinstance(one, Sentence)]

        def join_all(n_best_lists: NBestLists) -> list[Translation]:
            answers = iter(n_best_lists)
            return [
                join(line, segments, answers, self.tokenizer, request)
                for line, segments in zip(lines, segmented, strict=True)
            ]

        search = self.engine.search(sentences, _with_spare_hypotheses(request), alone=alone)
        return _then(search, join_all)


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
    """Load the model of a run or a model folder, or several as an ensemble.

    Without a path: $MTKIT_MODEL, else the last run of this directory. An ensemble decodes by the
    settings of the first model. The other options are those of `EngineOptions`; `settings` are
    those of `Translator.make_request`, and hold for all calls that do not change them.

    Raises:
        UserError: there is no model, it is damaged, or the models are no ensemble; or a setting is
            unknown, invalid, or not supported by the engine.
    """
    models = open_models([path] if path is None or isinstance(path, Place) else path)
    request = _change_request(Request(models[0].config.decoding), settings, models)
    changed = {"decoding": request.settings}
    models = [replace(it, config=it.config.model_copy(update=changed)) for it in models]
    options = EngineOptions(engine, compute_type, device, workers, threads)
    return Translator(AutoEngine(models, options, request), models[0].tokenizer, request, models)


def _change_request(
    base: Request, settings: Mapping[str, Any], models: Sequence[OpenedModel]
) -> Request:
    own: dict[str, Any] = {
        "n_best": base.n_best,
        "alignments": base.attention,
        "scores": base.scores,
    }
    own["sample"] = base.sampling is not None
    sections = {
        "decoding": DecodingSettings.model_fields,
        "sampling": SamplingSettings.model_fields,
    }
    names = [*own, *chain.from_iterable(sections.values())]
    for name in settings:
        if name not in names:
            similar = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean '{similar[0]}'?" if similar else f"choose from {', '.join(names)}"
            raise UserError(f"{name}: unknown setting; {hint}")
    changes = {name: value for name, value in settings.items() if value is not None}
    own |= {name: changes[name] for name in own if name in changes}
    decoding, sampling = (
        {name: changes[name] for name in fields if name in changes} for fields in sections.values()
    )
    if sampling and not own["sample"]:
        raise UserError(f"{next(iter(sampling))}: only with sample=True")
    searched = _updated(base.settings, decoding)
    for model in models:
        try:
            model.config.model.check_length("max_length", searched.max_length)
        except ValueError as error:
            raise UserError(str(error)) from None
    drawn = _updated(base.sampling or SamplingSettings(), sampling) if own["sample"] else None
    return Request(searched, own["n_best"], drawn, own["alignments"], own["scores"])


def _updated(section: _AnySettings, changes: Mapping[str, Any]) -> _AnySettings:
    return validated(type(section), {**section.model_dump(), **changes}) if changes else section


def _with_spare_hypotheses(request: Request) -> Request:
    """Search for an n-best list with twice the beam, as several hypotheses can spell one text.

    A batch has half the sentences then, so that it takes no more memory.
    """
    if request.n_best == 1 or request.sampling is not None:
        return request
    settings = request.settings
    wider = {"beam": 2 * settings.beam, "batch_tokens": max(1, settings.batch_tokens // 2)}
    return replace(request, settings=settings.model_copy(update=wider), n_best=2 * settings.beam)


def _as_lines(lines: Iterable[str | Line]) -> Iterator[Line]:
    if isinstance(lines, str):  # whose characters would be its items
        raise TypeError("translate: expected a list of lines, not a string")
    for number, line in enumerate(lines):
        yield Line(line, id=number) if isinstance(line, str) else line


def _then(
    search: Future[NBestLists], join_all: Callable[[NBestLists], list[Translation]]
) -> Future[list[Translation]]:
    """Return the future of the joined lists; cancelling it cancels the search."""
    joined: Future[list[Translation]] = Future()
    searching = ref(search)  # a cycle of references would hold the results until it is collected

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
