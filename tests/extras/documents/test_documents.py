"""Laws of documents: what is translated, where it is written, and that the rest stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polib
import pytest

import mtkit
from architectures import transformer
from commands import call
from documents import opened, translated
from folders import as_if_trained, copier_of, train, write_model
from mtkit.errors import UserError

PO = r"""
# Ann's file
msgid ""
msgstr ""
"Language: \n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#. greets
#: main.c:12
#, c-format
msgctxt "menu"
msgid "Delete it?"
msgstr ""

msgid "say \"hi\"\n"
"to all\n"
msgstr "fertig"

msgid "one"
msgid_plural "many"
msgstr[0] ""
msgstr[1] ""

#~ msgid "old"
#~ msgstr "alt"
"""


@pytest.fixture(autouse=True)
def _in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def translated_po(content: str, **options: Any) -> str:
    """Return a file of gettext with capitals for translations."""
    return translated(content, "a.po", **{"translate": str.upper, **options}).decode()


def test_only_empty_targets_are_filled_unless_all_are_asked_for() -> None:
    expected = (
        PO.replace('it?"\nmsgstr ""', 'it?"\nmsgstr "DELETE IT?"')
        .replace('msgstr[0] ""', 'msgstr[0] "ONE"')
        .replace('msgstr[1] ""', 'msgstr[1] "MANY"')
        .replace("Language: ", "Language: de")
    )
    assert translated_po(PO) == expected
    written = r'msgstr ""' "\n" r'"SAY \"HI\"\n"' "\n" r'"TO ALL\n"'
    assert translated_po(PO, all_texts=True) == expected.replace('msgstr "fertig"', written)


def test_gettext_reads_what_is_written() -> None:
    text = (
        'Tab\tand "quotes"\\ and\na second line, which is longer than one line of a file can be.\n'
    )
    source = polib.POFile()
    source.metadata = {"Plural-Forms": "nplurals=2; plural=(n != 1);"}
    source.append(polib.POEntry(msgid=text, msgid_plural=text * 2, msgstr_plural={0: "", 1: ""}))
    source.append(polib.POEntry(msgid=text, msgctxt="b"))
    read = polib.pofile(translated_po(str(source), translate=str))
    assert [entry.msgstr or entry.msgstr_plural for entry in read] == [{0: text, 1: text * 2}, text]


@pytest.mark.parametrize(
    ("language", "forms"),
    [("ja", ["MANY"]), ("de", ["ONE", "MANY"]), ("ru", ["ONE", "MANY", "MANY"])],
)
def test_plurals_get_the_forms_of_the_target_language(language: str, forms: list[str]) -> None:
    template = PO.replace("nplurals=2; plural=(n != 1)", "nplurals=INTEGER; plural=EXPRESSION")
    read = polib.pofile(translated_po(template, language=language))
    plural = read.find("one")
    assert plural is not None
    assert list(plural.msgstr_plural.values()) == forms
    assert plural.fuzzy is (len(forms) > 2)  # no model tells the forms of a Slavic language apart
    assert f"nplurals={len(forms)};" in read.metadata["Plural-Forms"]


def test_what_is_not_sure_becomes_fuzzy(capsys: pytest.CaptureFixture[str]) -> None:
    text = translated_po(PO, min_confidence=0.6, all_texts=True)
    assert all(entry.fuzzy for entry in polib.pofile(text) if not entry.obsolete)
    assert "#, c-format\n#, fuzzy\n" in text
    assert "4 texts below --min-confidence" in capsys.readouterr().err
    again = translated_po(text, min_confidence=0.4, all_texts=True)
    assert not any(entry.fuzzy for entry in polib.pofile(again))


def test_an_empty_translation_leaves_a_message_as_it_is() -> None:
    content = '#, fuzzy\nmsgid "a"\nmsgstr "b"\n'
    assert translated_po(content, translate=lambda text: "", all_texts=True) == content


@pytest.mark.parametrize(
    ("source", "translation", "is_sure"),
    [
        ("%s of %d", "%s von %d", True),
        ("%s of %d", "%d von %s", False),
        ("%s of %d", "%s", False),
        ("%2$s of %1$d", "%1$d von %2$s", True),
        ("{a} of {} and %(b)s", "%(b)s, {} und {a}", True),
    ],
)
def test_arguments_that_a_program_cannot_tell_apart_keep_their_order(
    source: str, translation: str, is_sure: bool
) -> None:
    for flag, is_format in (("c-format", True), ("no-c-format", False)):
        content = f'#, {flag}\nmsgid "{source}"\nmsgstr ""\n'
        (entry,) = polib.pofile(translated_po(content, translate=lambda text: translation))
        assert entry.fuzzy == (is_format and not is_sure)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("flags", "sure", "unsure"),
    [
        ("", "", "#, fuzzy\n"),
        ("#, fuzzy\n", "", "#, fuzzy\n"),
        ("#,c-format, range: 0..10\n",) * 2 + ("#,c-format, range: 0..10\n#, fuzzy\n",),
        ("#, fuzzy, a\n", "#, a\n", "#, fuzzy, a\n"),
        ("#, a, fuzzy\n", "#, a\n", "#, a, fuzzy\n"),
        ("#, fuzzy\n#, a\n", "#, a\n", "#, fuzzy\n#, a\n"),
        ("#, fuzzy\n#| msgid 'b'\n#| 'c'\n", "", "#, fuzzy\n"),
        ("#, fuzzy\n#~ msgid 'a'\n\n",) * 2 + ("#, fuzzy\n#~ msgid 'a'\n\n#, fuzzy\n",),
    ],
)
def test_a_flag_line_keeps_its_bytes_except_for_fuzzy(
    flags: str, sure: str, unsure: str, line_end: str
) -> None:
    for confidence, expected in ((0.9, sure), (0.1, unsure)):
        content = f'{flags}msgid "a"\nmsgstr ""\n'.replace("\n", line_end)
        out = translated_po(content, confidence=confidence, min_confidence=0.5, all_texts=True)
        assert out == f'{expected}msgid "a"\nmsgstr "A"\n'.replace("\n", line_end)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('msgid "a"\nmsgstr "\n', "a.po:1: no complete message"),
        ('msgid "a"\nmsgid "b"\n', "a.po:1: no complete message of gettext"),
        ('msgid "a"\n\n', "a.po:1: no complete message of gettext"),
        (b'msgid "a"\n# \xe9', "a.po: is not in utf-8; convert it"),
    ],
)
def test_a_damaged_document_is_an_error_with_its_line(content: str | bytes, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        opened(content, "a.po")


def test_the_command_writes_a_document_and_refuses_what_does_not_fit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("a.po").write_text(PO)
    model = str(write_model(Path("model"), train(), transformer(), as_if_trained))
    assert call("translate", "-m", model, "a.po", "-o", "b.po") == 0
    assert polib.pofile("b.po").find("one") is not None
    assert "a.po: keeps 1 translation" in capsys.readouterr().err
    for words, problem in {
        "a.po -o b.html": "choose a name with .po or .pot",
        "a.po --jsonl": "--jsonl cannot be used with a document",
        "a.txt --memory a.po": "--all, --memory and --min-confidence need a document: ",
        "a.po -o c.po --min-confidence 0.5": "--min-confidence needs the confidence of the model",
    }.items():
        assert call("translate", "-m", model, *words.split()) == 2
        assert problem in capsys.readouterr().err
    assert not Path("c.po").exists()


def test_python_translates_a_file_as_the_command_does() -> None:
    Path("a.po").write_text(PO)
    translator = copier_of(train())
    mtkit.translate_file(translator, "a.po", Path("b.po"), all_texts=True, memory=["a.po"])
    entries = polib.pofile("b.po").translated_entries()
    assert "one" in [entry.msgid for entry in entries]
    assert "fertig\n" in [entry.msgstr for entry in entries]
    Path("a.txt").write_text("A dog.\n")
    mtkit.translate_file(translator, "a.txt", "b.txt")
    assert Path("b.txt").read_text() == "A dog.\n"
