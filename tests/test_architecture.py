"""Rules that the source of the whole package keeps: imports, sizes, names, dependencies."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import cast

import pytest

from mtkit import plugins

PACKAGE = Path(__file__).parents[1] / "mtkit"
MODULES = sorted(PACKAGE.rglob("*.py"))

FLOORS: tuple[tuple[str, ...], ...] = (
    ("errors", "arguments"),
    ("plugins", "shapes", "machine", "symbols", "prefetch", "signals"),
    ("report",),
    ("progress",),
    ("config",),
    ("artifacts",),
    ("corpus",),
    ("tokenizer",),
    ("batching",),
    ("scoring",),
    ("models",),
    ("decoding",),
    ("training",),
    ("init", "info", "guide"),
    ("evaluation",),
    ("pipeline",),
    ("cli",),
    ("", "__main__"),
    ("extras",),
)
"""Folders and modules from the ground up; "" is `mtkit` itself.

A module imports from its own entry and from lower floors.
"""

LIGHT = ["__init__", "artifacts/manifest", "report", "config/locate", "config/yaml"]
LIGHT += ["cli/main", "cli/guide", "cli/models", "cli/options", "cli/preparation", "cli/stages"]
LIGHT += [
    "info",
    "plugins",
    "training/metrics_log",
    "extras/serve/command",
    "extras/study/commands",
]
LIGHT += ["extras/study/bench/commands", "extras/study/curves"]
"""Files that import nothing heavy, so that light commands start fast."""
MAX_CORE_LINES = 18_140
"""Largest number of lines of code outside of extras; the aim is 14,000."""
COMMAND_MODULES = {"extras.serve.command", "extras.study.commands", "extras.study.bench.commands"}
"""Modules of extras that define commands, as those of `cli` do."""
HEAVY = {"torch", "numpy", "datasets", "sentencepiece", "sacrebleu", "sacremoses", "safetensors"}
HEAVY |= {"rich"}


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path, *, at_top: bool = False) -> Iterator[str]:
    """Return the dotted names of the modules that a file imports."""
    for node in parse(path).body if at_top else ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            module = node.module or ""
            for alias in node.names:
                yield f"{module}.{alias.name}" if is_module(module, alias.name) else module


def is_module(package: str, name: str) -> bool:
    place = PACKAGE.parent.joinpath(*package.split("."), name)
    return package.split(".")[0] == "mtkit" and (
        place.with_suffix(".py").exists() or (place / "__init__.py").exists()
    )


def name_of(path: Path) -> str:
    inside = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(inside[:-1] if inside[-1] == "__init__" else inside)


def room_of(name: str) -> tuple[int, str]:
    """Return the floor and the entry in FLOORS of a module."""
    rooms = ((floor, room) for floor, rooms in enumerate(FLOORS) for room in rooms)
    inside = [(floor, room) for floor, room in rooms if f"{name}.".startswith(f"{room}.")]
    return max(inside, key=lambda place: len(place[1]), default=(len(FLOORS) - 1, ""))


def own_imports(path: Path) -> set[str]:
    """Return the modules of mtkit that a file imports, as names below `mtkit`."""
    names = {name for name in imports(path) if name.split(".")[0] == "mtkit"}
    return {name.partition(".")[2] for name in names}


def test_no_import_runs_upward() -> None:
    for path in MODULES:
        floor, room = room_of(name_of(path))
        for name in own_imports(path):
            below, other = room_of(name)
            assert other == room or below < floor, f"{name_of(path)} imports {name}"


def extra_of(name: str) -> str | None:
    """Return the extra of a module; None if it is a module of the core."""
    room, _, inside = name.partition(".")
    return inside.partition(".")[0] if room == "extras" else None


def test_an_extra_imports_no_other_extra() -> None:
    """And `FLOORS` says that the core imports none."""
    for path in MODULES:
        extra = extra_of(name_of(path))
        for name in own_imports(path):
            assert extra is None or extra_of(name) in (None, extra), f"{path} imports {name}"


def lines_of_code(path: Path) -> int:
    """Return the number of lines that are neither blank, nor comments, nor docstrings."""
    text = path.read_text(encoding="utf-8")
    left_out: set[int] = set()
    for node in ast.walk(parse(path)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                left_out.update(range(node.lineno, (node.end_lineno or 0) + 1))
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in left_out
        for number, line in enumerate(text.splitlines(), start=1)
    )


def test_the_core_does_not_grow() -> None:
    """A new ability is an extra, or replaces something. Lower the limit when the core shrinks."""
    core = [path for path in MODULES if extra_of(name_of(path)) is None]
    assert sum(map(lines_of_code, core)) <= MAX_CORE_LINES


def test_each_entry_point_leads_to_something() -> None:
    text = (PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8")
    groups = tomllib.loads(text)["project"]["entry-points"]
    for group, names in groups.items():
        found = plugins.find_plugins(cast(plugins.PluginGroup, group.removeprefix("mtkit.")))
        assert {name: point.value for name, point in found.items()} == names
        for name in names:
            plugins.load_plugin(cast(plugins.PluginGroup, group.removeprefix("mtkit.")), name)


def test_imports_form_no_cycle() -> None:
    waiting = {name_of(path): own_imports(path) for path in MODULES}
    while ready := {name for name, needed in waiting.items() if not needed & waiting.keys()}:
        waiting = {name: needed for name, needed in waiting.items() if name not in ready}
    assert not waiting, f"cycles among {sorted(waiting)}"


def test_an_init_file_holds_only_a_docstring() -> None:
    for folder in {path.parent for path in MODULES} - {PACKAGE}:
        body = parse(folder / "__init__.py").body
        assert len(body) == 1 and isinstance(body[0], ast.Expr), folder


def test_the_top_of_the_package_has_the_four_stages() -> None:
    entries = {entry.name for entry in PACKAGE.iterdir()}
    assert {"tokenizer", "batching", "training", "decoding"} <= entries


def public_names(path: Path) -> Iterator[str]:
    """Return the public names that a module defines: classes, functions and constants."""
    for node in parse(path).body:
        names = []
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            inner = [it for it in ast.walk(node) if isinstance(it, ast.Name)]
            names = [it.id for it in inner if isinstance(it.ctx, ast.Store)]
        yield from (name for name in names if not name.startswith("_"))


def test_no_public_name_is_defined_in_two_modules() -> None:
    homes = defaultdict(list)
    for path in MODULES:
        if "typer" not in set(imports(path)):  # commands are named as what they call
            for name in set(public_names(path)):
                homes[name].append(name_of(path))
    twice = {name: modules for name, modules in homes.items() if len(modules) > 1}
    assert twice == {}


@pytest.mark.parametrize("stage", ["tokenizer.train_spm", "batching.build", "scoring.score"])
def test_stages_without_tensors_do_not_import_torch(stage: str) -> None:
    code = f"import sys, mtkit.{stage}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_only_report_prints_and_only_cli_imports_typer() -> None:
    for path in MODULES:
        packages = {name.split(".")[0] for name in imports(path)}
        room = room_of(name_of(path))[1]
        assert "rich" not in packages or room in ("report", "progress", "cli"), path
        assert "typer" not in packages or room == "cli" or name_of(path) in COMMAND_MODULES, path
        is_server = extra_of(name_of(path)) == "serve"
        assert is_server or not packages & {"starlette", "uvicorn"}, path
        assert "click" not in packages, path
        calls = {node.id for node in ast.walk(parse(path)) if isinstance(node, ast.Name)}
        assert "print" not in calls, path


@pytest.mark.parametrize("name", LIGHT)
def test_light_modules_import_nothing_heavy(name: str) -> None:
    top = {module.split(".")[0] for module in imports(PACKAGE / f"{name}.py", at_top=True)}
    assert not top & HEAVY


def test_nothing_is_loaded_by_pickle() -> None:
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        assert not {"pickle", "dill", "shelve"} & set(imports(path)), path
        assert "joblib.load" not in text, path
        assert "torch.load(" not in text or "weights_only=True" in text, path
        assert "allow_pickle=True" not in text, path


def test_the_package_can_be_imported_without_its_extras() -> None:
    """What only some commands need is imported by them, when they need it."""
    for path in MODULES:
        at_top = {name.split(".")[0] for name in imports(path, at_top=True)}
        assert not at_top & {"matplotlib", "tensorboard"}, path


def packages_of(requirements: Iterable[str]) -> set[str]:
    return {re.split(r"[^\w-]", requirement)[0].lower() for requirement in requirements}


def test_every_third_party_import_is_a_declared_dependency() -> None:
    text = (PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    declared = packages_of(project["dependencies"])
    extras = project["optional-dependencies"].keys() - {"dev"}
    for extra in extras:
        declared |= packages_of(project["optional-dependencies"][extra])
    # Torch brings Triton for the GPUs that need it.
    used = {name.split(".")[0] for path in MODULES for name in imports(path)}
    # Python 3.14 has `compression`; before, `backports.zstd` stands in for it.
    for name in used - {"mtkit", "__future__", "triton", "compression"} - sys.stdlib_module_names:
        names = {"yaml": "pyyaml", "pydantic_core": "pydantic", "markdown_it": "markdown-it-py"}
        package = names.get(name, name)
        assert package.replace("_", "-") in declared


PREDICATES_OF_STR = {"isalpha", "isalnum", "islower", "isupper", "istitle", "isspace"}
PREDICATES_OF_STR |= {"isdigit", "isdecimal", "isnumeric", "isprintable"}
ROOMS_OF_TEXT = ("corpus", "tokenizer", "batching", "scoring", "decoding", "init", "extras")


def test_text_is_judged_by_one_module_of_predicates() -> None:
    for path in MODULES:
        name = name_of(path)
        if room_of(name)[1] in ROOMS_OF_TEXT and name != "corpus.characters":
            nodes = [node for node in ast.walk(parse(path)) if isinstance(node, ast.Attribute)]
            used = PREDICATES_OF_STR.intersection(node.attr for node in nodes)
            assert not used, f"{name} uses {used}: use mtkit.corpus.characters"
            is_titled = any(node.attr == "title" for node in nodes)
            assert not is_titled or room_of(name)[1] != "decoding", name
