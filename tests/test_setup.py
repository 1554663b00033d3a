"""What a fresh clone needs: the installed package, version bounds and pins, make targets."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata, resources
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import mtkit
import write_synthetic

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
(LISTED,) = re.findall(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)
PINS = {
    canonicalize_name(name): version
    for name, _, version in (
        line.partition("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    )
}
REQUIREMENTS = [
    Requirement(text)
    for texts in (
        PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"].values(),
    )
    for text in texts
]


def test_the_demo_is_installed_with_the_package() -> None:
    demo = resources.files("mtkit.demo")
    for name in ("train.en", "train.ko", "valid.en", "valid.ko", "test.en", "test.ko", "demo.yaml"):
        assert (demo / name).is_file()
    assert Path(str(demo)).resolve() == ROOT / "mtkit/demo"


def test_python_finds_the_installed_package_in_the_folder_that_holds_the_clone(
    tmp_path: Path,
) -> None:
    """There, `mtkit` is also a folder without a package."""
    clone, installed = tmp_path / "mtkit", tmp_path / "installed"
    shutil.copytree(ROOT / "mtkit", clone / "mtkit", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    installed.mkdir()
    build = "import sys, setuptools.build_meta as build; build.build_editable(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", build, installed], cwd=clone, check=True, stdout=subprocess.DEVNULL
    )
    (wheel,) = installed.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(installed)
    look = (
        "import site, sys; site.addsitedir(sys.argv[1]); import mtkit, mtkit.demo; "
        "print(mtkit.__file__, mtkit.demo.__file__, mtkit.__version__)"
    )
    # Without site-packages (-S), where the package of this checkout is installed.
    found = subprocess.check_output(
        [sys.executable, "-S", "-c", look, installed], cwd=tmp_path, env={}, text=True
    )
    package, demo, *_ = found.split()
    assert Path(package) == clone / "mtkit/__init__.py"
    assert Path(demo) == clone / "mtkit/demo/__init__.py"


def test_every_package_folder_is_installed() -> None:
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "mtkit").rglob("__init__.py")}
    packages = {".".join(folder.parts) for folder in folders}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == packages


def test_every_data_file_of_the_package_is_installed() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]
    listed = {
        path
        for package, names in patterns.items()
        for name in names
        for path in (ROOT / package.replace(".", "/")).glob(name)
    }
    data = {path for path in (ROOT / "mtkit").rglob("*.*") if path.suffix not in (".py", ".pyc")}
    assert {path for path in data if path.name != "README.md"} <= listed


def test_the_licence_of_every_dependency_of_users_is_listed() -> None:
    groups = {"": PROJECT["project"]["dependencies"]}
    groups |= PROJECT["project"]["optional-dependencies"]
    del groups["dev"]
    dependencies = {Requirement(text).name for texts in groups.values() for text in texts}
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    table = page.partition("## Dependencies and their licences")[2]
    assert dependencies <= set(re.findall(r"[\w.-]+", table))


def test_the_package_is_typed_and_has_a_version() -> None:
    assert (resources.files("mtkit") / "py.typed").is_file()
    assert metadata.version("mtkit") == mtkit.__version__


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_pins_lie_within_the_bounds(requirement: Requirement) -> None:
    pin = Version(PINS[canonicalize_name(requirement.name)])
    assert pin in requirement.specifier
    assert any(bound.operator == "<" for bound in requirement.specifier), "no upper bound"


def test_pins_are_plain_versions() -> None:
    assert all(Version(version).local is None for version in PINS.values())


def test_the_public_api_is_importable() -> None:
    for name in mtkit.__all__:
        assert getattr(mtkit, name) is not None
    assert set(mtkit.__all__) <= set(dir(mtkit))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = mtkit.nonsense


@pytest.mark.parametrize("target", LISTED.split())
def test_make_targets_parse(target: str) -> None:
    dry = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert dry.stdout


def test_files_in_the_makefile_exist() -> None:
    for path in re.findall(r"(?:tests|data|configs|\.ci)/[\w/.-]+\.(?:py|sh|yaml)\b", MAKEFILE):
        assert (ROOT / path).exists(), path


def test_multi30k_is_copied_from_a_folder(tmp_path: Path) -> None:
    names = [f"{split}.{side}" for split in ("train", "val", "test2016") for side in ("en", "de")]
    for name in names:
        (tmp_path / name).write_text(f"{name}\n", encoding="utf-8")
    dry = subprocess.run(
        ["make", "--dry-run", "multi30k", f"FROM={tmp_path}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    copy = next(line for line in dry.stdout.splitlines() if line.startswith("cp "))
    assert {Path(word).name for word in copy.split()[1:-1]} == set(names)


def test_synthetic_corpora_hold_the_best_translation_and_the_closest_to_the_reference(
    tmp_path: Path,
) -> None:
    """A translation that reached the length limit is never used; then the line is blank."""

    def translation(text: str, score: float, *, truncated: bool = False) -> dict[str, object]:
        return {"text": text, "score": score, "truncated": truncated}

    rows = [
        [translation("ein Hut", -1.0), translation("ein Hund", -2.0)],
        [translation("ein ein", -1.0, truncated=True), translation("eine Katze", -2.0)],
        [translation("nein nein", -1.0, truncated=True)],
    ]
    records = [{**row[0], "n_best": row} for row in rows]
    lines = [json.dumps(record) for record in records]
    (tmp_path / "n-best.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "references").write_text("ein Hund\neine Katze\nnein\n", encoding="utf-8")
    write_synthetic.main(tmp_path, tmp_path / "references")
    assert (tmp_path / "best.de").read_text(encoding="utf-8") == "ein Hut\n\n\n"
    assert (tmp_path / "close.de").read_text(encoding="utf-8") == "ein Hund\neine Katze\n\n"


def test_a_python_that_is_too_old_can_read_the_script_that_says_so() -> None:
    ast.parse((ROOT / ".ci/bootstrap.py").read_text(encoding="utf-8"), feature_version=(3, 7))


def test_continuous_integration_runs_check_and_test() -> None:
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").splitlines()[-2:] == ["make check", "make test"]
