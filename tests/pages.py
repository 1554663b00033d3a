"""Run the translator of an exported page: in node, which needs no browser, else in Chromium."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from browser import open_tab

NODE = shutil.which("node")
MAX_SECONDS = 120

_IN_NODE = """
const { readFileSync } = require("fs");
const { page, script, input } = JSON.parse(readFileSync(0, "utf8"));
const html = readFileSync(page, "utf8");
const textOf = (id) => html.match(new RegExp(`<script id="${id}"[^>]*>([^]*?)</script>`))[1];
const body = `${textOf("engine")}\\nreturn (async () => {${script}})();`;
const run = new Function("textOf", "input", body);
run(textOf, input).then((result) => console.log(JSON.stringify(result)));
"""
_IN_BROWSER = """
(async (textOf, input) => {%s})((id) => document.getElementById(id).textContent, %s)
"""
_TRANSLATOR = """
const data = JSON.parse(textOf("data"));
const translator = new Translator(data, bytesOf(textOf("weights")).buffer);
"""


def run_in_page(page: Path, script: str, given: Any = None) -> Any:
    """Run JavaScript with the `translator` of a page and `input`, which is `given`.

    Returns what the script returns. Skips the test if there is neither node nor Chromium.
    """
    script = _TRANSLATOR + script
    if NODE is None:
        with TemporaryDirectory() as folder, open_tab(Path(folder)) as tab:
            tab.open(page.as_uri())
            return tab.evaluate(_IN_BROWSER % (script, json.dumps(given)))
    done = subprocess.run(
        [NODE, "-e", _IN_NODE],
        input=json.dumps({"page": str(page), "script": script, "input": given}),
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def translate_in_page(page: Path, lines: list[str], tag: str | None = None) -> list[str]:
    """Return what the page translates lines to."""
    script = """
    const texts = [];
    for (const line of input.lines) {
      texts.push(await translator.translate(line, input.tag, async () => {}));
    }
    return texts;
    """
    return list(run_in_page(page, script, {"lines": lines, "tag": tag}))
