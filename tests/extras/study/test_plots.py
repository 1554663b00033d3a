"""Plots: characters and pictures show the numbers, and `mtkit info` plots runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.lines import Line2D

from mtkit.artifacts.manifest import FORMAT_VERSIONS
from mtkit.config.schedules import InverseSqrt, ScheduleInputs
from mtkit.config.settings import TrainingSettings
from mtkit.config.yaml import demo_config, dump_config, load_saved_config
from mtkit.errors import UserError
from mtkit.extras.study.curves import (
    BLOCKS,
    PLOT_WIDTH,
    Panel,
    Points,
    check_picture,
    draw_curves,
    draw_sparkline,
    draw_sparklines,
    format_number,
    plan_rates,
    plot_run,
)
from mtkit.info import info
from mtkit.report import cell_width
from mtkit.training.metrics_log import MetricsLog
from tasks import tiny_config

Capture = pytest.CaptureFixture[str]


CURVES = Panel("loss", "step", {"한국어": [(1, 3.0), (2, 4.0)]})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.png", "a.svg"])
def test_the_suffix_chooses_the_format_of_a_picture(name: str, tmp_path: Path) -> None:
    draw_curves([CURVES] * 3, ["another", "한국어"], tmp_path / name)
    start = (tmp_path / name).read_bytes()[:5]
    assert start == (b"\x89PNG\r" if name.endswith("png") else b"<?xml")


def test_an_interruption_leaves_the_earlier_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"an earlier picture")
    draw, calls = Line2D.draw, count()

    def interrupted(self: Line2D, renderer: Any) -> None:
        if next(calls):  # the first call is for the layout
            raise KeyboardInterrupt
        draw(self, renderer)

    monkeypatch.setattr(Line2D, "draw", interrupted)
    with pytest.raises(KeyboardInterrupt):
        draw_curves([CURVES], ["한국어"], path)
    assert path.read_bytes() == b"an earlier picture"


def test_a_picture_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder.png").mkdir()
    # Nothing is forbidden to root, who may run the tests.
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path and path.exists())
    for name in ("a.pdf", "no/a.png", "folder.png", "a.png"):
        with pytest.raises(UserError, match=re.escape(name)):
            check_picture(tmp_path / name)
    monkeypatch.undo()
    (tmp_path / "a.png").touch()  # an existing file is replaced
    check_picture(tmp_path / "a.png")
    monkeypatch.setattr("mtkit.extras.study.curves.find_spec", lambda package: None)
    with pytest.raises(
        UserError, match=r"pictures need matplotlib; .*pip install 'mtkit\[plots\]'"
    ):
        check_picture(tmp_path / "a.png")


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-5, 5)), min_size=1, max_size=20))
def test_a_sparkline_begins_and_ends_with_its_points(points: list[tuple[float, float]]) -> None:
    points.sort()
    drawn = draw_sparkline(points, 100, -5, 5)
    assert len(drawn) <= PLOT_WIDTH
    assert drawn.lstrip(" ").strip(BLOCKS) == ""
    assert abs((len(drawn) - 0.5) / PLOT_WIDTH - points[-1][0] / 100) <= 0.51 / PLOT_WIDTH
    blank = len(drawn) - len(drawn.lstrip(" "))
    assert abs((blank + 0.5) / PLOT_WIDTH - points[0][0] / 100) <= 0.51 / PLOT_WIDTH


@given(
    st.dictionaries(
        st.text(st.characters(categories=["Lu", "Lo"]), min_size=1, max_size=25),
        st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), min_size=1, max_size=9),
        min_size=1,
        max_size=4,
    )
)
def test_curves_fit_a_terminal_of_80_columns(curves: dict[str, list[tuple[float, float]]]) -> None:
    panel = Panel("loss", "step", {name: sorted(of) for name, of in curves.items()})
    assert max(map(cell_width, draw_sparklines(panel))) <= 80


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.00012345, "0.0001234"), (19.772, "19.77"), (11920.5, "11,920"), (3.0, "3")],
)
def test_numbers_have_few_digits_and_separators(value: float, text: str) -> None:
    assert format_number(value) == text


@pytest.fixture
def run(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with batches, as far as its first two validations."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "batches").symlink_to(prepared / "run/batches")
    config = tiny_config(prepared, "transformer").model_copy(update={"run": str(folder)})
    (folder / "config.yaml").write_text(dump_config(config), encoding="utf-8")
    log = MetricsLog(folder)
    for step in (4, 8):
        log.write({"kind": "train", "step": step, "loss": 9.0 / step, "seconds": step / 2})
        log.write({"kind": "valid", "step": step, "loss": 8.0, "bleu": step, "seconds": step})
    return folder


@pytest.mark.slow
def test_the_curves_of_a_run_are_text_or_a_picture(run: Path, capsys: Capture) -> None:
    plot_run(run, None)
    text = capsys.readouterr().out
    assert "█" in text
    for name in ("training loss, 1.125 to 2.25", "validation loss, 8 to 8", "BLEU, 4 to 8"):
        assert f"{name}, by step, 0 to 8\n" in text
    plot_run(run / "config.yaml", None)
    assert capsys.readouterr().out == text
    plot_run(run, run / "view.svg")
    assert (run / "view.svg").read_bytes().startswith(b"<?xml")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"wrote {run / 'view.svg'}\n")


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"output": Path("a.gif")}, "a.gif "),
        ({"path": Path(".")}, ". "),
        ({"path": Path("no.yaml")}, "no.yaml: "),
    ],
)
def test_what_cannot_be_plotted_is_named(options: dict[str, Any], key: str, run: Path) -> None:
    with pytest.raises(UserError, match=f"^{re.escape(key)}"):
        plot_run(options.get("path"), options.get("output"))


@pytest.mark.parametrize(
    ("place", "show"),
    [
        ("run/batches", lambda: plot_run(None, None)),
        ("nothing", lambda: plot_run(None, None)),
        ("nothing", lambda: info(config=True)),
    ],
)
def test_a_run_named_by_the_environment_is_never_replaced_by_a_config(
    place: str, show: Callable[[], None], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MTKIT_MODEL", place)
    with pytest.raises(UserError, match=f"{place} is not a run directory"):
        show()
    Path("mtkit.yaml").write_bytes(demo_config().read_bytes())
    monkeypatch.setenv("MTKIT_MODEL", "nothing")
    with pytest.raises(UserError, match="nothing holds no run"):
        info()
    monkeypatch.setenv("MTKIT_MODEL", "")
    info(config=True)


@pytest.mark.parametrize("kind", ["model", "test", "batches"])
def test_a_missing_or_damaged_manifest_is_found_by_verify(kind: str, run: Path) -> None:
    info(run, verify=True)
    part = run / kind
    part.unlink(missing_ok=True)
    part.mkdir()
    info(run)
    for _ in ("missing", "garbled"):
        with pytest.raises(UserError, match=re.escape(str(part))):
            info(run, verify=True)
        (part / "manifest.json").write_text("garbled", "utf-8")


def test_a_run_is_described_without_its_parts_of_another_version(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setitem(FORMAT_VERSIONS, "batches", 1000)
    info(run)
    said = capsys.readouterr()
    assert "step 8" in said.out and " pairs" not in said.out
    assert f"warning: {run / 'batches'} has format" in said.err


def test_before_the_first_step_the_planned_learning_rate_is_plotted(
    run: Path, capsys: Capture
) -> None:
    (run / "metrics.jsonl").unlink()
    plot_run(run, None)
    of_run = capsys.readouterr().out
    assert of_run.startswith("planned learning rate, 0.0025 to 0.01, by step, 0 to 12\n")
    assert "█" in of_run
    plot_run(run / "config.yaml", run / "view.svg")
    assert (run / "view.svg").read_bytes().startswith(b"<?xml")


def planned(run: Path, **training: Any) -> Points:
    config = load_saved_config(run / "config.yaml")
    changed = TrainingSettings.model_validate(config.training.model_dump() | training)
    return plan_rates(config.model_copy(update={"training": changed}), {})


def test_a_planned_curve_has_the_rate_of_training_at_every_point(run: Path) -> None:
    points = planned(run, steps=5000, warmup=77)
    assert (77, 0.01) in points
    assert (points[0][0], points[-1][0]) == (1, 5000)
    inputs = ScheduleInputs(warmup=77, total_steps=5000, d_model=32)
    schedule = InverseSqrt(peak=0.01)
    assert all(rate == schedule.rate(int(step), inputs) for step, rate in points)


def test_a_length_in_epochs_is_known_only_if_the_run_has_begun(run: Path) -> None:
    cosine = {"schedule": {"kind": "cosine", "peak": 0.01}}
    assert planned(run, steps=None, epochs=3)[-1][0] == 10 * 4
    with pytest.raises(UserError, match="the schedule cosine depends on the number of steps"):
        planned(run, steps=None, epochs=3, **cosine)
    config = load_saved_config(run / "config.yaml")
    changed = config.training.model_copy(update={"steps": None, "epochs": 3})
    known = plan_rates(config.model_copy(update={"training": changed}), {"steps": 60})
    assert known[-1][0] == 60
