"""The console: stdout carries data only, progress is plain lines without a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit import report
from mtkit.progress import progress


def test_everything_but_data_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("train", 3, "steps") as shown:
        for _ in range(3):
            shown.advance(note="loss 1.0")
        report.say("hello")
        report.warn("careful")
        report.data("line\n")
    captured = capsys.readouterr()
    assert captured.out == "line\n"
    assert captured.err == "hello\nwarning: careful\n"


def test_quiet_silences_all_but_warnings_and_errors(capsys: pytest.CaptureFixture[str]) -> None:
    report.set_quiet(True)
    report.say("hello")
    report.warn("careful")
    report.error("broken", None)
    assert capsys.readouterr().err == "warning: careful\nbroken\n"


def test_a_variable_of_another_program_silences_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variables in ({"RANK": "3"}, {"RANK": "3", "WORLD_SIZE": "4"}, {"RANK": "x"}):
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            report.warn("this and that")
        assert capsys.readouterr().err == "warning: this and that\n"
    report.set_follower(True)
    report.warn("this and that")
    report.set_follower(False)
    assert capsys.readouterr().err == ""


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    report.error("first\nsecond\r\n  third", None)
    assert capsys.readouterr().err == "first second third\n"


def test_control_characters_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert report.printable("한국어 e\N{COMBINING ACUTE ACCENT}\u00a0\u3000") == (
        "한국어 e\N{COMBINING ACUTE ACCENT}\u00a0\u3000"
    )
    assert report.printable("\x1b[2J\r\n\u202e\u2028\x9b") == r"\x1b[2J\r\n\u202e\u2028\x9b"
    report.warn("two\x07\nlines")
    assert capsys.readouterr().err == "warning: two\\x07\nlines\n"


def test_table_columns_are_aligned() -> None:
    rows = [["a", "1", "x"], ["long", "23", ""]]
    assert list(report.table(rows)) == ["a      1  x", "long  23"]
    assert list(report.table(rows, left=2)) == ["a     1   x", "long  23"]
    assert list(report.table([])) == []


@given(st.lists(st.text("abcd/ ", min_size=1, max_size=60), min_size=1, max_size=4))
def test_names_above_columns_are_broken_at_slashes_and_nothing_is_lost(names: list[str]) -> None:
    rows = report.header(["", "lines"], names, 20)
    assert [row[:2] for row in rows] == [["", ""]] * (len(rows) - 1) + [["", "lines"]]
    for name, cells in zip(names, list(zip(*rows, strict=True))[2:], strict=True):
        assert "".join("".join(cells).split()) == "".join(name.split())
        assert all(len(cell) <= 20 or len(cell.split("/")) <= 2 for cell in cells)
    assert report.header(["x"], ["runs/a"]) == [["x", "runs/a"]]


def test_progress_without_a_terminal_is_a_line_every_few_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("mtkit.progress.time.monotonic", lambda: now)
    with progress("encode", 30, "lines") as shown:
        for _ in range(30):
            now += 4.0
            shown.advance()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "encode: 3/30 lines  0:01:48 left"
    assert lines[-1] == "encode: 30/30 lines in 0:02:00"
    assert len(lines) == 11


def test_remaining_time_ignores_steps_before_resuming(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("mtkit.progress.time.monotonic", lambda: now)
    with progress("train", 1000, "steps") as shown:
        shown.advance(900)  # a resumed run
        for _ in range(10):
            now += 2.0
            shown.advance()
    assert "train: 910/1,000 steps  0:03:00 left" in capsys.readouterr().err


SCRIPT = """
from mtkit import report
from mtkit.progress import progress
with progress("train", 2, "steps") as shown:
    shown.advance(note="loss 1.0")
    report.say("[bold]said[/bold]")
    report.data("data\\n")
    shown.advance()
"""


def in_terminal(script: str, columns: int, **environment: str) -> tuple[bytes, bytes]:
    """Run a script with stderr on a terminal; return its stdout and what the terminal shows."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=follower,
        env=os.environ | {"TERM": "xterm", "COLUMNS": str(columns)} | environment,
    )
    os.close(follower)
    out, _ = process.communicate(timeout=600)
    shown = b""
    with open(leader, "rb", buffering=0) as terminal:
        try:
            while chunk := terminal.read(4096):
                shown += chunk
        except OSError:  # Linux says so when the other end has closed
            pass
    assert process.returncode == 0
    return out, shown


def test_a_terminal_gets_a_bar_and_stdout_stays_clean() -> None:
    out, shown = in_terminal(SCRIPT, columns=100)
    assert out == b"data\n"
    assert b"2/2 steps" in shown and b"loss 1.0" in shown
    assert b"[bold]said[/bold]" in shown


MESSAGES = """
from mtkit import report
report.say("  source  " + "나는 어제 도서관에서 " * 9)
report.warn("a.txt: [bold]" + "wonderful " * 12)
report.error("b.txt: " + "terrible " * 12, None)
"""


@pytest.mark.parametrize("columns", [40, 80, 140])
def test_a_terminal_breaks_messages_between_words(columns: int) -> None:
    _, shown = in_terminal(MESSAGES, columns, NO_COLOR="1")
    lines = shown.decode().splitlines()
    assert "\x1b" not in shown.decode()
    assert max(map(report.cell_width, lines)) <= columns
    words = {"나는", "어제", "도서관에서", "wonderful", "terrible"}
    assert {*" ".join(lines).split()} == words | {"source", "warning:", "a.txt:", "b.txt:"} | {
        "[bold]wonderful"
    }
    second = lines[1]
    assert len(second) - len(second.lstrip()) == len("  source  ")  # aligned below the text


