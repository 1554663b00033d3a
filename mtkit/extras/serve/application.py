"""The ASGI application: who may ask, how much, and which interface answers."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import socket
import time
from collections.abc import Coroutine
from contextlib import nullcontext
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles
from starlette.types import Message

from mtkit.extras.serve.deepl import DEEPL
from mtkit.extras.serve.documents import MAX_UPLOAD_BYTES
from mtkit.extras.serve.interface import (
    JSON_TYPE,
    UPLOAD_TYPE,
    Endpoint,
    Fields,
    read_fields,
    read_form,
)
from mtkit.extras.serve.libretranslate import LIBRETRANSLATE
from mtkit.extras.serve.openai import OPENAI
from mtkit.extras.serve.service import ServerOptions, Service
from mtkit.report import error, say

INTERFACES = (OPENAI, DEEPL, LIBRETRANSLATE)
"""The first one whose prefix fits answers to an unknown path."""
MAX_BYTES_PER_CHARACTER = 12
"""A character in JSON is at most two escapes, such as \\ud83d\\ude00; in a form, four of %F0."""
MAX_OTHER_BYTES = 65_536
"""Room for all fields of a request but its text or its file."""
BODY_SECONDS = 10.0
"""How long the server waits for the next bytes of a request."""


def build_application(service: Service, options: ServerOptions) -> Starlette:
    """Return the ASGI application with all interfaces and the page."""
    gate = _Gate(service, options)
    routes = [
        Route(endpoint.path, partial(gate.answer, endpoint), methods=[endpoint.method])
        for interface in INTERFACES
        for endpoint in interface.endpoints
    ]
    cors = Middleware(
        CORSMiddleware, allow_origins=options.origins, allow_methods=["*"], allow_headers=["*"]
    )
    handlers = {HTTPException: _refuse}
    application = Starlette(routes=routes, middleware=[cors], exception_handlers=handlers)
    application.router.default = StaticFiles(packages=[("mtkit.extras.serve", "page")], html=True)
    return application


async def _refuse(request: Request, failure: Exception) -> Response:
    """Return a refusal in the form of the interface to which the path belongs."""
    interface = next(each for each in INTERFACES if request.url.path.startswith(each.prefix))
    if not isinstance(failure, HTTPException):
        # Not the message of the failure, because it may repeat what the client sent.
        error(f"internal error: {type(failure).__name__} at {interface.prefix}", failure)
        failure = HTTPException(500, "internal error")
    elif "endpoint" not in request.scope:  # neither a path of an interface nor a file of the page
        paths = ", ".join(route.path for route in request.app.routes)
        failure = HTTPException(404, f"there is no such path; choose from {paths}")
    return JSONResponse(interface.refuse(failure), failure.status_code, failure.headers)


class _Gate:
    """What stands between the network and the endpoints."""

    def __init__(self, service: Service, options: ServerOptions) -> None:
        self._service = service
        self._options = options
        names = ["localhost", options.host, socket.gethostname(), *options.hosts]
        self._hosts = set(map(str.lower, names))

    async def answer(self, endpoint: Endpoint, request: Request) -> Response:
        """Answer or refuse one request, and log it if that is asked for."""
        began = time.monotonic()
        try:
            response = await self._answer(endpoint, request)
        except Exception as failure:
            response = await _refuse(request, failure)
        if self._options.access_log:
            # Without what the client sent, such as the rest of the address.
            milliseconds = 1000 * (time.monotonic() - began)
            say(f"{endpoint.method} {endpoint.path} {response.status_code} {milliseconds:.0f} ms")
        return response

    async def _answer(self, endpoint: Endpoint, request: Request) -> Response:
        if not self._is_known_host(request.headers.get("host", "")):
            raise HTTPException(421, "this host is not served; see --allow-host of `mtkit serve`")
        if endpoint.method != "GET" and not self._is_known_origin(request):
            raise HTTPException(403, "pages of this site are not served; see --allow-origin")
        is_upload = UPLOAD_TYPE in endpoint.media_types
        max_bytes = self._options.max_characters * MAX_BYTES_PER_CHARACTER
        if is_upload:
            max_bytes = MAX_UPLOAD_BYTES
        request = _limited(request, max_bytes + MAX_OTHER_BYTES)
        # Authorization: Bearer KEY, or DeepL-Auth-Key KEY
        key = request.headers.get("authorization", "").partition(" ")[2]
        turns = self._service.upload_turns[self._is_key(key)]
        try:
            async with turns if is_upload else nullcontext():
                fields = await _read_request(endpoint, request)
            # Only now, because the key may be one of the fields.
            self._check_key(endpoint, fields.api_key or key)
            work = endpoint.answer(self._service, fields, **request.path_params)
            answer = await _unless_gone(request, work)
        except ClientDisconnect:
            return Response()  # nobody reads it
        finally:
            await request.close()
        return answer if isinstance(answer, Response) else JSONResponse(answer)

    def _is_known_host(self, header: str) -> bool:
        """Return whether a Host header names this server.

        A page on the web can let its own name point to this machine (DNS rebinding), but it cannot
        change the name in the header. An address is no such name.
        """
        try:
            name = urlsplit(f"//{header}").hostname or ""
            return name in self._hosts or bool(ipaddress.ip_address(name))
        except ValueError:
            return False

    def _is_known_origin(self, request: Request) -> bool:
        """Return whether a request comes from the own page, an allowed one, or from no page.

        Browsers send a form of any page without asking first, and only hide the answer from it.
        They name the page's site in headers, which the page cannot change, and programs do not.
        """
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site")
        allowed = self._options.origins
        if "*" in allowed or origin in allowed:
            return True
        if site is None:  # an old browser, or a program
            return origin is None or origin.partition("://")[2] == request.headers["host"]
        return site in ("same-origin", "none")  # "none": the user typed the address

    def _is_key(self, text: str) -> bool:
        """Return whether a text is one of the keys, if there are any.

        The time does not depend on where keys differ.
        """
        encoded = text.encode("utf-8", "replace")
        matches = [hmac.compare_digest(key.encode(), encoded) for key in self._options.keys]
        return not matches or any(matches)

    def _check_key(self, endpoint: Endpoint, key: str) -> None:
        """Refuse wrong keys, and work without a key."""
        is_guarded = endpoint.path.startswith((OPENAI.prefix, DEEPL.prefix))
        is_needed = bool(key) or is_guarded or endpoint.method != "GET"
        if is_needed and not self._is_key(key):
            status = 401 if endpoint.path.startswith(OPENAI.prefix) else 403
            raise HTTPException(status, "the key is missing or wrong")


def _limited(request: Request, max_bytes: int) -> Request:
    """Return a request whose body is refused above `max_bytes`, or if it stops to come."""
    received = 0
    seconds: float | None = BODY_SECONDS

    async def receive() -> Message:
        nonlocal received, seconds
        try:
            async with asyncio.timeout(seconds):
                message = await request.receive()
        except TimeoutError:
            raise HTTPException(408, "the request stopped", {"Connection": "close"}) from None
        if not message.get("more_body"):  # the next message says that the client is gone
            seconds = None
        received += len(message.get("body", b""))
        if received > max_bytes:
            raise HTTPException(413, f"the request is larger than {max_bytes:,} bytes")
        return message

    return Request(request.scope, receive)


async def _read_request(endpoint: Endpoint, request: Request) -> Fields:
    if endpoint.method != "POST":
        # DeepL's client sends the fields as a body, others in the address.
        form = await request.body() or request.scope["query_string"]
        return read_fields(endpoint.fields, read_form(form))
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in endpoint.media_types:
        raise HTTPException(415, f"send the fields as {' or '.join(endpoint.media_types)}")
    if media_type == UPLOAD_TYPE:
        values = await request.form(max_files=1)
        return read_fields(endpoint.fields, {**values, "address": str(request.base_url)})
    body = await request.body()
    return read_fields(endpoint.fields, body if media_type == JSON_TYPE else read_form(body))


async def _unless_gone(request: Request, work: Coroutine[Any, Any, Any]) -> Any:
    """Return what `work` returns; cancel it if the client closes the connection meanwhile."""
    working = asyncio.ensure_future(work)
    # The body has been read, so the next message says that the client is gone.
    leaving = asyncio.ensure_future(request.receive())
    leaving.add_done_callback(lambda _: working.cancel())
    try:
        return await working
    except asyncio.CancelledError:
        raise ClientDisconnect from None
    finally:
        leaving.cancel()
