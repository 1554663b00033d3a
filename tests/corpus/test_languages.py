"""Language codes, and identification of the language of lines."""

from __future__ import annotations

import pytest

from commands import call
from mtkit.config.language_codes import check_language
from mtkit.config.yaml import demo_config, load_config
from mtkit.corpus.languages import is_long_enough, supported_languages
from mtkit.errors import UserError
from mtkit.scoring.writing import LANGUAGE_SCRIPTS


@pytest.mark.parametrize("code", [*LANGUAGE_SCRIPTS, "de", "DE", "pt-BR", "zh_Hans", "yue", "ckb"])
def test_language_codes_are_accepted(code: str) -> None:
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
def test_a_likely_code_is_suggested(wrong: str, right: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean {right}"):
        check_language(wrong)


@pytest.mark.parametrize("wrong", ["", "x", "qx", "12", "e n"])
def test_other_text_is_rejected(wrong: str) -> None:
    with pytest.raises(ValueError, match="not a language code"):
        check_language(wrong)


def test_configs_and_commands_reject_unknown_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"--set data.target_language=jp: .* did you mean ja"):
        load_config(demo_config(), ["data.target_language=jp"])
    assert call("score", "-r", "none", "--language", "kor") == 2
    error = capsys.readouterr().err
    assert error.startswith("--language: ") and "ko" in error


def test_every_supported_language_has_a_code_that_configs_accept() -> None:
    for code in supported_languages():
        check_language(code)


def test_all_alphabets_need_as_many_letters() -> None:
    assert not is_long_enough("tilda operators, ") and not is_long_enough("тильда операторы, ")
    assert is_long_enough("the operators of the tilda")
    assert is_long_enough("там операторы тильда и так")
    assert is_long_enough("我们今天很早就回家")
