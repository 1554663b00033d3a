"""Reading pairs: what a line is, how sides are paired, and errors that name the place."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from mtkit.config.corpora import Corpus
from mtkit.corpus.files import MAX_LINE_BYTES, count_lines, input_lines, read_lines
from mtkit.corpus.read import Pair, hash_corpora, read_pairs
from mtkit.errors import UserError
from mtkit.report import printable
from mtkit.scoring.line_files import load_lines
from nasties import TABLES, ZIPPED, ZSTANDARD, zstd

CORPUS: TypeAdapter[Corpus] = TypeAdapter(Corpus)
no_line_end = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))


def identity(corpora: Any) -> tuple[tuple[str, str], ...]:
    return tuple(hash_corpora(corpora, "data.train").items())


def corpus(**settings: Any) -> Corpus:
    return CORPUS.validate_python(settings)


def texts(corpora: Corpus | list[Corpus]) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in read_pairs(corpora)]


@pytest.fixture(autouse=True)
def _in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    Path(name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return name


@given(st.lists(no_line_end.map(lambda line: line.rstrip("\r"))), st.booleans(), st.booleans())
def test_only_line_feeds_end_lines(lines: list[str], terminated: bool, zipped: bool) -> None:
    lines = [line.removeprefix("\ufeff") if i == 0 else line for i, line in enumerate(lines)]
    if lines and not terminated and not lines[-1]:
        return  # an empty line without its end is no line
    text = "\n".join(lines) + ("\n" if terminated and lines else "")
    assert list(read_lines(write("a.gz" if zipped else "a", text))) == lines


def test_windows_line_ends_and_byte_order_marks_are_removed() -> None:
    assert list(read_lines(write("a", b"\xef\xbb\xbfone\r\ntwo\r\n"))) == ["one", "two"]


def test_gzip_is_recognised_by_its_content() -> None:
    write("a.gz", "one\n")
    shutil.copy("a.gz", "a.en")
    assert list(read_lines("a.en")) == ["one"]


def _zip(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", data)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "compress"), [("xz", lzma.compress), ("bz2", bz2.compress), ("zip", _zip)]
)
def test_other_compressed_formats_are_errors(name: str, compress: Callable[[bytes], bytes]) -> None:
    Path("a.en").write_bytes(compress(b"one\n"))
    said = f"a.en is compressed as .{name}"
    with pytest.raises(UserError, match=said):
        list(read_lines("a.en"))
    with pytest.raises(UserError, match=said):
        load_lines(Path("a.en"))
    with pytest.raises(UserError, match=said):
        next(input_lines(Path("a.en")))


def test_a_line_over_the_limit_is_blank_with_one_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fits, over, far_over = (
        b"x" * length for length in (MAX_LINE_BYTES, MAX_LINE_BYTES + 1, 3_000_000)
    )
    for name in ("a", "a.gz"):
        content = b"abc\n" + over + b"\nab\r\n" + far_over + b"\n\n" + fits
        lines = list(read_lines(write(name, content)))
        assert lines[:-1] == ["abc", "", "ab", "", ""]
        assert lines[-1] == fits.decode()
        warning = capsys.readouterr().err
        assert warning.count("\n") == 1
        assert f"{name}:2: longer than" in warning and "2 such lines" in warning


def test_invalid_utf8_is_replaced_with_one_warning(capsys: pytest.CaptureFixture[str]) -> None:
    lines = list(read_lines(write("a", b"fine\nb\xffd\nb\xfed\n")))
    assert lines == ["fine", "b\ufffdd", "b\ufffdd"]
    warning = capsys.readouterr().err
    assert warning.count("\n") == 1 and "a:2:" in warning and "2 such lines" in warning


def test_pairs_carry_their_corpus_and_place() -> None:
    write("a.en", "1\n2\n"), write("a.de", "eins\nzwei\n")
    write("b.en.gz", "3\n"), write("b.de", "drei\n")
    both = [
        corpus(source=["a.en", "b.en.gz"], target=["a.de", "b.de"]),
        corpus(source="b.de", target="b.de"),
    ]
    assert list(read_pairs(both)) == [
        Pair("1", "eins", 0, "a.en", 1),
        Pair("2", "zwei", 0, "a.en", 2),
        Pair("3", "drei", 0, "b.en.gz", 1),
        Pair("drei", "drei", 1, "b.de", 1),
    ]
    assert [pair.where for pair in read_pairs(both)][:2] == ["a.en:1", "a.en:2"]


def test_the_demo_is_read_from_the_package() -> None:
    demo = corpus(source="demo:valid.en", target="demo:valid.ko")
    first = next(read_pairs(demo))
    assert first.source and first.where == "demo:valid.en:1"
    with pytest.raises(UserError, match="demo:nothing: no such file"):
        next(read_lines("demo:nothing"))


def test_reading_streams() -> None:
    write("a", "x\n" * 5), write("b", "x\n" * 4)
    pairs = read_pairs(corpus(source="a", target="b"))
    assert [next(pairs).line for _ in range(4)] == [1, 2, 3, 4]  # the error comes later


@pytest.mark.parametrize(("source", "target"), [(3, 1200), (1200, 3), (0, 2)])
def test_unequal_sides_are_an_error_with_both_lengths(source: int, target: int) -> None:
    write("a", "x\n" * source), write("b", "x\n" * target)
    with pytest.raises(UserError, match=f"a has {source:,} lines, but b has {target:,}"):
        texts(corpus(source="a", target="b"))


def test_tables_are_read_by_their_columns() -> None:
    rows = [("one\xa01", "eins"), ("", "zwei"), ("three\x85", "drei")]
    for name in ("t.tsv", "t.tsv.gz"):
        write(name, "".join(f"{b}\tid\t{a}\n" for a, b in rows))
        assert texts(corpus(table=name, source_column=2, target_column=0)) == rows
    records = [{"translation": {"en": a, "de": b}, "id": 1} for a, b in rows]
    write("t.jsonl", "".join(f"{json.dumps(record)}\n" for record in records))
    columns = {"source_column": "translation.en", "target_column": "translation.de"}
    assert texts(corpus(table=["t.jsonl", "t.jsonl"], **columns)) == rows * 2
    flat: list[dict[str, Any]] = [{"translation.en": "a", "translation.de": "b"}]
    records = [*flat, {"translation": None}, {"translation": {"en": None, "de": "d"}}]
    write("t.jsonl", "".join(f"{json.dumps(record)}\n" for record in records))
    assert texts(corpus(table="t.jsonl", **columns)) == [("a", "b"), ("", ""), ("", "d")]


def test_a_header_line_is_not_a_pair() -> None:
    write("a.tsv", "id\tde \ten\n1\teins\tone\n2\t\ttwo\n")
    write("b.tsv", "en\tde\nthree\tdrei\n")
    named = corpus(table=["a.tsv", "b.tsv"], source_column="en", target_column="de")
    assert texts(named) == [("one", "eins"), ("two", ""), ("three", "drei")]
    assert [pair.line for pair in read_pairs(named)] == [2, 3, 2]


def test_a_blank_line_of_a_table_is_a_blank_pair() -> None:
    for name, row in (("t.tsv", "a\tb"), ("t.jsonl", '{"s": "a", "t": "b"}')):
        columns = {"source_column": "s", "target_column": "t"} if "json" in name else {}
        table = corpus(table=write(name, f"\n{row}\n \t\n"), **columns)
        assert texts(table) == [("", ""), ("a", "b"), ("", "")]


def test_line_breaks_in_a_record_become_spaces() -> None:
    write("t.jsonl", r'{"a": "x\ny\r\n", "b": "\ud800z"}' + "\n")
    assert texts(corpus(table="t.jsonl", source_column="a", target_column="b")) == [("x y", "?z")]


@pytest.mark.parametrize(
    ("settings", "content", "message"),
    [
        ({"source": "no", "target": "x"}, "", "no: no such file"),
        ({"source": ".", "target": "x"}, "", r"\. is a folder"),
        ({"source": ["x", "x"], "target": "x"}, "", "not 2 and 1"),
        ({"source": "x", "target": "x"}, "", "empty"),
        ({"table": "x"}, "", "the name of a table"),
        ({"table": "x.tsv", "source_column": "c"}, "a\tb\n", "no column 'c'; choose from a, b"),
        ({"table": "x.tsv", "source_column": -1}, "a\tb\n", "no column -1; choose from a, b"),
        (
            {"table": "x.tsv", "source_column": "a", "target_column": "b"},
            "a\tb\n",
            "x.tsv is empty",
        ),
        ({"table": "x.jsonl"}, '{"en": "a"}\n', "x.jsonl:1: no column '0'; choose from en"),
    ],
)
def test_errors_name_the_place(settings: Any, content: str, message: str) -> None:
    write(settings.get("table", "x"), content)
    with pytest.raises(UserError, match=message) as caught:
        texts(corpus(**settings))
    assert "\n" not in str(caught.value)


def test_empty_cells_are_blank_and_none_is_a_word() -> None:
    write("x.csv", "s,t\nNone,null\na,\n")
    settings = {"source_column": "s", "target_column": "t"}
    assert texts(corpus(table="x.csv", **settings)) == [("None", "null"), ("a", "")]
    write("x.jsonl", '{"s": "a", "t": null}\n')
    assert texts(corpus(table="x.jsonl", **settings)) == [("a", "")]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_read_or_refused_with_its_line(name: str) -> None:
    path, content, complaint = TABLES[name]
    columns = {"source_column": "s", "target_column": "t"} if path.endswith("jsonl") else {}
    table = corpus(table=write(path, content), **columns)
    if complaint is None:
        assert len(texts(table)) == content.count(b"\n")
        return
    with pytest.raises(UserError) as caught:
        texts(table)
    assert re.search(complaint, printable(str(caught.value)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        pytest.param(file, *damaged, id=f"{file}-{name}")
        for file, contents in (("x.gz", ZIPPED), ("x.zst", ZSTANDARD))
        for name, damaged in contents.items()
    ],
)
def test_damaged_packed_text_is_an_error_with_its_line(
    file: str, content: bytes, complaint: str
) -> None:
    Path(file).write_bytes(content)
    with pytest.raises(UserError, match=complaint) as read:
        texts(corpus(source=file, target=file))
    if content:
        with pytest.raises(UserError, match=f"^{re.escape(str(read.value))}$"):
            count_lines(file)


@pytest.mark.parametrize("name", ["a.zst", "a.txt", "a.en"])
def test_zstandard_is_read_like_plain_text(name: str) -> None:
    lines = ["A dog.", "", "Ein Bär 😀", *map(str, range(50_000))]
    frames = ["".join(f"{line}\n" for line in part).encode() for part in (lines[:9], lines[9:])]
    Path(name).write_bytes(b"".join(map(zstd.compress, frames)))
    assert list(read_lines(name)) == list(input_lines(Path(name))) == lines
    assert load_lines(Path(name)) == lines
    assert count_lines(name) == len(lines)


def test_packed_tables_are_tables() -> None:
    for table in ("t.tsv", "t.csv"):
        delimiter = b"\t" if table == "t.tsv" else b","
        rows = b"source\ttarget\nA dog.\tEin Hund.\n".replace(b"\t", delimiter)
        Path(table).write_bytes(rows)
        Path(f"{table}.zst").write_bytes(zstd.compress(rows))
        columns = {"source_column": "source", "target_column": "target"}
        assert texts(corpus(table=f"{table}.zst", **columns)) == texts(
            corpus(table=table, **columns)
        )


def test_identity_depends_on_content_and_columns_alone(tmp_path: Path) -> None:
    write("a", "x\n"), write("b", "y\n"), write("t.tsv", "x\ty\n")
    (tmp_path / "moved").mkdir()
    shutil.copy("a", "moved/z")
    plain = identity(corpus(source="a", target="b"))
    assert identity([corpus(source="moved/z", target=["b"], weight=2)]) == plain
    others = [
        corpus(source="b", target="a"),
        corpus(source="a", target="a"),
        corpus(source="a", target="b", tag="<bt>"),
        corpus(table="t.tsv"),
        corpus(table="t.tsv", source_column=1, target_column=0),
    ]
    assert len({plain, *map(identity, others)}) == 6
    with pytest.raises(UserError, match="no such file"):
        identity(corpus(source="a", target="none"))
