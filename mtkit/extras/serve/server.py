"""`mtkit serve`: open the port, say what is served, and serve until a signal stops it."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from mtkit.corpus.files import input_lines
from mtkit.decoding.api import Translator, load
from mtkit.errors import UserError
from mtkit.extras.serve.application import build_application
from mtkit.extras.serve.directions import Directions
from mtkit.extras.serve.service import ServerOptions, Service
from mtkit.report import plural, say, warn

MIN_KEY_CHARACTERS = 16
MAX_CONNECTIONS = 900
"""Below the number of files that a process may usually open, which is 1,024."""
CLIENT_SECONDS = 60.0
"""The server looks so often whether it waits for the same thing from a client as before."""
HEADERS = [
    ("Cache-Control", "no-cache"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
]
"""Headers of every response."""


def serve_models(directions: Directions, options: ServerOptions, **settings: Any) -> None:
    """Serve directions until SIGINT or SIGTERM; `settings` are those of `load`.

    Requests that are in progress then are answered.

    Raises:
        UserError: the address cannot be used.
    """

    def open_translator(place: str) -> Translator:
        translator = load(place, scores=False, **settings)
        say(f"loaded {place}, {translator.engine.name}")
        return translator

    service = Service(directions, options, open_translator)
    listener = listen(options)
    paths = [direction.path for direction in directions.by_pair.values()]
    say(f"serving {plural(len(paths), 'direction')}: {', '.join(paths)}")
    say(f"listening at {address_of(listener)} (also /v1: OpenAI, /v2: DeepL, else LibreTranslate)")
    if not (options.keys or ipaddress.ip_address(listener.getsockname()[0]).is_loopback):
        warn(f"everybody who can reach {options.host} can use this server; require a key: --keys")
    say("Ctrl-C stops")
    try:
        asyncio.run(_serve(service, listener))
    finally:
        service.close()
        say("stopped")


async def _serve(service: Service, listener: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    reloads: list[asyncio.Task[None]] = []
    if not sys.stderr.isatty():  # else SIGHUP means that the terminal was closed
        loop.add_signal_handler(
            signal.SIGHUP, lambda: reloads.append(loop.create_task(service.reload()))
        )
    await build_server(service, service.options).serve(sockets=[listener])


def build_server(service: Service, options: ServerOptions) -> Server:
    """Return a server that logs nothing, because logs would hold what clients send."""
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
    config = Config(
        build_application(service, options),
        http=DisconnectProtocol,
        ws="none",
        log_config=None,
        log_level=logging.CRITICAL + 1,
        headers=HEADERS,
        limit_concurrency=MAX_CONNECTIONS,
    )
    return Server(config)


def read_keys(path: Path) -> list[str]:
    """Return the keys of a file, one per line.

    Raises:
        UserError: the file cannot be read or holds no key, or a key is short.
    """
    keys = [line.strip() for line in input_lines(path) if line.strip()]
    if min(map(len, keys), default=0) < MIN_KEY_CHARACTERS:
        rule = f"each line must be a key of at least {MIN_KEY_CHARACTERS} characters"
        raise UserError(f"--keys {path}: {rule}; make one with `openssl rand -hex 16`")
    return keys


def listen(options: ServerOptions) -> socket.socket:
    """Open the port; UserError if that fails."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listener = socket.create_server((options.host, options.port), family=family)
    except OSError as error:
        where = f"{options.host}, port {options.port}"
        reason = str(error.strerror).partition(" (")[0]  # without the address, which Python adds
        raise UserError(f"{where}: {reason}; choose another --host or --port") from None
    # Connections inherit it. With Nagle's algorithm, every response would wait 40 ms for an
    # acknowledgement of its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return listener


def address_of(listener: socket.socket) -> str:
    """Return the address of the page, such as http://127.0.0.1:5000."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class DisconnectProtocol(H11Protocol):
    """HTTP/1.1 with h11, whose buffers are bounded; uvicorn itself closes idle connections."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to watch the client."""
        super().connection_made(transport)
        # Everything unread counts as waiting: otherwise the last 64 KiB would keep a connection
        # open for ever, because it closes only when they are sent.
        transport.set_write_buffer_limits(high=0)
        self._awaited_before: tuple[Any, ...] | None = None
        self._timer = self.loop.call_later(CLIENT_SECONDS, self._poll_disconnect)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop to watch."""
        self._timer.cancel()
        super().connection_lost(exc)

    def _poll_disconnect(self) -> None:
        """Close the connection if the client has made no progress since the last look."""
        cycle: Any = self.cycle
        has_response = cycle is None or cycle.response_complete
        is_waiting = has_response or cycle.more_body or self.flow.write_paused
        awaited = (cycle, has_response, self.flow.write_paused) if is_waiting else None
        if awaited and awaited == self._awaited_before:
            self.transport.abort()
        self._awaited_before = awaited
        self._timer = self.loop.call_later(CLIENT_SECONDS, self._poll_disconnect)
