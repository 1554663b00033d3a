"""The command line: exit codes, one line per error, only data on stdout."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

import mtkit.info
from commands import call
from mtkit.artifacts.manifest import MANIFEST
from mtkit.artifacts.runs import LOCK, SETTINGS_HEADER
from mtkit.cli.main import build_app, list_commands, main
from mtkit.config.decoding import SamplingSettings, SearchSettings
from mtkit.config.parse import write_yaml
from mtkit.config.yaml import dump_config, load_config
from mtkit.errors import HOW_TO_CONTINUE, Interrupted
from tasks import tiny_config, write_reversal_task

STAGES = ["train-spm", "batch", "train", "run"]
COMMANDS = [
    *STAGES,
    "init",
    "check",
    "finish",
    "translate",
    "score",
    "attend",
    "export",
    "info",
    "compare",
    "guide",
    "serve",
]
GROUPS = ["bench"]
Capture = pytest.CaptureFixture[str]


def start(*arguments: str, **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        [sys.executable, "-m", "mtkit", *arguments], stderr=subprocess.PIPE, **options
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, its config as mtkit.yaml, and a finished run of it."""
    folder = tmp_path_factory.mktemp("home")
    write_reversal_task(folder)
    (folder / "mtkit.yaml").write_text(dump_config(tiny_config(folder, "transformer")))
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert call("run", "--quiet") == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(home)
    return home


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


MESSAGES = {
    "trian": "mtkit: no such command 'trian'; did you mean 'train'?; see `mtkit --help`",
    "score": "mtkit score: missing option '-r' / '--reference'; see `mtkit score --help`",
    "translate --beam 2 --beam 3": "mtkit translate: --beam was given twice",
    "translate --beam x": "mtkit translate: invalid value for '--beam': expected a whole number, ",
    "train --demo --set model.haeds=3": "--set model.haeds=3: model.haeds: unknown setting; did",
    "train -c nowhere.yaml": "nowhere.yaml: the config cannot be read",
    "translate": "runs/latest holds no model",
    "run": "no mtkit.yaml here; write one with `mtkit init`, give another config with -c, or try",
    "batch --demo -q": "runs/demo/tokenizer holds no tokenizer; make one with `mtkit train-spm`",
}
"""Messages whose words are tested, as samples of all; elsewhere only the option or file is."""


@pytest.mark.parametrize("arguments", MESSAGES)
def test_messages_say_what_is_wrong_and_what_to_do(arguments: str, capsys: Capture) -> None:
    assert call(*arguments.split()) == 2
    assert capsys.readouterr().err.startswith(MESSAGES[arguments])


