"""The gate between the network and the interfaces: who may ask, how much, and how fast."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from mtkit.report import error
from mtkit.serve.interface import (
    FORM_TYPE,
    Endpoint,
    Interface,
    JsonResponse,
    describe_interfaces,
    read_fields,
)
from mtkit.serve.service import Refusal, Service

MAX_BYTES_PER_CHARACTER = 12
"""A character in JSON is at most two escapes, such as \\ud83d\\ude00; in a form, four of %F0."""
MAX_OTHER_BYTES = 65_536
"""Room for all fields of a request but its text."""
HEAD_SECONDS = 20.0
"""How long a client may take to send the head of a request."""
BODY_SECONDS = 30.0
"""How long a client may take to send the body of a request."""
READ_SECONDS = 30.0
"""How long a response may wait for its client to read it."""
RETRY_SECONDS = "2"
"""When to try again after 429 or 503."""
HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
"""Headers of every response."""
STATUSES = (200, 400, 401, 403, 404, 405, 408, 413, 415, 421, 429, 500, 503)
"""What responses can have."""


@dataclass(frozen=True)
class Access:
    """Who may use the server."""

    keys: Sequence[str] = ()
    """Empty: everybody who can reach it."""
    hosts: frozenset[str] = frozenset()
    """Names of the server besides localhost and addresses, in lower case."""

    def is_known_host(self, header: str) -> bool:
        """Return whether a Host header names this server.

        A page on the web can let its own name point to this machine (DNS rebinding), but it cannot
        change the name in the header. An address is no such name.
        """
        name, colon, port = header.lower().rpartition(":")
        if not (colon and port.isdecimal()):
            name = header.lower()
        if name == "localhost" or name in self.hosts:
            return True
        try:
            return bool(ipaddress.ip_address(name.removeprefix("[").removesuffix("]")))
        except ValueError:
            return False

    def is_key(self, candidate: str) -> bool:
        """Return whether this is a key; the time does not depend on where keys differ."""
        given = candidate.encode("utf-8", "replace")
        matches = [hmac.compare_digest(key.encode(), given) for key in self.keys]
        return any(matches)


class _ClientGoneError(Exception):
    """The client has closed the connection."""


class Gate:
    """The ASGI application."""

    def __init__(self, service: Service, interfaces: Sequence[Interface], access: Access) -> None:
        """Serve `interfaces`; the last one also answers to unknown paths."""
        service.has_keys = bool(access.keys)
        self._service = service
        self._access = access
        self._unknown = interfaces[-1]
        self._endpoints = {
            endpoint.path: (endpoint, interface)
            for interface in interfaces
            for endpoint in interface.endpoints
        }
        self._description = describe_interfaces(interfaces, STATUSES)
        self._max_bytes = service.limits.max_characters * MAX_BYTES_PER_CHARACTER + MAX_OTHER_BYTES

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        interface = self._interface_at(request.url.path)
        try:
            answer = await self._answer(request, interface)
            response = answer if isinstance(answer, Response) else JsonResponse(answer)
        except (_ClientGoneError, ClientDisconnect):
            return
        except Refusal as refusal:
            response = _refuse(refusal, interface)
        except Exception as failure:
            # Not the message of the failure, because it may repeat what the client sent.
            error(f"internal error: {type(failure).__name__} at {interface.name}", failure)
            response = _refuse(Refusal(500, "internal error"), interface)
        response.headers.update(HEADERS)
        await response(scope, receive, send)

    def _interface_at(self, path: str) -> Interface:
        """Return the interface of a path; of an unknown path, by its first part, such as v1."""
        first = path.split("/")[1:2]
        for known, (_, interface) in self._endpoints.items():
            if known.split("/")[1:2] == first:
                return interface
        return self._unknown

    async def _answer(self, request: Request, interface: Interface) -> Any:
        """Return what the endpoint answers; raise Refusal if the request is not allowed."""
        if not self._access.is_known_host(request.headers.get("host", "")):
            raise Refusal(421, "this host is not served; see --allow-host of `mtkit serve`")
        path = request.url.path
        if path == "/openapi.json":
            return self._description
        if path not in self._endpoints:
            raise Refusal(404, f"{path[:100]} is not served")
        endpoint, _ = self._endpoints[path]
        method = "GET" if request.method == "HEAD" else request.method
        if method != endpoint.method:
            # The last argument becomes the header Allow.
            raise Refusal(405, f"{path} takes {endpoint.method}", endpoint.method)
        body = await self._read_body(request)
        content_type = request.headers.get("content-type", "")
        if method == "GET":  # DeepL's client sends the fields as a body, others in the address
            body = body or request.scope["query_string"]
            content_type = FORM_TYPE
        fields = read_fields(endpoint, body, content_type)
        # Only now, because the key may be one of the fields.
        self._check_key(request, endpoint, interface, getattr(fields, "api_key", ""))
        return await _unless_gone(request, endpoint.answer(self._service, fields))

    def _check_key(
        self, request: Request, endpoint: Endpoint, interface: Interface, key: str
    ) -> None:
        """Raise Refusal if the client needs a key, and sends none as `key` or in its header."""
        # Authorization: Bearer KEY, or DeepL-Auth-Key KEY
        key = key or request.headers.get("authorization", "").partition(" ")[2].strip()
        if self._access.keys and endpoint.needs_key and not self._access.is_key(key):
            raise Refusal(interface.wrong_key_status, "the key is missing or wrong")

    async def _read_body(self, request: Request) -> bytes:
        body = bytearray()
        length = int(request.headers.get("content-length", 0))  # h11 has checked that it is one
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for chunk in request.stream():
                    body += chunk
                    if max(length, len(body)) > self._max_bytes:
                        raise Refusal(413, f"the request is larger than {self._max_bytes:,} bytes")
        except TimeoutError:
            raise Refusal(408, f"the request took over {BODY_SECONDS:g} s to arrive") from None
        return bytes(body)


async def _unless_gone(request: Request, work: Coroutine[Any, Any, Any]) -> Any:
    """Return what `work` returns; cancel it if the client closes the connection meanwhile."""
    working = asyncio.ensure_future(work)
    # The body has been read, so the next message says that the client is gone.
    leaving = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise _ClientGoneError
    finally:
        leaving.cancel()
        working.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


def _refuse(refusal: Refusal, interface: Interface) -> Response:
    response = JsonResponse(interface.refuse(refusal), refusal.status)
    if refusal.status in (429, 503):
        response.headers["Retry-After"] = RETRY_SECONDS
    if refusal.status == 405:
        response.headers["Allow"] = str(refusal.field)
    return response


class ImpatientProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, but slow clients lose their connection.

    It uses h11, whose buffers are bounded; uvicorn itself closes idle connections.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for the head of the first request."""
        super().connection_made(transport)
        # Everything unread counts as waiting: otherwise the last 64 KiB would keep a connection
        # open for ever, because it closes only when they are sent.
        transport.set_write_buffer_limits(high=0)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        for name in list(self._timers):
            self._stop_timer(name)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start to wait for the client to read."""
        super().pause_writing()
        self._start_timer("read", READ_SECONDS)

    def resume_writing(self) -> None:
        """Go on, because the client has read."""
        self._stop_timer("read")
        super().resume_writing()

    def _watch_head(self) -> None:
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            self._start_timer("head", HEAD_SECONDS)
        else:
            self._stop_timer("head")

    def _start_timer(self, name: str, seconds: float) -> None:
        """Close the connection after some seconds, unless the timer runs or is stopped."""
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, self.transport.abort)

    def _stop_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
