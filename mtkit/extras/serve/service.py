"""Translation for all interfaces: models that load when needed, limits, pivots, detection.

Everything here runs in the event loop, and must not block it: what takes time runs in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException

from mtkit.config.language_codes import language_name
from mtkit.decoding.api import Translator
from mtkit.decoding.estimation.estimator import Estimate
from mtkit.decoding.glossary import Glossary
from mtkit.decoding.text.line import Line, Translation
from mtkit.errors import MtkitError, UserError
from mtkit.extras.serve.codes import Ranking, rank_sources
from mtkit.extras.serve.directions import AUTO, Directions, Leg, ServedDirection
from mtkit.report import warn

MIN_LINE_CHARACTERS = 40
"""What a short line counts as."""
DETECTED_CHARACTERS = 2_000
"""The beginning of a text that tells its language."""
SPARE_BEAM = 4
"""How much wider than the number of alternatives a beam is."""
MAX_PARALLEL_UPLOADS = 8
"""Most documents that clients with a key send at the same time, or others; further ones wait."""
MAX_PARALLEL_DOCUMENTS = 2
"""Most documents that are in memory."""
THREADS = 4
"""Threads that prepare text for the engines."""
RETRY = {"Retry-After": "2"}
"""Header of a refusal that says when to try again, in seconds."""


@dataclass(frozen=True)
class ServerOptions:
    """Where to listen, and who may ask how much."""

    host: str = "127.0.0.1"
    port: int = 5000
    """0: any free port."""
    keys: Sequence[str] = ()
    """A client needs one of them; empty: clients need no key."""
    hosts: Sequence[str] = ()
    """Other names of the server, which clients may call it by."""
    origins: Sequence[str] = ()
    """Web sites whose scripts may call the server, such as https://example.org."""
    max_characters: int = 50_000
    """Largest number of characters of a request; a line counts as at least 40."""
    max_waiting: int = 1_000_000
    """Largest number of characters in all requests that are not yet answered."""
    sample: bool = False
    """Whether a temperature samples; otherwise it has no effect."""
    prompts: Sequence[str] = ()
    """Forms of messages, besides those of well-known clients (see `prompts.py`)."""
    glossaries: Mapping[tuple[str, str], Glossary] = field(default_factory=dict)
    """Terms by the source and the target of the model that uses them."""
    access_log: bool = False
    """Whether a line on stderr tells of each request."""
    timeout_seconds: float = 60.0
    """How long a request may wait for its translation."""


@dataclass(frozen=True)
class ClientGlossary:
    """A glossary that a client has created."""

    glossary: Glossary
    direction: ServedDirection
    record: Mapping[str, Any]
    """What clients are told of it."""


@dataclass(frozen=True)
class ClientDocument:
    """A document that a client has sent."""

    identifier: str
    name: str
    """The name of its translation."""
    path: Path
    """The upload, which its translation replaces."""
    work: asyncio.Task[int]
    """What translates it, and returns the number of its characters."""
    key: str
    """Needed to download it, besides its id."""


