"""Names of languages: every code and name of a language has one standard form."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import call
from mtkit.config.language_codes import (
    dotless_side,
    find_language,
    is_language_code,
    is_language_name,
    language_code,
    language_name,
    short_code,
    standard_language,
)
from mtkit.config.yaml import demo_config, load_config
from mtkit.errors import UserError

SPELLINGS = {
    "de": "de deu ger DE deu_Latn de-Latn German german Deutsch allemand",
    "zh": "zh zho chi cmn cmn_Hans zho_Hans zh-Hans Chinese Mandarin 中文",
    "zh-Hant": "zh-Hant zho_Hant cmn_Hant zh_hant",
    "ar": "ar ara arb arb_Arab Arabic العربية",
    "fa": "fa fas per pes pes_Arab Persian Farsi",
    "ko": "ko kor kor_Hang ko-Kore Korean 한국어",
    "ig": "ig ibo ibo_Latn Igbo IGBO",
    "yo": "yo yor yor_Latn Yoruba Yorùbá",
    "tn": "tn tsn tsn_Latn Tswana Setswana",
    "tw": "tw twi twi_Latn Twi",
    "sw": "sw swa swh swh_Latn Swahili Kiswahili",
    "nb": "nb nob nob_Latn",
    "fil": "fil tl tgl tgl_Latn Filipino",
    "he": "he iw heb_Hebr Hebrew עברית",
    "uz": "uz uzn_Latn Uzbek",
    "mn": "mn khk_Cyrl Mongolian",
    "et": "et est ekk Estonian",
    "sr": "sr srp_Cyrl Serbian",
    "sr-Latn": "sr-Latn srp_Latn sr_latn",
    "de-AT": "de-AT de_at deu-AT",
    "pt-BR": "pt-BR pt_br por-BR",
    "mos": "mos mos_Latn Mossi",
    "ace": "ace ace_Latn",
    "ace-Arab": "ace_Arab",
    "ckb": "ckb ckb_Arab Sorani",
}
"""Spellings of the language of each tag of BCP 47."""


@pytest.mark.parametrize("tag", SPELLINGS)
def test_every_spelling_of_a_language_has_one_standard_form(tag: str) -> None:
    assert {standard_language(spelling) for spelling in SPELLINGS[tag].split()} == {tag}


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("Simplified Chinese", "zh"),
        ("Traditional Chinese", "zh-Hant"),
        ("Brazilian Portuguese", "pt-BR"),
        (" Scottish Gaelic ", "gd"),
    ],
)
def test_names_may_have_several_words(name: str, tag: str) -> None:
    assert standard_language(name) == tag


@given(
    st.one_of(
        st.text(max_size=12), st.from_regex(r"[a-z]{2,3}([-_][A-Za-z]{2,4})?", fullmatch=True)
    )
)
def test_a_standard_form_is_its_own_standard_form(name: str) -> None:
    try:
        tag = standard_language(name)
    except ValueError as error:
        assert "is not a language" in str(error)
    else:
        assert standard_language(tag) == tag
        assert standard_language(language_code(tag)) == language_code(tag)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("jp", "ja"), ("cn", "zh"), ("cz", "cs"), ("dk", "da"), ("Germn", "de"), ("Swahilli", "sw")],
)
def test_a_likely_code_is_suggested(wrong: str, right: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean {right}"):
        standard_language(wrong)


@pytest.mark.parametrize(
    "wrong", ["", "x", "qx", "12", "e n", "zzz", "und", "a" * 1_000_000, "\udc80de"]
)
def test_other_text_is_rejected(wrong: str) -> None:
    with pytest.raises(ValueError, match="not a language; use a code") as error:
        standard_language(wrong)
    assert len(str(error.value)) < 200
    assert find_language(wrong) is None


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("zh-Hant", "zh"),
        ("yue", "zh"),
        ("arz", "ar"),
        ("pbt_Arab", "ps"),
        ("quy", "qu"),
        ("fil", "tl"),
        ("nb", "nb"),
        ("ace_Arab", "ace"),
        (None, ""),
    ],
)
def test_tools_get_a_code_of_two_letters_if_there_is_one(name: str | None, code: str) -> None:
    assert short_code(name) == code


def test_languages_with_dotless_i_are_known_by_every_spelling() -> None:
    assert dotless_side("tur_Latn", "en") == "source"
    assert dotless_side("German", "Azerbaijani") == "target"
    assert dotless_side("azj", "tr-TR") == "both"
    assert dotless_side(None, "deu") is None


def test_languages_have_names_in_words() -> None:
    assert language_name("ko") == "Korean"
    assert language_name("zh-Hant") == "Chinese (Traditional)"
    assert language_name("ace") == "Acehnese"


def test_ordinary_words_are_no_codes_and_names_of_columns() -> None:
    for code in ("en", "deu", "pt-BR", "zho_Hans", "ace_Arab", "yue_Hant"):
        assert is_language_code(code)
    for word in ("the", "dog", "and", "yes", "qx", "12", "", "x" * 1_000_000):
        assert not is_language_code(word)
    for name in ("English", "igbo", "Deutsch", "日本語"):
        assert is_language_name(name)
    for word in ("source", "house", "title", "notes", "y" * 1_000_000, "\0" * 100, "\ud800"):
        assert not is_language_name(word)


def test_configs_and_commands_store_the_standard_form(
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = load_config(demo_config(), ["data.target_language=Korean", "decoding.sentences=eng"])
    assert (config.data.target_language, config.decoding.sentences) == ("ko", "en")
    with pytest.raises(UserError, match=r"--set data.target_language=jp: .* did you mean ja"):
        load_config(demo_config(), ["data.target_language=jp"])
    assert call("score", "-r", "none", "--language", "Koraen") == 2
    error = capsys.readouterr().err
    assert error.startswith("--language: ") and "did you mean ko" in error


def test_help_does_not_load_languages() -> None:
    program = (
        "import sys, json\n"
        "import mtkit.cli.main, mtkit.config.settings\n"
        "print(json.dumps([name for name in sys.modules if 'lang' in name]))"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    assert not {"langcodes", "language_data"}.intersection(json.loads(output))
