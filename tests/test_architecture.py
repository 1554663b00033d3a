"""Who may import whom, and who may print: read from the source, so that no branch is missed."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "mtkit"
MODULES = sorted(PACKAGE.rglob("*.py"))

GROUND = {"artifacts", "config", "errors", "report", "symbols"}
MAY_IMPORT = {
    "errors": set(),
    "config": set(),
    "symbols": set(),
    "terms": {"symbols"},
    "report": set(),
    "artifacts": {"", "errors"},
    "lock": {"artifacts", "config", "configfile", "errors"},
    "device": {"errors"},
    "complaints": {"config"},
    "configfile": {"artifacts", "complaints", "config", "errors", "report"},
    "info": GROUND | {"batching", "configfile", "decoding", "models", "plots", "training"},
    "models": {"config", "errors", "symbols", "terms"},
    "corpus": GROUND,
    "tokenizer": GROUND | {"corpus", "lock"},
    "batching": GROUND | {"corpus", "lock", "tokenizer"},
    "plots": {"errors", "report"},
    "scoring": GROUND | {"plots", "table"},
    "table": set(),
    "alignment": set(),
    "decoding": GROUND | {"alignment", "device", "models", "terms", "tokenizer"},
    "training": GROUND
    | {"batching", "configfile", "decoding", "device", "lock", "models", "scoring", "terms"}
    | {"tokenizer"},
    "bench": GROUND
    | {"", "batching", "configfile", "decoding", "device", "models", "plots", "scoring", "table"}
    | {"tokenizer", "training"},
    "attend": GROUND | {"alignment", "decoding", "models", "plots", "table", "terms", "tokenizer"},
    "compare": GROUND | {"configfile", "info", "plots", "scoring", "table"},
    "export": GROUND | {"batching", "configfile", "decoding", "scoring", "table", "tokenizer"},
    "pipeline": GROUND
    | {"batching", "corpus", "decoding", "lock", "scoring", "tokenizer", "training"},
    "cli": {
        "",
        "attend",
        "batching",
        "bench",
        "compare",
        "config",
        "configfile",
        "decoding",
        "errors",
        "export",
        "info",
    }
    | {"pipeline", "report", "scoring", "tokenizer", "training"},
    "": {"configfile", "decoding", "pipeline", "training"},
    "__main__": {"cli"},
}
"""Part of the package → parts it may import; "" is `mtkit` itself."""

QUICK = ["__init__", "artifacts", "complaints", "config", "configfile", "report"]
QUICK += ["cli/__init__", "cli/bench", "cli/commands", "cli/options"]
QUICK += ["info/__init__", "info/describe"]
QUICK += ["plots/__init__", "plots/picture"]
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
    return package == "mtkit" and any(
        path.exists() for path in (PACKAGE / f"{name}.py", PACKAGE / name / "__init__.py")
    )


def part_of(path: Path) -> str:
    inside = path.relative_to(PACKAGE).with_suffix("").parts
    return "" if inside == ("__init__",) else inside[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    own = part_of(path)
    parts = {(*name.split("."), "")[1] for name in imports(path) if name.split(".")[0] == "mtkit"}
    assert parts <= MAY_IMPORT[own] | {own}


@pytest.mark.parametrize("stage", ["tokenizer", "batching", "scoring"])
def test_stages_that_compute_no_tensors_do_not_wait_for_torch(stage: str) -> None:
    code = f"import sys, mtkit.{stage}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_report_prints_and_only_the_console_knows_rich_and_typer(path: Path) -> None:
    packages = {name.split(".")[0] for name in imports(path)}
    assert "rich" not in packages or part_of(path) == "report"
    assert "typer" not in packages or part_of(path) == "cli"
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
    declared = (PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8").lower()
    used = {name.split(".")[0] for path in MODULES for name in imports(path)}
    for name in used - {"mtkit", "__future__"} - sys.stdlib_module_names:
        assert {"yaml": "pyyaml"}.get(name, name).replace("_", "-") in declared