@pytest.mark.parametrize(
    "arguments",
    [
        "--nope",
        "trian",
        "train extra",
        "train -c",
        "translate --beam x",
        "translate --engine foo",
        "translate --resum",
        "translate --sample=yes",
        "check a b --columns 0",
        "init",
        "score",
        "bench",
    ],
)
def test_errors_of_the_command_line_have_the_form_of_all_others(
    arguments: str, capsys: Capture
) -> None:
    assert call(*arguments.split()) == 2
    line = capsys.readouterr().err
    names = [name for name in arguments.split() if name in (*COMMANDS, *GROUPS)]
    command = " ".join(["mtkit", *names])
    said = re.fullmatch(f"{command}: (.*); see `{command} --help`\n", line)
    assert said is not None, line
    assert not said[1][0].isupper() and not re.search(r"\.(?= |$)", said[1])


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ("score -r a -r b -r a h", "a cannot be read"),
        ("info --set run=a", "mtkit info: no such option: --set"),
        (
            "train --demo --set training.steps=5 --set training.steps=6",
            "--set training.steps=5 and --set training.steps=6 both set training.steps; keep one",
        ),
        ("train --demo --run a --set run=b", "--run a and --set run=b both set run; keep one"),
        ("train --demo --set decoding.min_length=300", "--set decoding.min_length=300: "),
        ("train-spm --demo --set data.train.source=no.en", "--set data.train.source=no.en: "),
        ("translate --top-k 3", "--top-k needs --sample"),
        ("translate --seed 0", "--seed needs --sample"),
        ("translate --sample --beam 3", "--beam cannot be used with --sample"),
        ("translate --sample --length-penalty 0", "--length-penalty cannot be used with --sample"),
        ("translate -m nowhere", "nowhere "),
        ("attend --explain -o a.html", "--output cannot be used with --explain"),
        ("attend -o a.png", "a.png "),
        ("export", "export: choose a format"),
        ("export --to ctranslate2", "runs/latest "),
        ("export somewhere", "somewhere is used only with --from"),
        ("export --from huggingface no -m a", "--model cannot be used with --from"),
        ("info", "runs/latest "),
        ("info nowhere", "nowhere "),
        ("info nowhere --config", "nowhere: "),
        ("info --plot --verify", "--verify cannot be used with --plot"),
        ("info --config --all", "--all cannot be used with --config"),
        ("info --explain", "--explain needs --config"),
        ("info -o a.png", "--output needs --plot"),
        ("check", "check: "),
        ("check a b --columns 0 1", "--columns is only for a table or dataset"),
        ("check a", "a: "),
    ],
)
def test_what_the_user_can_fix_is_one_line_and_exit_code_2(
    arguments: str, key: str, capsys: Capture
) -> None:
    assert call(*arguments.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert key in captured.err
    assert captured.err.count("\n") <= 1


@pytest.mark.parametrize("part", ["train", "valid", "test"])
@pytest.mark.parametrize("command", ["run", "train-spm", "batch"])
def test_every_corpus_is_checked_before_any_work(
    command: str, part: str, home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    if part == "test" and command != "run":
        return
    text = (home / "mtkit.yaml").read_text().replace(f"{home}/{part}.tgt", "missing.tgt")
    config = home / "missing.yaml"
    config.write_text(text.replace(f"run: {home}/run", "run: elsewhere"))
    line = 1 + text.splitlines().index("    target: missing.tgt")
    assert call(command, "-c", "missing.yaml") == 2
    assert capsys.readouterr().err.startswith(
        f"missing.yaml:{line}: data.{part}.target: missing.tgt: no such file"
    )
    Path("missing.tgt").write_text("one line\n")
    assert call(command, "-c", "missing.yaml") == 2
    said = capsys.readouterr().err
    Path("missing.tgt").unlink()
    assert said.startswith(f"missing.yaml:{line - 2}: data.{part}: {home}/{part}.src has ")
    assert not list(Path("elsewhere").glob(f"*/{MANIFEST}"))  # only text was read
    shutil.rmtree("elsewhere")


@pytest.mark.parametrize("command", STAGES)
def test_without_a_config_nothing_happens_unless_the_demo_is_asked_for(
    command: str, at_home: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call(command, "--demo", "-c", "mtkit.yaml") == 2
    assert capsys.readouterr().err.startswith("--config cannot be used with --demo")
    monkeypatch.chdir(tmp_path)
    assert call(command, "--set", "seed=2") == 2
    error = capsys.readouterr().err
    assert all(way in error for way in ("mtkit.yaml", "mtkit init", "-c", "--demo"))
    assert list(tmp_path.iterdir()) == []
    assert call(command, "--demo", "--set", "model.haeds=3") == 2
    assert "haeds" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("problem", "code", "line"),
    [
        (OSError(28, "No space left on device", "runs/x"), 1, "runs/x: No space left on device\n"),
        (OSError(28, "No space left on device"), 1, "input or output: No space left on device\n"),
        (RuntimeError("I/O error (os error 28)"), 1, "input or output: No space left on device\n"),
        (MemoryError(), 1, "out of memory; lower batching.max_tokens"),
        (RuntimeError("CUDA out of memory. Tried"), 1, "out of memory; lower batching.max_tokens"),
        (RuntimeError("alloc: can't allocate memory"), 1, "out of memory; lower batching"),
        (Interrupted(143, "checkpoint saved"), 143, "checkpoint saved\n"),
        (KeyboardInterrupt(), 130, ""),
        (ValueError("a\nb"), 1, "internal error: ValueError: a b; rerun with --debug for the"),
    ],
)
def test_a_failure_is_one_line_and_its_exit_code(
    problem: BaseException, code: int, line: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr(mtkit.info, "info", fail)
    assert call("info") == code
    error = capsys.readouterr().err
    assert error.startswith(line)
    assert error.count("\n") == bool(line)


@pytest.mark.parametrize(("command", "continues"), [("finish", True), ("info", False)])
def test_an_interrupted_stage_says_in_one_line_how_to_continue(
    command: str, continues: bool, tmp_path: Path
) -> None:
    """The process interrupts itself, as Ctrl-C would, in the function of the command."""
    module = "mtkit.pipeline.finish_and_print" if command == "finish" else "mtkit.info.info"
    name, _, function = module.rpartition(".")
    code = (
        f"import signal, {name}\n"
        f"{name}.{function} = lambda *_, **__: signal.raise_signal(signal.SIGINT)\n"
        f"from mtkit.cli.main import main; main([{command!r}])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 130
    assert ended.stderr == f"{HOW_TO_CONTINUE}\n" * continues


def test_only_debug_shows_the_traceback(capsys: Capture) -> None:
    assert call("info", "--debug") == 2
    assert "Traceback" in capsys.readouterr().err
    assert call("info") == 2
    assert "Traceback" not in capsys.readouterr().err


def every_command() -> Iterator[tuple[str, TyperCommand]]:
    """Return all commands, also those of groups, with the words that call them."""
    group = get_command(build_app(*list_commands()))
    assert isinstance(group, TyperGroup)
    for name, command in group.commands.items():
        inner = command.commands if isinstance(command, TyperGroup) else {}
        yield from ((f"{name} {sub}", it) for sub, it in inner.items())  # type: ignore[misc]
        if not inner:
            yield name, command  # type: ignore[misc]


@pytest.mark.parametrize(("name", "command"), list(every_command()), ids=str)
def test_an_option_given_twice_is_refused_unless_repeatable(
    name: str, command: TyperCommand, capsys: Capture
) -> None:
    options = [it for it in command.params if isinstance(it, TyperOption) and not it.is_flag]
    assert options or name in ("bench layers", "finish", "guide")
    for option in options:
        first, last = option.opts[0], option.opts[-1]
        with suppress(SystemExit):
            main([*name.split(), *(first, *"a" * option.nargs), *(last, *"b" * option.nargs)])
        twice = f"{last} was given twice" in capsys.readouterr().err
        assert twice != option.multiple, option.opts


@pytest.mark.parametrize(("name", "command"), list(every_command()), ids=str)
def test_help_is_plain_and_ends_with_an_example_that_parses(
    name: str, command: TyperCommand, capsys: Capture
) -> None:
    assert command.epilog is not None
    assert f"{command.epilog} ".startswith(f"Example: mtkit {name} ")
    assert call(*shlex.split(command.epilog)[2:], "--help") == 0
    text = capsys.readouterr().out
    assert text.startswith(f"Usage: mtkit {name} [OPTIONS]")
    assert text.endswith(f"  {command.epilog}\n")
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"<|>|\{|\}|\[(?!OPTIONS|[A-Z]+\])", text)
    for option in ["--debug", "--quiet"] + ["--config", "--run", "--set"] * (name in STAGES):
        assert option in text
    assert call("help", *name.split()) == 0
    assert capsys.readouterr().out == text
    for parameter in command.params:
        if isinstance(parameter, TyperOption) and parameter.default not in (None, False):
            assert "(default: " in (parameter.help or ""), parameter.opts


def test_each_setting_of_search_and_sampling_is_an_option_with_its_description(
    capsys: Capture,
) -> None:
    assert call("translate", "--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    for name, field in {**SearchSettings.model_fields, **SamplingSettings.model_fields}.items():
        assert f"--{name.replace('_', '-')} " in text
        assert str(field.description)[1:] in text


COMPLETION = """
eval "$(_MTKIT_COMPLETE=source_bash "$1")"
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_mtkit_completion "$1"
echo "${{COMPREPLY[@]}}"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("mtkit tra", {"train", "train-spm", "translate"}),
        ("mtkit translate --n", {"--n-best", "--no-repeat-ngram"}),
        ("mtkit translate --beam 3 --beam 4 --engine t", {"torch"}),
    ],
)
def test_shell_completion(words: str, wanted: set[str]) -> None:
    command = Path(sys.executable).with_name("mtkit")
    shell = ["bash", "-c", COMPLETION.format(words=words), "bash", str(command)]
    done = subprocess.run(shell, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == wanted
    assert done.stderr == ""


def test_no_arguments_print_the_help(capsys: Capture) -> None:
    assert call() == 0
    listed = capsys.readouterr().out.partition("Commands:\n")[2]
    assert sorted(line.split()[0] for line in listed.splitlines()) == sorted(COMMANDS + GROUPS)
    assert "..." not in listed


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
    ],
)
def test_whatever_runs_out_of_memory_is_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("mtkit.config.yaml.read_config", fail)
    assert call("train", "--demo") == 1
    assert capsys.readouterr().err.startswith("out of memory; lower batching.max_tokens")


def test_python_m_mtkit_is_the_command() -> None:
    for option in ("--version", "-V"):
        shown = subprocess.run(
            [sys.executable, "-m", "mtkit", option], capture_output=True, text=True, check=True
        )
        assert shown.stdout == f"mtkit {mtkit.__version__}\n"


MODULES = """
import atexit, sys
atexit.register(lambda: sys.stderr.write(" ".join(sys.modules)))
from mtkit.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        ("--help", {"torch", "rich", "pydantic", "yaml", "numpy"}),
        ("score --help", {"torch", "rich", "sacrebleu"}),
        ("info --config", {"torch", "rich", "numpy"}),
        ("info", {"torch", "numpy"}),
        ("translate lines -q", {"torch", "numpy", "jaxtyping", "rich", "safetensors"}),
        ("train --demo --set model.haeds=3", {"torch", "rich", "numpy", "datasets"}),
    ],
)
def test_light_commands_import_nothing_heavy(
    arguments: str, unwanted: set[str], at_home: Path
) -> None:
    (at_home / "lines").write_text("A dog.\n")
    process = subprocess.run(
        [sys.executable, "-c", MODULES, *arguments.split()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == (2 if "haeds" in arguments else 0)
    assert not unwanted & set(process.stderr.split())


def test_a_second_run_skips_every_stage(at_home: Path, capsys: Capture) -> None:
    assert call("run", "--quiet") == 0
    first = capsys.readouterr()
    assert first.err == ""
    rows = [line.split()[0] for line in first.out.splitlines() if "[" in line]
    assert rows == ["score", "BLEU", "chrF2", "TER"]
    assert call("run") == 0
    second = capsys.readouterr()
    assert second.out == first.out
    assert second.err.count("up to date") == 4


def test_a_command_that_finds_nothing_to_do_leaves_the_latest_run(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    Path("runs/other").mkdir()
    Path("runs/latest").symlink_to("other")
    for command in STAGES:
        assert call(command, "-c", str(at_home / "mtkit.yaml")) == 0
    assert call("finish", str(at_home / "run")) == 0
    assert os.readlink("runs/latest") == "other"


def test_the_run_of_the_config_is_the_default_before_the_latest_run(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("ant\n", encoding="utf-8")
    Path("runs").mkdir()
    shutil.copytree(at_home / "run", "runs/latest one")
    Path("runs/latest").symlink_to("latest one")
    own = Path("runs/own")
    Path("mtkit.yaml").write_text(f"run: {own}\nnot: [read, further]\n", encoding="utf-8")

    def used() -> str:
        assert call("translate", "in.txt") == 0
        return capsys.readouterr().err

    assert "runs/latest one/model (" in used()
    shutil.copytree(at_home / "run", own)
    assert "translating with runs/own/model (" in used()
    assert call("info") == 0
    assert str(own) in capsys.readouterr().out
    assert call("translate", "in.txt", "-m", "runs/latest", "-m", str(own)) == 0
    error = capsys.readouterr().err
    assert "runs/latest one/model (" in error and " + runs/own/model (" in error
    assert "torch float32" in error


@pytest.mark.parametrize("umask", [0o027, 0o002])
def test_everybody_whom_the_umask_admits_can_read_a_model(
    umask: int, at_home: Path, tmp_path: Path
) -> None:
    run = str(tmp_path / "run")
    before = os.umask(umask)
    try:
        assert call("run", "--run", run, "-q", "--set", "training.steps=2") == 0
        assert call("export", "-m", run, "--to", "huggingface", "-o", str(tmp_path / "hf")) == 0
        assert call("export", "-m", run, "--to", "ctranslate2", "-o", str(tmp_path / "ct")) == 0
    finally:
        os.umask(before)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != LOCK]
    assert len(files) > 20
    modes = {str(path): oct(path.stat().st_mode & 0o777) for path in files}
    assert set(modes.values()) == {oct(0o666 & ~umask)}, modes


def test_the_run_option_changes_the_run_directory(at_home: Path, capsys: Capture) -> None:
    assert call("train-spm", "--run", "other") == 0
    assert (at_home / "other/tokenizer/manifest.json").is_file()
    assert "\nrun: other\n" in (at_home / "other/config.yaml").read_text()


def test_a_file_is_no_run_directory(at_home: Path, capsys: Capture) -> None:
    assert call("run", "--run", "mtkit.yaml") == 2
    assert capsys.readouterr().err.startswith("mtkit.yaml ")


@pytest.mark.parametrize("options", ["same -o same", "in -o same"])
def test_translate_never_overwrites_its_input(at_home: Path, capsys: Capture, options: str) -> None:
    for name in ("same", "in"):
        (at_home / name).write_text("ant\n", encoding="utf-8")
    prefix = ["--prefix", "same"] if options.startswith("in") else []
    assert call("translate", *options.split(), *prefix) == 2
    assert capsys.readouterr().err.startswith("same ")
    assert (at_home / "same").read_text() == "ant\n"


def test_info_finds_a_run_by_its_config(at_home: Path, capsys: Capture) -> None:
    run = load_config("mtkit.yaml").run
    outputs = [(call("info", path), capsys.readouterr().out) for path in ("mtkit.yaml", run)]
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("stage", ["batches", "metrics.jsonl", "checkpoints"])
def test_info_advises_to_continue_the_run_that_it_describes(
    stage: str, at_home: Path, tmp_path: Path, capsys: Capture
) -> None:
    run = tmp_path / "other"
    run.mkdir()
    for part in {"config.yaml", "tokenizer", "batches", stage}:
        copy = shutil.copytree if (at_home / "run" / part).is_dir() else shutil.copy
        copy(at_home / "run" / part, run / part)
    assert call("info", str(run)) == 0
    advice = capsys.readouterr().out.rpartition("next ")[2]
    assert f"mtkit run -c {run / 'config.yaml'}" in " ".join(advice.split())
    assert ("mtkit finish" in advice) == (stage == "checkpoints")


def test_translate_writes_n_best_lists_json_and_samples(at_home: Path, capsys: Capture) -> None:
    (at_home / "in.txt").write_text("ant bee\ncat\n", encoding="utf-8")
    assert call("translate", "in.txt", "--n-best", "2", "--beam", "3") == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "2"]
    assert call("translate", "in.txt", "--jsonl") == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all({"text", "score", "truncated"} <= record.keys() for record in records)
    drawn = []
    for seed in ("1", "1", "2"):
        assert call("translate", "in.txt", "--sample", "--temperature", "5", "--seed", seed) == 0
        drawn.append(capsys.readouterr().out)
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("path", ["run", "run/model", "run/tokenizer", "run/batches", "run/test"])
def test_info_is_at_most_eight_facts_within_80_columns(
    path: str, at_home: Path, capsys: Capture
) -> None:
    for options in ([], ["--verify"]):
        assert call("info", path, *options) == 0
        lines = capsys.readouterr().out.splitlines()
        facts = dict(line.split(maxsplit=1) for line in lines if not line.startswith(" "))
        assert 3 <= len(facts) <= 8
        assert max(map(len, lines)) <= 80
        assert lines[0].split()[1].rstrip(",") == path and "--all" in " ".join(lines)
        assert ("sha256" in facts["files"]) == bool(options)
    manifest = json.loads((at_home / "run/model/manifest.json").read_text())
    assert path not in ("run", "run/model") or f"{manifest['report']['steps']:,}" in facts["state"]
    if path == "run":
        assert "12 of 12" in facts["state"] and "finished" in facts["state"]
        assert "BLEU" in facts["scores"] and "test" in facts["scores"]
        assert f"{manifest['report']['parameters']:,} parameters" in facts["model"]
        assert "mtkit translate -m run" in facts["next"]


def test_info_shows_artifacts_and_their_inputs(at_home: Path, capsys: Capture) -> None:
    assert call("info", "run", "--all") == 0
    text = capsys.readouterr().out
    for kind in ("tokenizer", "batches", "model", "test"):
        manifest = json.loads((at_home / f"run/{kind}/manifest.json").read_text())
        assert write_yaml({kind: manifest}) in text


def test_info_prints_the_resolved_config(at_home: Path, capsys: Capture) -> None:
    assert call("info", "run", "--config") == 0
    saved = (at_home / "run/config.yaml").read_text()
    assert SETTINGS_HEADER + capsys.readouterr().out == saved
    assert call("info", "mtkit.yaml", "--config") == 0
    assert capsys.readouterr().out == (at_home / "mtkit.yaml").read_text()


def test_a_closed_pipe_is_no_error(at_home: Path) -> None:
    (at_home / "many.txt").write_text("ant bee cat\n" * 20_000, encoding="utf-8")
    with start(
        "translate", "many.txt", "--beam", "1", "--quiet", stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().endswith(b"\n")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=600) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", ["info", "translate in.txt -q"])
def test_a_full_disk_is_one_line(arguments: str, at_home: Path) -> None:
    (at_home / "in.txt").write_text("ant bee\n", encoding="utf-8")
    with open("/dev/full", "wb") as full, start(*arguments.split(), stdout=full) as process:
        assert process.communicate(timeout=600)[1] == b"stdout: No space left on device\n"
    assert process.returncode == 1


@pytest.mark.parametrize("command", ["info", "--help", "translate -m {model} in.txt"])
def test_closed_stdout_loses_data_and_closed_stderr_only_messages(
    command: str, at_home: Path
) -> None:
    (at_home / "in.txt").write_text("It rains.\n")
    mtkit = f'"{sys.executable}" -m mtkit {command.format(model="runs/latest")}'
    for closed, code, message in ((">&-", 1, "file descriptor"), ("2>&-", 0, "")):
        ended = subprocess.run(f"{mtkit} {closed}", shell=True, cwd=at_home, capture_output=True)
        assert ended.returncode == code
        assert message in ended.stderr.decode()
