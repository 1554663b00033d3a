"""Unmodified clients of other services get the translations of mtkit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError

import deepl
import openai
import pytest
from libretranslatepy import LibreTranslateAPI

from architectures import transformer
from folders import SENTENCES, as_if_trained, train, write_model
from mtkit.decoding.api import Translator, load
from servers import Running, directions_of, running

DIRECTIONS = directions_of("en-de", "de-fr", "en-de-fr")
GERMAN = "Der Hund läuft über die große Wiese, und die Katze schläft auf dem Sofa."
ENGLISH = "The dog runs across the large meadow, and the cat is asleep on the sofa."


@pytest.fixture(scope="module")
def translators(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Translator]]:
    """Two different models, from English to German, and from German to French."""
    folder = tmp_path_factory.mktemp("models")
    tokenizer = train([*SENTENCES, GERMAN, ENGLISH])
    translators: dict[str, Translator] = {}
    for pair, beam in (("en-de", 2), ("de-fr", 5)):
        model = write_model(folder / pair, tokenizer, transformer(), as_if_trained, beam=beam)
        translators[pair] = load(model, scores=False, workers=1, threads=1)
    yield translators


@pytest.fixture(scope="module")
def server(translators: dict[str, Translator]) -> Iterator[Running]:
    with running(translators, DIRECTIONS) as server:
        yield server


@pytest.fixture(scope="module")
def chat(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def translator(server: Running) -> Iterator[deepl.DeepLClient]:
    client = deepl.DeepLClient("none", server_url=server.url)
    yield client
    client.close()  # type: ignore[no-untyped-call]


def expected(translators: dict[str, Translator], text: str, *places: str) -> str:
    lines = text.split("\n")
    for place in places:
        lines = translators[place].translate(lines)
    return "\n".join(lines)


TEXT = "A dog runs.\n\nWhy?\nIt rains on the plain in Spain."


def test_openai_gets_the_translation_of_the_last_message_of_the_user(
    chat: openai.OpenAI, translators: dict[str, Translator]
) -> None:
    answer = chat.chat.completions.create(
        model="en-de",
        messages=[
            {"role": "system", "content": "You are a translator."},
            {"role": "user", "content": "Why?"},
            {"role": "assistant", "content": "Warum?"},
            {"role": "user", "content": [{"type": "text", "text": TEXT}]},
        ],
    )
    assert answer.choices[0].message.content == expected(translators, TEXT, "en-de")
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == "en-de"


def test_a_stream_of_openai_has_an_event_for_each_line_and_the_same_text(
    chat: openai.OpenAI, translators: dict[str, Translator]
) -> None:
    text = "\n".join(SENTENCES * 10)
    stream = chat.chat.completions.create(
        model="en-de",
        messages=[{"role": "user", "content": text}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    deltas = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert "".join(filter(None, deltas)) == expected(translators, text, "en-de")
    assert len([delta for delta in deltas if delta is not None]) == len(text.split("\n"))
    assert chunks[-2].choices[0].finish_reason == "stop"
    usage = chunks[-1].usage
    assert usage is not None and usage.completion_tokens > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_openai_lists_a_model_for_each_pair_and_a_response_names_the_pivot(
    chat: openai.OpenAI, translators: dict[str, Translator]
) -> None:
    assert [model.id for model in chat.models.list()] == ["en-de", "de-fr", "en-fr", "auto"]
    answer = chat.chat.completions.create(
        model="en-fr", messages=[{"role": "user", "content": TEXT}]
    )
    assert answer.choices[0].message.content == expected(translators, TEXT, "en-de", "de-fr")
    assert answer.model == "en-de-fr"
    detected = chat.chat.completions.create(
        model="auto", messages=[{"role": "user", "content": GERMAN}]
    )
    assert detected.model == "de-fr"


def test_errors_of_openai_name_the_field(chat: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="tools: not supported"):
        chat.chat.completions.create(
            model="en-de",
            messages=[{"role": "user", "content": "Why?"}],
            tools=[{"type": "function", "function": {"name": "look"}}],
        )
    with pytest.raises(openai.NotFoundError, match="choose from en-de"):
        chat.chat.completions.create(model="gpt", messages=[{"role": "user", "content": "Why?"}])


def test_openai_names_a_wrong_key(translators: dict[str, Translator]) -> None:
    with running(translators, DIRECTIONS, keys=["0123456789abcdef"]) as server:
        stranger = openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0)
        with stranger, pytest.raises(openai.AuthenticationError) as refused:
            stranger.chat.completions.create(
                model="en-de", messages=[{"role": "user", "content": "Why?"}]
            )
    assert refused.value.code == "invalid_api_key"


def test_libretranslate_translates_detects_and_lists_languages(
    server: Running, translators: dict[str, Translator]
) -> None:
    client = LibreTranslateAPI(server.url)
    assert client.translate(TEXT, "en", "de") == expected(translators, TEXT, "en-de")
    assert client.translate(TEXT, "en", "fr") == expected(translators, TEXT, "en-de", "de-fr")
    assert client.translate(GERMAN, "auto", "fr") == expected(translators, GERMAN, "de-fr")
    best, *_ = client.detect(ENGLISH)
    assert best["language"] == "en" and best["confidence"] > 50
    targets = {each["code"]: each["targets"] for each in client.languages()}
    assert targets == {"de": ["fr"], "en": ["de", "fr"], "fr": []}
    with pytest.raises(HTTPError) as refused:
        client.translate(TEXT, "en", "ko")
    with refused.value as response:
        assert "'en' to 'ko' is not served" in json.load(response)["error"]


def test_deepl_translates_lists_languages_and_counts_characters(
    server: Running, translator: deepl.DeepLClient, translators: dict[str, Translator]
) -> None:
    before = translator.get_usage().character
    results = translator.translate_text([TEXT, "Why?"], source_lang="EN", target_lang="DE")
    assert isinstance(results, list)
    assert [each.text for each in results] == [
        expected(translators, text, "en-de") for text in (TEXT, "Why?")
    ]
    after = translator.get_usage().character
    assert before.count is not None and after.count == before.count + len(TEXT) + len("Why?")
    detected = translator.translate_text(GERMAN, target_lang="FR")
    assert isinstance(detected, deepl.TextResult)
    assert detected.detected_source_lang == "DE"
    assert detected.text == expected(translators, GERMAN, "de-fr")
    assert [each.code for each in translator.get_source_languages()] == ["DE", "EN"]
    assert [each.code for each in translator.get_target_languages()] == ["DE", "FR"]


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"formality": "more"}, "formality"),
        ({"custom_instructions": ["Rhyme."]}, "custom_instructions"),
    ],
)
def test_what_mtkit_does_not_do_for_deepl_is_refused_by_name(
    translator: deepl.DeepLClient, wish: dict[str, Any], field: str
) -> None:
    with pytest.raises(deepl.DeepLException, match=field):
        translator.translate_text("Why?", source_lang="EN", target_lang="DE", **wish)


def test_text_in_a_tag_that_deepl_would_ignore_is_refused(translator: deepl.DeepLClient) -> None:
    options: dict[str, Any] = {"tag_handling": "xml", "ignore_tags": ["x"], "target_lang": "DE"}
    assert translator.translate_text("<x></x> <x/> Why?", source_lang="EN", **options)
    with pytest.raises(deepl.DeepLException, match="ignore_tags: text inside <x>"):
        translator.translate_text("<x>Why</x> not?", source_lang="EN", **options)


def test_what_changes_nothing_is_accepted(translator: deepl.DeepLClient) -> None:
    assert translator.translate_text(
        "Why?",
        source_lang="EN",
        target_lang="DE",
        formality="prefer_more",
        split_sentences="nonewlines",
        preserve_formatting=True,
        context="A park.",
        model_type="latency_optimized",
    )
