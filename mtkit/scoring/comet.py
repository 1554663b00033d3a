"""COMET (Rei et al. 2020, 2022), by its own command.

Its package wants older libraries than mtkit, so it lives in an environment of its own.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from mtkit.errors import MtkitError, UserError
from mtkit.report import say
from mtkit.scoring.metrics import Score

COMET = "comet"
COMMAND = "comet-score"
MODEL = "Unbabel/wmt22-comet-da"
ANSWER = re.compile(r"^(.*)\tscore: (-?\d+(?:\.\d+)?)$", re.MULTILINE)
"""A file and its score, where that is a finite number."""


def check_comet() -> None:
    """Raises UserError where it is not installed."""
    if which(COMMAND) is None:
        raise UserError(
            f"--comet: no {COMMAND} on the PATH: install it with `pipx install unbabel-comet`"
        )


def comet(
    systems: Mapping[str, Sequence[str]], references: Sequence[str], sources: Sequence[str]
) -> dict[str, dict[str, Score]]:
    """By system, its score under the key COMET: about 0 to 1; the model is downloaded on first use.

    Raises MtkitError where the command fails, or a score is no finite number.
    """
    with TemporaryDirectory(prefix="mtkit-comet-") as folder:

        def written(name: str, lines: Sequence[str]) -> str:
            """The path of a new file of these lines.

            A carriage return becomes a space: the command would end a line there.
            """
            path = Path(folder, name)
            text = "".join(f"{line.replace(chr(13), ' ')}\n" for line in lines)
            path.write_text(text, encoding="utf-8", newline="\n")
            return str(path)

        paths = [written(f"hypotheses.{i}", texts) for i, texts in enumerate(systems.values())]
        command = [COMMAND, "--quiet", "--only_system", "--model", MODEL]
        command += ["-s", written("sources", sources), "-r", written("references", references)]
        say(f"COMET: {MODEL}")
        process = subprocess.run([*command, "-t", *paths], capture_output=True, text=True)
    found = dict(ANSWER.findall(process.stdout))
    if process.returncode or found.keys() != set(paths):
        said = process.stderr.strip() or process.stdout.strip() or "it says nothing"
        raise MtkitError(f"--comet: {COMMAND} failed: {said.splitlines()[-1]}")
    return {
        system: {COMET: Score("COMET", float(found[path]), f"model:{MODEL}", digits=4)}
        for system, path in zip(systems, paths, strict=True)
    }
