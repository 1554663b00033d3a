"""Do the tests bite? Lines drawn at random are deleted or negated, one at a time, in a copy.

    python tests/benchmarks/mutants.py [--count 60] [--seed 1]

The lines stand inside functions of the files that everybody opens first and of the stages' cores. A
condition is negated; another line is deleted. Each mutant meets the quick tests, those of its own
room first, and what survives meets the slow ones too. Survivors are shown: some mean the same as
the sound line (a faster path, a message), the others are laws that no test states.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORES = ("batching/*.py", "decoding/*.py", "models/*.py", "tokenizer/*.py", "training/*.py")
"""Patterns of files in the package from which lines are drawn."""
TREE = ("mtkit", "tests", "data", "configs", "pyproject.toml")
"""What the tests need of the repository, but for those of set-up and README."""
OTHERS = ("tests/test_setup.py", "tests/test_docs.py")
MARKERS = {"quick": "not slow and not campaign", "slow": "slow and not campaign"}
NONE_MARKED = 5
"""pytest's exit code where no test has the marker."""
PATIENCE = 5
"""How many times as long as the sound code's a run of tests may take; what hangs is noticed."""


@dataclass(frozen=True)
class Mutant:
    """A file with one line changed."""

    path: Path
    """Below the root of the repository."""
    line: int
    sound: str
    changed: str
    text: str
    """All of the file."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.sound.strip()}  ->  {self.changed.strip()}"


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of a file that can be made."""
    text = path.read_text(encoding="utf-8")
    functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
    inside = {id(node): node for function in functions for node in ast.walk(function)}
    for node in inside.values():
        match node:
            case ast.If() | ast.While() | ast.IfExp() | ast.Assert():
                yield _changed(path, text, node.test, "not ({})")
            case ast.Expr(value=ast.Constant()):  # a docstring
                pass
            case ast.Assign() | ast.AugAssign() | ast.Expr() | ast.Return() | ast.Raise():
                yield _changed(path, text, node, "pass")
            case ast.Continue() | ast.Break():
                yield _changed(path, text, node, "pass")


def _changed(path: Path, text: str, node: ast.expr | ast.stmt, form: str) -> Mutant:
    """`node` replaced by `form`, which may hold the source of the node."""
    source = ast.get_source_segment(text, node) or ""
    lines = text.encode().splitlines(keepends=True)
    assert node.end_lineno is not None
    before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    last = lines[node.end_lineno - 1][node.end_col_offset :]
    after = last + b"".join(lines[node.end_lineno :])
    changed = form.format(source)
    return Mutant(
        path.relative_to(ROOT),
        node.lineno,
        " ".join(source.split()),
        " ".join(changed.split()),
        (before + changed.encode() + after).decode(),
    )


def draw(count: int, seed: int) -> list[Mutant]:
    """So many mutants, each line as likely as any other."""
    paths = [path for pattern in CORES for path in sorted((ROOT / "mtkit").glob(pattern))]
    return random.Random(seed).sample([m for path in paths for m in mutants_of(path)], count)


def noticed(tree: Path, marker: str, limit_s: float | None = None, folder: str = "tests") -> bool:
    """Whether one of the marked tests in that folder of `tree` fails, or hangs."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", marker, "-p", "no:cacheprovider"]
    if folder == "tests":  # a single room is done before workers are there
        command += ["-n", "auto", "--maxprocesses", "4", "--dist", "loadfile"]
    tests = subprocess.Popen(
        [*command, folder, *(f"--ignore={name}" for name in OTHERS)],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return tests.wait(limit_s) not in (0, NONE_MARKED)
    except subprocess.TimeoutExpired:
        os.killpg(tests.pid, signal.SIGKILL)
        tests.wait()
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in TREE:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            copy(ROOT / name, tree / name)
        limits = {}
        for name, marker in MARKERS.items():
            began = time.monotonic()
            if noticed(tree, marker):
                sys.exit(f"the {name} tests fail on the sound code")
            limits[name] = PATIENCE * (time.monotonic() - began)
        fates: Counter[str] = Counter()
        for mutant in draw(options.count, options.seed):
            sound = (tree / mutant.path).read_text(encoding="utf-8")
            (tree / mutant.path).write_text(mutant.text, encoding="utf-8")
            tries = product(MARKERS, (f"tests/{mutant.path.parts[1]}", "tests"))
            by = (name for name, room in tries if noticed(tree, MARKERS[name], limits[name], room))
            fates[fate := next(by, "survived")] += 1
            print(f"{fate:8}  {mutant}", flush=True)
            (tree / mutant.path).write_text(sound, encoding="utf-8")
    quick, all_of_them = fates["quick"], fates["quick"] + fates["slow"]
    print(f"of {options.count} mutants the quick tests notice {quick}, all tests {all_of_them}")


if __name__ == "__main__":
    main()
