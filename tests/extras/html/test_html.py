"""Laws of `export --to html`: one page that translates as mtkit does, and asks for nothing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from architectures import ARCHITECTURES, seq2seq, transformer
from browser import open_tab
from folders import SENTENCES, as_if_trained, train, write_model
from mtkit.artifacts.replacement import create
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.api import Translator, load
from mtkit.decoding.engines.engine import Engine, Hypothesis, NBestLists, Request, Sentence
from mtkit.decoding.estimation.flags import has_loop
from mtkit.errors import UserError
from mtkit.extras.html.export import export_to_html
from mtkit.extras.protect.spans import find_spans
from mtkit.extras.terms.glossary import TermGlossary
from mtkit.models.folder import open_model
from mtkit.tokenizer.codec import Tokenizer
from nasties import VALID
from pages import run_in_page, translate_in_page
from scripts import SAMPLES

Capture = pytest.CaptureFixture[str]

TEXTS = [*SENTENCES, *VALID.values()]
for sample in SAMPLES.values():
    TEXTS += [sample.first, f"{sample.first} {sample.second}", sample.first.upper()]
TEXTS += [
    "“Hello”, she said – ‘fine’…",
    "A dog—a man—runs.",
    "« Two men » ″one″ ′boat′",
    "① ½ Ⅷ ٣ ＡＢＣ ﬁne",
    "A dȯg rụns ṣọ̀ ş ș",
    "A DOG RUNS IN SPAIN. WHY? TWO MEN.",
    "Two Men And One Boat Rains On Plain Spain",
    "2024-05-06: A dog runs. (3)",
    "1) Two men, one boat. :-)",
    "• A dog runs 🐕 on the 👍🏽 plain. 😀",
    "<b>A dog</b> runs.",
    "<i>A dog runs.</i> {name}",
    "See https://example.org/x or /usr/bin/x for {{name}} %s.",
    "00:01.000 --> 00:02.000",
    "Straße ŉ ǆ Ǆ ﬀ İ I ı",
    "STRASSE ŉ ǆ Ǆ ﬀ İ DOG RUNS",
    "a" * 200,
    "A dog runs " * 20,
    "ⰀⰁ ꙮ 한글 漢字かな",
]
"""Texts for which the page must do what mtkit does."""
TEXTS = [re.sub(r"[\n\r]", " ", text) for text in TEXTS]
RANGES = [range(0x20, 0x370), range(0x1E00, 0x2C00), range(0xFB00, 0xFB10), range(0xFF00, 0xFFF0)]
MANY_CHARACTERS = tuple(sorted({*"".join(TEXTS), *map(chr, chain(*RANGES))}))
FEW_CHARACTERS = tuple(map(chr, range(0x20, 0x100)))
"""What the vocabularies of the tests are asked about; all of Unicode takes seconds."""


def export(folder: Path, tokenizer: Tokenizer, kind: Any = None, **decoding: Any) -> Path:
    """Export a model with random weights, and return the page."""
    write_model(folder / "model", tokenizer, kind or transformer(), as_if_trained, **decoding)
    export_to_html(str(folder / "model"), folder / "page.html")
    return folder / "page.html"


random_texts = settings(max_examples=3, phases=[Phase.generate])
"""Few examples of many texts, and no search for a smaller one, because each starts node."""


@contextmanager
def unicode_of(characters: tuple[str, ...]) -> Iterator[None]:
    """Export as if Unicode had only these characters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mtkit.extras.html.export.assigned_characters", lambda: characters)
        yield


