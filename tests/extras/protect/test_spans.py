"""Laws of what stands alone and is copied, of tags around a line, and of warnings of losses."""

from __future__ import annotations

import warnings
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from architectures import transformer
from folders import SENTENCES, copier_of, train, write_model
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.api import Translator
from mtkit.decoding.engines.engine import Hypothesis, Request
from mtkit.decoding.losses import Losses
from mtkit.decoding.text.line import Copied, Line, Translation
from mtkit.decoding.text.pipeline import open_window
from mtkit.errors import TranslationWarning
from mtkit.extras.protect.notations import NOTATIONS, Notation
from mtkit.extras.protect.spans import find_spans
from mtkit.tokenizer.codec import Tokenizer
from scripts import SAMPLES

URLS = ["https://example.org/a?b=c#d", "ftp://a.b/ü", "www.example.com", "mailto:a@example.org"]
ADDRESSES = ["user@example.org", "first.last+tag@sub.example.co.uk"]
PATHS = ["/usr/local/bin", "~/notes", "./run.sh", "../a/b", "C:\\Users\\Anna\\a.txt", "src/main.c"]
NAMES = ["README.md", "example.com", "my-file_2.tar.gz", "example.org/path"]
PLACEHOLDERS = ["{name}", "{0}", "{{count}}", "${HOME}", "%s", "%1$s", "%(name)s", "%-5.2f", "%d"]
TAGS = ["<b>", "</b>", "<br/>", '<a href="x y">', "{\\an8}", "<!-- a note -->", "<00:01:02.500>"]
SPANS = [*URLS, *ADDRESSES, *PATHS, *NAMES, *PLACEHOLDERS, *TAGS]
CUES = [
    "WEBVTT",
    "WEBVTT - A title",
    "00:00:01,000 --> 00:00:04,000",
    "00:01.000 --> 00:04.000 align:start position:0%",
]
OTHER_SCRIPTS = ["Ο άνθρωπος βλέπει το σπίτι.", "Это книга.", "東京", "日本語 😀 ..."]
OTHER_SCRIPTS += ["हिन्दी १२", "שלום!"]
TEXTS = [
    *SENTENCES,
    "He left.She came.",
    "z.B. usw. e.g. U.S.A. a.m.",
    "and/or km/h he/she",
    "100% sure, 50%ig, 5% discount",
    "a < b > c, 1 <2 and 3> 2, <3",
    "#tag #1 (s) {name",
    "Mr.Smith {a b} $5, $5/$6, 5 $ and 6 $",
    "KEY: value, 10:30, :) ;-) [laughs] e.g. 1.234.567.890",
    "He said: no -- or -b? ~5 |a =b 50 %of",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train(normalization_rule_name="identity")


@pytest.fixture(scope="module")
def copier(tokenizer: Tokenizer) -> Translator:
    return copier_of(tokenizer)


def parts_of(text: str, tokenizer: Tokenizer, **settings: object) -> list[str | list[int]]:
    """Return the copied parts of a line as text, and the others as the ids that the model reads."""
    decoding = DecodingSettings.model_validate({"max_length": 200} | settings)
    (line,) = open_window([Line(text)], tokenizer, Request(decoding)).lines
    parts: list[str | list[int]] = []
    for piece in line.pieces:
        parts.append(piece.text.string if isinstance(piece, Copied) else piece.ids)
    return [part for part in parts if part]


def spans_of(text: str) -> list[str]:
    """Return what is protected in a text."""
    return [text[span.start : span.end] for span in find_spans(text)]


def is_copied(line: str, tokenizer: Tokenizer) -> bool:
    """Return whether the model reads nothing of a line."""
    return all(isinstance(part, str) for part in parts_of(line, tokenizer))


@pytest.mark.parametrize("line", [*SPANS, *CUES, *OTHER_SCRIPTS, f"({URLS[0]})", " ".join(SPANS)])
def test_a_line_with_nothing_to_translate_is_copied(line: str, tokenizer: Tokenizer) -> None:
    assert parts_of(line, tokenizer) == [line]
    assert parts_of(f"- {line} 5.", tokenizer) == [f"- {line} 5."] or line in CUES


@pytest.mark.parametrize("name", SAMPLES)
def test_a_line_is_copied_unless_the_vocabulary_knows_its_script(
    name: str, tokenizer: Tokenizer
) -> None:
    sentence = SAMPLES[name].first
    identity = {"normalization_rule_name": "identity", "hard_vocab_limit": False}
    own = train([sentence], vocab_size=400, **identity)
    assert not is_copied(sentence, own)
    assert is_copied(sentence, tokenizer) == (not name.startswith("Latin"))


@pytest.mark.parametrize("line", TEXTS)
def test_ordinary_text_has_no_spans(line: str, tokenizer: Tokenizer) -> None:
    assert spans_of(line) == []
    assert not is_copied(line, tokenizer)


@pytest.mark.parametrize("notation", NOTATIONS, ids=lambda notation: notation.example)
def test_every_notation_is_one_span_that_comes_back(notation: Notation, copier: Translator) -> None:
    line = f"A dog {notation.example} runs."
    assert spans_of(line) == [notation.example]
    assert copier.translate([line]) == [line]


@pytest.mark.parametrize("span", SPANS)
def test_a_span_in_a_sentence_is_found_and_divides_no_sentence(
    span: str, tokenizer: Tokenizer
) -> None:
    line = f"The dog {span}, and {span} runs."
    assert spans_of(line) == [span, span]
    (read,) = parts_of(line, tokenizer)
    assert isinstance(read, list)
    (text,) = tokenizer.decode_source([read])
    assert span not in text and text.startswith("The dog") and text.endswith("runs.")


@pytest.mark.parametrize("span", SPANS)
def test_a_span_after_the_last_sentence_is_copied(span: str, tokenizer: Tokenizer) -> None:
    if " " not in span:
        sentence = tokenizer.encode_source(["A dog runs."])
        read, copied = parts_of(f"A dog runs. {span}", tokenizer)
        assert [read] == sentence
        assert isinstance(copied, str) and copied.strip() == span


def test_a_span_beside_letters_without_spaces_is_no_whole_line() -> None:
    chinese = train(["请看吧是一个网站。"], vocab_size=280, normalization_rule_name="identity")
    for line in ("请看https://example.com吧", "https://example.com是一个网站。", "看a@b.org吧"):
        assert not is_copied(line, chinese)
        assert len(spans_of(line)) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<i>", "</i>"),
        ("{\\an8}", ""),
        ("- <i>", "</i>"),
        ("<p><b>", "</b> </p>"),
        ('<v.name> "', '"'),
        ("♪ <i>", "</i> ♪"),
        ("", "<br/>"),
    ],
)
def test_tags_around_a_line_are_copied(before: str, after: str, copier: Translator) -> None:
    sentence = "A dog runs."
    tags_before = before.removesuffix('"')
    tags_after = after.removeprefix('"')
    text = f"{before}{sentence}{after}"
    inner = text[len(tags_before) : len(text) - len(tags_after)].strip()
    expected = [tags_before, *parts_of(inner, copier.tokenizer), tags_after]
    assert parts_of(text, copier.tokenizer) == [part for part in expected if part]
    request = copier.request.changed(alignments=True)
    (translation,) = copier.results([text], request)
    assert translation.text == text
    assert translation.alignment == {(number, number) for number, _ in translation.alignment}
    assert translation.alignment