class Service:
    """The models of a server. A request that it does not serve raises HTTPException."""

    def __init__(
        self, directions: Directions, options: ServerOptions, load: Callable[[str], Translator]
    ) -> None:
        """Serve `directions`; `load` opens the model at a place."""
        self.directions = directions
        self.options = options
        self.characters = 0
        """How many characters were accepted for translation so far."""
        self.glossaries: dict[str, ClientGlossary] = {}
        """Glossaries by their ids."""
        self.documents: dict[str, ClientDocument] = {}
        """Documents by their ids, the oldest one first."""
        self.upload_turns = [asyncio.Semaphore(MAX_PARALLEL_UPLOADS) for _ in range(2)]
        """Of clients without a key in the header, and of those with one, who wait for no others."""
        self.document_turns = asyncio.Semaphore(MAX_PARALLEL_DOCUMENTS)
        self._load = load
        self._models: dict[str, Future[Translator]] = {}
        self._waiting = 0
        self._threads = ThreadPoolExecutor(THREADS, "mtkit-serve")

    @asynccontextmanager
    async def translating(
        self,
        texts: Sequence[str],
        directions: Sequence[ServedDirection],
        alternatives: int = 0,
        **settings: Any,
    ) -> AsyncIterator[list[list[asyncio.Task[Translation]]]]:
        """Start to translate texts, each in a direction of its own; cancel what the block leaves.

        Yield for each text the tasks that translate its lines. Each line gets up to `alternatives`
        other translations. The settings are those of `Request.changed`.
        """
        size = self.measure(texts)
        if self._waiting and self._waiting + size > self.options.max_waiting:
            message = "too much text is waiting for translation; try again later"
            raise HTTPException(429, message, RETRY)
        self._waiting += size
        self.characters += sum(map(len, texts))
        seconds = self.options.timeout_seconds
        group: list[list[asyncio.Task[Translation]]] = []
        for text, direction in zip(texts, directions, strict=True):
            works = [
                self.translate_line(line, direction, settings, alternatives, seconds)
                for line in text.split("\n")
            ]
            group.append(list(map(asyncio.create_task, works)))
        try:
            yield group
        finally:
            self._waiting -= size
            tasks = list(chain.from_iterable(group))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def translate(
        self, texts: Sequence[str], directions: Sequence[ServedDirection], **options: Any
    ) -> list[list[Translation]]:
        """Return the translations of the lines of each text; the options are as above."""
        async with self.translating(texts, directions, **options) as group:
            return [[await line for line in lines] for lines in group]

    async def choose_directions(
        self, texts: Sequence[str], source: str | None, target: str
    ) -> tuple[list[ServedDirection], list[Ranking]]:
        """Return the direction of each text, and the languages that were detected.

        `source`: None, "" or "auto" to detect the language of each text.
        """
        if source and source.lower() != AUTO:
            return [self.directions.find(source, target)] * len(texts), []
        rankings = await self.detect(texts, only_served=True)
        return [self.directions.find(ranking[0][0], target) for ranking in rankings], rankings

    def find_glossary(self, glossary_id: str) -> ClientGlossary:
        """Return the glossary that a client has created."""
        if glossary_id not in self.glossaries:
            raise HTTPException(404, "glossary_id: there is no such glossary")
        return self.glossaries[glossary_id]

    def choose_glossary(self, name: str, directions: Sequence[ServedDirection]) -> dict[str, Any]:
        """Return the setting for a client's glossary; none if `name`, its id, is empty."""
        if not name:
            return {}
        chosen = self.find_glossary(name)
        if set(directions) - {chosen.direction}:
            raise HTTPException(400, f"glossary_id: the glossary is for {chosen.direction.name}")
        return {"glossary": chosen.glossary}

    async def detect(self, texts: Sequence[str], *, only_served: bool = False) -> list[Ranking]:
        """Rank the source languages for each text; one that cannot be identified has 0.

        `only_served`: refuse a text that is almost certainly in none of them.
        """
        self.measure(texts)
        rankings: list[Ranking] = []
        for text in texts:
            start = text[:DETECTED_CHARACTERS]
            sources = self.directions.sources
            ranking, other = await asyncio.to_thread(rank_sources, start, sources)
            if other is not None and only_served:
                raise self.directions.refuse(f"text that seems to be {language_name(other)}")
            rankings.append(ranking)
        return rankings

    async def reload(self) -> None:
        """Load all models anew that are loaded; requests in progress end with the old ones."""
        for place in list(self._models):
            fresh = self._threads.submit(self._load, place)
            try:
                await asyncio.wrap_future(fresh)
            except Exception as error:  # of any library, as below
                warn(f"{place} stays as it was loaded before: {error}")
                continue
            old = self._models.get(place)
            self._models[place] = fresh
            if old:
                await asyncio.to_thread(_close_model, old)

    def close(self) -> None:
        """Release all models; no request may be in progress."""
        self._threads.shutdown()
        for document in self.documents.values():
            document.path.unlink(missing_ok=True)
        for model in self._models.values():
            _close_model(model)

    def measure(self, texts: Sequence[str]) -> int:
        """Return the size of texts in characters; refuse those that are too large for a request."""
        lines = chain.from_iterable(text.split("\n") for text in texts)
        size = sum(max(len(line), MIN_LINE_CHARACTERS) for line in lines)
        limit = self.options.max_characters
        if size > limit:
            raise HTTPException(413, f"the text has {size:,} characters, above {limit:,}")
        return size

    async def translate_line(
        self,
        line: str,
        direction: ServedDirection,
        settings: Mapping[str, Any],
        alternatives: int = 0,
        seconds: float | None = None,
    ) -> Translation:
        """Translate a line through all models of a direction; `seconds`: how long it may take."""
        first, *others = direction.legs
        try:
            async with asyncio.timeout(seconds):
                translation = await self._submit(line, first, settings)
                for leg in others:
                    line = translation.text
                    translation = join_steps(translation, await self._submit(line, leg, settings))
                if not alternatives:
                    return translation
                # Another search, so that the best translation is the same with and without it.
                wider = {"n_best": alternatives + 1, "beam": alternatives + SPARE_BEAM}
                unaligned = {**settings, **wider, "alignments": False}
                ranked = await self._submit(line, direction.legs[-1], unaligned)
        except TimeoutError:
            message = f"the translation took over {seconds:g} s; send less"
            raise HTTPException(503, message, RETRY) from None
        found = [each for each in (ranked, *ranked.alternatives) if each.text != translation.text]
        return replace(translation, alternatives=found[:alternatives])

    async def _submit(self, line: str, leg: Leg, settings: Mapping[str, Any]) -> Translation:
        """Translate a line with one model, in the batches of all requests with equal settings."""
        translator = await self.open_translator(leg)
        glossary = self.options.glossaries.get((leg.source, leg.target))
        if glossary is not None:
            settings = {"glossary": glossary, **settings}
        try:
            request = translator.request.changed(**settings) if settings else None
            started = self._threads.submit(translator.submit, [Line(line, tag=leg.tag)], request)
            search = await asyncio.wrap_future(started)
        except asyncio.CancelledError:
            started.add_done_callback(_cancel_search)
            raise
        except UserError as error:  # the engine does not support the request
            raise HTTPException(400, str(error)) from None
        except MtkitError:
            if await self.open_translator(leg) is translator:
                raise
            return await self._submit(line, leg, settings)  # the model was replaced meanwhile
        (translation,) = await asyncio.wrap_future(search)
        return translation

    async def open_translator(self, leg: Leg) -> Translator:
        """Return the model of a leg; load it if this is its first use."""
        if leg.place not in self._models:
            self._models[leg.place] = self._threads.submit(self._load, leg.place)
        model = self._models[leg.place]
        try:
            # A client that goes away does not stop the loading, for which others may wait.
            return await asyncio.shield(asyncio.wrap_future(model))
        except Exception as error:  # of any library that loads it, such as for lack of memory
            if self._models.get(leg.place) is model:
                del self._models[leg.place]  # the next request tries again
                warn(str(error))
            message = f"the model {leg.source}-{leg.target} cannot be loaded"
            raise HTTPException(503, message, RETRY) from None


def _close_model(model: Future[Translator]) -> None:
    """Wait until a model is loaded and its calls have ended, and release it."""
    if model.exception() is None:
        model.result().close()


def _cancel_search(started: Future[Future[list[Translation]]]) -> None:
    """Cancel a search that nobody waits for any more."""
    if not started.cancelled() and started.exception() is None:
        started.result().cancel()


def join_steps(first: Translation, second: Translation) -> Translation:
    """Return what two models, one after the other, make of a line.

    It has neither a confidence nor links between words, because they hold for one model.
    """
    estimate = Estimate(flags=(*first.flags, *second.flags))
    return replace(second, alignment=set(), estimate=estimate)
