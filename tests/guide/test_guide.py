"""`mtkit guide` shows the pages of the user guide."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import mtkit
from commands import call
from mtkit.guide.pages import read_pages

FOLDER = Path(mtkit.__file__).parent / "guide"
TOPICS = sorted({path.stem for path in FOLDER.glob("*.md")} - {"README"})


def test_without_a_topic_each_page_is_listed_with_its_heading(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("guide") == 0
    listed = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[0] for line in listed) == TOPICS
    for line in listed:
        topic, heading = line.split(maxsplit=1)
        first = (FOLDER / f"{topic}.md").read_text(encoding="utf-8").splitlines()[0]
        assert first == f"# {heading}"


@pytest.mark.parametrize("topic", TOPICS)
def test_a_page_that_is_not_shown_on_a_terminal_is_its_markdown(
    topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("guide", topic) == 0
    assert capsys.readouterr().out == (FOLDER / f"{topic}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("topic", TOPICS)
def test_on_a_terminal_a_page_is_rendered(
    topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert call("guide", topic) == 0
    shown = capsys.readouterr().out
    assert "```" not in shown
    assert "|---|" not in shown


def test_an_unknown_topic_is_an_error_that_lists_the_topics(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("guide", "trainng") == 2
    message = capsys.readouterr().err
    assert message.startswith("guide: no page on 'trainng'")
    assert all(topic in message for topic in TOPICS)


def test_the_first_pages_follow_the_order_of_the_work() -> None:
    assert list(read_pages())[:4] == ["corpus", "training", "translation", "evaluation"]
