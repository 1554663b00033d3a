"""Laws of `mtkit translate --columns`, with a model that copies its source."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import openpyxl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from architectures import transformer
from commands import call
from folders import copier_of, train, write_model
from mtkit.artifacts.storage import temporary_path
from mtkit.corpus.importers import find_importer
from mtkit.decoding.api import Translator
from mtkit.decoding.engines.engine import Request
from mtkit.decoding.text.line import Line, Translation
from mtkit.decoding.translate import Files, Format, translate
from mtkit.errors import UserError
from mtkit.extras.tables import sheets
from mtkit.extras.tables.translated_table import Table

SHEET = (
    'ID;English;"Igbo";Notes\r\n'
    '1;A dog runs.;"Nkịta";"a ""good"" one"\r\n'
    ";;;\r\n"
    "\r\n"
    '2;"Two men; one boat.";;"first\r\nsecond"\r\n'
    '3;"A dog\nruns.";x\r\n'
    "4;Why?;x;y"
)
TRANSLATED = (
    'ID;English;"Igbo";Notes;translation\r\n'
    '1;A dog runs.;"Nkịta";"a ""good"" one";A dog runs.\r\n'
    ";;;;\r\n"
    "\r\n"
    '2;"Two men; one boat.";;"first\r\nsecond";"Two men; one boat."\r\n'
    '3;"A dog\nruns.";x;;A dog runs.\r\n'
    "4;Why?;x;y;Why?"
)
TRANSLATION = 'ẹ,;|\t"'
any_cell = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"))


@pytest.fixture(scope="module")
def copier() -> Translator:
    return copier_of(train())


@pytest.fixture(autouse=True)
def _in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def open_table(path: str, column: str) -> Table:
    importer = find_importer(path)
    assert importer is not None
    table: Table = importer.open_column(path, column, None)
    return table


def translated(
    copier: Translator, content: bytes, name: str = "t.csv", column: str = "English"
) -> bytes:
    Path(name).write_bytes(content)
    translate(copier, Files(Path(name), Path("out"), column=column), Format())
    return Path("out").read_bytes()


def test_a_sheet_keeps_every_byte_and_gets_a_column(copier: Translator) -> None:
    assert translated(copier, SHEET.encode()).decode() == TRANSLATED
    assert translated(copier, SHEET.encode(), column="1").decode() == TRANSLATED
    compressed = translated(copier, gzip.compress(SHEET.encode()), "t.csv.gz")
    assert compressed.decode() == TRANSLATED


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_encoding_and_byte_order_mark_stay(copier: Translator, encoding: str) -> None:
    assert translated(copier, SHEET.encode(encoding)) == TRANSLATED.encode(encoding)


def test_bytes_that_are_not_utf8_stay(
    copier: Translator, capsys: pytest.CaptureFixture[str]
) -> None:
    out = translated(copier, b"English,Notes\nA dog.,caf\xe9\n\xff\xfe,x\n")
    first, second, third, _ = out.split(b"\n")
    assert (first, second) == (b"English,Notes,translation", b"A dog.,caf\xe9,A dog.")
    assert third.startswith(b"\xff\xfe,x,")
    assert capsys.readouterr().err.count("not UTF-8") == 1


def test_if_all_cells_are_quoted_the_new_one_is_too(copier: Translator) -> None:
    sheet = '"English","Notes"\n"A dog.","x"\n"","y"\n'
    expected = '"English","Notes","translation"\n"A dog.","x","A dog."\n"","y",""\n'
    assert translated(copier, sheet.encode()).decode() == expected


def test_a_tsv_has_no_quotes(copier: Translator) -> None:
    sheet = 'English\tNotes\nA "dog".\tx\n"\ty\n \t\n'
    expected = 'English\tNotes\ttranslation\nA "dog".\tx\tA "dog".\n"\ty\t"\n \t\t\n'
    assert translated(copier, sheet.encode(), "t.tsv").decode() == expected


def test_objects_of_a_jsonl_get_a_key(copier: Translator) -> None:
    lines = ['{"en": "A dog.", "n": {"a":1e3}} ', "", '{"n":2,"en":null}', '{"en":"Why?"}']
    out = translated(copier, "\r\n".join(lines).encode(), "t.jsonl", "en").decode()
    assert out.split("\r\n") == [
        '{"en": "A dog.", "n": {"a":1e3}, "translation": "A dog."} ',
        "",
        '{"n":2,"en":null, "translation": ""}',
        '{"en":"Why?", "translation": "Why?"}',
    ]


def test_a_table_without_a_header_is_translated_from_its_first_row(
    copier: Translator, capsys: pytest.CaptureFixture[str]
) -> None:
    out = translated(copier, b"A dog runs.,x y\nWhy?,z y\n", column="0")
    assert out == b"A dog runs.,x y,A dog runs.\nWhy?,z y,Why?\n"
    errors = capsys.readouterr().err
    assert "if it is a header, give its names with --columns" in errors
    assert "source_column" not in errors  # the setting of a corpus


def test_the_name_of_the_new_column_is_new(copier: Translator) -> None:
    out = translated(copier, TRANSLATED.encode()).decode()
    assert out.startswith('ID;English;"Igbo";Notes;translation;translation 2\r\n')
    again = translated(copier, b'{"en": "a", "translation": {"de": "b"}}\n', "t.jsonl", "en")
    assert list(json.loads(again)) == ["en", "translation", "translation 2"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.lists(st.tuples(any_cell, any_cell), min_size=1, max_size=8),
    st.sampled_from(",;|\t"),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
)
def test_any_sheet_keeps_its_bytes_and_its_number_of_rows(
    rows: Sequence[tuple[str, str]], delimiter: str, end: str, quoting: int
) -> None:
    header = ("source", "target of a row")
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting)  # type: ignore[arg-type]
    writer.writerows([header, *rows])
    Path("t.csv").write_bytes(text.getvalue().encode())
    try:
        table = open_table("t.csv", "source")
    except UserError:  # the delimiter of a single row may be a guess
        return
    lines = list(table.lines(0))
    assert len(lines) == table.rows
    out = b"".join(table.output(n, Translation(TRANSLATION)) for n in range(1, table.rows + 1))
    before, after = (
        list(csv.reader(io.StringIO(sheet, newline=""), delimiter=delimiter))
        for sheet in (text.getvalue(), out.decode())
    )
    assert [row[:2] for row in after] == before
    new_cells = {"".join(row[2:]) for row in after}
    assert new_cells <= {"", "translation", TRANSLATION}


def test_a_resumed_table_is_the_same_as_an_uninterrupted_one(
    copier: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = translated(copier, SHEET.encode())
    partial = temporary_path(Path("out"))
    for cut in range(0, len(expected), 19):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Translator, "stream", _first_row_only)
            translate(copier, Files(Path("t.csv"), Path("out"), column="English"), Format())
        partial.write_bytes(expected[:cut])
        files = Files(Path("t.csv"), Path("out"), column="English")
        translate(copier, files, Format())
        assert Path("out").read_bytes() == expected


def _first_row_only(
    _: Translator, lines: Iterable[Line], request: Request | None = None
) -> Iterator[list[Translation]]:
    next(iter(lines))
    yield [Translation("")]
    raise KeyboardInterrupt


def test_a_partial_table_in_utf16_is_not_kept(
    copier: Translator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("t.csv").write_bytes(SHEET.encode("utf-16"))
    files = Files(Path("t.csv"), Path("out"), column="English")
    monkeypatch.setattr(Translator, "stream", _first_row_only)
    with pytest.raises(KeyboardInterrupt):
        translate(copier, files, Format())
    assert "kept the partial output" not in capsys.readouterr().err
    assert not temporary_path(Path("out")).exists()


def workbook(sheets: Mapping[str, Sequence[Sequence[str | None]]]) -> bytes:
    """Return an .xlsx in which each cell is text."""
    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
        for cell in chain.from_iterable(sheet.iter_rows()):
            cell.data_type = "s"
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def test_no_text_of_a_spreadsheet_becomes_a_formula_and_a_csv_keeps_its_cells(
    copier: Translator,
) -> None:
    cells = ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "- Hello.", "-2.5", "+1e5", "a=b", " =1"]
    rows_of_sheet = [("English", "Notes"), *((cell, "x") for cell in cells)]
    out = translated(copier, workbook({"T": rows_of_sheet}), "t.xlsx").decode("utf-8-sig")
    (_, *rows) = csv.reader(io.StringIO(out))
    assert [row[0] for row in rows] == [
        *("'=1+1", "'@SUM(A1)", "'+cmd|' /C calc'!A0", "'- Hello."),
        *("-2.5", "+1e5", "a=b", "' =1"),
    ]
    assert not any(cell.startswith(("=", "@", "+c", "- ")) for row in rows for cell in row)
    sheet = "".join(f'"{cell}","{note}"\r\n' for cell, note in rows_of_sheet)
    (_, *rows) = csv.reader(io.StringIO(translated(copier, sheet.encode()).decode()))
    assert [row[0] for row in rows] == cells


def test_rows_that_wait_need_bounded_memory_however_wide_they_are(copier: Translator) -> None:
    width = 1 << 13
    Path("t.csv").write_text(f"text{',' * width}\n" + "123\n" * 3000)
    table = open_table("t.csv", "text")
    most = done = 0
    for translations in copier.stream(table.lines(0)):
        for translation in translations:
            most = max(most, sum(len(entry.before) for entry in list(table._waiting)))
            done += 1
            table.output(done, translation)
    assert done == 3001
    assert most < 6 << 20


def test_the_named_column_chooses_the_sheet_for_every_reading(copier: Translator) -> None:
    content = workbook({"Notes": [("Some notes", None)], "Texts": [("English",), ("A dog.",)]})
    out = translated(copier, content, "t.xlsx").decode("utf-8-sig")
    assert out == '"English","translation"\r\n"A dog.","A dog."\r\n'


def test_a_spreadsheet_becomes_a_csv_that_spreadsheet_programs_open(copier: Translator) -> None:
    content = workbook({"T": [("English", "Notes"), ("A dog.", "x")]})
    out = translated(copier, content, "t.xlsx")
    assert out.decode("utf-8-sig") == (
        '"English","Notes","translation"\r\n"A dog.","x","A dog."\r\n'
    )
    assert out.startswith(codecs.BOM_UTF8)


FORMULA = "=SUM(B4:B9)"


def formatted_workbook() -> bytes:
    """Return an .xlsx with a title, a merged row, a formula, a comment and another sheet."""
    book = openpyxl.load_workbook(io.BytesIO(workbook({"Notes": [("Some notes",)], "Texts": []})))
    sheet = book["Texts"]
    rows = [
        ("A title",),
        (),
        ("English", "n"),
        ("A dog.", None),
        ("=1+1", 2),
        (None, 3),
        ("A cat.",),
    ]
    for row in rows:
        sheet.append(row)
    sheet["A5"].data_type = "s"
    sheet["B4"] = FORMULA
    sheet.merge_cells("A1:D1")
    sheet.merge_cells("A7:C7")
    sheet["A4"].font = openpyxl.styles.Font(bold=True)
    sheet["A4"].comment = openpyxl.comments.Comment("a remark", "me")
    sheet.column_dimensions["A"].width = 33
    sheet.freeze_panes = "A4"
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def test_a_copy_of_a_workbook_gets_a_column_and_keeps_all_else(copier: Translator) -> None:
    path, out = Path("t.xlsm"), Path("out.xlsx")
    path.write_bytes(formatted_workbook())
    translate(copier, Files(path, out, column="English", sheet="Texts"), Format())
    before, after = (openpyxl.load_workbook(file) for file in (path, out))
    assert after.sheetnames == before.sheetnames == ["Notes", "Texts"]
    old, new = before["Texts"], after["Texts"]
    for cell in chain.from_iterable(old.iter_rows()):
        same = new[cell.coordinate]
        assert (same.value, same.data_type) == (cell.value, cell.data_type)
    assert new["B4"].value == FORMULA
    assert new.merged_cells.ranges == old.merged_cells.ranges
    assert new["A4"].comment.text == "a remark" and new.freeze_panes == "A4"
    # Columns C and D are parts of merged cells.
    column = [new.cell(row, 5) for row in range(1, 8)]
    assert [cell.value for cell in column] == [
        *(None, None, "translation", "A dog.", "=1+1", None, "A cat.")
    ]
    assert column[4].data_type == "s"
    assert column[3].font.bold
    assert new.column_dimensions["E"].width == 33


def test_a_workbook_that_cannot_be_copied_is_refused_before_any_row_is_translated(
    copier: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("t.xlsx").write_bytes(formatted_workbook())
    monkeypatch.setattr(Translator, "stream", None)
    program = sheets.READER.read_text(encoding="utf-8")
    Path("reader.py").write_text(program.replace("1 << 14", "1"), encoding="utf-8")
    monkeypatch.setattr(sheets, "READER", Path("reader.py"))
    with pytest.raises(UserError, match=r"^t\.xlsx cannot be read .*no free column"):
        translate(copier, Files(Path("t.xlsx"), Path("out.xlsx"), column="English"), Format())
    assert not Path("out.xlsx").exists()


@pytest.mark.parametrize(
    ("name", "output", "problem"),
    [
        ("t.xlsx", "out.xlsx", "out.xlsx: for this, first run: pip install 'mtkit[sheets]'"),
        ("t.ods", "out.xlsx", "out.xlsx: the output is a .csv; choose such a name"),
        ("t.ods", "out.ods", "out.ods: the output is a .csv; choose such a name"),
        ("t.xls", "out.xls", "out.xls: the output is a .csv; choose such a name"),
        ("t.xlsx", "out.xls", "out.xls: the output is a .csv or .xlsx; choose such a name"),
        ("t.csv", "out.xlsx", "out.xlsx: the output is a .csv; choose such a name"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_a_model_is_loaded(
    name: str,
    output: str,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("mtkit.extras.tables.importers.find_spec", lambda _: None)
    Path(name).write_bytes(b"")
    assert call("translate", name, "--columns", "English", "-m", "no model", "-o", output) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith(problem)


def test_the_row_that_names_the_delimiter_stays(copier: Translator) -> None:
    content = b"sep=;\r\nn;English\r\n1;A dog.\r\n"
    expected = b"sep=;\r\nn;English;translation\r\n1;A dog.;A dog.\r\n"
    assert translated(copier, content) == expected


def test_a_column_on_its_own_may_have_commas_without_quotes(copier: Translator) -> None:
    content = b'English\nA dog, a cat.\n"Why, why?"\nA dog.\n'
    translation = translated(copier, content).decode()
    assert list(csv.reader(translation.splitlines())) == [
        ["English", "translation"],
        ["A dog, a cat."] * 2,
        ["Why, why?"] * 2,
        ["A dog."] * 2,
    ]


def test_rows_above_the_header_are_not_translated(copier: Translator) -> None:
    content = b"A title,\n,\nEnglish,n\nA dog.,1\n"
    assert translated(copier, content) == (
        b"A title,,\n,,\nEnglish,n,translation\nA dog.,1,A dog.\n"
    )


def test_translations_in_a_table_are_scored_by_its_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = [("A dog runs to the sea.", "A dog runs to a sea."), ("It rains a lot.", "It rains.")]
    for path, column in (("r.txt", 0), ("h.txt", 1)):
        Path(path).write_text("".join(f"{row[column]}\n" for row in texts))
    Path("t.csv").write_text(
        "A title,,\nid,Igbo,translation\n1,{},{}\n2,{},{}\n".format(*chain.from_iterable(texts))
    )
    assert call("score", "-r", "r.txt", "h.txt") == 0
    expected = capsys.readouterr().out.splitlines()[1:]
    for arguments in (["t.csv"], ["-r", "t.csv"]):
        assert call("score", *arguments, "--columns", "Igbo", "translation") == 0
        header, *scores = capsys.readouterr().out.splitlines()
        assert header.split() == ["column", "translation"]
        assert list(map(str.split, scores)) == list(map(str.split, expected))
    for problem, arguments in {
        "t.csv is a table, not text; to score two columns": ["-r", "t.csv", "h.txt"],
        "--columns needs one table": ["-r", "t.csv", "h.txt", "--columns", "Igbo", "translation"],
        "no column 'x'": ["t.csv", "--columns", "x", "translation"],
        "--source cannot be used with --columns": [
            *("t.csv", "--columns", "Igbo", "translation", "--source", "r.txt")
        ],
        "--sheet needs --columns": ["-r", "r.txt", "h.txt", "--sheet", "A"],
    }.items():
        assert call("score", *arguments) == 2
        (error,) = capsys.readouterr().err.splitlines()[-1:]
        assert problem in error


@pytest.mark.parametrize(
    ("name", "content", "column", "problem"),
    [
        ("t.csv", "a,b\nA dog.,x\n", "c", "t.csv, row 1: no column 'c'; choose from a, b"),
        ("t.csv", "A dog.,B b\n", "2", "row 1: no column 2; choose from A dog., B b, or"),
        ("t.csv", "", "0", "t.csv: no column 0; it is empty"),
        ("t.csv", "\n\n", "0", "t.csv: no column 0; it is empty"),
        ("t.csv", f"a{',' * (1 << 14)}\nA dog.\n", "a", "t.csv, row 1: the row has 16,385 cells"),
        ("t.tsv", "a\nA dog.\n" + "\t" * (1 << 14), "a", "t.tsv:3: the row has 16,385 cells"),
        ("t.csv", 'a,b\nA dog.,"x\n', "a", "t.csv:2: this row cannot be read"),
        ("t.csv", "a,b\nA dog.,x,y\n", "a", "t.csv:2: the row has 3 cells"),
        ("t.jsonl", '{"a": "x"}\n{}\n', "a", "t.jsonl:2: no column 'a'"),
        ("t.jsonl", '{"a": "x"}\n[]\n', "a", "t.jsonl:2"),
        ("t.jsonl", "{\n", "a", "t.jsonl:1: not JSON"),
        ("t.tsv", "a\tb\n" + "x" * (1 << 20) + "x\ty\n", "a", "longer than 1 MiB"),
    ],
)
def test_a_faulty_table_is_refused_before_any_work(
    copier: Translator, name: str, content: str, column: str, problem: str
) -> None:
    with pytest.raises(UserError) as error:
        translated(copier, content.encode(), name, column)
    assert problem in str(error.value)
    assert not Path("out").exists()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_model(tmp_path_factory.mktemp("m") / "model", train(), transformer()))


def test_a_table_is_not_translated_as_text(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.csv").write_text(SHEET)
    assert call("translate", "t.csv", "-m", model) == 2
    assert (
        "is a table; choose the column to translate with --columns: ID, English, Igbo, Notes"
        in (capsys.readouterr().err)
    )
    Path("t.jsonl").write_text('{"en": "a", "n": {"de": "b"}}\n')
    assert call("translate", "t.jsonl", "-m", model) == 2
    assert "--columns: en, n.de" in capsys.readouterr().err
    Path("t.jsonl").write_text('\n \n{"en": "a"}\n')
    assert call("translate", "t.jsonl", "-m", model) == 2
    assert "--columns: en (" in capsys.readouterr().err
    for empty in ("t.csv", "t.tsv", "t.jsonl"):
        Path(empty).write_text("\n")
        assert call("translate", empty, "-m", model) == 2
        assert "--columns: none (" in capsys.readouterr().err
    Path("t.txt").write_bytes("English\tNotes\nA dog.\tx\n".encode("utf-16"))
    for command in ("translate", "check", "init"):
        assert call(command, "t.txt") == 2
        assert "rename it to t.tsv" in capsys.readouterr().err
    Path("t.txt").write_text("English\tNotes\nA dog.\tx\n")
    assert call("check", "t.txt") == 2
    assert "rename it to t.tsv" in capsys.readouterr().err
    assert call("translate", "t.txt", "-m", model) == 0


def test_the_command_translates_a_column(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.csv").write_text(SHEET, newline="")
    assert call("translate", "t.csv", "-m", model, "--columns", "English", "-o", "out.csv") == 0
    rows = Path("out.csv").read_bytes().split(b"\r\n")
    assert [rows[2], rows[3]] == [b";;;;", b""]
    assert "7 rows written" in capsys.readouterr().err
    assert call("translate", "t.csv", "-m", model, "--columns", "English") == 0
    assert capsys.readouterr().out.startswith("ID;English")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["t.csv", "--n-best", "2"], "--n-best cannot be used with --columns"),
        (["t.csv", "--jsonl"], "--jsonl cannot"),
        (["t.csv", "--alignments"], "--alignments cannot"),
        (["t.csv", "--prefix", "t.csv"], "--prefix cannot"),
        (["t.txt"], "--columns needs a table"),
        ([], "--columns needs a table"),
        (["t.csv", "-o", "out.tsv"], "out.tsv: the output is a .csv"),
        (["missing.csv"], "missing.csv: no such file"),
    ],
)
def test_what_does_not_go_with_a_table_is_refused(
    model: str, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("t.csv").write_text(SHEET)
    Path("t.txt").write_text("A dog runs.\n")
    assert call("translate", *arguments, "--columns", "English", "-m", model) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1 and problem in errors[0]
