"""Spreadsheets are read as the tables that they are; a hostile file ends in one line."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

from commands import call
from mtkit.config.corpora import TableCorpus
from mtkit.corpus.columns import Columns
from mtkit.corpus.importers import find_importer
from mtkit.corpus.read import hash_corpora, read_pairs
from mtkit.errors import UserError
from mtkit.extras.tables import sheets
from mtkit.extras.tables.sheets import find_sheet
from mtkit.report import plural

Cell = str | int | float
Rows = Sequence[Sequence[Cell]]
PAIRS: list[tuple[str, str]] = [
    ("A dog runs.", "Nkịta na-agba ọsọ."),
    ("Two men, one boat.", "Ụmụ nwoke abụọ; otu ụgbọ."),
    ('He said "no".', "Ọ sịrị mba."),
    ("Why?\nSo.", "Gịnị?\nYa mere."),
]
ROWS: Rows = [("ID", "English", "Igbo"), *((n, *pair) for n, pair in enumerate(PAIRS, 1))]
DATE_STYLE = 1
OPEN_XML = "http://schemas.openxmlformats.org"
MAIN = f'xmlns="{OPEN_XML}/spreadsheetml/2006/main"'
LINKS = f'xmlns="{OPEN_XML}/package/2006/relationships"'
KIND = f"{OPEN_XML}/officeDocument/2006/relationships"


@pytest.fixture(autouse=True)
def _in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_zip(path: str, parts: Mapping[str, str]) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return path


def sheet_xml(rows: Rows) -> str:
    lines = ""
    for number, row in enumerate(rows, 1):
        lines += f'<row r="{number}">{"".join(cells_xml(number, row))}</row>'
    return f"<worksheet {MAIN}><sheetData>{lines}</sheetData></worksheet>"


def cells_xml(number: int, row: Sequence[Cell]) -> Iterator[str]:
    for column, value in zip("ABCDEF", row, strict=False):
        place = f'r="{column}{number}"'
        if isinstance(value, str) and value:
            text = escape(value)
            yield f'<c {place} t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'
        elif not isinstance(value, str):
            is_date = value > 40_000
            yield f'<c {place} s="{DATE_STYLE if is_date else 0}"><v>{value}</v></c>'


def write_xlsx(
    path: str, contents: Mapping[str, Rows], hidden: str = "", first_sheet: str | None = None
) -> str:
    """Write a workbook; `first_sheet`: the XML of its first sheet instead."""
    listed, links, parts = "", "", {}
    for number, (name, rows) in enumerate(contents.items(), 1):
        state = 'state="hidden" ' if name == hidden else ""
        listed += f'<sheet name="{name}" sheetId="{number}" {state}r:id="r{number}"/>'
        target = f"worksheets/sheet{number}.xml"
        links += f'<Relationship Id="r{number}" Type="{KIND}/worksheet" Target="{target}"/>'
        parts[f"xl/{target}"] = sheet_xml(rows)
    links += f'<Relationship Id="styles" Type="{KIND}/styles" Target="styles.xml"/>'
    if first_sheet is not None:
        parts["xl/worksheets/sheet1.xml"] = first_sheet
    book = f'<Relationship Id="r" Type="{KIND}/officeDocument" Target="xl/workbook.xml"/>'
    workbook = f'<workbook {MAIN} xmlns:r="{KIND}"><sheets>{listed}</sheets></workbook>'
    styles = '<cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
    return write_zip(
        path,
        {
            "[Content_Types].xml": f'<Types xmlns="{OPEN_XML}/package/2006/content-types"/>',
            "_rels/.rels": f"<Relationships {LINKS}>{book}</Relationships>",
            "xl/workbook.xml": workbook,
            "xl/_rels/workbook.xml.rels": f"<Relationships {LINKS}>{links}</Relationships>",
            "xl/styles.xml": f"<styleSheet {MAIN}>{styles}</styleSheet>",
            **parts,
        },
    )


def write_ods(path: str, contents: Mapping[str, Rows]) -> str:
    oasis = "urn:oasis:names:tc:opendocument:xmlns"
    names = " ".join(f'xmlns:{name}="{oasis}:{name}:1.0"' for name in ("office", "table", "text"))
    tables = ""
    for name, rows in contents.items():
        lines = ""
        for row in rows:
            cells = ""
            for value in row:
                cells_of_cell = escape(str(value)).split("\n")
                paragraphs = "".join(f"<text:p>{line}</text:p>" for line in cells_of_cell)
                kind = 'office:value-type="string"'
                if not isinstance(value, str):
                    kind = f'office:value-type="float" office:value="{value}"'
                cells += f"<table:table-cell {kind}>{paragraphs}</table:table-cell>"
            lines += f"<table:table-row>{cells}</table:table-row>"
        tables += f'<table:table table:name="{name}">{lines}</table:table>'
    body = f"<office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body>"
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    return write_zip(
        path,
        {
            "mimetype": kind,
            "META-INF/manifest.xml": f'<manifest:manifest xmlns:manifest="{oasis}:manifest:1.0"/>',
            "content.xml": f"<office:document-content {names}>{body}</office:document-content>",
        },
    )


def find_columns(path: str) -> Columns:
    importer = find_importer(path)
    assert importer is not None
    return importer.choose_columns(path, None, None)


def cells_of(path: str) -> list[list[str]]:
    return [row.cells for row in find_sheet(path, None).rows()]


def pairs_of(path: str, *columns: str | int) -> list[tuple[str, str]]:
    source, target = columns or find_columns(path)
    table = TableCorpus(table=path, source_column=source, target_column=target)
    return [(pair.source, pair.target) for pair in read_pairs(table)]


def in_lines(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(source.replace("\n", " "), target.replace("\n", " ")) for source, target in pairs]


@pytest.mark.parametrize("name", ["book.xlsx", "Book.XLSX", "book.ods"])
def test_a_spreadsheet_is_read_to_the_letter(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    write = write_ods if name.endswith("ods") else write_xlsx
    path = write(name, {"Sentences": ROWS})
    assert pairs_of(path) == pairs_of(path, "English", "Igbo") == in_lines(PAIRS)
    errors = capsys.readouterr().err
    assert "reading columns 'English' and 'Igbo'" in errors and "sheet" not in errors


def test_numbers_and_dates_are_text() -> None:
    path = write_xlsx("t.xlsx", {"T": [(1, 2.5, 45000, 45000.75, "x")]})
    (cells,) = cells_of(path)
    assert cells == ["1", "2.5", "2023-03-15", "2023-03-15 18:00:00", "x"]


def test_rows_and_columns_are_counted_from_the_corner() -> None:
    rows: Rows = [(), *(("", *pair) for pair in PAIRS)]
    path = write_xlsx("t.xlsx", {"T": rows})
    pairs = list(read_pairs(TableCorpus(table=path, source_column=1, target_column=2)))
    assert [pair.where for pair in pairs] == [f"t.xlsx, row {n}" for n in range(2, 6)]


def test_of_several_sheets_that_with_the_most_rows_of_two_texts_is_read_and_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    contents: dict[str, Rows] = {
        "Read me": [("These are sentences.",), ("Use them well.",)],
        "Numbers": [(1, 2), (3, 4), (5, 6)],
        "Old": [("x y", "y x"), ("a b", "b a"), ("c d", "d c")],
        "Few": ROWS[:3],
        "Sentences": ROWS,
        "Long notes": [(f"This is note {n}.",) for n in range(9)],
    }
    path = write_xlsx("t.xlsx", contents, hidden="Old")
    assert pairs_of(path) == pairs_of(path) == in_lines(PAIRS)
    assert capsys.readouterr().err.count("reading sheet 'Sentences' of 5 sheets") == 1
    with pytest.raises(UserError, match="no visible sheet has text"):
        pairs_of(write_xlsx("n.xlsx", {"A": [(1, 2)] * 4, "B": []}))


def test_named_columns_are_looked_for_in_all_sheets(capsys: pytest.CaptureFixture[str]) -> None:
    notes: Rows = [("Project – notes", ""), ("a b", "b a"), ("c d", "d c")]
    path = write_xlsx("t.xlsx", {"Notes": notes, "Empty": [], "Sentences": ROWS})
    assert pairs_of(path, "English", "Igbo") == in_lines(PAIRS)
    assert "reading sheet 'Sentences' of 3 sheets" in capsys.readouterr().err
    with pytest.raises(UserError) as error:
        pairs_of(path, "English", "Yoruba")
    assert str(error.value) == (
        "t.xlsx: no sheet has a row with 'English' and 'Yoruba'; the first rows of its sheets: "
        "'Notes' (a b, b a), 'Sentences' (ID, English, Igbo); choose columns, or a sheet with "
        "--sheet"
    )


def test_a_named_sheet_is_read_and_an_unknown_one_refused_with_the_names_of_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    other: Rows = [("English", "Igbo"), ("A cat.", "Nwamba.")]
    path = write_xlsx("t.xlsx", {"Old": other, "Gone": other, "New": ROWS}, hidden="Gone")
    table = TableCorpus(table=path, source_column="English", target_column="Igbo", sheet="Old")
    assert [(pair.source, pair.target) for pair in read_pairs(table)] == other[1:]
    assert "sheet" not in capsys.readouterr().err
    for name in ("Gone", "old"):
        assert call("check", path, "--sheet", name) == 2
        (error,) = capsys.readouterr().err.splitlines()
        assert f"no visible sheet is named '{name}'; choose from 'Old', 'New'" in error
    assert call("check", path, "--sheet", "Old") == 2  # one pair is too few
    assert "train: 1 pair" in capsys.readouterr().out
    assert call("check", "t.csv", "--sheet", "Old") == 2
    assert "t.csv has no sheets" in capsys.readouterr().err


def test_the_sheet_belongs_to_the_identity_of_a_corpus() -> None:
    path = write_xlsx("t.xlsx", {"A": ROWS, "B": ROWS})
    hashes = {
        *hash_corpora(TableCorpus(table=path), "data.train").values(),
        *hash_corpora(TableCorpus(table=path, sheet="A"), "data.train").values(),
        *hash_corpora(TableCorpus(table=path, sheet="B"), "data.train").values(),
    }
    assert len(hashes) == 3


TITLED: dict[str, Rows] = {
    "a title and a blank row": [("Proyecto Bribri – corpus",), ()],
    "a title beside blank columns": [("", "", "Proyecto Bribri – corpus"), ("", "2021")],
    "blank rows": [(), (), ()],
    "a merged cell above both languages": [("", "Textos"), ()],
}


@pytest.mark.parametrize("kind", TITLED)
def test_what_stands_above_a_table_is_skipped_and_said(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    above = TITLED[kind]
    header: Rows = [("", "English", "Igbo", "", 1)]
    rows: Rows = [("", *pair, "", n) for n, pair in enumerate(PAIRS, 2)]
    path = write_xlsx("t.xlsx", {"T": [*above, *header, *rows]})
    for columns in ((), ("English", "Igbo"), ("B", "c"), (1, 2), ("English", 2)):
        assert pairs_of(path, *columns) == in_lines(PAIRS)
    said = f"t.xlsx: skipped {plural(len(above), 'row')} above the header\n"
    assert capsys.readouterr().err.count(said) == 1
    named = TableCorpus(table=path, source_column="English", target_column="Igbo")
    places = [pair.line for pair in read_pairs(named)]
    assert places == [len(above) + n for n in range(2, 2 + len(PAIRS))]


def test_a_title_is_never_a_pair_even_without_a_header(capsys: pytest.CaptureFixture[str]) -> None:
    path = write_xlsx("t.xlsx", {"T": [("A corpus of sentences",), *PAIRS]})
    assert pairs_of(path) == pairs_of(path, "A", "B") == in_lines(PAIRS)
    assert "t.xlsx: skipped 1 row above the first pair" in capsys.readouterr().err
    other = write_xlsx("o.xlsx", {"T": [("ID", "Texts"), ("", "English", "Igbo"), *ROWS[1:]]})
    assert pairs_of(other) == pairs_of(other, "English", "Igbo") == in_lines(PAIRS)


def test_a_name_goes_before_a_letter() -> None:
    rows: Rows = [("B", "C", "A"), *(("x", *pair) for pair in PAIRS)]
    path = write_xlsx("t.xlsx", {"T": rows})
    assert pairs_of(path, "C", "A") == in_lines(PAIRS)
    with pytest.raises(
        UserError, match="no column 'D'; choose from B, C, A, or letters or numbers from 0"
    ):
        pairs_of(path, "C", "D")


def test_columns_without_names_are_called_by_their_letters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write_xlsx("t.xlsx", {"T": [("n", "", ""), *((1, *pair) for pair in PAIRS)]})
    assert pairs_of(path) == in_lines(PAIRS)
    assert "reading columns B and C\n" in capsys.readouterr().err
    with pytest.raises(UserError, match="source and target are both column C"):
        pairs_of(path, "C", 2)


def test_no_message_names_blank_columns(capsys: pytest.CaptureFixture[str]) -> None:
    path = write_xlsx(
        "t.xlsx",
        {
            "T": [
                ("English", "", "", "Igbo", ""),
                *((source, "", "", target, "") for source, target in PAIRS),
            ]
        },
    )
    with pytest.raises(
        UserError, match=r"choose from English, Igbo, or letters or numbers from 0$"
    ):
        pairs_of(path, "Dutch", "Igbo")
    pairs_of(path, 0, 3)
    assert "a header, not a pair: English, Igbo\n" in capsys.readouterr().err


def test_a_workbook_is_opened_once_however_many_sheets_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[object] = []
    run = subprocess.run

    def count(*arguments: Any, **options: Any) -> Any:
        opened.append(arguments)
        return run(*arguments, **options)

    monkeypatch.setattr(subprocess, "run", count)
    contents: dict[str, Rows] = {f"S{number}": [(1,)] for number in range(300)}
    contents["S1"] = ROWS
    path = write_xlsx("t.xlsx", contents)
    assert cells_of(path) == cells_of(path) == [list(map(str, row)) for row in ROWS]
    assert pairs_of(path) == in_lines(PAIRS)
    assert len(opened) == 1


def test_an_ods_that_claims_more_rows_than_a_spreadsheet_has_is_refused(
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = write_ods("t.ods", {"A": ROWS})
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name).decode() for name in file.namelist()}
    repeat = f'<table:table-row table:number-rows-repeated="{1 << 23}">'
    parts["content.xml"] = parts["content.xml"].replace("<table:table-row>", repeat, 1)
    assert call("check", write_zip("t.ods", parts)) == 2
    (error,) = capfd.readouterr().err.splitlines()
    assert error.startswith("t.ods cannot be read as a spreadsheet (it has ")


def test_commands_read_spreadsheets(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(f"The {n}th of all dogs.", f"Hund {n}.") for n in range(120)]
    path = write_xlsx("t.xlsx", {"T": [("en", "de"), *rows]})
    assert call("check", path, "--languages", "en", "de") == 0
    assert "train: 120 pairs" in capsys.readouterr().out


EMPTY = sheet_xml([])
CELL = sheet_xml([("{}",)])
HOSTILE = {
    "a cell in the last corner": EMPTY.replace(
        "<sheetData>",
        '<sheetData><row r="1"><c r="A1"><v>1</v></c></row>'
        '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>',
    ),
    "an endless cell": CELL.format("a" * (1 << 20)),
    "XML that is cut": EMPTY[:-30],
    "no XML": "no XML at all",
    "entities": "<!DOCTYPE a [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;&a;'>]>" + EMPTY,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_sheet_ends_in_one_line(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_xlsx("t.xlsx", {"T": []}, first_sheet=HOSTILE[kind])
    assert call("check", path) == 2
    errors = capfd.readouterr().err.splitlines()
    assert len(errors) == 1 and errors[0].startswith("t.xlsx")


def test_a_zip_bomb_ends_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program = sheets.READER.read_text()
    small = program.replace("2 << 30", "1 << 27")
    assert small != program
    Path("reader.py").write_text(small)
    monkeypatch.setattr(sheets, "READER", Path("reader.py"))
    path = write_xlsx("t.xlsx", {"T": []}, first_sheet=CELL.format("a" * (1 << 27)))
    assert call("check", path) == 2
    (error,) = capfd.readouterr().err.splitlines()
    assert error.startswith("t.xlsx cannot be read as a spreadsheet (it needs too much memory)")


def test_a_reader_that_warns_at_length_is_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More than a pipe holds would block the reader if nobody read its warnings."""
    program = sheets.READER.read_text()
    warning = "sys.stderr.write('a warning' * (1 << 16))"
    Path("reader.py").write_text(program.replace("import sys\n", f"import sys\n{warning}\n"))
    monkeypatch.setattr(sheets, "READER", Path("reader.py"))
    path = write_xlsx("t.xlsx", {"T": ROWS})
    assert len(cells_of(path)) > len(PAIRS)


@pytest.mark.parametrize("content", [b"", b"PK or so", b"PK\x03\x04" + bytes(100)])
def test_a_broken_spreadsheet_ends_in_one_line_with_advice(
    content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("t.xlsx").write_bytes(content)
    assert call("check", "t.xlsx") == 2
    (error,) = capfd.readouterr().err.splitlines()
    assert error.startswith("t.xlsx cannot be read") and error.endswith("save it as CSV UTF-8")


def test_a_spreadsheet_that_is_cut_anywhere_is_refused() -> None:
    whole = Path(write_xlsx("whole.xlsx", {"T": ROWS})).read_bytes()
    for length in range(0, len(whole), 311):
        Path("t.xlsx").write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"^t\.xlsx cannot be read"):
            cells_of("t.xlsx")
