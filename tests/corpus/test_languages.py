"""Codes of languages: what is one is taken, what is none is refused with the one that was meant."""

from __future__ import annotations

import pytest

from commands import call
from mtkit.config.languages import check_language
from mtkit.config.yaml import load_config
from mtkit.errors import UserError
from mtkit.scoring.metrics import TOKENIZERS


@pytest.mark.parametrize("code", [*TOKENIZERS, "de", "DE", "pt-BR", "zh_Hans", "yue", "ckb"])
def test_a_code_of_a_language_is_taken(code: str) -> None:
    check_language(code)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("Korean", "ko"),
        ("kor", "ko"),
        ("jp", "ja"),
        ("japanese", "ja"),
        ("cn", "zh"),
        ("ger", "de"),
        ("deu", "de"),
        ("Germn", "de"),
        ("한국어", "ko"),
        ("eng-US", "en"),
    ],
)
def test_what_is_no_code_is_refused_with_the_one_that_was_meant(wrong: str, right: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean {right}"):
        check_language(wrong)


@pytest.mark.parametrize("wrong", ["", "x", "qx", "12", "e n"])
def test_what_is_like_no_language_is_refused_all_the_same(wrong: str) -> None:
    with pytest.raises(ValueError, match="no code of a language"):
        check_language(wrong)


def test_commands_check_the_languages_that_they_are_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(UserError, match=r"--set data.target_language=jp: .* did you mean ja"):
        load_config(overrides=["data.target_language=jp"])
    assert call("score", "-r", "none", "--language", "kor") == 2
    assert capsys.readouterr().err == (
        "--language: 'kor' is no code of a language: did you mean ko?\n"
    )
