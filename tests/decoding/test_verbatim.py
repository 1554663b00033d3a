"""Laws of what is copied because there is nothing to translate, and of prefixes to the letter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from architectures import transformer
from folders import SENTENCES, train, write_model
from mtkit.config.decoding import DecodingSettings
from mtkit.corpus.text import is_blank, normalise
from mtkit.decoding.api import Translator, load
from mtkit.decoding.engines.engine import Request
from mtkit.decoding.text.line import Copied, Line
from mtkit.decoding.text.pipeline import open_window
from mtkit.decoding.text.words import spaced_words
from mtkit.tokenizer.codec import Tokenizer

UNTRANSLATED = [
    "1",
    "102",
    "(1)",
    "2024-01-31",
    "31.12.1999, 23:59",
    "00:00:01,000 --> 00:00:04,000",
    "-",
    "%",
    "***",
    "१२३ । ٤٥٦",
    "“…” ?!",
    "🙂🙃 5",
    "½ + ¼ = ¾",
    "12   15\t18",
]
DATE = "2024-01-31"
TIMES = "00:00:01,000 --> 00:00:04,000"
MARKS = ["-", "–", "•", "* ", ">", "##", "(1)", "2)", "[12]", "3:", "1 –", "10:30 -", DATE, TIMES]
MARKS += [" ".join([DATE] * 30), "1: " * 30]
SENTENCES_WITH_NUMBERS = [
    "2 dogs run.",
    "2 Männer rennen.",
    "1. Mai ist frei.",
    "1. A dog runs.",
    "10:30 Uhr ist zu spät.",
    "5 % der Leute kommen.",
    "3 - 4 dogs run.",
    "# 8 runs.",
    "He was born in 1990",
    "It costs approx. 5",
    "siehe Abb. 3",
    "Why does it cost No. 5 ?",
    "« Où ? »",
    '" He said no . "',
    "Il a dit non !",
    "vgl. S. 12 (2016)",
    "( sic ) A dog",
    "Are you over 18?",
    "He left... and came back…",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    lines = [*SENTENCES, "Собака бежит."]
    return train(lines, vocab_size=320, normalization_rule_name="identity")


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Translator:
    folder = tmp_path_factory.mktemp("model") / "model"
    return load(write_model(folder, tokenizer, transformer(), max_length=40), "cpu", engine="torch")


def segments(text: str, tokenizer: Tokenizer, **settings: Any) -> list[str | list[int]]:
    """Return the copied parts of a line as text, and the others as the ids that the model reads."""
    (line,) = open_window([Line(text)], tokenizer, Request(DecodingSettings(**settings))).lines
    return [piece.text.string if isinstance(piece, Copied) else piece.ids for piece in line.pieces]


@pytest.mark.parametrize("line", UNTRANSLATED)
def test_a_line_without_letters_stays_as_it_is(line: str, translator: Translator) -> None:
    assert translator.translate([line, f"  {line}"]) == [line, f"  {line}"]
    assert [one.alternatives for one in translator.results([line], n_best=2)] == [[]]


@given(line=st.text(st.characters(exclude_categories=["L", "Cs"])))
def test_no_line_without_letters_reaches_the_model(line: str, tokenizer: Tokenizer) -> None:
    parts = segments(line, tokenizer)
    assert len(parts) == (0 if is_blank(normalise(line)) else 1)
    assert all(isinstance(part, str) for part in parts)


@pytest.mark.parametrize(
    "line", ["\u200d", "\u2060 ", "\ufe0f", "\xad", "\u200b", "\u3164", "\x07"]
)
def test_invisible_lines_are_empty(line: str, translator: Translator) -> None:
    assert translator.translate([line]) == [""]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("sentence", ["A dog runs.", "Собака бежит."])
def test_marks_before_a_line_are_copied(mark: str, sentence: str, tokenizer: Tokenizer) -> None:
    (whole,) = segments(sentence, tokenizer)
    assert segments(f"{mark} {sentence}", tokenizer) == [mark.strip(), whole]


@pytest.mark.parametrize(
    "mark", [DATE, TIMES, "(2)", "[3]", ":-)", "***", "→", " ".join(["1.2.2024."] * 30)]
)
def test_marks_after_the_last_sentence_are_copied(mark: str, tokenizer: Tokenizer) -> None:
    (whole,) = segments("A dog runs.", tokenizer)
    assert segments(f"A dog runs. {mark}", tokenizer) == [whole, mark]


def test_subwords_are_aligned_to_words_of_the_sentence_not_to_equal_marks(
    tokenizer: Tokenizer,
) -> None:
    request = Request(DecodingSettings(max_length=5), alignments=True)
    (line,) = open_window([Line("1: 2) 🙃2) A dog runs.")], tokenizer, request).lines
    copied = line.pieces[0]
    assert isinstance(copied, Copied) and copied.text.string == "1: 2) 🙃"
    numbered = spaced_words(line.text)
    words = [numbered.at(offset) for part in line.parts for offset in part.text.origin]
    assert words == sorted(words)
    assert set(words) == {2, 3, 4, 5}


@pytest.mark.parametrize("line", [*SENTENCES, *SENTENCES_WITH_NUMBERS])
def test_numbers_and_punctuation_of_a_sentence_stay_in_it(line: str, tokenizer: Tokenizer) -> None:
    assert segments(line, tokenizer, max_length=200) == tokenizer.encode_source([normalise(line)])


@given(line=st.text(st.sampled_from("a1. -()[]:•→>\t\u200b2024-01-31🙃")))
def test_every_visible_character_is_copied_or_read(line: str, tokenizer: Tokenizer) -> None:
    parts = segments(line, tokenizer, max_length=200)
    texts = [part if isinstance(part, str) else tokenizer.decode([part])[0] for part in parts]
    visible = [character for character in line if not is_blank(character)]
    assert [character for character in "".join(texts) if not is_blank(character)] == visible


PREFIX = "№ 5, n.º 3, 10³ m², 1½, می\u200cروم, 他说：“好，”"


@pytest.mark.parametrize("rule", ["identity", "nmt_nfkc"])
@pytest.mark.parametrize("prefix", [PREFIX, " ", "น้ำ", "র\u200d্যাব", "e\u0301", "ｶﾞ ﬁ"])
def test_a_prefix_is_kept_to_the_letter(rule: str, prefix: str, tmp_path: Path) -> None:
    model = write_model(
        tmp_path / "model", train(normalization_rule_name=rule), transformer(), max_length=120
    )
    with_prefix = load(model, "cpu", engine="torch", max_length=120)
    (best,) = with_prefix.results([Line("A dog runs.", prefix=prefix)], n_best=2)
    for translation in (best, *best.alternatives):
        assert translation.text.startswith(prefix.strip())
