"""Scores of lines by another program: their mean, interval, and significance test."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from commands import call
from mtkit.artifacts.records import dump_record
from mtkit.errors import UserError
from mtkit.extras.study.line_scores import _p_value, mean_line_scores, read_line_scores
from mtkit.scoring.score import LINE_SCORES, score_files, score_line_files, score_lines

REFERENCES = ["Ein Hund rennt über die Wiese.", "Am 3. Mai regnete es."]
HYPOTHESES = ["Ein hund läuft über die Wiese.", "Am 3. Mai regnete es sehr."]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def draw(count: int, mean: float, seed: int) -> list[float]:
    return [float(score) for score in np.random.default_rng(seed).normal(mean, 0.1, count)]


def test_the_interval_is_that_of_the_mean(tmp_path: Path) -> None:
    scores = draw(400, 0.8, seed=1)
    path = write(tmp_path / "scores", list(map(str, scores)))
    count, (score,) = mean_line_scores([path])
    error = np.std(scores) / np.sqrt(400)
    assert count == 400
    assert score.value == pytest.approx(np.mean(scores))
    assert score.interval == pytest.approx((score.value - 1.96 * error, score.value + 1.96 * error))
    few = write(tmp_path / "few", list(map(str, scores[:9])))
    assert mean_line_scores([few])[1][0].interval is None


def test_the_p_value_is_that_of_all_ways_to_swap_lines() -> None:
    differences = np.array(draw(12, 0.86, seed=2)) - np.array(draw(12, 0.80, seed=1))
    signs = np.array(list(itertools.product([1, -1], repeat=12)))
    exact = (abs(signs @ differences) >= abs(differences.sum()) - 1e-12).mean()
    assert _p_value(differences) == pytest.approx(exact, abs=0.015)


def test_equal_systems_have_p_1_and_clearly_different_ones_almost_0() -> None:
    assert _p_value(np.zeros(100)) == 1
    assert _p_value(np.full(100, 0.1)) < 0.001


@pytest.mark.parametrize("line", ["", "a", "nan", "inf", "0,5", "0.5 0.6", "Segment 1\tscore: 0.8"])
def test_a_line_that_is_no_number_is_named(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "scores", ["0.5", line, "0.7"])
    with pytest.raises(UserError, match=f"{path}:2: .*is not a number"):
        read_line_scores([path])


def test_files_of_other_lengths_are_refused(tmp_path: Path) -> None:
    short, long = write(tmp_path / "a", ["1", "2"]), write(tmp_path / "b", ["1", "2", "3"])
    with pytest.raises(UserError, match="3 scores, but should have 2"):
        read_line_scores([short, long])
    with pytest.raises(UserError, match="2 scores, but should have 3"):
        read_line_scores([short], lines=3)
    (tmp_path / "empty").write_text("")
    with pytest.raises(UserError, match="empty is empty"):
        read_line_scores([tmp_path / "empty"])


def test_scores_stand_below_the_metrics(tmp_path: Path) -> None:
    reference = write(tmp_path / "ref", REFERENCES)
    systems = [write(tmp_path / "a", HYPOTHESES), write(tmp_path / "b", REFERENCES)]
    numbers = [[str(score) for score in draw(len(REFERENCES), 0.8, seed)] for seed in (1, 2)]
    files = [write(tmp_path / f"{n}.scores", lines) for n, lines in enumerate(numbers)]
    scored = score_files([reference], systems, line_scores=files)
    plain = score_files([reference], systems)
    for system, without, lines in zip(scored, plain, numbers, strict=True):
        assert [*system.scores] == [*without.scores, LINE_SCORES]
        assert system.scores[LINE_SCORES].value == pytest.approx(np.mean([*map(float, lines)]))
        assert dump_record(system)[LINE_SCORES]["score"] == system.scores[LINE_SCORES].value
    assert any("mean of --scores" in line for line in score_lines(scored))
    with pytest.raises(UserError, match="1 file for 2 systems"):
        score_files([reference], systems, line_scores=files[:1])


def test_scores_are_compared_without_references(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [
        write(tmp_path / name, [f"{score:.4f}" for score in draw(50, mean, seed)])
        for name, mean, seed in (("a", 0.80, 1), ("b", 0.95, 2))
    ]
    options = [f"--scores={path}" for path in files]
    assert call("score", *options, "--paired", "--json") == 0
    first, second = json.loads(capsys.readouterr().out)
    assert "p" not in first["scores"] and second["scores"]["p"] < 0.01
    assert call("score", *options, "--paired") == 0
    shown = capsys.readouterr().out
    assert "p-value" in shown and "length ratio" not in shown and "+0.1" in shown
    assert [system.lines for system in score_line_files(files)] == [50, 50]
    assert call("score", "--paired", options[0]) == 2
    assert call("score", options[0], str(files[1])) == 2
    assert call("score") == 2
