"""Laws of reading lines, writing output files, and splitting long lines."""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
import sentencex
from hypothesis import example, given
from hypothesis import strategies as st

from mtkit.artifacts.output import open_output
from mtkit.config.decoding import DecodingSettings
from mtkit.corpus.files import split_lines
from mtkit.decoding.engines.engine import Request
from mtkit.decoding.text import sentences
from mtkit.decoding.text.fit import split_to_fit
from mtkit.decoding.text.line import Context
from mtkit.decoding.text.sentences import split_sentences
from mtkit.decoding.text.text import Text, join_texts
from mtkit.errors import UserError
from mtkit.tokenizer.codec import Tokenizer


def cut(content: bytes, sizes: Iterator[int]) -> Iterator[bytes]:
    """Yield blocks of certain sizes."""
    stream = io.BytesIO(content)
    while block := stream.read(next(sizes)):
        yield block


def lines_of(content: bytes) -> list[bytes]:
    """Return the lines of a text with their line feeds."""
    return re.findall(rb"[^\n]*\n|[^\n]+", content)


@given(
    st.lists(st.sampled_from([b"\n", b"\r", b"a", b"\xff", b" ", "\u2028".encode()])).map(b"".join),
    st.lists(st.integers(1, 5), min_size=1),
)
def test_only_a_line_feed_ends_a_line(content: bytes, sizes: list[int]) -> None:
    assert list(split_lines(cut(content, cycle(sizes)))) == [
        line.removesuffix(b"\n") for line in lines_of(content)
    ]


def test_no_more_is_read_than_the_next_line_needs() -> None:
    blocks = cut(b"a\n" * 1000, cycle([10]))
    next(split_lines(blocks))
    assert len(b"".join(blocks)) == 2 * 1000 - 10


def test_an_output_file_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), open_output(path) as (file, _):
        file.write(b"half")
        raise KeyboardInterrupt
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("out.txt", b"old")]
    with open_output(path) as (file, _):
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("out.txt", b"new")]


def test_output_of_another_command_is_never_resumed(tmp_path: Path) -> None:
    path, dependencies = tmp_path / "out", {"the input": "a file"}
    with pytest.raises(KeyboardInterrupt), open_output(path, dependencies) as (file, _):
        file.write(b"of the file\n")
        raise KeyboardInterrupt
    if not (child := os.fork()):  # killed, so that it removes nothing
        try:
            with open_output(path) as (file, _):
                file.write(b"of a pipe\n")
                file.flush()
                os._exit(9)
        finally:  # whatever happens, there are not two processes that test
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    with open_output(path, dependencies) as (file, done):
        file.write(b"of the file\n")
    assert (done, path.read_bytes()) == (0, b"of the file\n")
    assert list(tmp_path.iterdir()) == [path]


def test_two_commands_never_write_one_file(tmp_path: Path) -> None:
    path, dependencies = tmp_path / "out", {"the input": "a file"}
    with open_output(path, dependencies) as (file, _):
        file.write(b"first\n")
        file.flush()
        for again in (dependencies, None):
            with (
                pytest.raises(UserError, match="being written by another command"),
                open_output(path, again),
            ):
                pass
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("out", b"first\n")]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    actual: list[bytes] = []
    reader = threading.Thread(target=lambda: actual.append(path.read_bytes()))
    reader.start()
    with open_output(path) as (file, _):
        file.write(b"through")
    reader.join()
    assert actual == [b"through"]
    assert path.is_fifo()


def test_an_output_that_cannot_be_written_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"), open_output(tmp_path / "no" / "out"):
        pass


class Letters(Tokenizer):
    """A tokenizer with a subword for each character, or with several."""

    def __init__(self, subwords: int = 1) -> None:
        self.subwords = subwords
        self.tags = {}

    def encode_source(self, lines: list[str], threads: int = 1) -> list[list[int]]:
        return [[ord(letter) for letter in line for _ in range(self.subwords)] for line in lines]


