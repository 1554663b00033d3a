"""`mtkit compare`: it shows the settings that differ, and the scores of `mtkit score`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mtkit.artifacts.records import dump_record
from mtkit.artifacts.replacement import create
from mtkit.config.yaml import dump_config
from mtkit.errors import UserError
from mtkit.extras.study.compare import compare
from mtkit.scoring.score import score_files
from mtkit.training.metrics_log import MetricsLog
from tasks import tiny_config

REFERENCES = ["A dog runs over the grass.", "Two men carry a boat.", "It rains."] * 5
WORSE = ["A dog over the grass.", "Two men in a boat.", "It rains."] * 5
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_run(
    name: str,
    hypotheses: list[str] | None = None,
    references: list[str] = REFERENCES,
    kind: str = "transformer",
    bleu: tuple[float, ...] = (),
    **changes: Any,
) -> Path:
    """Write a run as training and testing leave it, without its model."""
    run = Path(name)
    run.mkdir()
    config = tiny_config(Path("corpus"), kind, **changes).model_copy(update={"run": name})
    (run / "config.yaml").write_text(dump_config(config), encoding="utf-8")
    for place, value in enumerate(bleu, start=1):
        record = {"kind": "valid", "step": 100 * place, "bleu": value, "seconds": 30.0 * place}
        MetricsLog(run).write(record)
    if hypotheses is not None:
        with create(run / "test", "test", {}, {}) as folder:
            for file, lines in (("reference", references), ("hypotheses", hypotheses)):
                (folder / f"{file}.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return run


def test_only_settings_that_differ_are_shown(capsys: Capture) -> None:
    base = write_run("a")
    other = write_run("b", training={"warmup": 7}, model={"dropout": 0.4})
    compare([base, other])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        ["settings", "a", "b"],
        ["model.dropout", "0.1", "0.4"],
        ["training.warmup", "4", "7"],
    ]


def test_runs_with_other_text_show_their_numbers_of_pairs(capsys: Capture) -> None:
    runs = [write_run("a"), write_run("b")]
    for run, pairs in zip(runs, (2719, 3219), strict=True):
        inputs = {"data.train.source": f"text of {pairs}", "data.valid.source": "same"}
        report = {"train": {"kept": 2000, "pairs": pairs}, "valid": {"kept": 9, "pairs": 9}}
        with create(run / "batches", "batches", {}, inputs, report) as folder:
            (folder / "report.json").write_bytes(b"{}")
    compare(runs)
    rows = [re.split(" {2,}", line) for line in capsys.readouterr().out.splitlines()]
    assert rows[1] == ["training pairs", "2,000 of 2,719", "2,000 of 3,219"]
    assert rows[2][0] == "training text (sha256)" and rows[2][1] != rows[2][2]
    assert len(rows) == 3


def test_a_setting_that_only_some_runs_have_is_listed_with_them(capsys: Capture) -> None:
    compare([write_run("a"), write_run("b", kind="seq2seq"), write_run("c")])
    table, *others = capsys.readouterr().out.split("\n\n")
    rows = {row[0]: row[1:] for row in map(str.split, table.splitlines())}
    assert rows["model.kind"] == ["transformer", "seq2seq", "transformer"]
    assert not any("-" in cells for cells in rows.values())
    listed = {of.partition(": ")[0]: " ".join(of.split()) for of in others}
    assert "model.heads: 2" in listed["only in a, c"]
    assert "model.attention: dot" in listed["only in b"]
    assert not any("None" in of or "null" in of for of in listed.values())


def test_curves_share_one_scale_over_steps_and_over_time(capsys: Capture) -> None:
    runs = [write_run("short", bleu=(0.0, 10.0)), write_run("long", bleu=(0.0, 5.0, 10.0, 20.0))]
    compare([*runs, write_run("none")], plot=Path("curves.png"))
    out = capsys.readouterr().out
    for axis, until in (("step", 400), ("minute", 2)):
        block = out.partition(f"validation BLEU, 0 to 20, by {axis}, 0 to {until}\n")[2]
        short, long, *_ = block.splitlines()
        assert short.startswith("short") and short.endswith("10")
        assert long.startswith("long") and long.endswith("20")
        assert "█" in long and "█" not in short
        assert long.index("█") > short.rindex("▄")
    assert "validation loss" not in out
    assert Path("curves.png").read_bytes().startswith(b"\x89PNG")


def test_scores_and_significance_are_those_of_score(capsys: Capture) -> None:
    runs = [write_run("a", WORSE), write_run("b", REFERENCES)]
    compare(runs)
    out, err = capsys.readouterr()
    files = [run / "test/hypotheses.txt" for run in runs]
    systems = score_files([runs[0] / "test/reference.txt"], files, paired=True)
    worse, right = (dump_record(system) for system in systems)
    table = {re.split(" {2,}", line.strip())[0]: line for line in reversed(out.splitlines())}
    for key, name in (("bleu", "BLEU"), ("chrf", "chrF2")):
        assert f"{worse[key]['score']:.2f} [" in table[name]
        assert "100.00 [" in table[name]
    assert table["p-value"].split()[-1] == f"{right['ter']['p']:.4f}"
    assert err == ""


def test_runs_with_another_test_set_are_not_scored(capsys: Capture) -> None:
    runs = [write_run("a", WORSE), write_run("other", WORSE, WORSE), write_run("untested")]
    compare(runs)
    out, err = capsys.readouterr()
    assert out.splitlines()[-9].split() == ["a"]
    assert [line.split()[1] for line in err.splitlines()] == ["untested", "other"]


def test_what_cannot_be_compared_is_refused() -> None:
    run = write_run("a")
    for runs, key in (
        ([run], "compare: "),
        ([run, run], "compare: "),
        ([run, Path("none")], "none"),
    ):
        with pytest.raises(UserError, match=f"^{key}"):
            compare(runs)
    with pytest.raises(UserError, match="no run has logged a validation"):
        compare([run, write_run("b")], plot=Path("a.png"))
    with pytest.raises(UserError, match=r"^a\.txt"):
        compare([run, run], plot=Path("a.txt"))


def test_a_test_set_translated_by_an_earlier_model_is_not_scored(capsys: Capture) -> None:
    runs = [write_run(name, REFERENCES) for name in ("a", "b")]
    with create(runs[1] / "model", "model", {}, {"batches": "another"}) as folder:
        (folder / "model.safetensors").write_bytes(b"weights")
    compare(runs)
    said = capsys.readouterr()
    assert said.err.startswith("warning: b: the test set was translated by an earlier model")
    assert "p-value" not in said.out
    assert re.search(r"^chrF2 +100\.00 \[[^]]*\]$", said.out, re.MULTILINE)


def test_a_significance_test_that_cannot_be_made_is_warned_of(capsys: Capture) -> None:
    texts = ["It rains today."] * 9
    runs = [write_run(name, texts, texts) for name in ("a", "b")]
    compare(runs)
    assert "no significance test" in capsys.readouterr().err