@pytest.fixture(autouse=True, scope="module")
def _few_characters() -> Iterator[None]:
    with unicode_of(FEW_CHARACTERS):
        yield


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page whose model knows some letters with accents, and similar ones of all others."""
    folder = tmp_path_factory.mktemp("page")
    tokenizer = train(
        [*SENTENCES, "é ǹ ạ “x” 1 2 3", "İ ı Ş ş"],
        vocab_size=340,
        normalization_rule_name="identity",
    )
    with unicode_of(MANY_CHARACTERS):
        return export(folder, tokenizer, truecase=True)


TRANSFORMERS = sorted(
    name
    for name, kind in ARCHITECTURES.items()
    if kind.kind == "transformer" and name != "transformer-neighbourhood"
)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_page_translates_as_ctranslate2_does_in_int8(name: str, tmp_path: Path) -> None:
    tokenizer = train(normalization_rule_name="identity")
    page = export(tmp_path, tokenizer, ARCHITECTURES[name])
    lines = [*SENTENCES, "", "A dog. Two men!", "  one   boat ", "Spain " * 30]
    translator = load(tmp_path / "model", "cpu", engine="ctranslate2", compute_type="int8")
    assert translate_in_page(page, lines) == translator.translate(lines, beam=1)


@pytest.mark.parametrize(
    "decoding", [{"min_length": 6}, {"repetition_penalty": 1.5}, {"no_repeat_ngram": 2}], ids=str
)
def test_a_page_keeps_the_constraints_of_the_search(
    decoding: dict[str, float], tmp_path: Path
) -> None:
    page = export(tmp_path, train(), **decoding)
    translator = load(tmp_path / "model", "cpu", engine="ctranslate2", compute_type="int8")
    assert translate_in_page(page, SENTENCES) == translator.translate(SENTENCES, beam=1)


def test_a_page_of_a_model_with_tags_reads_the_chosen_tag(tmp_path: Path) -> None:
    tokenizer = train(vocab_size=302, control_symbols=["<2hau>", "<2yor>"])
    page = export(tmp_path, tokenizer)
    translator = load(tmp_path / "model", "cpu", engine="ctranslate2", compute_type="int8")
    for tag in ("hau", "yor"):
        expected = translator.translate(SENTENCES, beam=1, tag=tag)
        assert translate_in_page(page, SENTENCES, tag) == expected


READ_AND_WRITE = """
return input.map((text) => {
  const ids = translator.source.encode(text.toWellFormed?.() ?? text);
  return [ids, translator.source.decode(ids)];
});
"""


@pytest.mark.parametrize(
    "options",
    [
        {"normalization_rule_name": "identity"},
        {"normalization_rule_name": "nmt_nfkc"},
        {"normalization_rule_name": "nfkc_cf", "byte_fallback": False, "vocab_size": 80},
        {"user_defined_symbols": ["</script>", "og", "<s", "\ufdd0"], "split_digits": True},
        {"model_type": "unigram", "vocab_size": 290, "user_defined_symbols": ["in the"]},
        {"model_type": "unigram", "vocab_size": 36, "byte_fallback": False},
        {"add_dummy_prefix": False, "remove_extra_whitespaces": False},
    ],
    ids=str,
)
def test_a_page_splits_text_as_sentencepiece_does(options: dict[str, Any], tmp_path: Path) -> None:
    tokenizer = train(**options)
    page = export(tmp_path, tokenizer)
    processor = tokenizer._source

    def check(texts: list[str]) -> None:
        texts = [*texts, *(f"  {text}  dog " for text in texts)]
        for text, (ids, decoded) in zip(
            texts, run_in_page(page, READ_AND_WRITE, texts), strict=True
        ):
            assert ids == processor.encode(text), repr(text)
            assert [decoded] == tokenizer.decode([ids]), repr(text)

    check([text.encode(errors="replace").decode() for text in TEXTS])
    letters = st.sampled_from(
        ["dog", " ", "  ", "▁", "</script>", "og", "<s", "in the", "½", "é", "1"]
    )
    texts = st.lists(letters | st.characters(exclude_categories=["Cs"]), max_size=12).map("".join)
    random_texts(given(st.lists(texts, min_size=60, max_size=60))(check))()


STEPS = """
const read = [];
translator.translateIds = async (ids) => { read.push(ids); return "Ein Hund."; };
const results = [];
for (const line of input) {
  const text = await translator.translate(line, null, async () => {});
  results.push([text, read.splice(0)]);
}
return results;
"""


SPANS = [
    "%s",
    "%(name)d",
    "{count}",
    "{n, number}",
    "{% if x %}",
    "__NAME__",
    "`x y`",
    "``x``",
    "&amp;",
    "&lt;b&gt;",
    "a@b.cd",
    "https://a.bc/d",
    "/usr/bin",
    "x.txt",
    ": %s",
    "%s: ",
]
"""What no translation changes, with a colon or without."""


@dataclass
class OneAnswer(Engine):
    """An engine that translates everything alike, and remembers what it has read."""

    tokens: list[int]
    read: list[list[int]] = field(default_factory=list)
    name = "one answer"

    def search(
        self, sentences: Sequence[Sentence], request: Request, *, alone: bool = False
    ) -> Future[NBestLists]:
        self.read += [sentence.source for sentence in sentences]
        future = Future[NBestLists]()
        future.set_result([[Hypothesis(self.tokens, None, finished=True)] for _ in sentences])
        return future

    def close(self) -> None:
        pass


@pytest.mark.slow
def test_a_page_applies_the_text_steps_of_mtkit(page: Path) -> None:
    # All but the splitting into sentences, for which the page has simpler rules, and spans within
    # a sentence, at which it splits a line.
    tokenizer = open_model(page.parent / "model").tokenizer
    request = Request(DecodingSettings(beam=1, truecase=True, max_length=12))
    engine = OneAnswer(tokenizer.encode_target(["Ein Hund."])[0])
    translator = Translator(engine, tokenizer, request)
    mixed = st.sampled_from(
        [*"aAéÉạ“”’–-— .!?<>{}/1①½%:&`_@", "DOG", "dog ", "<b>", "🐕", "\u0323", "\t", *SPANS]
    )
    texts = st.lists(mixed, max_size=30).map("".join)

    def check(lines: list[str]) -> None:
        lines = [line for line in lines if not find_spans(line)]
        results = run_in_page(page, STEPS, lines)
        for line, (text, read) in zip(lines, results, strict=True):
            engine.read.clear()
            (translation,) = translator.results([line])
            assert read == engine.read, repr(line)
            assert text == translation.text, repr(line)

    check(
        [
            *TEXTS,
            "A {n, plural, one {dog} runs.",
        ]
    )
    random_texts(given(st.lists(texts, min_size=50, max_size=200))(check))()


LOOPS = [
    "ha ha ha ha",
    "a b a b a b",
    "Gegnernernernern",
    "ja, ja. JA ja",
    "日日日日日",
    "a a b b",
    "",
]


def test_a_page_finds_the_loops_that_mtkit_finds(page: Path) -> None:
    pairs = [*product(LOOPS, LOOPS), *((text, "a dog") for text in TEXTS)]
    found = run_in_page(page, "return input.map(([text, source]) => hasLoop(text, source));", pairs)
    assert found == [has_loop(text, source) for text, source in pairs]


@pytest.mark.parametrize("is_usual", [False, True])
def test_a_page_searches_again_for_a_loop_unless_loops_are_usual(
    is_usual: bool, page: Path
) -> None:
    script = """
    translator.data.unreliable_flags = input ? ["loop"] : [];
    const searched = [];
    const encode = (text) => translator.target.encode(text);
    const [loop, other] = ["dog dog dog dog", "a dog"].map(encode);
    translator.model.search = async (ids, { no_repeat_ngram }) => {
      searched.push(no_repeat_ngram);
      return no_repeat_ngram ? other : loop;
    };
    return [await translator.translate("A dog runs.", null, async () => {}), searched];
    """
    expected = ["dog dog dog dog", [0]] if is_usual else ["a dog", [0, 2]]
    assert run_in_page(page, script, is_usual) == expected


def test_a_page_copies_a_message_and_translates_around_it(page: Path) -> None:
    message = "{n, plural, one {# dog} other {# dogs}}"
    results = run_in_page(page, STEPS, [f"Men: {message} run {{x}}.", message])
    expected = [f"Ein Hund.: {message} Ein Hund. {{x}}.", message]
    assert [text for text, _ in results] == expected


def test_a_page_splits_lines_at_spans(tmp_path: Path, capsys: Capture) -> None:
    page = export(tmp_path, train())
    assert "limit: the page splits lines at URLs" in capsys.readouterr().err
    ((text, _),) = run_in_page(page, STEPS, ["A dog\ufdd4 %s runs https://a.bc/d."])
    assert text == "Ein Hund. %s Ein Hund. https://a.bc/d."


def test_an_export_says_that_the_page_lacks_the_glossary(tmp_path: Path, capsys: Capture) -> None:
    source = write_model(tmp_path / "source", train(), transformer(), as_if_trained)
    with create(tmp_path / "model", "model", {}, {}) as folder:
        for file in open_model(source).artifact.files:
            shutil.copy(source / file, folder)
        TermGlossary([(("dog",), ("Hund",))]).save(folder)
    export_to_html(str(tmp_path / "model"), tmp_path / "page.html")
    assert "limit: the page does not know the glossary" in capsys.readouterr().err


def test_a_page_translates_sentences_one_by_one_and_knows_abbreviations(tmp_path: Path) -> None:
    line = "A dog runs. Two men vs. one boat. Why? On Approx. Spain."
    expected = ["A dog runs.", "Two men vs. one boat.", "Why?", "On Approx. Spain."]
    page = export(tmp_path, train(), sentences="en", abbreviations="Approx")
    assert run_in_page(page, "return translator.splitter.split(input);", line) == expected


def test_a_page_shows_what_is_typed_in_the_other_language(page: Path, tmp_path: Path) -> None:
    lines = ["A dog runs.", "", "<img src=x onerror=alert(1)>", "Two men & one boat."]
    expected = "\n".join(translate_in_page(page, lines))
    with open_tab(tmp_path / "profile") as tab:
        tab.open(page.as_uri())
        tab.evaluate("document.getElementById('source').focus()")
        tab.type("\n".join(lines))
        tab.wait_for("document.getElementById('target').textContent !== ''")
        tab.wait_for("!document.getElementById('target').hasAttribute('aria-busy')")
        assert tab.evaluate("document.getElementById('target').textContent") == expected
        assert tab.evaluate("document.getElementById('target').childElementCount") == 0
        assert tab.evaluate("document.querySelectorAll('img').length") == 0
        requested = [
            event["params"]["request"]["url"]
            for event in tab.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        assert [url for url in requested if not url.startswith("blob:")] == [page.as_uri()]
        assert not [event for event in tab.events if "exception" in str(event.get("method"))]
        refused = "fetch('http://127.0.0.1:9/').then(() => false, () => true)"
        assert tab.evaluate(refused)


def test_a_page_translates_without_a_worker_too(page: Path, tmp_path: Path) -> None:
    with open_tab(tmp_path / "profile") as tab:
        tab.send("Page.addScriptToEvaluateOnNewDocument", source="delete window.Worker;")
        tab.open(page.as_uri())
        tab.evaluate("document.getElementById('source').focus()")
        tab.type("A dog runs.")
        tab.wait_for("document.getElementById('target').textContent.length > 1")
        tab.wait_for("!document.getElementById('target').hasAttribute('aria-busy')")
        expected = translate_in_page(page, ["A dog runs."])
        assert [tab.evaluate("document.getElementById('target').textContent")] == expected


def test_a_page_is_one_file_without_links_or_inline_handlers(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    markup = re.sub(r"<(script|style)\b([^>]*)>.*?</\1>", r"<\1\2></\1>", text, flags=re.DOTALL)
    assert not re.search(r"\s(src|href|action|style|on\w+)=", markup)
    assert "default-src 'none'" in markup
    assert "unsafe" not in markup


def test_no_subword_can_end_the_script_that_holds_it(tmp_path: Path) -> None:
    page = export(tmp_path, train(user_defined_symbols=["</script><b>"]), abbreviations="</script>")
    text = page.read_text(encoding="utf-8")
    assert text.count("</script>") == len(re.findall(r"<script\b", text))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (seq2seq(), "model.encoder.kind is lstm; a page runs only Transformers"),
        (ARCHITECTURES["transformer-lstm"], "model.decoder.kind is lstm"),
        (ARCHITECTURES["transformer-neighbourhood"], "model.neighbourhood"),
    ],
    ids=str,
)
def test_a_model_that_no_page_can_run_is_refused_by_name(
    kind: Any, message: str, tmp_path: Path
) -> None:
    write_model(tmp_path / "model", train(), kind)
    with pytest.raises(UserError, match=re.escape(message)):
        export_to_html(str(tmp_path / "model"), tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_a_page_needs_a_file_as_output(tmp_path: Path) -> None:
    write_model(tmp_path / "model", train(), transformer())
    with pytest.raises(UserError, match="choose a file with -o"):
        export_to_html(str(tmp_path / "model"), None)
    with pytest.raises(UserError, match="is a folder"):
        export_to_html(str(tmp_path / "model"), tmp_path)


def test_an_export_says_what_its_page_does_not_do(tmp_path: Path, capsys: Capture) -> None:
    page = export(tmp_path, train())
    messages = capsys.readouterr().err
    assert f"exported: {page}" in messages
    assert "limit: the page searches greedily" in messages
