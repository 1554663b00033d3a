"""Who may import whom, and who may print: read from the source, so that no branch is missed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "mtkit"
MODULES = sorted(PACKAGE.rglob("*.py"))

FLOORS: tuple[tuple[str, ...], ...] = (
    ("errors", "terms", "machine", "symbols", "pace", "prefetch"),
    ("report",),
    ("artifacts.storage",),
    ("artifacts.manifest",),
    ("config",),
    ("artifacts",),
    ("corpus", "study.plots"),
    ("tokenizer",),
    ("batching", "scoring", "models"),
    ("decoding",),
    ("training",),
    ("formats", "pipeline"),
    ("study",),
    ("cli",),
    ("", "__main__"),
)
"""The rooms of the house from the ground up; "" is `mtkit` itself. A module stands in the room that
names it most exactly, and may import from its own room and from any floor below.
"""

UPWARD = {("config.yaml", "artifacts.runs"), ("corpus.findings", "batching.encode")}
"""Imports that still run upward, to be removed."""

LONGEST_FILE, LONGEST_FUNCTION = 300, 45
"""Lines."""
MOST_PARAMETERS = 8

QUICK = ["__init__", "artifacts/manifest", "report", "config/errors", "config/yaml"]
QUICK += ["cli/main", "cli/bench", "cli/corpora", "cli/options", "cli/stages", "cli/studies"]
QUICK += ["study/info/info", "study/plots/picture", "training/metrics"]
HEAVY = {"torch", "numpy", "datasets", "sentencepiece", "sacrebleu", "sacremoses", "safetensors"}


def imports(path: Path, *, at_top: bool = False) -> Iterator[str]:
    """Dotted names of the modules that a file imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if at_top else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            module = node.module or ""
            submodules = [alias.name for alias in node.names if is_module(module, alias.name)]
            yield from [f"{module}.{name}" for name in submodules] or [module]


def is_module(package: str, name: str) -> bool:
    place = PACKAGE.parent.joinpath(*package.split("."), name)
    return package.split(".")[0] == "mtkit" and (
        place.with_suffix(".py").exists() or (place / "__init__.py").exists()
    )


def name_of(path: Path) -> str:
    inside = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(inside[:-1] if inside[-1] == "__init__" else inside)


def room_of(name: str) -> tuple[int, str]:
    """Floor and name of the room where the module `name` stands."""
    rooms = ((floor, room) for floor, rooms in enumerate(FLOORS) for room in rooms)
    inside = [(floor, room) for floor, room in rooms if f"{name}.".startswith(f"{room}.")]
    return max(inside, key=lambda place: len(place[1]), default=(len(FLOORS) - 1, ""))


def own_imports(path: Path) -> set[str]:
    """Modules of mtkit that a file imports, as names below `mtkit`."""
    names = {name for name in imports(path) if name.split(".")[0] == "mtkit"}
    return {name.partition(".")[2] for name in names}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_import_runs_upward(path: Path) -> None:
    floor, room = room_of(name_of(path))
    for name in own_imports(path) - {
        above for importer, above in UPWARD if importer == name_of(path)
    }:
        below, other = room_of(name)
        assert other == room or below < floor, f"{room or 'mtkit'} imports {name} of {other}"


def test_modules_import_each_other_in_no_circle() -> None:
    waiting = {name_of(path): own_imports(path) for path in MODULES}
    while ready := {name for name, needed in waiting.items() if not needed & waiting.keys()}:
        waiting = {name: needed for name, needed in waiting.items() if name not in ready}
    assert not waiting, f"circles among {sorted(waiting)}"


@pytest.mark.parametrize("folder", sorted({path.parent for path in MODULES} - {PACKAGE}), ids=str)
def test_a_folder_says_what_it_is_for_and_holds_nothing_else_of_its_own(folder: Path) -> None:
    (only,) = ast.parse((folder / "__init__.py").read_text(encoding="utf-8")).body
    assert isinstance(only, ast.Expr), "an __init__ is a docstring; code stands in a file"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_everything_fits_on_a_screen(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= LONGEST_FILE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= LONGEST_FUNCTION, f"{node.name}: {lines} lines"
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            parameters = [argument for argument in given if argument.arg not in ("self", "cls")]
            if room_of(name_of(path))[1] != "cli":  # whose parameters are what --help lists
                assert len(parameters) <= MOST_PARAMETERS, f"{node.name}: {len(parameters)}"


def test_the_top_of_the_house_reads_as_the_mission() -> None:
    there = [entry for entry in PACKAGE.iterdir() if entry.name != "__pycache__"]
    assert sum(entry.is_dir() for entry in there) <= 12
    assert sum(entry.is_file() for entry in there) <= 11
    assert {"tokenizer", "batching", "training", "decoding"} <= {entry.name for entry in there}


@pytest.mark.parametrize("stage", ["tokenizer.train", "batching.build", "scoring.score"])
def test_stages_that_compute_no_tensors_do_not_wait_for_torch(stage: str) -> None:
    code = f"import sys, mtkit.{stage}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_report_prints_and_only_the_console_knows_rich_and_typer(path: Path) -> None:
    packages = {name.split(".")[0] for name in imports(path)}
    assert "rich" not in packages or name_of(path) == "report"
    assert "typer" not in packages or room_of(name_of(path))[1] == "cli"
    assert "click" not in packages
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        assert not (isinstance(node, ast.Name) and node.id == "print"), f"{path}: print"


@pytest.mark.parametrize("name", QUICK)
def test_heavy_libraries_wait_until_they_are_needed(name: str) -> None:
    top = {module.split(".")[0] for module in imports(PACKAGE / f"{name}.py", at_top=True)}
    assert not top & (HEAVY | {"rich"})


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_is_loaded_by_pickle(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not {"pickle", "dill", "joblib", "shelve"} & set(imports(path))
    assert "torch.load(" not in text or "weights_only=True" in text
    assert "allow_pickle=True" not in text


def test_every_third_party_import_is_a_declared_dependency() -> None:
    text = (PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["tensorboard"]]
    declared = {re.split(r"[^\w-]", it)[0].lower() for it in needed}
    used = {name.split(".")[0] for path in MODULES for name in imports(path)}
    for name in used - {"mtkit", "__future__"} - sys.stdlib_module_names:
        assert {"yaml": "pyyaml"}.get(name, name).replace("_", "-") in declared
