"""Headless Chromium, driven through a pipe by the DevTools protocol, for tests of pages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
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


class Page:
    """A page in the browser."""

    def __init__(self, process: subprocess.Popen[bytes], commands: int, answers: int) -> None:
        self._process = process
        self._commands = commands
        self._answers = answers
        self._received = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        """What the browser has reported, such as requests and errors."""

    def attach(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = session["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _read(self) -> Any:
        while b"\0" not in self._received:
            block = os.read(self._answers, 1 << 20)
            assert block, "the browser has ended"
            self._received += block
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)

    def open(self, path: Path) -> None:
        """Open a file, as a double click does, and wait until it is loaded."""
        self.call("Page.navigate", url=path.as_uri())
        self.evaluate(
            "new Promise((done) => {"
            " if (document.readyState === 'complete') done(); else addEventListener('load', done);"
            "})"
        )

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript; wait if it is a promise."""
        result = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_until(self, condition: str) -> None:
        """Wait until an expression is true: look again after each change of the page."""
        self.evaluate(
            f"""new Promise((done, fail) => {{
                const look = () => {{ if ({condition}) {{ observer.disconnect(); done(); }} }};
                const observer = new MutationObserver(look);
                observer.observe(document, {{attributes: true, childList: true, subtree: true}});
                setTimeout(() => fail(new Error("too late")), {1000 * MAX_SECONDS});
                look();
            }})"""
        )

    def show(self, width: int, height: int, scheme: str) -> None:
        """Set the size of the window in pixels, and prefer a colour scheme, "light" or "dark"."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def picture(self) -> bytes:
        """Return a picture of the window as PNG."""
        return b64decode(self.call("Page.captureScreenshot")["data"])


@contextmanager
def open_browser(profile: Path) -> Iterator[Page]:
    """Start Chromium with an empty profile; skip the test if there is none."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    commands_out, commands_in = os.pipe()
    answers_out, answers_in = os.pipe()
    # Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
    script = f'exec "$@" 3<&{commands_out} 4>&{answers_in}'
    command = ["bash", "-c", script, "bash", CHROMIUM, *OPTIONS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        command, pass_fds=(commands_out, answers_in), stderr=subprocess.DEVNULL
    )
    os.close(commands_out)
    os.close(answers_in)
    page = Page(process, commands_in, answers_out)
    try:
        page.attach()
        yield page
    finally:
        os.close(commands_in)
        os.close(answers_out)
        process.terminate()
        process.wait(timeout=MAX_SECONDS)
