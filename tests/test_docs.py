"""What the documentation says is true: commands parse, configs load, links and files exist."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

import mtkit
from mtkit.cli.main import main
from mtkit.config.yaml import load_config

ROOT = Path(__file__).parents[1]
PATHS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "mtkit/guide").glob("[a-z]*.md")),
    *(p for top in ("data", "mtkit", "tests") for p in (ROOT / top).rglob("README.md")),
]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in PATHS}
README = TEXTS["README.md"]
PACKAGES = [*(ROOT / "mtkit").glob("*/__init__.py"), *(ROOT / "mtkit/extras").glob("*/__init__.py")]
FOLDERS = sorted(path.parent for path in PACKAGES)


def blocks(language: str) -> list[str]:
    fence = rf"^```{language}\n(.*?)^```$"
    matches = (re.findall(fence, text, re.MULTILINE | re.DOTALL) for text in TEXTS.values())
    return [block for each in matches for block in each]


def commands(program: str) -> list[list[str]]:
    """Return the words of each use of a program in the shell blocks."""
    lines = "".join(blocks("sh")).replace("\\\n", " ").splitlines()
    matches = [re.search(rf"(?:^|\| ){program}\b([^#<>|]*)", line) for line in lines]
    return [shlex.split(match[1]) for match in matches if match]


def test_the_first_screen_of_the_readme_has_the_two_commands() -> None:
    assert [words[0] for words in commands("make")[:2]] == ["demo", "test"]
    assert README.index("make test") < 1500


def test_make_commands_are_targets() -> None:
    for words in commands("make"):
        dry = subprocess.run(["make", "-n", *words], cwd=ROOT, capture_output=True, text=True)
        assert dry.returncode == 0, dry.stderr


def test_mtkit_commands_parse(capsys: pytest.CaptureFixture[str]) -> None:
    for words in commands("mtkit"):
        with pytest.raises(SystemExit) as ended:
            main([*words, "--help"])
        assert ended.value.code == 0, words
        assert f"Usage: mtkit {words[0]}" in capsys.readouterr().out


def test_every_override_that_is_shown_holds() -> None:
    lines = [line for text in TEXTS.values() for line in text.replace("\\\n", " ").split("\n")]
    shown = [line for line in lines if "--set " in line]
    assert shown
    for line in shown:
        config = re.search(r"-c (configs/\S+\.yaml)", line)
        path = ROOT / (config[1] if config else "configs/transformer-base.yaml")
        load_config(path, re.findall(r"--set (\S+=[^\s`]+)", line))


@pytest.mark.parametrize("text", [text for text in blocks("yaml") if text.startswith("run:")])
def test_configs_that_are_shown_load(text: str, tmp_path: Path) -> None:
    (tmp_path / "mtkit.yaml").write_text(text, encoding="utf-8")
    assert load_config(tmp_path / "mtkit.yaml").run.startswith("runs/")


def test_the_python_that_is_shown_uses_public_names() -> None:
    for block in blocks("python"):
        assert set(re.findall(r"\bmtkit\.(\w+)\(", block)) <= set(mtkit.__all__)


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a text, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", TEXTS)
def test_links_and_named_files_exist(name: str) -> None:
    here = (ROOT / name).parent
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", TEXTS[name]):
        if not target.startswith("https://"):
            path = here / target if target else ROOT / name
            assert path.exists(), target
            assert not anchor or anchor in anchors(path.read_text(encoding="utf-8")), anchor
    for named in re.findall(r"`((?:mtkit|tests|data|configs)/[\w/.]+)`", TEXTS[name]):
        assert (ROOT / named).exists(), named
    files = {path.name for path in here.rglob("*.py")}
    for file in re.findall(r"`(\w+\.py)`", TEXTS[name]):
        assert file in files, file


def test_the_tree_has_a_line_for_each_folder_of_the_package() -> None:
    tree = TEXTS["CONTRIBUTING.md"].partition("## Where things are\n\n```\n")[2].partition("```")[0]
    listed = [line.split()[0] for line in tree.splitlines() if line.startswith("  ")]
    folders = {f"{path.parent.name}/" for path in (ROOT / "mtkit").glob("*/__init__.py")}
    assert sorted(listed) == sorted(folders)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_readme_of_a_folder_has_a_line_for_each_file(folder: Path) -> None:
    lines = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    for file in {path.name for path in folder.glob("*.py")} - {"__init__.py"}:
        assert any(f"`{file}`" in line for line in lines), file
