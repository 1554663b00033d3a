"""Does what `mtkit init` forecasts come about?

For each corpus, number of its first pairs and number of minutes: `mtkit init`, then `mtkit run`, on
an idle machine. Predicted minutes beside those that the whole run took, and after the first tenth
of training, and in its middle, the time that it said was left beside the time that was.

    python tests/benchmarks/forecast.py [SOURCE:TARGET ...] --minutes 1 5 --pairs 3000 20000
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from itertools import islice, product
from pathlib import Path
from tempfile import TemporaryDirectory

from mtkit.corpus.files import read_lines
from mtkit.report import table

PARTS = (0.1, 0.5)
SHOWN = re.compile(r"train: ([\d,]+)/([\d,]+) steps .*?(\d+):(\d+):(\d+) left")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="*", default=["demo:train.en:demo:train.ko"])
    parser.add_argument("--minutes", type=float, nargs="+", default=[1.0, 5.0])
    parser.add_argument("--pairs", type=int, nargs="+", default=[3000, 20_000])
    asked = parser.parse_args()
    rows = [["corpus", "pairs", "minutes", "predicted", "actual", "ratio", "at a tenth", "halfway"]]
    for corpus, pairs, minutes in product(asked.corpora, asked.pairs, asked.minutes):
        with TemporaryDirectory() as folder:
            figures = measure(corpus, pairs, minutes, Path(folder))
        rows.append([corpus, f"{pairs:,}", f"{minutes:g}", *figures])
        print(*table(rows), sep="\n", flush=True)


def measure(corpus: str, pairs: int, minutes: float, folder: Path) -> list[str]:
    """Predicted and actual minutes, their ratio, and that of the time left, said and actual."""
    for side, path in zip("ab", split(corpus), strict=True):
        lines = islice(read_lines(path), pairs)
        (folder / side).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    asked = mtkit("init", "a", "b", "--minutes", f"{minutes:g}")
    said = subprocess.run(asked, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = re.search(r"^in all\s+([\d.]+)$", said, re.MULTILINE)
    assert found, said
    began = time.perf_counter()
    said_left: dict[float, tuple[float, float]] = {}
    pipe = subprocess.PIPE
    with subprocess.Popen(mtkit("run"), cwd=folder, stderr=pipe, text=True) as running:
        for line in running.stderr or ():
            if shown := SHOWN.search(line):
                done, total, *clock = (int(part.replace(",", "")) for part in shown.groups())
                seconds = sum(60**place * part for place, part in enumerate(reversed(clock)))
                now = time.perf_counter()
                ended = now + seconds
                for part in PARTS:
                    if done >= part * total:
                        said_left.setdefault(part, (now, seconds))
            else:
                sys.stderr.write(line)
    assert running.returncode == 0
    actual = (time.perf_counter() - began) / 60
    predicted = float(found[1])
    left = [seconds / max(1.0, ended - then) for then, seconds in said_left.values()]
    ratios = [f"{ratio:.2f}" for ratio in (predicted / actual, *left)]
    return [f"{predicted:.1f}", f"{actual:.1f}", *(ratios + len(PARTS) * ["-"])[: 1 + len(PARTS)]]


def split(corpus: str) -> tuple[str, str]:
    """The two paths of SOURCE:TARGET, either of which may begin with demo:."""
    found = re.fullmatch(r"((?:demo:)?[^:]+):((?:demo:)?[^:]+)", corpus)
    if found is None:
        sys.exit(f"{corpus}: SOURCE:TARGET is expected")
    return found[1], found[2]


def mtkit(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "mtkit", *arguments]


if __name__ == "__main__":
    main()
