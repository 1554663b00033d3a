"""Laws of `decoding.protect`: what a project's own patterns match comes back unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import call
from folders import copier_of, train
from mtkit import plugins
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.api import Translator
from mtkit.errors import UserError
from mtkit.extras.protect.own_patterns import find_matches
from tasks import Capture

CONFIG = """\
run: run
training: {steps: 1}
model: {kind: transformer}
data:
  train: {source: a.en, target: a.de}
  valid: {source: a.en, target: a.de}
decoding:"""
BAD = ["(", "a*", "", r"(a)\1", "(?=a)", "[z-a]", "a)(b"]


@pytest.fixture(scope="module")
def copier() -> Translator:
    return copier_of(train(normalization_rule_name="identity"))


@pytest.mark.parametrize(
    ("pattern", "span"),
    [
        (r"XQ-\d+", "XQ-17"),
        (r"\$\d", "$1"),
        (r"\(s\)", "(s)"),
        (r"\[\w+\]", "[name]"),
        (r"(?i)acme \w+", "Acme Dog"),
        (r"é+", "éé"),
    ],
)
def test_what_a_pattern_matches_comes_back(pattern: str, span: str, copier: Translator) -> None:
    request = copier.request.changed(protect=["unused", pattern], max_length=200)
    for line in (
        f"A dog {span} runs.",
        f"Two <b>{span}</b>: {span}",
        f"https://a.b/{span} runs {span}",
    ):
        (translation,) = copier.results([line], request)
        assert translation.text == line
    message = f"{{n, plural, one {{A {span} dog}} other {{# dogs}}}}"
    assert copier.translate([message], protect=[pattern]) == [message]


@given(
    text=st.text("ab1é\U0001f600 -", max_size=30), patterns=st.sampled_from([["a+"], ["b", "1é?"]])
)
def test_matches_are_those_of_any_regular_expression(text: str, patterns: list[str]) -> None:
    expected = [match.span() for match in re.finditer("|".join(patterns), text)]
    assert find_matches(text, patterns) == expected


def test_no_pattern_takes_more_than_linear_time() -> None:
    assert find_matches("a" * 100_000, [r"(a|a)*b(a*)*c"]) == []


@pytest.mark.parametrize("pattern", BAD)
def test_a_bad_pattern_is_refused_where_it_is_set(
    pattern: str, tmp_path: Path, copier: Translator, capsys: Capture
) -> None:
    with pytest.raises(UserError, match=r"^protect: "):
        copier.request.changed(protect=[pattern])
    config = tmp_path / "mtkit.yaml"
    config.write_text(f"{CONFIG}\n  protect: ['{pattern}']\n", encoding="utf-8")
    assert call("train-spm", "-c", str(config)) == 2
    (message,) = capsys.readouterr().err.splitlines()
    assert message.startswith(f"{config}:8: decoding.protect: ")


def test_the_setting_is_a_list(copier: Translator) -> None:
    with pytest.raises(UserError, match=r"^protect: expected a list, found"):
        copier.request.changed(protect="a")


def test_without_the_extra_the_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "find_plugins", lambda group: {})
    assert DecodingSettings().protect == ()
    with pytest.raises(UserError, match="'protect' is not installed"):
        DecodingSettings(protect=("a",))
