"""Tables as spreadsheets write them: every row is read to the letter, or refused with its line."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import call
from mtkit.config.corpora import TableCorpus, TextCorpus
from mtkit.corpus.columns import Columns
from mtkit.corpus.files import count_lines, input_lines, read_lines
from mtkit.corpus.importers import find_importer
from mtkit.corpus.read import read_pairs
from mtkit.corpus.text import normalise
from mtkit.errors import UserError
from mtkit.init.proposal import InitOptions
from mtkit.scoring.line_files import load_lines

SENTENCES = [
    ("A dog runs.", "Ein Hund rennt."),
    ("Look, two men talk.", "Seht, zwei Männer reden."),
    ('He said "no".', 'Er sagte "nein".'),
    ("Two\nlines, really.", "Zwei\r\nZeilen, wirklich."),
    ("It rains; a lot.", "一只狗在跑；真的。"),
    ("We read.", "הכלב רץ."),
]
WORDS = [("dog", "Hund"), ("cat", "Katze"), ("house", "Haus"), ("tree", "Baum")]
EXPORTS: dict[str, dict[str, Any]] = {
    "Excel": {"delimiter": ";", "encoding": "utf-8-sig"},
    "Excel in English": {"delimiter": ",", "encoding": "utf-8-sig"},
    "Excel's Unicode text": {"delimiter": "\t", "encoding": "utf-16"},
    "LibreOffice": {"delimiter": ",", "lineterminator": "\n", "quoting": csv.QUOTE_ALL},
    "Google Sheets": {"delimiter": ","},
    "pandas": {"delimiter": ",", "lineterminator": "\n"},
    "a database": {"delimiter": "|", "quoting": csv.QUOTE_ALL},
}
any_cell = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('\n,;|"\t'))


@pytest.fixture(autouse=True)
def _in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def export(
    rows: Sequence[Sequence[object]], name: str = "t.csv", encoding: str = "utf-8", **dialect: Any
) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, **dialect).writerows(rows)
    Path(name).write_bytes(text.getvalue().encode(encoding))
    return name


def find_columns(path: str, languages: tuple[str, str] | None = None) -> Columns:
    importer = find_importer(path)
    assert importer is not None
    return importer.choose_columns(path, None, languages)


def read(path: str, *columns: str | int) -> list[tuple[str, str]]:
    source, target = columns or find_columns(path)
    table = TableCorpus(table=path, source_column=source, target_column=target)
    return [(pair.source, pair.target) for pair in read_pairs(table)]


def normalised(rows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(normalise(source), normalise(target)) for source, target in rows]


@pytest.mark.parametrize("header", [("en", "de"), ("English", "Deutsch"), None])
@pytest.mark.parametrize("program", EXPORTS)
def test_an_export_is_read_to_the_letter(program: str, header: tuple[str, str] | None) -> None:
    name = "t.tsv" if "Unicode" in program else "t.csv"
    rows = [*([header] if header else []), *SENTENCES]
    path = export(rows, name, **EXPORTS[program])
    assert read(path) == read(path, 0, 1) == normalised(SENTENCES)
    if header:
        assert read(path, *header) == normalised(SENTENCES)


@given(st.lists(st.tuples(any_cell, any_cell), min_size=1), st.sampled_from(",;\t|"))
def test_any_text_survives_in_quotes(rows: list[tuple[str, str]], delimiter: str) -> None:
    header = ("source", "target")
    path = export([header, *rows], delimiter=delimiter, quoting=csv.QUOTE_ALL)
    assert read(path) == normalised(rows)


def test_rows_are_counted_as_a_spreadsheet_counts_them() -> None:
    path = export([("en", "de"), *SENTENCES, ("", ""), *SENTENCES], lineterminator="\n")
    pairs = list(read_pairs(TableCorpus(table=path)))
    assert [pair.line for pair in pairs] == list(range(2, 3 + 2 * len(SENTENCES)))
    assert pairs[-1].where == f"t.csv, row {len(pairs) + 1}"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('en,de\n"A dog.,Hund.\nTwo men.,"Männer."\nWe.,Wir.\n', 2),
        ("en,de\nWe.,Wir.\nLook, two.,Seht.\n", 3),
        ("en,de\nWe.,Wir.\nTwo\n", 3),
        ('en,de\nWe.,Wir.\n"A dog.,Hund.\n', 3),
        ('en,de\n"He said \\"no\\".",Nein.\n', 2),
        ('We.,"Wir.\n', 1),
        ("en,de\rWe.,Wir.\rYou.,Ihr.\r", 1),
    ],
)
def test_a_row_that_is_not_certain_is_refused_with_its_line(content: str, line: int) -> None:
    Path("t.csv").write_text(content, newline="")
    with pytest.raises(UserError, match=rf"^t\.csv(:|, row ){line}: ") as error:
        read("t.csv")
    assert ("tr '\\r'" in str(error.value)) == ("\r" in content)


@pytest.mark.parametrize(
    "header",
    ["en,de", "EN-us,pt_BR", "English (UK),German text", "Source,Target", "zho_Hans,Rakhine"],
)
@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_a_header_is_recognised_and_said_once(
    name: str, header: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*SENTENCES[:3], *SENTENCES[4:]]
    lines = (row if '"' not in row[0] else ("No.", "Nein.") for row in rows)
    Path(name).write_text("".join("\t".join(row) + "\n" for row in [header.split(","), *lines]))
    assert len(read(name, 0, 1)) == len(read(name, 0, 1)) == len(rows)
    assert capsys.readouterr().err.count("is a header") == 1


@pytest.mark.parametrize("header", [("Quelle", "Ziel"), ("原文", "译文"), ("foreign", "english")])
def test_other_words_are_a_header_if_columns_name_them_and_else_told_as_the_first_pair(
    header: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = export([header, *WORDS])
    assert read(path, *header) == WORDS
    assert capsys.readouterr().err == ""
    assert read(path) == [header, *WORDS]
    message = capsys.readouterr().err
    assert f"{path}: row 1 is read as a pair, '{header[0]}' and '{header[1]}';" in message
    assert "--columns" in message


@pytest.mark.parametrize("header", ["en\tde", "English\tGerman", "src\ttgt"])
def test_names_are_a_header_above_single_words_too(header: str) -> None:
    Path("t.tsv").write_text("".join("\t".join(row) + "\n" for row in [header.split("\t"), *WORDS]))
    assert read("t.tsv") == WORDS


@pytest.mark.parametrize("rows", [WORDS, SENTENCES[:3], [("1", "one"), ("2", "two"), ("3", "no")]])
def test_a_first_pair_is_not_taken_for_a_header(rows: list[tuple[str, str]]) -> None:
    assert read(export(rows)) == rows


@pytest.mark.parametrize(
    "numbers", [range(1, 7), [f"s{n}-a" for n in range(6)], ["0.93", "1.02", "", "0.5", "1", "2"]]
)
@pytest.mark.parametrize("header", [("id", "en", "de"), ("Punkte", "Quelle", "Ziel"), None])
def test_columns_of_numbers_are_noticed(
    header: tuple[str, ...] | None, numbers: Sequence[object], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(number, *pair) for number, pair in zip(numbers, SENTENCES, strict=True)]
    path = export([*([header] if header else []), *rows])
    assert read(path) == normalised(SENTENCES)
    shown = "'en' and 'de'" if header and "en" in header else "'Quelle' and 'Ziel'"
    expected = f"reading columns {shown if header else 'B and C'}"
    assert expected in capsys.readouterr().err
    with pytest.raises(UserError, match=r"column 0 holds no text.* --columns B C"):
        read(path, 0, 1)


@pytest.mark.parametrize("name", ["", "#"])
def test_an_index_needs_no_name(name: str) -> None:
    rows = [(number, *pair) for number, pair in enumerate(WORDS)]
    assert read(export([(name, "Quelle", "Ziel"), *rows])) == WORDS


@pytest.mark.parametrize("numbers", [["", ".9", "1.1"], ["-", "1", "2"], ["", "1", "1"]])
def test_a_first_pair_may_lack_a_number(numbers: Sequence[str]) -> None:
    rows = [(number, *pair) for number, pair in zip(numbers, WORDS[:3], strict=True)]
    assert read(export(rows)) == WORDS[:3]


def test_blank_columns_are_passed_over() -> None:
    rows = [("", *pair, "", "") for pair in SENTENCES]
    assert read(export([("", "en", "de", "", ""), *rows])) == normalised(SENTENCES)
    assert read(export(rows)) == normalised(SENTENCES)
    assert read(export(SENTENCES[:1])) == SENTENCES[:1]


def test_columns_of_labels_are_noticed() -> None:
    rows = [("en", source, "de", target) for source, target in SENTENCES]
    assert read(export(rows)) == normalised(SENTENCES)
    sorts = [("news" if n % 3 else "web", *pair) for n, pair in enumerate(SENTENCES * 5)]
    assert read(export([("domain", "en", "de"), *sorts])) == normalised(SENTENCES * 5)


def test_columns_are_asked_for_if_a_header_leaves_a_choice() -> None:
    rows = [(n, *pair, f"{pair[0]} is said.") for n, pair in enumerate(SENTENCES)]
    assert read(export([("id", "de", "en", "note"), *rows])) == normalised(SENTENCES)
    with pytest.raises(UserError, match=r"choose two of its columns .* id, a, b, note"):
        read(export([("id", "a", "b", "note"), *rows]))
    assert read(export(rows)) == normalised(SENTENCES)


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        (("de", "en"), ("en", "de")),
        (("fr", "German", "en-GB", "English"), ("English", "German")),
        (("text.de", "text.en-US"), ("text.en-US", "text.de")),
        (("en", "fr"), (0, 1)),
    ],
)
def test_columns_are_read_in_the_direction_of_the_model(
    header: Sequence[str], columns: Columns
) -> None:
    path = export([header, *([f"{name} {n}" for name in header] for n in range(3))])
    assert find_columns(path, ("en", "de")) == columns
    if "." in header[0]:
        Path("t.jsonl").write_text('{"text": {"de": "Hund", "en-US": "dog"}}', encoding="utf-8")
        assert find_columns("t.jsonl", ("en", "de")) == columns


def test_names_in_capitals_are_names_of_tables() -> None:
    assert read(export(SENTENCES, "T.CSV")) == normalised(SENTENCES)
    assert read(export(WORDS, "T.TSV", delimiter="\t")) == WORDS


def test_a_table_of_two_columns_needs_no_options(capsys: pytest.CaptureFixture[str]) -> None:
    path = export([("en", "de"), *((f"The {n}th of all dogs.", f"Hund {n}.") for n in range(120))])
    assert call("check", path) == 0
    assert "train: 120 pairs" in capsys.readouterr().out
    assert call("check", path, "--columns", "1", "0") == 0


def test_a_jsonl_with_two_texts_needs_no_options(capsys: pytest.CaptureFixture[str]) -> None:
    records = [{"id": n, "en": f"The {n}th of all dogs.", "de": f"Hund {n}."} for n in range(120)]
    Path("t.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    assert call("check", "t.jsonl") == 0
    assert "reading keys 'en' and 'de'" in capsys.readouterr().err
    Path("t.jsonl").write_text('{"en": "a", "de": "b", "fr": "c"}\n')
    assert call("check", "t.jsonl") == 2
    assert "--columns S T: en, de, fr" in capsys.readouterr().err
    assert call("check", "t.jsonl", "--columns", "en", "fr") == 2  # it has few pairs
    assert "few pairs" in capsys.readouterr().err


def test_two_tables_are_no_source_and_target(capsys: pytest.CaptureFixture[str]) -> None:
    paths = [export([(f"The {n}th.", f"{word} {n}.") for n in range(120)]) for word in ("a", "b")]
    for command in ("check", "init"):
        assert call(command, *paths) == 2
        assert "are tables, which hold both sides" in capsys.readouterr().err


def test_the_sets_of_init_may_be_tables_with_the_columns_of_the_training_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = export([("id", "en", "de"), *((n, *pair) for n, pair in enumerate(WORDS))])
    given: list[InitOptions] = []
    monkeypatch.setattr("mtkit.init.init.init", given.append)
    sets = ["--valid", path, path, "--test", "test.en", "test.de", "--from", "m", "--keep"]
    assert call("init", path, *sets, path, path, "--columns", "de", "en") == 0
    (options,) = given
    table = TableCorpus(table=path, source_column="de", target_column="en")
    assert options.corpora == [options.existing["valid"]] == [options.keep] == [table]
    assert options.existing["test"] == TextCorpus(source="test.en", target="test.de")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_other_unicode_encodings_are_read_everywhere(encoding: str, end: str) -> None:
    lines = ["A dog.", "", "Ein Bär 😀", "ਸਤਿ ਸ੍ਰੀ ਅਕਾਲ", "一"]
    Path("a").write_bytes("".join(line + end for line in lines).encode(encoding))
    assert list(read_lines("a")) == list(input_lines(Path("a"))) == load_lines(Path("a")) == lines
    assert count_lines("a") == len(lines)


OTHER_PROGRAMS = {
    "s.xlsx s.ods S.XLS": "CSV",
    "d.docx d.pdf": "plain text",
    "m.sdlxliff": ".tmx",
    "t.txt.xz t.csv.bz2": "gzip",
    "m.pot m.POT m.pot.gz m.json m.arb m.properties m.ini m.toml m.yml m.yaml": "po2csv",
    "m.strings m.stringsdict m.xcstrings m.resx m.ts m.ftl": "po2csv",
}


@pytest.mark.parametrize(
    ("name", "advice"), [(name, OTHER_PROGRAMS[it]) for it in OTHER_PROGRAMS for name in it.split()]
)
def test_files_of_other_programs_are_refused_with_advice(name: str, advice: str) -> None:
    Path(name).write_bytes(b"PK or so\n")
    with pytest.raises(UserError, match=f"^{name} .*{advice}"):
        next(input_lines(Path(name)))
    with pytest.raises(UserError, match=f"^{name} .*{advice}"):
        list(read_pairs(TextCorpus(source=name, target=name)))


@pytest.mark.parametrize("names", OTHER_PROGRAMS)
def test_commands_refuse_files_of_other_programs_in_one_line(
    names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *_ = names.split()
    advice = OTHER_PROGRAMS[names]
    Path(name).write_bytes(b"PK or so\n")
    assert call("check", name) == call("check", name, name) == call("score", "-r", name, name) == 2
    *errors, error = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert all(error.startswith(f"{name} ") and advice in error for error in errors)
    advice_of_score = "--columns R T" if find_importer(name) else advice
    assert error.startswith(f"{name} ") and advice_of_score in error


def test_files_of_keys_and_messages_are_no_text_to_translate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("m.strings").write_text('"delete" = "Delete %s files?";\n')
    advice = "convert it to .csv or .tmx, as po2csv does; `mtkit translate` knows the formats that"
    for command in (["init"], ["translate"], ["check"], ["translate", "-o", "out"]):
        assert call(*command, "m.strings") == 2
        (error,) = capsys.readouterr().err.splitlines()
        assert error.startswith("m.strings is a file of keys and messages") and advice in error
    Path("m.jsonl").write_text('{"en": "A dog.", "de": "Ein Hund."}\n')
    assert list(read_lines("m.jsonl"))


@pytest.mark.parametrize("quote", ['"', ""])
def test_a_cell_that_is_too_long_is_named_with_advice_that_fits(quote: str) -> None:
    Path("t.csv").write_text(f"a,b\nc,d\n{quote}{'x y' * 50_000}{quote},e\n")
    with pytest.raises(UserError, match=r"t.csv:3: .*\(131072\)\); shorten the cell"):
        read("t.csv", 0, 1)


def test_a_row_of_any_number_of_lines_is_read_with_bounded_memory() -> None:
    Path("t.csv").write_text("a,b\nc,d\n" + f'"{"x" * 1000}\n",' * 5000)
    with pytest.raises(UserError, match=r"t.csv:3: the row is over 4 MiB"):
        read("t.csv", 0, 1)


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (b"PK\x03\x04" + bytes(26) + b"[Content_Types].xml", "CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "CSV"),
        (b"%PDF-1.7\n", "text"),
        (b"{\\rtf1 ", "text"),
    ],
    ids=["Excel", "old Excel", "PDF", "RTF"],
)
def test_formats_are_recognised_under_other_names(content: bytes, advice: str) -> None:
    Path("a.csv").write_bytes(content)
    Path("a.gz").write_bytes(gzip.compress(content))
    for name in ("a.csv", "a.gz"):
        with pytest.raises(UserError, match=advice):
            next(read_lines(name))


def test_old_mac_line_ends_are_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a").write_bytes(b"A dog.\rWhy?\r")
    assert list(read_lines("a")) == list(input_lines(Path("a"))) == ["A dog.\rWhy?"]
    assert load_lines(Path("a")) == ["A dog. Why?"]
    (warning,) = capsys.readouterr().err.splitlines()
    assert "old Mac line ends" in warning


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_refused(encoding: str) -> None:
    Path("t.tsv").write_bytes("A dog.\tEin Bär.\r\n".encode(encoding))
    for lines in (read_lines("t.tsv"), input_lines(Path("t.tsv"))):
        with pytest.raises(UserError, match=f"iconv -f {encoding.replace('6-', '6').upper()} "):
            next(lines)


def test_file_names_of_any_bytes_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    names = [os.fsdecode(name) for name in (b"caf\xe9.txt", b"\xff.txt")]
    for number, name in enumerate(names):
        Path(name).write_text("".join(f"{number} and {n}\n" for n in range(120)))
    assert call("check", *names, "--json") in (0, 2)
    assert "internal error" not in capsys.readouterr().err
    assert call("score", "-r", *names) == 0
    assert call("init", *names, "--valid", *names) == 2
    assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize("columns", [("en", "fr"), ("en", "en"), (0, 0)])
def test_a_name_of_two_columns_and_one_column_for_both_sides_are_refused(
    columns: tuple[str | int, str | int],
) -> None:
    path = export([("en", "fr", "fr"), ("A dog.", "Un chien.", "x")])
    table = TableCorpus(table=path, source_column=columns[0], target_column=columns[1])
    with pytest.raises(UserError, match=r"t\.csv"):
        list(read_pairs(table))


@pytest.mark.parametrize("delimiter", [";", ","])
def test_another_delimiter_in_a_tsv_is_named(
    delimiter: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = export([("English", "German", "Note"), *((*pair, "x") for pair in WORDS)], "t.tsv")
    Path(path).write_text(Path(path).read_text().replace(",", delimiter))
    for command in ("check", "init", "translate"):
        assert call(command, path) == 2
        (error,) = capsys.readouterr().err.splitlines()
        assert error == f"t.tsv:1: no tabs, but '{delimiter}'; if it separates cells, name it t.csv"


def test_time_stamps_are_no_text() -> None:
    rows = [(f"2024/01/0{day} 10:00:00 AM GMT+1", *pair) for day, pair in enumerate(SENTENCES, 1)]
    assert find_columns(export([("Timestamp", "English", "German"), *rows])) == (1, 2)
