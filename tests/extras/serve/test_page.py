"""The page in Chromium: what is typed becomes what `mtkit translate` gives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from architectures import transformer
from browser import Tab, open_tab
from estimators import LINES
from folders import SENTENCES, as_if_trained, train, write_model
from mtkit.decoding.api import Translator, load
from servers import Running, directions_of, running

pytestmark = pytest.mark.slow
MARKUP = "<b>A dog runs.</b><script>document.title = 'taken'</script><img src=x onerror=alert(1)>"
OUTPUT = "[...document.querySelectorAll('#output .line')].map(line => line.textContent).join('\\n')"


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    path = tmp_path_factory.mktemp("models") / "model"
    tokenizer = train([*SENTENCES, *LINES])
    write_model(path, tokenizer, transformer(), as_if_trained, beam=2)
    return load(path, scores=False, workers=1, threads=1)


@pytest.fixture(scope="module")
def server(translator: Translator) -> Iterator[Running]:
    with running({"en-de": translator}, directions_of("en-de")) as server:
        yield server


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with open_tab(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
def tab(browser: Tab, server: Running) -> Tab:
    """The page, with its languages loaded."""
    browser.open(server.url)
    browser.wait_for("document.getElementById('target').value === 'de'")
    browser.events.clear()
    return browser


def type_text(tab: Tab, text: str) -> None:
    """Replace the text, and wait until its translation is shown."""
    tab.evaluate("document.getElementById('text').select()")
    tab.type(text)
    count = len(text.split("\n"))
    tab.wait_for(
        "document.getElementById('output').getAttribute('aria-busy') === 'false' && "
        f"document.querySelectorAll('#output .line').length === {count}"
    )


def test_typed_text_becomes_what_translate_gives(tab: Tab, translator: Translator) -> None:
    type_text(tab, "\n".join(SENTENCES))
    assert tab.evaluate(OUTPUT).split("\n") == translator.translate(SENTENCES)


def test_text_is_never_html(tab: Tab, translator: Translator) -> None:
    type_text(tab, MARKUP)
    assert tab.evaluate(OUTPUT) == translator.translate([MARKUP])[0]
    inside = "#output img, #output script, #output b, #mirror img, #mirror script, #mirror b"
    assert tab.evaluate(f"document.querySelectorAll('{inside}').length") == 0
    assert tab.evaluate("document.title") == "Translate with mtkit"


def test_words_that_belong_together_light_up_under_the_pointer(
    tab: Tab, translator: Translator
) -> None:
    line = "It rains on the plain in Spain."
    type_text(tab, line)
    (translation,) = translator.results([line], alignments=True)
    links = translation.alignment
    assert links
    for source in {source for source, _ in links}:
        tab.point_at(f"#mirror [data-word='{source}']")
        lit = tab.evaluate(
            "[...document.querySelectorAll('#output .lit')].map(word => Number(word.dataset.word))"
        )
        assert set(lit) == {target for other, target in links if other == source}
    _, target = min(links)
    tab.point_at(f"#output [data-word='{target}']")
    lit = tab.evaluate(
        "[...document.querySelectorAll('#mirror .lit')].map(word => Number(word.dataset.word))"
    )
    assert set(lit) == {source for source, other in links if other == target}


def test_alternatives_and_warnings_are_shown_when_asked_for(tab: Tab) -> None:
    type_text(tab, "\n".join(SENTENCES))
    assert tab.evaluate("document.getElementById('details').hidden")
    tab.evaluate("document.getElementById('show-alternatives').click()")
    tab.evaluate("document.getElementById('show-estimates').click()")
    shown = "document.getElementById('details').textContent"
    tab.wait_for(f"{shown}.includes('ther translation') && {shown}.includes('onfidence')")


def test_a_document_is_given_back_translated(
    tab: Tab, translator: Translator, tmp_path: Path
) -> None:
    file = tmp_path / "notes.srt"
    file.write_text("1\n00:00:01,000 --> 00:00:02,000\nWhy?\n", encoding="utf-8")
    root = tab.send("DOM.getDocument")["root"]["nodeId"]
    node = tab.send("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
    tab.send("DOM.setFileInputFiles", files=[str(file)], nodeId=node)
    tab.wait_for("!document.getElementById('save').hidden")
    tab.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    tab.evaluate("document.getElementById('save').click()")
    tab.wait_for_event("Page.downloadProgress", state="completed")
    saved = (tmp_path / "notes.de.srt").read_text(encoding="utf-8")
    assert saved.split("\n")[2] == translator.translate(["Why?"])[0]


def test_the_page_asks_only_its_own_server_and_reports_no_error(tab: Tab, server: Running) -> None:
    tab.open(f"{server.url}/")
    type_text(tab, "Why?")
    requests = [each for each in tab.events if each["method"] == "Network.requestWillBeSent"]
    assert requests
    for request in requests:
        assert request["params"]["request"]["url"].startswith(server.url)
    methods = {each["method"] for each in tab.events}
    assert "Runtime.exceptionThrown" not in methods
    logged = [each for each in tab.events if each["method"] == "Log.entryAdded"]
    assert not [each for each in logged if each["params"]["entry"]["level"] == "error"]


def test_everything_can_be_reached_by_keyboard_and_has_a_name(tab: Tab) -> None:
    type_text(tab, "Why?")
    tab.evaluate("document.getElementById('source').focus()")
    reached = ["source"]
    for _ in range(7):
        tab.press("Tab")
        reached.append(tab.evaluate("document.activeElement.id"))
    names = ["source", "swap", "target", "text", "open", "copy"]
    assert reached == [*names, "show-alternatives", "show-estimates"]
    for name in reached:
        object_id = tab.send(
            "Runtime.evaluate", expression=f"document.getElementById({json.dumps(name)})"
        )["result"]["objectId"]
        tree = tab.send("Accessibility.getPartialAXTree", objectId=object_id, fetchRelatives=False)
        assert tree["nodes"][0]["name"]["value"]


@pytest.mark.parametrize("is_dark", [False, True])
@pytest.mark.parametrize("width", [1400, 400])
def test_nothing_is_wider_than_the_window(tab: Tab, width: int, is_dark: bool) -> None:
    tab.resize(width, is_dark=is_dark)
    type_text(tab, "A dog runs. " * 20 + "w" * 300)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    colour = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, colour[4:-1].split(","))) < 300) == is_dark
