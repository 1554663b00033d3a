"""The text of a chat message is translated, and what stands around it is not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import call
from folders import SENTENCES, copier_of, train
from mtkit.extras.serve.prompts import ChatText, read_message
from servers import Send, application, directions_of

# The messages of the user that each tool sends, by its source code, with texts of these tests, and
# what it expects from a model that copies.
MESSAGES = {
    "Subtitle Edit": (
        "Translate from English to German, keep punctuation as input, keep line breaks exactly the "
        "same, do not censor the translation, give only the output without comments:"
        "\n\n- A dog: it runs.\n- Why?",
        "- A dog: it runs.\n- Why?",
    ),
    "Immersive Translate": (
        "Translate to German (output translation only):\n\nA dog runs.",
        "A dog runs.",
    ),
    "Immersive Translate, paragraphs": (
        "Translate to German:\n\nA dog runs.\n\n%%\n\nWhy?",
        "A dog runs.\n\n%%\n\nWhy?",
    ),
    "Immersive Translate, 2024": (
        "Translate the text to German, please do not explain any sentences, just translate or "
        "leave them as they are.:\n\nA dog runs.",
        "A dog runs.",
    ),
    "PDFMathTranslate": (
        "You are a professional,authentic machine translation engine.\n\n;; Treat next line as "
        "plain text input and translate it into German, output translation ONLY. If translation "
        "is unnecessary (e.g. proper nouns, codes, {{1}}, etc. ), return the original text. NO "
        "explanations. NO notes. Input:\n\nA dog runs.",
        "A dog runs.",
    ),
    "PDFMathTranslate, Ollama": (
        "Translate the following markdown source text to German. Keep the formula notation {v*} "
        "unchanged. Output translation directly without any additional text.\n"
        "Source Text: A dog runs.\nTranslated Text:",
        "A dog runs.",
    ),
    "a person, about a journey": (
        "Translate the following text into German: A dog runs from a man to a dog: it runs.",
        "A dog runs from a man to a dog: it runs.",
    ),
    "a person": ('Translate the following to German: "A dog runs."', '"A dog runs."'),
    "Pot": ('Translate into German:\n"""\nA dog runs.\n"""', "A dog runs."),
    "Weblate, since 2026": (
        '{"source_language": "en", "target_language": "de_AT", "glossary": [{"source": "dog", '
        '"target": "Hund"}], "strings": [{"source": "A \\"dog\\" @@PH1@@.", "parts": [{"type": '
        '"text", "text": "A "}], "key": "menu"}, {"source": "Why?\\nWhy?", "parts": []}]}',
        '["A \\"dog\\" @@PH1@@.", "Why?\\nWhy?"]',
    ),
    "Weblate, before": (
        "A dog runs [X0X].\n==WEBLATE_PART==\nWhy?",
        "A dog runs [X0X].\n==WEBLATE_PART==\nWhy?",
    ),
    "numbered cues": (
        "Translate the following subtitles from English to German:\n\n1. A dog runs.\n2. Why?",
        "1. A dog runs.\n2. Why?",
    ),
    "cues in brackets": ("[7] A dog runs.\n[8] Why?", "[7] A dog runs.\n[8] Why?"),
    "cues in JSON": (
        'Translate the following lines to German:\n```json\n[{"id": "a", "text": "Why?"}]\n```',
        '[{"id": "a", "text": "Why?"}]',
    ),
    "a text in a fence": ("Translate to German: ```A dog runs.\nWhy?```", "A dog runs.\nWhy?"),
    "a text in tags": ("Translate to German:\n<text>\nWhy?\n</text>", "Why?"),
}


@pytest.fixture(scope="module")
def send() -> Iterator[Send]:
    """An application that copies English for German, French for German, and German for English."""
    directions = directions_of("fr-de", "de-en", "en-de")
    copier = copier_of(train([*SENTENCES, "A dog: it runs."]))
    with application(dict.fromkeys(("fr-de", "de-en", "en-de"), copier), directions) as send:
        yield send


def fill(message: ChatText, texts: Sequence[str]) -> str:
    """Return an answer with these texts."""
    pieces = zip_longest(message.literals, map(message.encode, texts), fillvalue="")
    return "".join(chain.from_iterable(pieces))


def ask(send: Send, content: str, **fields: Any) -> Any:
    message = {"role": "user", "content": content}
    answer = send("POST", "/v1/chat/completions", json={"messages": [message], **fields})
    return answer.json() | {"status": answer.status_code}


@pytest.mark.parametrize("name", MESSAGES)
def test_an_instruction_of_a_tool_is_no_text(send: Send, name: str) -> None:
    content, expected = MESSAGES[name]
    answer = ask(send, content, model="en-de")
    assert answer["choices"][0]["message"]["content"] == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (MESSAGES["Subtitle Edit"][0], "en-de"),
        (MESSAGES["Weblate, since 2026"][0], "en-de"),
        ("Translate from german to English, keep it: Why?", "de-en"),
        ("Translate from English to Klingon, keep it: Why?", None),
        ("Translate from German to French, keep it: Why?", None),
        ("Translate this to Deutsch: Why?", "en-de"),
    ],
)
def test_an_instruction_names_the_languages_unless_the_model_does(
    send: Send, content: str, expected: str | None
) -> None:
    answer = ask(send, content, model="gpt-4o-mini")
    assert answer.get("model") == expected
    if expected is None:
        assert answer["status"] == 400
        assert "is not served; choose from fr-de, de-en, en-de" in answer["error"]["message"]
    assert ask(send, content, model="en-de")["model"] == "en-de"


def test_items_are_translated_one_by_one_and_come_back_under_their_numbers(send: Send) -> None:
    message = read_message("Translate to German:\n\n1. A dog runs.\n\n2) Why?\nSo?\n[3] No.")
    assert message.texts == ["A dog runs.", "", "Why?", "So?", "No."]
    assert fill(message, ["W", "", "x", "y", "z"]) == "1. W\n\n2) x\ny\n[3] z"
    days = ["5. May.", "7. June."]  # are no items
    assert read_message("\n".join(days)).texts == days


def test_an_instruction_names_languages_or_is_a_text() -> None:
    for content in ("Translate to the left: now.", "Translate the axis to Mary: now."):
        assert read_message(content).texts == [content]
    for name in ("German", "Deutsch", "de", "Chinese (Simplified)", "简体中文", "Klingon"):
        assert read_message(f"Translate to {name}: now.").texts == ["now."]


@pytest.mark.parametrize(
    "instruction",
    [
        "Translate this letter to Anna to German",
        "Translate what is written from left to right to German",
        "Translate the letter to German, and add nothing to it",
    ],
)
def test_an_instruction_is_recognised_whatever_else_stands_in_it(instruction: str) -> None:
    message = read_message(f"{instruction}: Why?")
    assert (message.target, message.texts) == ("German", ["Why?"])


@given(st.text(st.sampled_from('ab 1.\n\t%=[]{}":\ud83d\ue000')))
def test_a_text_without_an_instruction_is_itself_with_the_texts_of_its_lines(text: str) -> None:
    message = read_message(text)
    assert fill(message, message.texts) == text


strings = st.text(st.sampled_from('ab "\\\n\0é犬'), max_size=3)
values = st.recursive(
    st.none() | st.integers(0, 9) | strings,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
    max_leaves=4,
)


@given(st.lists(values) | st.dictionaries(st.sampled_from(["text", "id", "a"]), values))
def test_json_keeps_its_structure(value: Any) -> None:
    message = read_message(json.dumps(value))
    assert json.loads(fill(message, message.texts)) == value


@pytest.mark.parametrize("content", ['["\\ud800"]', '{"\\ud800": "a"}', '["\ue000"]', "[" * 9999])
def test_json_that_cannot_be_answered_is_a_text(content: str) -> None:
    message = read_message(content)
    assert fill(message, message.texts) == content
    "".join([*message.literals, *message.texts]).encode()


def test_a_prompt_of_the_user_is_recognised(capsys: pytest.CaptureFixture[str]) -> None:
    content = "Now, please!\nEnglish => German\nA dog => runs.\nTHANK you!"
    prompts = ["Now, *! {source} => {target} {text} Thank you!"]
    message = read_message(content, prompts)
    assert (message.source, message.target, message.texts) == (
        "English",
        "German",
        ["A dog => runs."],
    )
    assert read_message(f"{content} No.", prompts).texts[0] == "Now, please!"
    for wrong in ("Translate", "{text} {text}", "{text} {target}", "{source} {source} {text}"):
        assert call("serve", "--prompt", wrong) == 2
        assert "--prompt" in capsys.readouterr().err


def test_an_unknown_instruction_is_named_once_in_the_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for _ in range(2):
        assert read_message("Please translate this for me. SECRET").texts
    logged = capsys.readouterr().err
    assert logged.count("unknown instruction") == 1
    assert "SECRET" not in logged
