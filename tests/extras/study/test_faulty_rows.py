"""`mtkit check --rows` lists every faulty pair, whatever the report shows."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from commands import call
from mtkit.config.settings import DROP_RULES
from mtkit.corpus.read import read_pairs
from mtkit.corpus.rules import PairFilter
from parallel import FAULTS, LINES, check_corpus, write_corpus


@pytest.fixture(autouse=True)
def _in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read_rows() -> list[dict[str, str]]:
    with Path("bad.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def write_table(lines: list[tuple[str, str]]) -> str:
    with Path("t.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("en", "ko"), *lines])
    return "t.csv"


def test_every_faulty_row_is_written_with_its_place_and_all_reasons(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_table([*LINES[:300], *FAULTS, *LINES[300:600], *FAULTS[:7]])
    monkeypatch.setattr("mtkit.corpus.statistics.SAMPLE_SIZE", 200)  # but all rows are tested
    assert call("check", path, "--rows", "bad.csv") in (0, 2)
    rows = read_rows()
    assert [int(row["row"]) for row in rows] == [*range(302, 311), *range(611, 618)]
    assert {row["file"] for row in rows} == {path}
    reasons = [row["reason"].split(":")[0] for row in rows]
    assert reasons[0] == reasons[9] == "blank"
    assert reasons[7:9] == ["repeated pairs"] * 2
    assert "script: unexpected alphabet" in rows[5]["reason"]
    assert "; " in rows[10]["reason"] and "repeated pairs" in rows[10]["reason"]
    assert (rows[2]["source"], rows[2]["target"]) == FAULTS[2]
    assert "bad.csv: 16 faulty pairs" in capsys.readouterr().err


def test_pairs_that_batch_would_drop_are_among_the_rows(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path, [*LINES[:400], *FAULTS])
    assert call("check", str(corpus.source), str(corpus.target), "--rows", "bad.csv") in (0, 2)
    pair_filter = PairFilter(DROP_RULES, check_corpus(corpus).statistics)
    dropped = [str(pair.line) for pair in read_pairs(corpus) if pair_filter.broken_rule(pair)]
    assert {*dropped} <= {row["row"] for row in read_rows()}


def test_no_cell_is_a_formula_for_a_spreadsheet_program() -> None:
    formulas = ['=HYPERLINK("http://e/";"x")', "@SUM(A1)", "+1+cmd|' /C calc'!A0", "-1-1"]
    path = write_table([*LINES[:300], *((formula, formula) for formula in formulas)])
    assert call("check", path, "--rows", "bad.csv") in (0, 2)
    rows = read_rows()
    written = {row["source"] for row in rows} | {row["target"] for row in rows}
    assert {f"'{formula}" for formula in formulas[:1]} <= written
    assert not any(text.startswith(("=", "@", "+", "-")) for text in written)


def test_damaged_rows_are_written_and_sound_ones_are_not() -> None:
    damaged = [(source, f"Nwa ah? ag?? akw?kw? {source.lower()}") for source, _ in LINES[:200]]
    path = write_table([*LINES[200:400], *damaged])
    assert call("check", path, "--rows", "bad.csv", "--languages", "en", "ko") == 2
    lost = [row["row"] for row in read_rows() if "lost letters" in row["reason"]]
    assert lost == [str(number) for number in range(202, 402)]


@pytest.mark.parametrize("name", ["t.csv", "bad.txt", "folder.csv"])
def test_what_cannot_be_written_is_refused_at_once(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("t.csv").write_text("a,b\n")
    Path("folder.csv").mkdir()
    assert call("check", "t.csv", "--rows", name, "--columns", "0", "1") == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert name in error
    assert Path("t.csv").read_text() == "a,b\n"