def test_a_terminal_colours_the_start_of_warnings_and_errors() -> None:
    _, shown = in_terminal(MESSAGES, 80)
    assert b"\x1b[33mwarning:\x1b[0m" in shown
    assert b"\x1b[31mb.txt:\x1b[0m" in shown


def test_a_command_is_kept_on_one_line_however_long() -> None:
    command = "mtkit score -r runs/small/test/reference.txt runs/small/test/hypotheses.txt"
    assert report.wrap(f"to see the worst: {command}") == ["to see the worst:", command]
    longer = f"{command} --source runs/small/test/source.txt --worst 5"
    assert report.wrap(f"to see the worst: {longer}")[1] == longer
    assert report.wrap("a file; `mtkit check` shows it", cells=20)[1] == "`mtkit check` shows"


@given(st.text(), st.text(max_size=9), st.integers(20, 100))
def test_wrapping_keeps_every_character_but_spaces(text: str, label: str, cells: int) -> None:
    text, label = report.printable(text), report.printable(label)
    lines = report.wrap(text, label, cells)
    assert "".join("".join(lines).split()) == "".join((label + text).split())
    for line in lines:
        is_whole = " " not in line[len(label) :].strip() or "`" in line or "mtkit" in line
        assert report.cell_width(line) <= cells or is_whole


LONG = """
from mtkit.progress import progress
with progress("train", 300_000, "steps") as shown:
    shown.count = 112_345
    type(shown).left = "1 day, 3:46:12 left"
    shown.advance(note="loss 3.352  1,355 tokens/s  lr 3.98e-04")
"""


@pytest.mark.parametrize("columns", [56, 80, 120])
def test_a_narrow_terminal_cuts_the_note_before_the_remaining_time(columns: int) -> None:
    _, shown = in_terminal(LONG, columns)
    assert b"train" in shown
    assert b"112,346/300,000 steps  1 day, 3:46:12 left" in shown


TYPED = """
from mtkit.decoding.translate import ask
while (line := ask("> ")) is not None:
    print(line, flush=True)
"""


def test_the_prompt_goes_to_stderr_if_stdout_is_not_a_terminal() -> None:
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", TYPED],
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.close(follower)
    os.write(leader, b"one\ntwo \xff\n\x04")
    out, err = process.communicate(timeout=600)
    os.close(leader)
    assert out.decode() == "one\ntwo \N{REPLACEMENT CHARACTER}\n"
    assert err == b"> > > \n"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_json_lacks_are_not_written(
    value: float, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="JSON"):
        report.show({"mean": value}, lambda record: [], as_json=True)
    assert capsys.readouterr().out == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code"), [("score -r {here} {here}", 0), ("score -r nowhere {here}", 2)]
)
def test_a_closed_stderr_changes_neither_data_nor_exit_code(arguments: str, code: int) -> None:
    reader, stderr = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "mtkit", *arguments.format(here=__file__).split()]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, check=False)
    os.close(stderr)
    assert (ended.returncode, "BLEU" in ended.stdout) == (code, code == 0)


WITH_COMMANDS = {
    "to translate: echo 'a' | mtkit translate -m x": "to translate: echo 'a' | {} translate -m x",
    "rerun `mtkit batch --run x` (or `mtkit run`)": "rerun `{} batch --run x` (or `{} run`)",
    "next: mtkit run -c a.yaml": "next: {} run -c a.yaml",
    "all: `mtkit translate -m x && mtkit score a`": "all: `{} translate -m x && {} score a`",
    "mtkit run to resume, or mtkit finish runs/x": "{} run to resume, or {} finish runs/x",
    "format 1 of mtkit, see `pip install 'mtkit[serve]'`": (
        "format 1 of mtkit, see `pip install 'mtkit[serve]'`"
    ),
}


@pytest.mark.parametrize("message", WITH_COMMANDS)
def test_printed_commands_start_the_program_as_the_user_has_started_it(
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = tmp_path / "a venv" / "bin" / "mtkit"
    script.parent.mkdir(parents=True)
    script.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    on_path = f"{script.parent}{os.pathsep}{os.environ['PATH']}"
    cases = [
        ("a venv/bin/mtkit", os.defpath, "'a venv/bin/mtkit'"),
        (str(script), os.defpath, f"'{script}'"),
        (str(script), on_path, "mtkit"),
        ("/usr/lib/python3/mtkit/__main__.py", os.defpath, "mtkit"),
    ]
    for started, path, program in cases:
        monkeypatch.setattr(sys, "argv", [started])
        monkeypatch.setenv("PATH", path)
        report.say(message)
        assert capsys.readouterr().err == WITH_COMMANDS[message].replace("{}", program) + "\n"


def test_an_error_names_a_command_that_works_where_mtkit_is_not_on_path(tmp_path: Path) -> None:
    script = tmp_path / "bin" / "mtkit"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nfrom mtkit.cli.main import main\nmain()\n")
    script.chmod(0o755)
    environment = os.environ | {"PATH": os.defpath}
    ended = subprocess.run(
        ["bin/mtkit", "info", "missing"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert "create one with `bin/mtkit run`" in ended.stderr
