"""A language is served under every code of it, and never for another language."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from estimators import with_languages, write_model_with
from folders import copier_of, train
from mtkit.config.target_tags import piece_of_tag
from mtkit.extras.serve.codes import ServedLanguages, rank_sources, without_region
from mtkit.extras.serve.directions import Directions, Leg, ServedDirection, find_directions
from servers import application, directions_of

TAGS = ["pes_Arab", "prs_Arab", "tgl_Latn", "nob_Latn", "pbt_Arab", "zho_Hant", "zho_Hans"]
TAGS += ["srp_Cyrl", "kor_Hang", "arb_Arab", "arz_Arab", "pt_BR", "pt_PT", "toy_A", "toy_B"]
"""Target tags of a model."""
GERMAN = "Der Hund läuft über die große Wiese, und die Katze schläft auf dem Sofa."
TRADITIONAL = "這是一個關於狗的故事,他們在公園裡玩耍。"
SIMPLIFIED = "这是一个关于狗的故事,他们在公园里玩耍。"


@pytest.mark.parametrize(
    ("served", "names"),
    [
        ("de", "deu ger deu_Latn de-Latn-AT de-rAT DE-CH"),
        ("pt", "pt_BR pt-rBR PT-PT por_Latn pb"),
        ("zh", "zh-Hans zh_CN zho_Hans cmn chi zh-SG zh-Hans-TW"),
        ("zh-Hant", "zh-TW zh_HK zho_Hant ZH-HANT zt zh-rTW cmn-TW zh-Hant-CN"),
        ("ko", "kor_Hang ko-KR"),
        ("ar", "arb_Arab ara"),
        ("no", "nb nob_Latn NB no_NO"),
        ("nb", "no nob_Latn nb-NO"),
        ("he", "iw heb_Hebr"),
        ("fil", "tl tgl_Latn fil-PH"),
        ("pbt-Arab", "ps pus pbt_Arab"),
        ("sr-Latn", "sh srp_Latn sr_ME"),
    ],
)
def test_a_language_is_found_by_every_code_of_it(served: str, names: str) -> None:
    languages = ServedLanguages(["en", served])
    found = {name: languages.find(name) for name in names.split()}
    assert found == dict.fromkeys(names.split(), served)


@pytest.mark.parametrize(
    ("served", "asked"),
    [
        ("zh", "zh-TW"),
        ("zh", "zh_HK"),
        ("zh", "yue"),
        ("zh-Hant", "zh"),
        ("zh-Hant", "zho_Hans"),
        ("sr", "sr_Latn"),
        ("sr", "sr-ME"),
        ("ar", "arz_Arab"),
        ("da", "no"),
    ],
)
def test_a_language_or_script_is_never_served_for_another(served: str, asked: str) -> None:
    assert ServedLanguages([served]).find(asked) == ""
    direction = ServedDirection("en", served, (Leg("m", "en", served, None),))
    with pytest.raises(HTTPException, match=f"is not served; choose from en-{served}$"):
        Directions({("en", served): direction}).find("en", asked)


def test_a_region_is_dropped_but_not_the_script_that_it_implies() -> None:
    tags = ["de-AT", "zh-TW", "zh-CN", "fa-AF", "uz-AF", "es-419", "de-AT-1996", "toy-A"]
    plain = [without_region(tag) for tag in tags]
    assert plain == ["de", "zh-Hant", "zh", "fa", "uz-Arab", "es", "de-1996", "toy-A"]


def test_every_tag_of_a_model_is_served_and_reached_by_every_code_that_is_listed(
    tmp_path: Path,
) -> None:
    """Also by a name that is no code of a language."""
    options: dict[str, Any] = {
        "normalization_rule_name": "identity",
        "control_symbols": list(map(piece_of_tag, TAGS)),
    }
    tokenizer = train(vocab_size=300 + len(TAGS), **options)
    model = write_model_with(tmp_path / "m", with_languages("en", "de"), tokenizer)
    directions = find_directions([str(model)])
    tags = {leg.tag for direction in directions.by_pair.values() for leg in direction.legs}
    assert tags == {*TAGS}
    for tag in TAGS:
        assert directions.find("EN-us", tag).legs[0].tag == tag
    with application({str(model): copier_of(tokenizer)}, directions) as send:
        listed = {each["code"] for each in send("GET", "/languages").json()}
        for each in send("GET", "/v2/languages", params={"type": "target"}).json():
            listed.add(each["language"])
        models = send("GET", "/v1/models").json()["data"]
    for code in listed - {"en"}:
        directions.find("en", code)
    names = {direction.name for direction in directions.by_pair.values()}
    assert {model["id"] for model in models} == names | {"auto"}


def test_a_text_of_a_language_that_is_not_served_is_refused_unless_its_language_is_given() -> None:
    directions = directions_of("en-de", "fr-de")
    copier = copier_of(train([GERMAN]))
    with application({"en-de": copier, "fr-de": copier}, directions) as send:
        fields = {"q": GERMAN, "source": "auto", "target": "de"}
        refused = send("POST", "/translate", json=fields)
        assert refused.status_code == 400
        assert refused.json()["error"] == (
            "languages: text that seems to be German is not served; choose from en-de, fr-de"
        )
        for change in ({"source": "en"}, {"q": "Der Hund"}):
            assert send("POST", "/translate", json=fields | change).status_code == 200


def test_the_script_of_chinese_is_detected() -> None:
    for text, script, other in ((TRADITIONAL, "zh-Hant", "zh"), (SIMPLIFIED, "zh", "zh-Hant")):
        ranking, unserved = rank_sources(text, ["en", "zh", "zh-Hant"])
        assert (ranking[0][0], unserved) == (script, None)
        _, unserved = rank_sources(text, ["en", other])
        assert unserved == script
    for tag in ("zh-TW", "zh-HK"):
        assert rank_sources(TRADITIONAL, ["en", tag])[0][0][0] == tag
