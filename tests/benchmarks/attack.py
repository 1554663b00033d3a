"""Attack `mtkit serve`: random requests, most of them wrong, and clients that go away.

    python tests/benchmarks/attack.py runs/demo --requests 100000

It prints how often each status came, and the memory and open files of the server after each tenth.
It fails if a status is 500, if the server ends, or if it no longer translates as before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from serve import serving

TRANSLATE = {"q": "A dog runs.", "source": "en", "target": "de"}
DEEPL = {"text": ["A dog runs.", "Why?"], "target_lang": "DE"}
CHAT = {"model": "en-de", "messages": [{"role": "user", "content": "A dog runs.\nWhy?"}]}
PAGE = {**TRANSLATE, "source": "auto", "alternatives": 2, "details": True}
REQUESTS: dict[str, dict[str, Any]] = {
    "/translate": PAGE,
    "/detect": {"q": "A dog runs."},
    "/translate_file": TRANSLATE,
    "/v2/document": DEEPL,
    "/v2/translate": DEEPL,
    "/v1/chat/completions": CHAT,
}
PATIENCE_SECONDS = 2
"""How long a client waits for a response."""
GET_PATHS = ["/", "/page.js", "/languages", "/v1/models", "/v2/languages?type=target", "/health"]
GET_PATHS += ["/download_file/a.txt", "/v2/usage", "/nothing", "/%ff%00", "/../../etc/passwd"]
GET_PATHS += ["/" + "a" * 9_000]
VALUES: list[Any] = [None, True, 0, -1, 0.5, 1e308, 2**70, "", "\ud800", "\0", "<script>", "de"]
VALUES += ["a" * 60_000, "\n" * 3_000, "A dog runs. " * 40, ["a"] * 3_000, {"a": {"b": []}}, [[]]]
NAMES = ["stream", "alternatives", "format", "temperature", "max_tokens", "n", "seed", "tools", "x"]
HEADS = [
    "Content-Type: application/json",
    "Content-Type: application/x-www-form-urlencoded",
    "Content-Type: multipart/form-data; boundary=a",
    "Content-Type: text/plain; charset=utf-16",
    "Expect: 100-continue",
    "Authorization: Bearer \xff",
    "Host: evil.example",
    "Upgrade: websocket\r\nConnection: Upgrade",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="run or model; it is served as one from English to German")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with serving(arguments.model) as server:
        asyncio.run(attack(server.port, server.process.pid, arguments))


async def attack(port: int, process: int, arguments: argparse.Namespace) -> None:
    generator = random.Random(arguments.seed)
    statuses: Counter[str] = Counter()
    request = post("/translate", json.dumps(TRANSLATE).encode(), HEADS[:1])
    _, _, expected = (await send(port, request, keep=0)).partition(b"\r\n\r\n")
    batch = max(1, arguments.requests // 10)
    for done in range(0, arguments.requests, batch):
        numbers = iter(range(batch))
        clients = [ask(port, numbers, generator, statuses) for _ in range(arguments.clients)]
        await asyncio.gather(*clients)
        print(f"{done + batch:,} requests: {describe_process(process)}", flush=True)
    for status, count in sorted(statuses.items()):
        print(f"{status}: {count:,}")
    assert "500" not in statuses
    assert (await send(port, request, keep=0)).endswith(expected)


async def ask(
    port: int, numbers: Iterator[int], generator: random.Random, statuses: Counter[str]
) -> None:
    """Send requests one by one, as long as there are numbers, and count the statuses."""
    for _ in numbers:
        keep = generator.choice([0, 0, 0, 0, 0, 0, 1, 2])
        answer = await send(port, random_request(generator), keep)
        statuses[answer[9:13].decode("latin-1").strip() or "closed"] += 1


def describe_process(process: int) -> str:
    """Return the resident memory and the number of open files of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    (kibibytes,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")]
    files = len(list(Path(f"/proc/{process}/fd").iterdir()))
    threads = len(list(Path(f"/proc/{process}/task").iterdir()))
    return f"{int(kibibytes) / 1024:.1f} MiB, {files} open files, {threads} threads"


async def send(port: int, request: bytes, keep: int) -> bytes:
    """Send a request on a connection of its own, and return the response; empty if there is none.

    `keep`: 1 to go away after half of the request, 2 to go away before the response.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request[: len(request) // 2] if keep == 1 else request)
        await writer.drain()
        if keep:
            return b""
        return await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)
    except TimeoutError:
        return b"HTTP/1.1 none yet"
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


def random_request(generator: random.Random) -> bytes:
    """Return a request, which may be wrong in every part."""
    kinds: list[Callable[[random.Random], bytes]] = [valid, changed, damaged, read, noise]
    return generator.choice(kinds)(generator)


def post(path: str, body: bytes, heads: list[str], length: int | None = None) -> bytes:
    count = len(body) if length is None else length
    fixed = ["Host: localhost", f"Content-Length: {count}", "Connection: close"]
    head = "\r\n".join([f"POST {path} HTTP/1.1", *fixed, *heads])
    return head.encode("latin-1") + b"\r\n\r\n" + body


def valid(generator: random.Random) -> bytes:
    path = generator.choice(list(REQUESTS))
    fields = dict(REQUESTS[path])
    if path == "/v1/chat/completions":
        fields["stream"] = generator.random() < 0.5
    return post(path, json.dumps(fields).encode(), HEADS[:1])


def changed(generator: random.Random) -> bytes:
    """Return a request with other values, or with other fields."""
    path = generator.choice(list(REQUESTS))
    fields = dict(REQUESTS[path])
    for _ in range(generator.randint(1, 3)):
        fields[generator.choice([*fields, *NAMES])] = generator.choice(VALUES)
    heads = HEADS[:1] if generator.random() < 0.8 else [generator.choice(HEADS)]
    return post(path, json.dumps(fields).encode(), heads)


def damaged(generator: random.Random) -> bytes:
    """Return a request with a body in another encoding, cut, too deep or of a wrong length."""
    path = generator.choice(list(REQUESTS))
    body = json.dumps(REQUESTS[path]).encode()
    bodies = [
        body[: generator.randrange(len(body))],
        body.decode().encode("utf-16"),
        body.replace(b"dog", b"d\xf6g"),
        b"[" * generator.randint(1, 200_000),
        b"a=%ff&" * generator.randint(1, 2_000),
        generator.randbytes(generator.randint(0, 2_000)),
        b'{"q": NaN}',
        b'{"q": ' + b"1" * 10_000 + b"}",
    ]
    body = generator.choice(bodies)
    length = generator.choice([None, None, None, 0, 10**12, -1])
    return post(path, body, [generator.choice(HEADS[:4])], length)


def read(generator: random.Random) -> bytes:
    method = generator.choice(["GET", "GET", "GET", "HEAD", "OPTIONS", "DELETE", "PUT", "BREW"])
    heads = ["Host: localhost", "Connection: close"]
    if generator.random() < 0.2:
        heads = [generator.choice(HEADS), "Connection: close"]
    head = "\r\n".join([f"{method} {generator.choice(GET_PATHS)} HTTP/1.1", *heads])
    return head.encode("latin-1") + b"\r\n\r\n"


def noise(generator: random.Random) -> bytes:
    request = bytearray(valid(generator))
    for _ in range(generator.randint(1, 20)):
        request[generator.randrange(len(request))] = generator.randrange(256)
    return bytes(request)


if __name__ == "__main__":
    main()
