"""The picture of the README shows what mtkit really writes."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from architectures import transformer
from draw_terminal import SENTENCE, draw_session, main
from folders import as_if_trained, train, write_model

ROOT = Path(__file__).parents[1]


def texts_of(picture: str) -> list[str]:
    """Return the texts that stand in a picture."""
    return [html.unescape(text) for text in re.findall(r">([^<>]+)</text>", picture)]


@pytest.mark.slow
def test_the_terminal_shows_a_command_and_the_translation_that_it_wrote(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", train(), transformer(), as_if_trained)
    main(str(model), str(tmp_path / "picture.svg"))
    shown = "".join(texts_of((tmp_path / "picture.svg").read_text("utf-8"))).replace("\xa0", " ")
    assert "$ mtkit info" in shown
    assert "translating with" in shown


def test_a_picture_keeps_signs_that_mean_something_in_svg() -> None:
    shown = texts_of(draw_session(["echo 'a <b> & c'"]))
    assert any("a\xa0<b>\xa0&\xa0c" in text for text in shown)


def test_the_picture_in_the_repository_has_the_session_of_the_script() -> None:
    picture = (ROOT / "configs/results/terminal.svg").read_text("utf-8")
    shown = "".join(texts_of(picture)).replace("\xa0", " ")
    assert SENTENCE in shown
