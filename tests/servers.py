"""Servers of mtkit in the process of the test, and models for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from queue import SimpleQueue
from typing import Any

import httpx

from folders import copier_of, train
from mtkit.decoding.api import Translator
from mtkit.decoding.engines.engine import Engine, Lifetime, NBestLists, Request, Sentence
from mtkit.extras.serve.application import build_application
from mtkit.extras.serve.directions import Directions, Leg, ServedDirection
from mtkit.extras.serve.server import address_of, build_server, listen
from mtkit.extras.serve.service import ServerOptions, Service

Send = Callable[..., httpx.Response]
"""Sends one request to an application, as `httpx.Client.request` does."""


def directions_of(*pairs: str, tag: str | None = None) -> Directions:
    """Return directions such as en-de; each has a model of its own, whose place is the pair.

    A pair such as en-de-fr goes through its second language.
    """
    by_pair: dict[tuple[str, str], ServedDirection] = {}
    for pair in pairs:
        codes = pair.split("-")
        legs = [
            Leg(f"{source}-{target}", source, target, tag) for source, target in pairwise(codes)
        ]
        pair_of_ends = (codes[0], codes[-1])
        by_pair[pair_of_ends] = ServedDirection(*pair_of_ends, tuple(legs))
    return Directions(by_pair)


class HeldEngine(Engine):
    """An engine whose searches wait until the test answers them."""

    name = "held"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.searches: SimpleQueue[tuple[Future[NBestLists], Callable[[], None]]] = SimpleQueue()
        """Each search that has begun: its future, and a function that answers it."""
        self._lifetime = Lifetime()
        self._held: list[Future[NBestLists]] = []

    def search(
        self, sentences: Sequence[Sentence], request: Request, *, alone: bool = False
    ) -> Future[NBestLists]:
        held: Future[NBestLists] = Future()
        with self._lifetime.locked():
            self._held.append(held)
        if not sentences:
            held.set_result([])
            return held

        def answer() -> None:
            if held.set_running_or_notify_cancel():
                held.set_result(self._engine.search(sentences, request).result())

        self.searches.put((held, answer))
        return held

    def close(self) -> None:
        self._lifetime.end()
        wait([search for search in self._held if not search.cancelled()])
        self._engine.close()


def held_copier() -> tuple[Translator, HeldEngine]:
    """Return a translator that copies its source when its engine is told to."""
    copier = copier_of(train())
    engine = HeldEngine(copier.engine)
    return replace(copier, engine=engine), engine


@dataclass(frozen=True)
class Running:
    """A server that runs in a thread."""

    url: str
    service: Service
    stop: Callable[[], None]
    """Tells the server to stop, and returns at once."""


def address_in(server: Running) -> tuple[str, int]:
    """Return what a socket connects to."""
    host, port = server.url.removeprefix("http://").split(":")
    return host, int(port)


@contextmanager
def running(
    translators: Mapping[str, Translator], directions: Directions, **options: Any
) -> Iterator[Running]:
    """Serve translators, by place, over the loopback; at the end, stop the server."""
    settings = ServerOptions(port=0, **options)
    service = Service(directions, settings, translators.__getitem__)
    listener = listen(settings)
    url = address_of(listener)
    server = build_server(service, settings)

    def stop() -> None:
        server.should_exit = True

    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield Running(url, service, stop)
    finally:
        stop()
        thread.join()
        service.close()
        listener.close()


@contextmanager
def application(
    translators: Mapping[str, Translator], directions: Directions, **options: Any
) -> Iterator[Send]:
    """Yield a function that sends one request to the application, without a network."""
    settings = ServerOptions(**options)
    with asyncio.Runner() as runner:
        service = Service(directions, settings, translators.__getitem__)
        transport = httpx.ASGITransport(build_application(service, settings))
        client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:5000")

        def send(method: str, path: str, **arguments: Any) -> httpx.Response:
            return runner.run(client.request(method, path, **arguments))

        yield send
        runner.run(client.aclose())
        service.close()
