"""Translation for all interfaces: models that load when needed, limits, pivots, detection.

Everything here runs in the event loop, and must not block it: what takes time runs in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mtkit.corpus.languages import rank_languages
from mtkit.decoding.api import Translator
from mtkit.decoding.text.line import Line, Translation
from mtkit.errors import MtkitError, UserError
from mtkit.report import say, warn
from mtkit.serve.directions import Directions, Leg, ServedDirection

MIN_LINE_CHARACTERS = 40
"""What a short line counts as waiting work."""
STREAMED_LINES = 16
"""Lines of a stream that are translated together."""
DETECTED_CHARACTERS = 2_000
"""The beginning of a text that tells its language."""
THREADS = 4
"""Threads that prepare text for the engines."""

_Result = TypeVar("_Result")


class Refusal(Exception):  # noqa: N818 - most of them are not errors of the server
    """A request that is not served; each interface puts it in its own form."""

    def __init__(self, status: int, message: str, field: str | None = None) -> None:
        """Refuse with an HTTP status; `field` is what the request should change, if known."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.field = field


@dataclass(frozen=True)
class Limits:
    """What one request may ask for, and how much work may wait."""

    max_characters: int = 50_000
    """Largest number of characters of a request."""
    max_lines: int = 2_000
    """Largest number of lines of a request."""
    max_waiting: int = 1_000_000
    """Largest number of characters in all requests that are not yet answered."""
    timeout_seconds: float = 60.0
    """How long a request may wait for its translation."""


@dataclass(frozen=True)
class Wish:
    """What a request asks for besides translations."""

    alternatives: int = 0
    """Number of other translations of each line."""
    has_details: bool = False
    """Whether to return confidence, flags and links between words."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `Request.changed`; empty: search for the best translation."""


ONLY_TEXT = Wish()
"""Translations alone, which share their batches with those of all other clients."""


@dataclass(frozen=True)
class ServedLine:
    """The translation of a line, by one or two models."""

    text: str
    token_count: int
    alternatives: Sequence[str]
    confidence: float | None
    flags: Sequence[str]
    links: Sequence[tuple[int, int]]
    """From word i of the line to word j of the translation."""


