"""Identification of the language of lines."""

from __future__ import annotations

import pytest

from mtkit.config.language_codes import short_code, standard_language
from mtkit.corpus.languages import is_long_enough, is_supported, supported_languages
from mtkit.scoring.writing import LANGUAGE_SCRIPTS


@pytest.mark.parametrize("code", LANGUAGE_SCRIPTS)
def test_languages_with_their_own_tokenizer_have_standard_codes(code: str) -> None:
    assert short_code(code) == code


def test_identified_languages_have_standard_codes() -> None:
    for code in supported_languages():
        assert standard_language(code) == code


@pytest.mark.parametrize("name", ["tl", "Filipino", "kik", "gug_Latn", "nob", "zho_Hant", "cmn"])
def test_languages_are_identified_by_every_spelling(name: str) -> None:
    assert is_supported(name)


def test_all_alphabets_need_as_many_letters() -> None:
    assert not is_long_enough("tilda operators, ") and not is_long_enough("тильда операторы, ")
    assert is_long_enough("the operators of the tilda")
    assert is_long_enough("там операторы тильда и так")
    assert is_long_enough("我们今天很早就回家")