@given(text=st.text(st.sampled_from("<b>/i {\\an8} A1.:%s@-é東"), max_size=40))
def test_every_visible_character_is_copied_or_read(text: str, tokenizer: Tokenizer) -> None:
    request = Request(DecodingSettings(max_length=200))
    window = open_window([Line(text)], tokenizer, request)
    copies = [[Hypothesis(each.source[:-1], 0.0, True)] for each in window.sentences]
    (translation,) = window.join(copies)
    respell = tokenizer.source_spelling.respell
    written = "".join(respell(translation.text).split())
    assert sorted(written) == sorted("".join(respell(text).split()))


# Warnings


@pytest.fixture(scope="module")
def random_model(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "model", tokenizer, transformer())


def test_losses_are_counted_over_all_lines() -> None:
    losses = Losses(10)
    losses.count([Translation("a", letters=5), Translation("b", letters=5, lost=["{x}", "%s"])])
    losses.count([Translation("c", letters=10, unknown_letters="жжы", lost=["<b>"])])
    letters, spans = losses.warnings()
    share = "15.0% of the letters are not in the vocabulary (such as ж ы in line 13)"
    assert letters.startswith(share)
    assert spans == "2 lines lost a placeholder, tag or URL; first: line 12 ({x})"


def test_a_few_unknown_letters_are_as_usual() -> None:
    losses = Losses()
    losses.count([Translation("a", letters=10_000, unknown_letters="é")])
    assert losses.warnings() == []


def test_python_warns_once_of_losses_after_all_lines(copier: Translator) -> None:
    lines = ["A dog runs.", "A dog 東京 {name}.", "東", "A {name} runs."]
    with pytest.warns(TranslationWarning, match="東 京 in line 2") as caught:
        assert len(copier.translate(lines)) == 4
    assert len(caught) == 1
    with pytest.warns(TranslationWarning) as caught:
        assert len(list(copier.results(lines))) == 4
    assert len(caught) == 1


def test_nothing_is_said_of_lines_that_keep_everything(copier: Translator) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lines = [*SENTENCES, *URLS, "A {name} runs."]
        assert len(copier.translate(lines)) == len(lines)


def test_the_command_warns_once_of_unknown_letters_and_of_spans_lost_after_a_prefix(
    random_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mtkit.decoding.api import load
    from mtkit.decoding.translate import Files, Format, translate

    source = tmp_path / "in.txt"
    source.write_text("A dog runs.\nA {name} runs.\n{name}\nTwo %s 東\n", encoding="utf-8")
    prefixes = tmp_path / "prefixes.txt"
    prefixes.write_text("\nEin\n\nZwei\n", encoding="utf-8")  # what follows one is never split
    files = Files(source, tmp_path / "out", prefixes=prefixes)
    translate(load(random_model, "cpu", engine="torch"), files, Format())
    messages = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert len([line for line in messages if "lost a placeholder" in line]) == 1
    assert len([line for line in messages if "東 in line 4" in line]) == 1
    assert any("2 lines lost a placeholder, tag or URL; first: line 2" in line for line in messages)


def test_a_model_of_random_weights_loses_no_span(random_model: Path) -> None:
    from mtkit.decoding.api import load

    lines = ["A {name} runs.", "Two %s of %s dogs", "A dog runs."]
    with closing(load(random_model, "cpu", engine="torch")) as translator:
        results = list(translator.results(lines))
    assert "{name}" in results[0].text
    assert results[1].text.count("%s") == 2
    assert [result.lost for result in results] == [[], [], []]