class Service:
    """The models of a server."""

    def __init__(
        self, directions: Directions, limits: Limits, load: Callable[[str], Translator]
    ) -> None:
        """Serve `directions`; `load` opens the model at a place."""
        self.directions = directions
        self.limits = limits
        self.has_keys = False
        """Whether clients need a key; the gate sets it."""
        self.characters = 0
        """How many characters were accepted for translation so far."""
        self._load = load
        self._loading: dict[str, asyncio.Task[Translator]] = {}
        self._waiting = 0
        self._threads = ThreadPoolExecutor(THREADS, "mtkit-serve")

    async def translate(
        self, texts: Sequence[str], directions: Sequence[ServedDirection], wish: Wish = ONLY_TEXT
    ) -> list[list[ServedLine]]:
        """Return the translations of the lines of each text, which has a direction of its own.

        Raises:
            Refusal: the request exceeds a limit, or the engine cannot do what it asks for.
        """
        by_text = [text.split("\n") for text in texts]
        lines_by_direction: dict[ServedDirection, list[str]] = {}
        for direction, lines in zip(directions, by_text, strict=True):
            lines_by_direction.setdefault(direction, []).extend(lines)
        with self._admitted(texts) as deadline:
            async with asyncio.timeout_at(deadline):
                translated = {
                    direction: iter(await self._translate_lines(lines, direction, wish))
                    for direction, lines in lines_by_direction.items()
                }
        return [
            [next(translated[direction]) for _ in lines]
            for direction, lines in zip(directions, by_text, strict=True)
        ]

    async def stream(
        self, text: str, direction: ServedDirection, wish: Wish
    ) -> AsyncGenerator[ServedLine, None]:
        """Yield the translation of each line as soon as those before it are done.

        Raises:
            Refusal: as `translate`.
        """
        lines = text.split("\n")
        with self._admitted([text]) as deadline:
            groups = [
                asyncio.create_task(
                    self._translate_lines(lines[start : start + STREAMED_LINES], direction, wish)
                )
                for start in range(0, len(lines), STREAMED_LINES)
            ]
            try:
                for group in groups:
                    # No `yield` inside: a timeout there would cancel the code that takes lines.
                    async with asyncio.timeout_at(deadline):
                        translated = await group
                    for line in translated:
                        yield line
            finally:
                for group in groups:
                    group.cancel()
                await asyncio.gather(*groups, return_exceptions=True)

    async def detect(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """Return for each text the source languages with their probabilities, best first.

        A language that cannot be identified has probability 0.
        """
        self.check_size(texts)
        beginnings = [text[:DETECTED_CHARACTERS] for text in texts]
        detected: list[dict[str, float]] = []
        for ranking in await self._in_thread(lambda: list(map(rank_languages, beginnings))):
            known = dict(ranking)
            found = {
                each: known.get(each.partition("-")[0], 0.0) for each in self.directions.sources
            }
            detected.append(dict(sorted(found.items(), key=lambda pair: -pair[1])))
        return detected

    async def count_tokens(self, text: str, direction: ServedDirection) -> int:
        """Return the number of subwords that the first model reads."""
        tokenizer = (await self._translator(direction.legs[0])).tokenizer
        ids = await self._in_thread(lambda: tokenizer.encode_source(text.split("\n")))
        return sum(map(len, ids))

    async def close(self) -> None:
        """Release all models; no request may be in progress."""
        for task in self._loading.values():
            (await task).close()
        self._threads.shutdown()

    def check_size(self, texts: Sequence[str]) -> None:
        """Raise Refusal if texts are larger than one request may be."""
        sizes = {
            "characters": (sum(map(len, texts)), self.limits.max_characters),
            "lines": (sum(text.count("\n") + 1 for text in texts), self.limits.max_lines),
        }
        for unit, (size, limit) in sizes.items():
            if size > limit:
                raise Refusal(413, f"the text has {size:,} {unit}, above {limit:,}")

    @contextmanager
    def _admitted(self, texts: Sequence[str]) -> Iterator[float]:
        """Count texts as waiting work in a block, and yield the time when the block must end.

        Raises:
            Refusal: the texts are too much, or the block has ended too late.
        """
        self.check_size(texts)
        work = sum(max(len(text), MIN_LINE_CHARACTERS * (text.count("\n") + 1)) for text in texts)
        if self._waiting + work > self.limits.max_waiting and self._waiting:
            raise Refusal(429, "too much text is waiting for translation; try again later")
        self._waiting += work
        self.characters += sum(map(len, texts))
        seconds = self.limits.timeout_seconds
        try:
            yield asyncio.get_running_loop().time() + seconds
        except TimeoutError:
            raise Refusal(503, f"the translation took over {seconds:g} s; send less") from None
        finally:
            self._waiting -= work

    async def _in_thread(self, function: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    async def _translate_lines(
        self, lines: Sequence[str], direction: ServedDirection, wish: Wish
    ) -> list[ServedLine]:
        settings = dict(wish.sampling)
        if wish.has_details:
            settings |= {"scores": True, "alignments": True}
        sources = lines
        steps: list[list[Translation]] = []
        for leg in direction.legs:
            if steps:
                sources = [translation.text for translation in steps[-1]]
            steps.append(await self._submit(sources, leg, settings))
        others: Sequence[Sequence[str]] = [()] * len(lines)
        if wish.alternatives:
            others = await self._alternatives(sources, steps[-1], leg, wish.alternatives)
        joined = map(_join_steps, zip(*steps, strict=True), others)
        return list(joined)

    async def _alternatives(
        self, lines: Sequence[str], best: Sequence[Translation], leg: Leg, count: int
    ) -> list[list[str]]:
        """Return up to `count` translations of each line that differ from the best one.

        They come from a search of their own, with a wider beam, so that the best translation is the
        same with and without alternatives.
        """
        beam = (await self._translator(leg)).request.settings.beam
        settings = {"n_best": count + 1, "beam": max(beam, count + 1)}
        others: list[list[str]] = []
        ranked = await self._submit(lines, leg, settings)
        for first, chosen in zip(ranked, best, strict=True):
            texts = [each.text for each in (first, *first.alternatives)]
            others.append([text for text in texts if text != chosen.text][:count])
        return others

    async def _submit(
        self, lines: Sequence[str], leg: Leg, settings: Mapping[str, Any]
    ) -> list[Translation]:
        """Translate with one model, in the batches of all requests with equal settings."""
        translator = await self._translator(leg)
        tagged = [Line(line, tag=leg.tag) for line in lines]
        request = translator.request.changed(**settings) if settings else None
        started = self._threads.submit(translator.submit, tagged, request)
        try:
            search = await asyncio.wrap_future(started)
        except asyncio.CancelledError:
            started.add_done_callback(_cancel_search)
            raise
        except UserError as error:  # the engine does not support the request
            raise Refusal(400, str(error)) from None
        return await asyncio.wrap_future(search)

    async def _translator(self, leg: Leg) -> Translator:
        """Return the model of a leg; load it if this is its first use."""
        if leg.place not in self._loading:
            self._loading[leg.place] = asyncio.create_task(self._open(leg.place))
        try:
            # A client that goes away does not stop the loading, for which others may wait.
            return await asyncio.shield(self._loading[leg.place])
        except MtkitError:
            raise Refusal(503, f"the model {leg.source}-{leg.target} cannot be loaded") from None

    async def _open(self, place: str) -> Translator:
        try:
            translator = await self._in_thread(lambda: self._load(place))
        except MtkitError as error:
            del self._loading[place]  # the next request tries again
            warn(str(error))
            raise
        say(f"loaded {place}, {translator.engine.name}")
        return translator


def _cancel_search(started: Future[Future[list[Translation]]]) -> None:
    """Cancel a search that nobody waits for any more."""
    if not started.cancelled() and started.exception() is None:
        started.result().cancel()


def _join_steps(steps: Sequence[Translation], alternatives: Sequence[str]) -> ServedLine:
    """Return what a client gets of a line that one or two models have translated, one by one.

    After two models there is no confidence, because confidence holds for one model.
    """
    first, *others = steps
    links = first.alignment
    flags = list(first.flags)
    for step in others:
        links = {(i, k) for i, j in links for also_j, k in step.alignment if j == also_j}
        flags += [flag for flag in step.flags if flag not in flags]
    last = steps[-1]
    return ServedLine(
        last.text,
        len(last.tokens),
        alternatives,
        confidence=None if others else last.confidence,
        flags=flags,
        links=sorted(links),
    )