def parts_of(line: str, limit: int, *, abbreviations: str = "", subwords: int = 1) -> list[str]:
    """Return the parts of a line that have at most `limit` subwords."""
    settings = DecodingSettings(max_length=limit, abbreviations=abbreviations)
    context = Context(Letters(subwords), Request(settings))
    # The line before has other parts, which must not get into those of this line.
    texts = [Text.of_line("Why? " * 9), Text.of_line(line)]
    other, parts = split_to_fit(texts, context)
    text = "".join(text_of(ids[::subwords]) for _, ids in other)
    assert text.replace(" ", "") == "Why?" * 9
    return [text_of(ids[::subwords]) for _, ids in parts]


def text_of(ids: list[int]) -> str:
    return "".join(map(chr, ids))


LETTERS = st.text(st.sampled_from('ab .!?。！"” 　\n'), max_size=60)


@given(LETTERS, st.integers(1, 12))
def test_parts_fit_and_lose_no_text(line: str, limit: int) -> None:
    parts = parts_of(line, limit)
    assert re.sub(r"\s", "", "".join(parts)) == re.sub(r"\s", "", line)
    assert all(len(part) <= limit for part in parts)


@pytest.mark.parametrize(
    "character", ["ที่", "က္ကို", "\U0001f469\u200d\U0001f680", "\U0001f44b\U0001f3fd"]
)
def test_no_combined_character_is_cut_in_two(character: str) -> None:
    for part in parts_of(character * 8, 9 * len(character) // 2):
        assert part == character * (len(part) // len(character))


@pytest.mark.parametrize(
    "sentences",
    [
        ["वह घर जाता है।", "मैं किताब पढ़ता हूँ।"],
        ["وہ گھر جاتا ہے۔", "کیا تم آؤ گے؟"],
        ["እሱ ወደ ቤት ሄደ።", "አንተስ ትመጣለህ፧"],
        ["သူ အိမ်ပြန်သည်။", "မင်းလာမလား။"],
    ],
)
def test_long_lines_end_at_the_full_stops_of_their_script(sentences: list[str]) -> None:
    line = " ".join(sentences)
    assert parts_of(line, len(line) - 1) == sentences


def test_a_line_is_split_at_sentence_ends_else_spaces_else_characters() -> None:
    assert parts_of("It rains.", 12) == ["It rains."]
    assert parts_of('He said "no." Why? Pi is 3.14.', 12) == [
        "He said",
        '"no."',
        "Why?",
        "Pi is 3.14.",
    ]
    assert parts_of("雨が降っている。本当ですか？はい！", 12) == [
        "雨が降っている。",
        "本当ですか？",
        "はい！",
    ]
    assert parts_of("one two three four", 12) == ["one two", "three four"]
    assert parts_of("abcdefghijklmnop", 12) == ["abcdefgh", "ijklmnop"]


def test_single_characters_are_not_split() -> None:
    assert parts_of("ab", 1, subwords=2) == ["a", "b"]


def test_parts_are_joined_by_a_space_unless_the_script_has_none() -> None:
    assert joined(["It rains.", "", "Why?"]) == "It rains. Why?"
    assert joined(["雨が降る。", "なぜ？"]) == "雨が降る。なぜ？"
    assert joined(["비가 온다.", "왜?"]) == "비가 온다. 왜?"
    assert joined(["สวัสดีครับ", "ผมชื่อสมชาย"]) == "สวัสดีครับ ผมชื่อสมชาย"
    assert joined(["雨。", "Why?"]) == "雨。 Why?"
    assert joined([]) == ""


def joined(texts: list[str]) -> str:
    return join_texts(map(Text.of_line, texts)).string


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(["en", "zh-TW", "kik"]))
@example("a.\u2028b.\r\x85c?\t\t! 😀", "en")
@example("Plan B\xa0. Plan C\u3000. Good.", "en")
def test_no_text_is_lost_between_sentences(line: str, language: str) -> None:
    parts = split_sentences(line, language)
    assert all(map(str.strip, parts)) or parts == [line]
    assert "".join("".join(parts).split()) == "".join(line.split())


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("fr", "M. le maire regarde la maison."),
        ("fr", "Mlle. Dupont regarde la maison."),
        ("de", "Dr. Braun liest das Buch."),
        ("de", "Er wohnt im 2. Stock des Hauses."),
        ("de", "Im 19. Jahrhundert war es anders."),
        ("da", "Det var den 3. Maj i byen."),
        ("cs", "Narodil se 5. Května v Praze."),
        ("fi", "Hän tuli 2. Kerrokseen eilen."),
        ("hu", "1990. október 3-án történt."),
        ("en", "See Fig. 3 and Eq. 4 for it."),
        ("en", "See Eq. Four and also J. K. Rowling."),
        ("en", "It takes approx. 5 minutes."),
        ("en", "Add two tbsp. sugar and mix."),
        ("en", "1. A dog runs."),
        ("en", "No. 5 is alive."),
        ("fr", "selon l'art. 5 du code civil"),
        ("es", "La Sra. López lee el libro."),
        ("pt", "A Av. Brasil é longa."),
        ("sv", "T.ex. en hund springer."),
        ("nl", "Ik zag o.a. Twee honden."),
        ("pl", "To jest tzw. Dobra zmiana."),
        ("no", "Det er dvs. Oslo i dag."),
        ("hu", "A Kft. Budapesten van ma."),
        ("ro", "Locuiesc pe str. Victoriei de mult."),
        ("es", "Los EE. UU. Votaron ayer."),
        ("tr", "Doç. Dr. Ali geldi bugün."),
        ("id", "Jl. Sudirman ada di sini."),
        ("ru", "т. е. это не так"),
        ("ru", "Это А. С. Пушкин пишет."),
        ("el", "Ο κ. Παπαδόπουλος γράφει."),
        ("hy", "Ես տեսա Ա. Պետրոսյանին։"),
        ("ja", "彼は「はい。」と言った。"),
        ("am", "ዶ. አበበ መጣ"),
        ("tlh", "Yahoo! is a company"),
    ],
)
def test_no_line_is_split_at_a_full_stop_that_may_end_no_sentence(language: str, text: str) -> None:
    assert split_sentences(text, language) == [text]
    before = "They have come home late."
    assert split_sentences(f"{before} {text}", language)[1:] in ([text], [])
    parts = parts_of(f"{before} {text} {before}", 2 * len(text))
    assert " " not in text or text.split()[0] not in parts


