"""`load` and `Translator`: translation for commands and for Python.

The translation of a line does not depend on other lines.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from mtkit.arguments import check_listed, check_text, describe_type
from mtkit.config.base import validated
from mtkit.decoding.engines.auto import AutoEngine
from mtkit.decoding.engines.engine import Engine, EngineOptions, NBestLists, Request, check_names
from mtkit.decoding.estimation.estimator import WITHOUT_FACTS, Estimator, load_estimator
from mtkit.decoding.estimation.flags import FLAGS_WITH_FACTS
from mtkit.decoding.glossary import load_glossary
from mtkit.decoding.losses import Losses
from mtkit.decoding.text.line import Line, Translation
from mtkit.decoding.text.pipeline import Window, open_window
from mtkit.decoding.text.prefix import check_tag
from mtkit.errors import MtkitError, TranslationWarning, UserError
from mtkit.models.folder import OpenedModel, Place, read_models
from mtkit.prefetch import Prefetcher
from mtkit.tokenizer.codec import Tokenizer

if TYPE_CHECKING:  # few translations need torch; importing it takes most of a start
    from mtkit.decoding.reading import AttentionKind, AttentionMap, Reader

MAX_WINDOW = 1024
"""Largest number of lines that are sorted by length and translated together."""
FIRST_WINDOW = 32
"""Lines in the first window: few, so that output starts early; each later window doubles."""
PATIENCE_SECONDS = 0.1
"""How long a window waits for more lines."""
READY_SECONDS = 0.02
"""How long to wait for the next full window before yielding finished translations."""


class _FutureTranslations(Future[list[Translation]]):
    """The translations of a call, which the thread that completes its search joins.

    It refers to the search only as long as this runs. Otherwise both would refer to each other, and
    Python frees such a cycle late, with all results in it.
    """

    def __init__(self, search: Future[NBestLists], window: Window) -> None:
        super().__init__()
        self._search: Future[NBestLists] | None = search
        search.add_done_callback(partial(self._join, window))

    def cancel(self) -> bool:
        """Cancel the call, and its search."""
        is_cancelled = super().cancel()
        search = self._search
        if is_cancelled and search is not None:
            search.cancel()
        return is_cancelled

    def _join(self, window: Window, search: Future[NBestLists]) -> None:
        self._search = None
        if not self.set_running_or_notify_cancel():  # it was cancelled
            return
        try:
            translations = window.join(search.result())
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(translations)


@dataclass(repr=False)
class Translator:
    """A model or ensemble with its tokenizer and settings. Thread-safe.

    It sets PyTorch's number of threads for the whole process, and writes messages to stderr. After
    `close`, and in a child process that was forked after `load`, every call raises MtkitError.
    """

    engine: Engine
    tokenizer: Tokenizer
    request: Request
    """The default request of all calls."""
    models: Sequence[OpenedModel] = ()
    """The models of the engine; empty if the model was not loaded from a folder."""
    estimator: Estimator = WITHOUT_FACTS
    """What the model brings along for flags and confidence."""

    @property
    def confidence_obstacle(self) -> str | None:
        """Why translations have no confidence; None if they have."""
        if self.estimator.calibration is not None:
            return None
        if len(self.models) > 1:
            return "the scores of an ensemble are not those of its models"
        if self.estimator.facts is not None:
            return (
                "the validation set of the model had too few lines to calibrate it, or an earlier "
                "version of mtkit did that"
            )
        flags = ", ".join(FLAGS_WITH_FACTS)
        return (
            "the model comes from another program or an earlier version of mtkit; nor are there "
            f"the flags {flags}"
        )

    def __repr__(self) -> str:
        names = [model.name for model in self.models]
        beam = f"beam {self.request.settings.beam}"
        return f"<Translator: {', '.join([*names, self.engine.name, beam])}>"

    def translate(self, lines: Iterable[str | Line], **settings: Any) -> list[str]:
        """Return the best translation of each line; `settings` are as in `Request.changed`.

        A TranslationWarning says once how many lines lost a placeholder or a URL, how many terms
        of the glossary are missing, and which share of their letters the vocabulary lacks.
        """
        request = self.request.changed(scores=False, **settings)
        translations = self.submit(lines, request).result()
        losses = Losses()
        losses.count(translations)
        _warn_of(losses)
        return [translation.text for translation in translations]

    def results(
        self, lines: Iterable[str | Line], request: Request | None = None, **settings: Any
    ) -> Iterator[Translation]:
        """Yield the translation of each line, in order, without waiting for all lines.

        `settings` change the request as in `Request.changed`. Another thread iterates over `lines`.
        Memory use does not depend on the number of lines. After the last line it warns as
        `translate` does.
        """
        changed = self._request_or_default(request).changed(**settings)
        return _counted(self.stream(lines, changed))

    def _request_or_default(self, request: Request | None) -> Request:
        if request is None:
            return self.request
        if isinstance(request, Request):
            return direct_glossary(request, self.estimator)
        raise TypeError(
            f"request: expected a Request, not {describe_type(request)}; make one with "
            "`translator.request.changed(...)`"
        )

    def stream(
        self, lines: Iterable[str | Line], request: Request | None = None
    ) -> Iterator[list[Translation]]:
        """Yield the same translations as `results`, in lists, each as soon as it is complete."""
        # These fail now, not at the first line.
        check_listed(lines, "lines")
        self.submit([], request)
        return self._stream(lines, request)

    def _stream(
        self, lines: Iterable[str | Line], request: Request | None
    ) -> Iterator[list[Translation]]:
        window, running = FIRST_WINDOW, deque[Future[list[Translation]]]()
        arriving = Prefetcher(_as_lines(lines), MAX_WINDOW, _weight_of)
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
        """Start to translate, and return a future; its result is the list of translations.

        Concurrent calls with equal requests share batches, unless `alone` is true. Cancelling the
        future stops the search.

        Raises:
            TypeError: `lines` is no list, or one of them is no text.
            UserError: the engine does not support the request, or a line has no target tag that
                the model knows.
            MtkitError: the translator is closed, or was loaded before this process was forked.
        """
        request = self._request_or_default(request)
        window = open_window(list(_as_lines(lines)), self.tokenizer, request, self.estimator)
        wider = _with_spare_hypotheses(request)
        search = self.engine.search(window.sentences, wider, alone=alone)
        return _FutureTranslations(search, window)

    def attention(
        self, source: str, target: str | None = None, *, subwords: bool = False
    ) -> dict[AttentionKind, AttentionMap]:
        """Return the attention weights for the sentence `source`, by kind, with their words.

        The kinds are "encoder", "decoder" and "cross"; a model has at most these three. They
        belong to the model's translation, or to `target`. The decoder always has subwords. PyTorch
        computes the weights on the CPU.

        Raises:
            UserError: the translator is an ensemble or was not loaded from a folder, the model has
                no attention, or the text is not one sentence.
        """
        from mtkit.decoding.reading import attention_maps

        self.submit([])  # fails if the translator is closed
        check_text(source, "source")
        if target is not None:
            check_text(target, "target")
        reading = self._reader.read(source, target, subwords=subwords)
        return attention_maps(self._reader, reading)

    @cached_property
    def _reader(self) -> Reader:
        """The model with its weights in PyTorch; loaded at the first use."""
        from mtkit.decoding.reading import Reader

        if len(self.models) != 1:
            raise UserError("attention needs one model that was loaded from a folder")
        return Reader.of(self.models[0], "cpu")

    @property
    def tags(self) -> list[str]:
        """The target tags of the model, sorted; empty for a model of one language."""
        return sorted(self.tokenizer.tags)

    def close(self) -> None:
        """Refuse new calls, wait for all others, then release threads and memory of the engines.

        In a forked child, do nothing.
        """
        self.engine.close()

    def __enter__(self) -> Translator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled, as to be sent to another process."""
        raise MtkitError(
            "a translator cannot be pickled, because its threads belong to this process; load the "
            "model in the other process"
        )


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

    The default is the model in $MTKIT_MODEL, else the model of the run in ./mtkit.yaml, else the
    model of the last run in this directory. An ensemble uses the settings of its first model. The
    other options are those of `EngineOptions`; `settings` are as in `Request.changed`, and become
    the default of all calls. A process that forks must load the model in the child process.

    Raises:
        UserError: a model is missing or damaged, the models do not fit together, or a setting is
            unknown, invalid, or not supported by the engine.
    """
    check_names(settings, EngineOptions.model_fields)
    hardware = {"compute_type": compute_type, "device": device, "threads": threads}
    options = validated(EngineOptions, {"engine": engine, "workers": workers, **hardware})

    def load_opened(models: Sequence[OpenedModel]) -> Translator:
        request = Request(models[0].config.decoding)
        if settings.get("glossary") is None:
            request = replace(request, glossary=load_glossary(models[0].artifact))
        request = request.changed(**settings)
        if request.settings.tag is not None:
            check_tag(request.settings.tag, models[0].tokenizer)
        changed = {"decoding": request.settings}
        models = [
            replace(model, config=model.config.model_copy(update=changed)) for model in models
        ]
        estimator = _open_estimator(models)
        request = direct_glossary(request, estimator)
        engine = AutoEngine(models, options, request)
        return Translator(engine, models[0].tokenizer, request, models, estimator)

    paths = [path] if path is None or isinstance(path, Place) else path
    for place in check_listed(paths, "path", "path"):
        if not (place is None or isinstance(place, Place)):
            raise TypeError(
                f"path: expected the path of a run or model, not {describe_type(place)}"
            )
    return read_models(paths, load_opened)


def direct_glossary(request: Request, estimator: Estimator) -> Request:
    """Return the request with its glossary in the direction of the model.

    Raises:
        UserError: the glossary is for other languages.
    """
    glossary = request.glossary
    if not glossary:
        return request
    source, target = request.settings.sentences, request.settings.tag
    if estimator.facts is not None:
        statistics = estimator.facts.statistics
        source = source or statistics.source.declared or statistics.source.language
        target = target or statistics.target.declared or statistics.target.language
    directed = glossary.directed((source, target))
    return request if directed is glossary else replace(request, glossary=directed)


def _open_estimator(models: Sequence[OpenedModel]) -> Estimator:
    """Return the estimator of a model; that of an ensemble is not calibrated to its scores."""
    first, *others = models
    estimator = load_estimator(first.artifact)
    return replace(estimator, calibration=None) if others else estimator


def _counted(windows: Iterable[list[Translation]]) -> Iterator[Translation]:
    """Yield the translations of all windows, and warn after the last one of what they lack."""
    losses = Losses()
    for translations in windows:
        losses.count(translations)
        yield from translations
    _warn_of(losses)


def _warn_of(losses: Losses) -> None:
    for loss in losses.warnings():
        # The level is that of the code that called `translate`, or takes the translations.
        warnings.warn(loss, TranslationWarning, stacklevel=3)


def _with_spare_hypotheses(request: Request) -> Request:
    """Return a request for all hypotheses of the beam; for an n-best list the beam is doubled.

    The spare ones replace hypotheses with incomplete characters and duplicate texts. With twice the
    beam a batch has half as many sentences, so it takes no more memory.
    """
    settings = request.settings
    if request.sampling is not None:
        return request
    if request.n_best == 1:
        return replace(request, n_best=settings.beam)
    wider = {"beam": 2 * settings.beam, "batch_tokens": max(1, settings.batch_tokens // 2)}
    return replace(request, settings=settings.model_copy(update=wider), n_best=2 * settings.beam)


def _weight_of(line: Line) -> int:
    return 1 + line.characters // 1024


def _as_lines(lines: Iterable[str | Line]) -> Iterator[Line]:
    """Yield each line as a `Line`; one without an id gets its number, from 0."""
    for number, line in enumerate(check_listed(lines, "lines")):
        if not isinstance(line, Line):
            line = Line(check_text(line, f"lines: line {number + 1}"))
        yield line if line.id is not None else replace(line, id=number)
