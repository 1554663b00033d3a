"""A server that speaks the interface of the Hugging Face hub, for huggingface_hub as it is."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import huggingface_hub
import pytest

MAIN = "main"


@dataclass
class Repository:
    """A model on the hub; each revision is a folder."""

    revisions: dict[str, Path]
    licence: str | None = "apache-2.0"
    is_gated: bool = False

    def folder(self, revision: str) -> tuple[str, Path] | None:
        """Return the commit and the folder of a revision or of a commit."""
        for name, folder in self.revisions.items():
            etags = "".join(path.name + _etag(path) for path in sorted(folder.iterdir()))
            commit = hashlib.sha1(etags.encode()).hexdigest()
            if revision in (name, commit):
                return commit, folder
        return None


@dataclass
class Hub:
    """What the server has, and what it was asked for."""

    repositories: dict[str, Repository]
    url: str = ""
    may_answer: Event = field(default_factory=Event)
    requests: Counter[str] = field(default_factory=Counter)
    """The number of requests for the content of each file."""
    cuts: int = 0
    """How many of the next answers with content end after half of it."""
    offers: list[dict[str, Any]] = field(default_factory=list)
    """The discussions of all models."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.hub.may_answer.wait()
        path = unquote(urlsplit(self.path).path).strip("/").removeprefix("api/models/")
        owner, name, *rest = path.split("/")
        repository = self.hub.repositories.get(f"{owner}/{name}")
        if repository is None:
            self._refuse(401 if "private" in name else 404, "RepoNotFound")
            return
        if rest == ["discussions"]:
            offers = self.hub.offers
            self._send_json({"count": len(offers), "start": 0, "discussions": offers})
            return
        kind, *inner = rest or ["revision", MAIN]
        if kind == "resolve":
            revision, file = inner[0], "/".join(inner[1:])
        else:
            revision, file = "/".join(inner), ""
        found = repository.folder(revision)
        if found is None:
            self._refuse(404, "RevisionNotFound")
            return
        commit, folder = found
        if kind == "revision":
            files = [{"rfilename": path.name} for path in sorted(folder.iterdir())]
            card = {"license": repository.licence} if repository.licence else None
            self._send_json({"id": path, "sha": commit, "siblings": files, "cardData": card})
        elif kind == "tree":
            entries = [
                {"type": "file", "path": path.name, "size": path.stat().st_size, "oid": _etag(path)}
                for path in sorted(folder.iterdir())
            ]
            self._send_json(entries)
        elif repository.is_gated:
            self._refuse(403, "GatedRepo")
        elif not (folder / file).is_file():
            self._refuse(404, "EntryNotFound")
        else:
            self._send_file(folder / file, commit)

    def _send_file(self, path: Path, commit: str) -> None:
        content = path.read_bytes()
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("ETag", f'"{_etag(path)}"')
        self.send_header("X-Repo-Commit", commit)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        self.hub.requests[path.name] += 1
        if self.hub.cuts and path.name == "model.safetensors":
            self.hub.cuts -= 1
            self.wfile.write(content[start : start + (len(content) - start) // 2])
            self.close_connection = True
        else:
            self.wfile.write(content[start:])

    def _send_json(self, value: Any) -> None:
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()


def _etag(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()


@contextmanager
def serving(repositories: dict[str, Repository]) -> Iterator[Hub]:
    """Serve models on a free port."""
    hub = Hub(repositories)
    hub.may_answer.set()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        hub.may_answer.set()
        server.shutdown()
        server.server_close()


def use_hub(url: str, cache: Path, patch: pytest.MonkeyPatch) -> None:
    """Let huggingface_hub in this process ask this server, as HF_ENDPOINT does."""
    constants = huggingface_hub.constants
    template = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    patch.setattr(constants, "ENDPOINT", url)
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    patch.setattr(constants, "HF_HUB_CACHE", str(cache))
    patch.setattr(constants, "HF_HUB_OFFLINE", False)