@pytest.mark.parametrize("end", ["in the FCT.", "and so on...", "in 2007.", "by Anna."])
def test_a_line_is_split_after_acronyms_ellipses_years_and_names(end: str) -> None:
    parts = [f"It was seen {end}", "They left."]
    assert split_sentences(" ".join(parts), "en") == parts


def test_no_line_is_split_after_an_abbreviation_of_the_corpus() -> None:
    line = "Il voit Mlle. Dupont dans la rue. Elle lit."
    whole = "Il voit Mlle. Dupont dans la rue."
    assert split_sentences(line, "fr", {"Mlle"}) == [whole, "Elle lit."]
    assert parts_of(line, len(line) - 1, abbreviations="Mlle") == [whole, "Elle lit."]


@given(st.text(st.sampled_from("Ab1 .!?。”"), max_size=40), st.sampled_from(["en", "zh"]))
def test_no_short_word_number_or_initial_is_split_off(line: str, language: str) -> None:
    parts = split_sentences(line, language)
    if len(parts) > 1:
        assert not any(re.fullmatch(r"\w{1,4}\.", part) for part in parts)


def test_a_long_line_is_segmented_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    segmented: list[str] = []

    def segment(language: str, text: str) -> list[str]:
        segmented.append(text)
        return list(sentencex.segment(language, text))

    monkeypatch.setattr(sentences, "segment", segment)
    monkeypatch.setattr(sentences, "BLOCK_CHARACTERS", 60)
    spoken = [*["He came and left.", "Why?"] * 20, "“" * 100 + ".", *["He did."] * 20]
    assert split_sentences(" ".join(spoken), "en") == spoken
    assert len(segmented) > 10 and max(map(len, segmented)) <= 60
