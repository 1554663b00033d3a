"""Headless Chromium, driven over its DevTools protocol; tests that need it skip without it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
MAX_SECONDS = 60
"""How long to wait for a page."""


def find_browser() -> str | None:
    """Return the path of Chromium, if it is installed."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Tab:
    """A tab. Commands go to Chromium through a pipe, as JSON that ends in a null character."""

    def __init__(self, commands: BinaryIO, answers: BinaryIO) -> None:
        self._commands = commands
        self._answers = answers
        self._number = 0
        self._session: dict[str, str] = {}
        self._rest = b""
        self.events: list[dict[str, Any]] = []
        """What Chromium has reported, such as requests and errors."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> Any:
        """Send a command, and return its result; keep the events that come before it."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters, **self._session}
        self._commands.write(json.dumps(command).encode() + b"\0")
        self._commands.flush()
        while True:
            message = self._receive()
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                return message["result"]
            self.events.append(message)

    def _receive(self) -> Any:
        while b"\0" not in self._rest:
            read = os.read(self._answers.fileno(), 1 << 16)
            assert read, "Chromium has ended"
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(self, url: str) -> None:
        """Load a page, and wait until it is complete."""
        self.send("Page.navigate", url=url)
        self.evaluate(
            "new Promise((done) => {"
            " if (document.readyState === 'complete') done(); else addEventListener('load', done);"
            "})"
        )

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript, which may be a promise."""
        result = self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Wait until an expression is true: evaluate it again after each change of the page."""
        self.evaluate(
            f"""new Promise((done, fail) => {{
                const look = () => {{ if ({condition}) {{ observer.disconnect(); done(); }} }};
                const observer = new MutationObserver(look);
                const changes = {{attributes: true, characterData: true, childList: true}};
                observer.observe(document, {{...changes, subtree: true}});
                setTimeout(() => fail(new Error("too late")), {1000 * MAX_SECONDS});
                look();
            }})"""
        )

    def wait_for_event(self, method: str, **parameters: Any) -> None:
        """Wait for an event that has these parameters, among others."""
        while True:
            message = self._receive()
            self.events.append(message)
            if message.get("method") == method and message["params"].items() >= parameters.items():
                return

    def type(self, text: str) -> None:
        """Type into the element that has the focus."""
        self.send("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press and release a key, such as Tab."""
        codes = {"Tab": 9, "Enter": 13, " ": 32, "Home": 36}
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=codes[key]
            )

    def point_at(self, selector: str) -> None:
        """Move the pointer to the middle of an element."""
        box = self.evaluate(
            f"(() => {{ const box = document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect();"
            "return {x: box.x + box.width / 2, y: box.y + box.height / 2}; })()"
        )
        self.send("Input.dispatchMouseEvent", type="mouseMoved", **box)

    def show(self, path: Path, width: int, height: int = 900, *, is_dark: bool = False) -> None:
        """Write a picture of the page at this width, in its light or dark colours."""
        self.resize(width, height, is_dark=is_dark)
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def resize(self, width: int, height: int = 900, *, is_dark: bool = False) -> None:
        """Set the size of the window, and the colours that people prefer."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])


@contextmanager
def open_tab(profile: Path) -> Iterator[Tab]:
    """Start Chromium with an empty profile, and yield a tab; skip the test without Chromium."""
    browser = find_browser()
    if browser is None:
        pytest.skip("needs Chromium")
    command_reader, commands = os.pipe()
    answers, answer_writer = os.pipe()
    # Chromium reads commands from descriptor 3, and writes answers to descriptor 4.
    script = f'exec "$@" 3<&{command_reader} 4>&{answer_writer}'
    words = [browser, *OPTIONS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", *words],
        pass_fds=(command_reader, answer_writer),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(command_reader)
    os.close(answer_writer)
    try:
        with os.fdopen(commands, "wb") as writer, os.fdopen(answers, "rb") as reader:
            yield Tab(writer, reader)
    finally:
        process.terminate()
        process.wait(timeout=MAX_SECONDS)
