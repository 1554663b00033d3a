"""Measure `mtkit serve`: throughput compared with `mtkit translate`, and how long clients wait.

Clients send one sentence at a time, each over a connection of its own. In turn with them,
`mtkit translate` translates the same sentences from a file. One client alone takes turns with a
`Translator`, sentence by sentence, so that both meet the same machine. The clients share the cores
with the server, so they slow it down.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import parse_headers
from pathlib import Path

from mtkit.decoding.api import Translator, load

MTKIT = [sys.executable, "-m", "mtkit"]
WARM_UP = 50
"""Sentences that are translated before a measurement."""


@dataclass(frozen=True)
class Measurement:
    """What clients have seen."""

    clients: int
    rate: float
    """Sentences per second of all clients together."""
    median: float
    """Seconds from request to response."""
    slowest: float
    """The 99th percentile."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="run or model, from English to German")
    parser.add_argument("text", type=Path, help="file with sentences")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64, 256])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plot", type=Path, help="picture to write")
    arguments = parser.parse_args()
    lines = arguments.text.read_text("utf-8").splitlines()
    files: list[float] = []
    bare: list[float] = []
    measured: dict[int, list[Measurement]] = {count: [] for count in arguments.clients}
    translator = load(arguments.model, scores=False)
    with serving(arguments.model) as server:
        port = server.port
        asyncio.run(ask_all(port, lines[:WARM_UP], 1))
        translator.translate(lines[:WARM_UP])
        for _ in range(arguments.rounds):
            files.append(measure_file(arguments.model, arguments.text, len(lines)))
            for count in arguments.clients:
                if count > 1:
                    measured[count].append(asyncio.run(ask_all(port, lines, count)))
                else:
                    alone, translating = take_turns(port, translator, lines[:200])
                    measured[count].append(alone)
                    bare.append(translating)
    file_rate = statistics.median(files)
    bare_seconds = statistics.median(bare) if bare else math.nan
    print(f"mtkit translate, a file: {file_rate:,.0f} sentences/s")
    print(f"Translator, a sentence at a time: median {1000 * bare_seconds:.1f} ms")
    print("clients  sentences/s  of the file  median ms  99th percentile ms  of the bare engine")
    medians = [median_of(measured[count]) for count in arguments.clients]
    for each in medians:
        print(
            f"{each.clients:7}  {each.rate:11,.0f}  {each.rate / file_rate:11.2f}  "
            f"{1000 * each.median:9.1f}  {1000 * each.slowest:18.1f}  "
            f"{each.median / bare_seconds:18.2f}"
        )
    if arguments.plot:
        draw(medians, file_rate, arguments.plot)


@dataclass(frozen=True)
class ServerProcess:
    """`mtkit serve`, as a process of its own."""

    port: int
    process: subprocess.Popen[str]


@contextmanager
def serving(model: str) -> Iterator[ServerProcess]:
    """Start `mtkit serve`, and stop it at the end."""
    command = [*MTKIT, "serve", "-m", f"en:de={model}", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if match := re.search(r"listening at http://127.0.0.1:(\d+)", line):
                yield ServerProcess(int(match[1]), process)
                break
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        process.stderr.close()


def measure_file(model: str, text: Path, count: int) -> float:
    """Return the sentences per second of `mtkit translate`, without the time of its start."""
    with tempfile.TemporaryDirectory() as folder:
        output = str(Path(folder, "output"))
        command = [*MTKIT, "translate", str(text), "-m", model, "-o", output]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    (seconds,) = re.findall(r"written in ([\d.,]+) s", said)
    return count / float(seconds.replace(",", ""))


def take_turns(
    port: int, translator: Translator, lines: Sequence[str]
) -> tuple[Measurement, float]:
    """Let one client and a Translator translate every line.

    Return what the client has seen, and the median time of a call of the Translator.
    """
    waiting: list[float] = []
    translating: list[float] = []
    with socket.create_connection(("127.0.0.1", port)) as client, client.makefile("rb") as answers:
        for line in lines:
            began = time.perf_counter()
            client.sendall(encode(line))
            assert answers.readline().startswith(b"HTTP/1.1 200")
            length = int(parse_headers(answers)["Content-Length"])
            answers.read(length)
            answered = time.perf_counter()
            translator.translate([line])
            waiting.append(answered - began)
            translating.append(time.perf_counter() - answered)
    slowest = statistics.quantiles(waiting, n=100)[-1]
    alone = Measurement(1, len(lines) / sum(waiting), statistics.median(waiting), slowest)
    return alone, statistics.median(translating)


async def ask_all(port: int, lines: Sequence[str], count: int) -> Measurement:
    """Let clients send all lines, each the next one as soon as it has its last answer."""
    waiting = iter(lines)
    seconds: list[float] = []

    async def ask() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for line in waiting:
            request = encode(line)
            began = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            (length,) = re.findall(rb"content-length: (\d+)", head)
            await reader.readexactly(int(length))
            seconds.append(time.perf_counter() - began)
        writer.close()
        await writer.wait_closed()

    began = time.perf_counter()
    await asyncio.gather(*itertools.starmap(ask, itertools.repeat((), count)))
    rate = len(lines) / (time.perf_counter() - began)
    slowest = statistics.quantiles(seconds, n=100)[-1]
    return Measurement(count, rate, statistics.median(seconds), slowest)


def encode(line: str) -> bytes:
    """Return a request for a translation."""
    body = json.dumps({"q": line, "source": "en", "target": "de"}).encode()
    head = (
        "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def median_of(measured: Sequence[Measurement]) -> Measurement:
    """Return the medians of several rounds."""
    return Measurement(
        measured[0].clients,
        statistics.median(each.rate for each in measured),
        statistics.median(each.median for each in measured),
        statistics.median(each.slowest for each in measured),
    )


def draw(measured: Sequence[Measurement], file_rate: float, path: Path) -> None:
    """Draw throughput and waiting times by the number of clients."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    rates, times = figure.subplots(1, 2)
    clients = [each.clients for each in measured]
    rates.plot(clients, [each.rate for each in measured], "o-", label="mtkit serve")
    rates.axhline(file_rate, color="gray", linestyle="--", label="mtkit translate, a file")
    rates.set(xscale="log", xlabel="clients", ylabel="sentences/s", ylim=0)
    times.plot(clients, [1000 * each.median for each in measured], "o-", label="median")
    times.plot(clients, [1000 * each.slowest for each in measured], "s-", label="99th percentile")
    times.set(xscale="log", yscale="log", xlabel="clients", ylabel="ms to wait for a sentence")
    for axes in (rates, times):
        axes.set_xticks(clients, [str(count) for count in clients], minor=False)
        axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    main()
