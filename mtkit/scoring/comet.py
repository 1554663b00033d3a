"""COMET (Rei et al. 2020, 2022), by its own command.

Its package needs older libraries than mtkit, so it lives in an environment of its own.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from mtkit.errors import MtkitError
from mtkit.report import say
from mtkit.scoring.metrics import Score

COMET = "comet"
COMET_COMMAND = "comet-score"
COMET_MODEL = "Unbabel/wmt22-comet-da"

_SCORE_LINE = re.compile(r"^(.*)\tscore: (-?\d+(?:\.\d+)?)$", re.MULTILINE)


def score_with_comet(
    systems: Mapping[str, Sequence[str]], references: Sequence[str], sources: Sequence[str]
) -> dict[str, dict[str, Score]]:
    """Return each system's score under the key COMET, about 0 to 1.

    The first use downloads the model.

    Raises:
        MtkitError: the command fails, or a score is not a finite number.
    """
    with TemporaryDirectory(prefix="mtkit-comet-") as folder:
        texts = {"sources": sources, "references": references}
        texts |= {f"hypotheses.{i}": lines for i, lines in enumerate(systems.values())}
        for name, lines in texts.items():
            # The command would end a line at a carriage return.
            text = "".join(f"{line.replace(chr(13), ' ')}\n" for line in lines)
            Path(folder, name).write_text(text, encoding="utf-8", newline="\n")
        source, reference, *paths = (f"{folder}/{name}" for name in texts)
        command = [COMET_COMMAND, "--quiet", "--only_system", "--model", COMET_MODEL]
        say(f"COMET: {COMET_MODEL}")
        process = subprocess.run(
            [*command, "-s", source, "-r", reference, "-t", *paths], capture_output=True, text=True
        )
    values = dict(_SCORE_LINE.findall(process.stdout))
    if process.returncode or values.keys() != set(paths):
        output = process.stderr.strip() or process.stdout.strip() or "it printed nothing"
        raise MtkitError(f"--comet: {COMET_COMMAND} failed: {output.splitlines()[-1]}")
    return {
        system: {COMET: Score("COMET", float(values[path]), f"model:{COMET_MODEL}", decimals=4)}
        for system, path in zip(systems, paths, strict=True)
    }
