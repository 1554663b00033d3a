"""What the READMEs say is so: their commands parse, their configs load, their map is the tree."""

from __future__ import annotations

import ast
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
    *(p for top in ("data", "mtkit", "tests") for p in (ROOT / top).rglob("README.md")),
]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in PATHS}
README = TEXTS["README.md"]


def blocks(language: str) -> list[str]:
    fence = rf"^```{language}\n(.*?)^```$"
    found = (re.findall(fence, text, re.MULTILINE | re.DOTALL) for text in TEXTS.values())
    return [block for each in found for block in each]


def commands(program: str) -> list[list[str]]:
    """Words of each use of a program in the shell blocks, up to a comment or redirection."""
    lines = "".join(blocks("sh")).splitlines()
    found = [re.search(rf"(?:^|\| ){program}\b([^#<>|]*)", line) for line in lines]
    return [shlex.split(match[1]) for match in found if match]


def test_the_readme_is_short_and_its_first_screen_has_the_two_commands() -> None:
    assert len(README.splitlines()) <= 160
    assert [words[0] for words in commands("make")[:2]] == ["demo", "test"]
    assert README.index("make test") < 1500


@pytest.mark.parametrize("words", commands("make"), ids=" ".join)
def test_make_commands_are_targets(words: list[str]) -> None:
    dry = subprocess.run(["make", "--dry-run", *words], cwd=ROOT, capture_output=True, text=True)
    assert dry.returncode == 0, dry.stderr


@pytest.mark.parametrize("words", commands("mtkit"), ids=" ".join)
def test_mtkit_commands_parse(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    assert f"Usage: mtkit {words[0]}" in capsys.readouterr().out


def test_every_override_that_is_shown_holds() -> None:
    shown = [line for text in TEXTS.values() for line in text.split("\n") if "--set " in line]
    assert shown
    for line in shown:
        config = re.search(r"-c (configs/\S+\.yaml)", line)
        path = ROOT / (config[1] if config else "configs/transformer-base.yaml")
        for override in re.findall(r"--set (\S+=[^\s`]+)", line):
            load_config(path, [override])


@pytest.mark.parametrize("text", [text for text in blocks("yaml") if text.startswith("run:")])
def test_configs_that_are_shown_load(text: str, tmp_path: Path) -> None:
    (tmp_path / "mtkit.yaml").write_text(text, encoding="utf-8")
    assert load_config(tmp_path / "mtkit.yaml").run.startswith("runs/")


def test_the_python_that_is_shown_uses_what_there_is() -> None:
    for block in blocks("python"):
        used = {
            node.attr
            for node in ast.walk(ast.parse(block))
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "mtkit"
        }
        assert used <= set(mtkit.__all__)


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", TEXTS[name]):
        assert target.startswith("https://") or (ROOT / name).parent.joinpath(target).exists(), (
            target
        )
    for path in re.findall(r"`((?:mtkit|tests|data|configs)/[\w/.]+)`", TEXTS[name]):
        assert (ROOT / path).exists(), path
    here = {path.name for path in (ROOT / name).parent.rglob("*.py")}
    for file in re.findall(r"`(\w+\.py)`", TEXTS[name]):
        assert file in here, file


def test_the_map_lists_exactly_the_folders_of_the_package() -> None:
    tree = README.partition("## Where things are\n\n```\n")[2].partition("```")[0]
    listed = dict(line.split(maxsplit=1) for line in tree.splitlines() if line.startswith("  "))
    folders = {f"{path.parent.name}/" for path in (ROOT / "mtkit").glob("*/__init__.py")}
    assert set(listed) == folders
