"""Plots: equal figures give equal files, characters show the numbers, `mtkit info` plots runs."""

from __future__ import annotations

import math
import os
import re
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import font_manager

from mtkit.config.schedules import Cosine, InverseSqrt, Plateau, ScheduleInputs
from mtkit.config.settings import Config
from mtkit.config.yaml import demo_config, dump_config
from mtkit.errors import UserError
from mtkit.models.layers import compute_sinusoids
from mtkit.report import cell_width
from mtkit.study.info.info import info
from mtkit.study.info.plot import first_epoch, length_histogram, position_encodings, schedule
from mtkit.study.plots.picture import check_picture, find_fonts, make_figure, save_picture
from mtkit.study.plots.terminal import (
    BLOCKS,
    PLOT_WIDTH,
    draw_sparkline,
    draw_sparklines,
    format_number,
)
from mtkit.training.metrics import MetricsLog
from tasks import tiny_config

Capture = pytest.CaptureFixture[str]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.png", "a.svg"])
def test_equal_figures_are_equal_files(name: str, tmp_path: Path) -> None:
    def draw() -> bytes:
        drawn, panels = make_figure(rows=2, columns=2)
        assert len(panels) == 4
        panels[3].plot([1, 2], [3, 4], label="한국어", clip_on=True)
        save_picture(drawn, tmp_path / name)
        return (tmp_path / name).read_bytes()

    first = draw()
    assert first == draw()
    assert first.startswith(b"\x89PNG" if name.endswith("png") else b"<?xml")


def test_an_interruption_leaves_the_earlier_picture(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"an earlier picture")
    drawn, (panel,) = make_figure(width=4)
    (line,) = panel.plot([0, 1], [0, 1])
    draw, calls = line.draw, count()

    def interrupted(renderer: Any) -> None:
        if next(calls):  # the first call is for the layout
            raise KeyboardInterrupt
        draw(renderer)

    line.draw = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        save_picture(drawn, path)
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
    (tmp_path / "a.png").touch()  # an existing file is overwritten
    check_picture(tmp_path / "a.png")


def test_missing_fonts_are_skipped_and_missing_glyphs_warned_of(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_fonts("plain é ж") == ["DejaVu Sans"]
    assert capsys.readouterr().err == ""
    own = [font for font in font_manager.fontManager.ttflist if "mpl-data" in font.fname]
    gone = font_manager.FontEntry(fname="/nowhere/gone.ttf", name="Gone")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [gone, *own])
    assert find_fonts("a 한글") == ["DejaVu Sans"]
    assert "글한" in capsys.readouterr().err


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
    lines = draw_sparklines("loss", "step", {name: sorted(of) for name, of in curves.items()})
    assert max(map(cell_width, lines)) <= 80


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


def config_of(run: Path, **training: object) -> Config:
    config = tiny_config(run, "transformer")
    return config.model_copy(update={"training": config.training.model_copy(update=training)})


@pytest.mark.slow
@pytest.mark.parametrize("what", ["schedule", "curves", "lengths"])
def test_every_plot_of_a_run_is_text_or_picture(what: str, run: Path, capsys: Capture) -> None:
    info(run, plot=what)  # type: ignore[arg-type]
    text = capsys.readouterr().out
    assert "█" in text
    info(run / "config.yaml", plot=what)  # type: ignore[arg-type]
    assert capsys.readouterr().out == text
    info(run, plot=what, output=run / "view.svg")  # type: ignore[arg-type]
    assert (run / "view.svg").read_bytes().startswith(b"<?xml")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"wrote {run / 'view.svg'}\n")


def test_plotted_positions_are_those_of_the_model(run: Path) -> None:
    table = position_encodings(run, config_of(run))
    np.testing.assert_array_equal(table, compute_sinusoids(len(table), 32))
    with pytest.raises(UserError, match=r"model\.kind"):
        position_encodings(run, tiny_config(run, "seq2seq"))
    with pytest.raises(UserError, match="holds no model"):
        position_encodings(run, tiny_config(run, "transformer", model={"positions": "learned"}))


def test_plotted_positions_name_their_halves(run: Path) -> None:
    with pytest.raises(UserError, match="with -o"):
        info(run, plot="positions")
    info(run, plot="positions", output=run / "view.svg")
    picture = (run / "view.svg").read_text(encoding="utf-8")
    assert "<!-- sine -->" in picture and "<!-- cosine -->" in picture


@pytest.mark.parametrize(
    "shape", [InverseSqrt(peak=0.01), Cosine(peak=1.0), Plateau(peak=1.0, patience=1)]
)
def test_the_plotted_schedule_is_that_of_training(
    shape: InverseSqrt | Cosine | Plateau, run: Path
) -> None:
    drawn = schedule(run, config_of(run, schedule=shape, warmup=3, steps=3000))
    assert [step for step, _ in drawn[:3]] == [1, 3, 4] and drawn[-1][0] == 3000
    for step, rate in drawn:
        assert rate == shape.rate(step, ScheduleInputs(3, 3000, 32, [(4, 8.0), (8, 8.0)]))


def test_epochs_are_counted_in_batches(run: Path) -> None:
    config = config_of(run, steps=None, epochs=3, accumulate=2)
    batches = len(first_epoch(run, config)[1])
    drawn = schedule(run, config)
    assert drawn[-1][0] == 3 * math.ceil(batches / 2)


def test_every_sentence_is_in_one_range_of_lengths() -> None:
    lengths = np.random.default_rng(1).integers(1, 60, (500, 2)).astype(np.uint16)
    lengths[7] = 400, 3
    curves = length_histogram(lengths)
    assert list(curves) == ["source", "target"]
    for curve in curves.values():
        bounds, counts = zip(*curve, strict=True)
        assert sum(counts) == 500
        assert bounds[0] == 0 and list(bounds) == sorted(set(bounds))
    assert curves["source"][-1][1] >= 1


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"plot": "curves", "output": Path("a.gif")}, "a.gif "),
        ({"plot": "curves", "path": Path(".")}, ". "),
        ({"plot": "curves", "path": Path("no.yaml")}, "no.yaml: "),
    ],
)
def test_what_cannot_be_plotted_is_named(options: dict[str, Any], key: str, run: Path) -> None:
    with pytest.raises(UserError, match=f"^{re.escape(key)}"):
        info(**options)


@pytest.mark.parametrize(
    ("place", "options"),
    [
        ("run/batches", {"plot": "schedule"}),
        ("nothing", {"plot": "schedule"}),
        ("nothing", {"config": True}),
    ],
)
def test_a_run_named_by_the_environment_is_never_replaced_by_a_config(
    place: str, options: dict[str, Any], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MTKIT_MODEL", place)
    with pytest.raises(UserError, match=f"{place} is not a run directory"):
        info(**options)
    monkeypatch.setenv("MTKIT_MODEL", "")
    Path("mtkit.yaml").write_bytes(demo_config().read_bytes())
    info(**options)


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


def test_a_run_without_a_log_has_no_curves(run: Path) -> None:
    (run / "metrics.jsonl").unlink()
    with pytest.raises(UserError, match=r"metrics\.jsonl"):
        info(run, plot="curves")
