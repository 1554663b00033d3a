"""`mtkit serve`: open the port, say what is served, and serve until a signal stops it."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp
from uvicorn import Config, Server

from mtkit.decoding.api import load
from mtkit.errors import UserError
from mtkit.report import plural, say, warn
from mtkit.serve.deepl import DEEPL
from mtkit.serve.directions import find_directions
from mtkit.serve.gate import Access, Gate, ImpatientProtocol
from mtkit.serve.libretranslate import LIBRETRANSLATE
from mtkit.serve.openai import OPENAI
from mtkit.serve.page import PAGE
from mtkit.serve.service import Limits, Service

INTERFACES = (PAGE, OPENAI, DEEPL, LIBRETRANSLATE)
"""The last one answers to unknown paths."""
KEYS = "MTKIT_KEYS"
"""Environment variable with keys, separated by white space."""
MIN_KEY_CHARACTERS = 16
BACKLOG = 2048
MAX_CONNECTIONS = 900
"""Below the number of files that a process may usually open, which is 1,024."""


@dataclass(frozen=True)
class ServerOptions:
    """Where to listen, and who may ask how much."""

    host: str = "127.0.0.1"
    port: int = 5000
    """0: any free port."""
    keys: Sequence[str] = ()
    hosts: Sequence[str] = ()
    """Other names of the server, which clients may call it by."""
    origins: Sequence[str] = ()
    """Web sites whose scripts may call the server, such as https://example.org."""
    limits: Limits = field(default_factory=Limits)


def serve(places: Sequence[str], options: ServerOptions, **settings: Any) -> None:
    """Serve the models at `places` until SIGINT or SIGTERM; `settings` are those of `load`.

    Requests that are in progress then are answered.

    Raises:
        UserError: a model or its languages cannot be found, or the address cannot be used.
    """
    directions = find_directions(places)
    service = Service(
        directions, options.limits, lambda place: load(place, scores=False, **settings)
    )
    listener = listen(options)
    described = [each.path for each in directions.by_pair.values()]
    say(f"serving {plural(len(described), 'direction')}: {', '.join(described)}")
    say(f"listening at {address_of(listener)} (also /v1: OpenAI, /v2: DeepL, else LibreTranslate)")
    if not (options.keys or ipaddress.ip_address(listener.getsockname()[0]).is_loopback):
        warn(f"everybody who can reach {options.host} can use this server; require a key: --keys")
    say("Ctrl-C stops")
    try:
        build_server(service, options).run(sockets=[listener])
    finally:
        asyncio.run(service.close())
        say("stopped")


def build_server(service: Service, options: ServerOptions) -> Server:
    """Return a server that logs nothing, because logs would hold what clients send."""
    logger = logging.getLogger("uvicorn")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    config = Config(
        build_application(service, options),
        http=ImpatientProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
    )
    return Server(config)


def build_application(service: Service, options: ServerOptions) -> ASGIApp:
    """Return the ASGI application with all interfaces."""
    names = [options.host, socket.gethostname(), *options.hosts]
    access = Access(options.keys, frozenset(name.lower() for name in names))
    gate = Gate(service, INTERFACES, access)
    if not options.origins:
        return gate
    headers = ["Authorization", "Content-Type"]
    return CORSMiddleware(gate, options.origins, ["GET", "POST"], headers)


def read_keys(path: Path | None, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the keys of a file, one per line, and of MTKIT_KEYS.

    Raises:
        UserError: the file cannot be read or holds no key, or a key is short.
    """
    keys = environment.get(KEYS, "").split()
    if path is not None:
        try:
            listed = path.read_text("utf-8").split()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"--keys {path} cannot be read: {error}") from None
        if not listed:
            raise UserError(f"--keys {path} holds no key; write one per line")
        keys += listed
    if any(len(key) < MIN_KEY_CHARACTERS for key in keys):
        raise UserError(
            f"a key has under {MIN_KEY_CHARACTERS} characters, so it can be guessed; make one with "
            "`openssl rand -hex 16`"
        )
    return keys


def listen(options: ServerOptions) -> socket.socket:
    """Open the port; UserError if that fails."""
    try:
        found = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        # With its protocol, because asyncio turns Nagle's algorithm off only for sockets that have
        # one: otherwise every response would wait 40 ms for an acknowledgement of its head.
        with ExitStack() as stack:  # closes the socket if the address is in use
            listener = stack.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
            stack.pop_all()
        return listener
    except OSError as error:
        where = f"{options.host}, port {options.port}"
        raise UserError(f"{where}: {error.strerror}; choose another --host or --port") from None


def address_of(listener: socket.socket) -> str:
    """Return the address of the page, such as http://127.0.0.1:5000."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
