"""Glossaries: how files are read, which entries are refused, and where terms match."""

from __future__ import annotations

import codecs
import gzip
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mtkit.artifacts.manifest import Artifact
from mtkit.corpus.characters import is_word_character
from mtkit.corpus.text import normalise
from mtkit.decoding.glossary import Glossary, load_glossary
from mtkit.decoding.text.words import tokens_of
from mtkit.errors import UserError
from mtkit.extras.terms.files import open_terms, read_terms
from mtkit.extras.terms.glossary import TermGlossary, clean_terms
from mtkit.report import silently


def read(tmp_path: Path, content: str | bytes, name: str = "terms.tsv") -> TermGlossary:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with silently():
        return read_terms(path)


def matches(entries: Mapping[str, Any], text: str) -> list[tuple[str, str]]:
    terms = open_terms(entries).index.find_terms(text)
    return [(text[term.start : term.end], term.targets[0]) for term in terms]


def first_targets(glossary: TermGlossary) -> dict[str, str]:
    """Return what each term becomes; "" if it stays untranslated."""
    return {source: "".join(targets[:1]) for source, targets in glossary.entries.items()}


# Files


def test_a_glossary_has_a_term_a_tab_and_its_translation_on_each_line(tmp_path: Path) -> None:
    content = "# fruit\n\napple\tApfel\n  pear \t Birne\nmtkit\niPhone\t\nUS\tUS\n\t\n"
    glossary = read(tmp_path, content)
    assert first_targets(glossary) == {
        "apple": "Apfel",
        "pear": "Birne",
        "mtkit": "",
        "iPhone": "",
        "US": "",
    }
    assert read(tmp_path, content, "terms.txt").entries == glossary.entries


FAULTS = [
    ("a dog\n", "1: no tab"),
    ("a\tb\ndog;Hund\n", "2: no tab"),
    ("\tHund\n", "1: no source"),
    ("\u200b\tHund\n", "1: no source"),
    ("dog\t" + "x" * 501 + "\n", "1: over 500 characters"),
    (b"dog\tHund\ncaf\xe9\tCaf\xe9\n", "2: not UTF-8"),
]


@pytest.mark.parametrize(("content", "message"), FAULTS, ids=[message for _, message in FAULTS])
def test_the_error_for_a_faulty_entry_is_one_line_with_file_and_line(
    content: str | bytes, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as error:
        read(tmp_path, content)
    assert str(error.value).startswith(f"{tmp_path / 'terms.tsv'}:{message}")
    assert "\n" not in str(error.value)


def test_an_entry_may_be_repeated_and_terms_may_translate_into_each_other(tmp_path: Path) -> None:
    glossary = read(tmp_path, "a\tb\nb\ta\na\tb\nx\tx\n")
    assert glossary.entries == {"a": ("b",), "b": ("a",), "x": ()}
    assert matches(glossary.entries, "a b a") == [("a", "b"), ("b", "a"), ("a", "b")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("terms.csv", 'dog,Hund\n"well, then","nun, ja"\n'),
        ("terms.csv", "dog;Hund\nwell, then;nun, ja\n"),
        ("terms.tsv", codecs.BOM_UTF8 + b"dog\tHund\nwell, then\tnun, ja\n"),
        ("terms.tsv", 'dog\tHund\r\n"well, then"\t"nun, ja"\r\n'.encode("utf-16")),
        ("terms.txt", "dog\tHund\nwell, then\tnun, ja\n".encode("utf-16")),
    ],
    ids=["comma", "semicolon", "byte order mark", "UTF-16 of Excel", "UTF-16 text"],
)
def test_a_glossary_may_be_any_table_that_spreadsheets_write(
    name: str, content: str | bytes, tmp_path: Path
) -> None:
    glossary = read(tmp_path, content, name)
    assert first_targets(glossary) == {"dog": "Hund", "well, then": "nun, ja"}


def test_a_translation_memory_is_no_glossary(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"write a \.tsv or \.csv"):
        read(tmp_path, "", "terms.tmx")


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        read_terms(tmp_path / "x.txt")


def test_a_stream_is_a_glossary_with_tabs_but_not_with_quotes(tmp_path: Path) -> None:
    for name in ("terms.csv", "terms.tsv"):
        (tmp_path / name).symlink_to("/dev/null")
    with silently():
        assert len(read_terms(tmp_path / "terms.tsv")) == 0
    with pytest.raises(UserError, match="pipe or device"):
        read_terms(tmp_path / "terms.csv")


@pytest.mark.parametrize("entries", ["terms.tsv", {"dog": "Hund", "mtkit": None}])
def test_python_gives_a_path_or_a_dictionary(entries: Any, tmp_path: Path) -> None:
    if isinstance(entries, str):
        (tmp_path / entries).write_text("dog\tHund\nmtkit\t\n")
        entries = str(tmp_path / entries)
    assert open_terms(entries).entries == {"dog": ("Hund",), "mtkit": ()}


@pytest.mark.parametrize("wrong", [3, ["dog"], {"dog": 3}, {1: "x"}, {"dog": ["Hund", 3]}])
def test_python_code_that_gives_something_else_gets_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match="glossary"):
        open_terms(wrong)


def load_saved(glossary: Glossary, folder: Path) -> TermGlossary:
    """Save a glossary into the folder of a model, and load it."""
    glossary.save(folder)
    with silently():
        saved = load_glossary(Artifact(folder, {"files": {"glossary.tsv": {}}}))
    assert isinstance(saved, TermGlossary)
    return saved


cells = st.one_of(
    st.text(max_size=8),
    st.text('#"\t;, =ab\u00a0\ufeff', max_size=8),
    st.sampled_from(["source", "target", "en", "de", "sep=", "sep=;", '"a"', "#1 fan", "=1+1"]),
)


@given(
    entries=st.dictionaries(cells, cells, max_size=5),
    languages=st.sampled_from([(None, None), ("en", "de"), ("en", None)]),
)
@example(entries={"#1 fan": "Nummer eins", "# ": "x"}, languages=(None, None))
@example(entries={'"quoted"': '"', "target": "source"}, languages=(None, None))
def test_a_glossary_in_a_model_folder_is_the_one_that_was_saved_whatever_its_entries(
    entries: dict[str, str],
    languages: tuple[str | None, str | None],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    try:
        glossary = TermGlossary(open_terms(entries).concepts, languages)
    except UserError:
        return
    saved = load_saved(glossary, tmp_path_factory.mktemp("model"))
    assert list(saved.entries.items()) == list(glossary.entries.items())
    assert saved.digest == glossary.digest


def test_a_term_that_begins_with_a_number_sign_survives_in_a_model_folder(tmp_path: Path) -> None:
    glossary = read(tmp_path, "target\tsource\nNummer eins\t#1 fan\nHund\tdog\n")
    saved = load_saved(glossary, tmp_path)
    assert saved.entries == {"#1 fan": ("Nummer eins",), "dog": ("Hund",)}


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("terms.csv", '"#1 fan",x\n# a comment\ndog,Hund\n', {"#1 fan": "x", "dog": "Hund"}),
        ("terms.tsv", '# a comment\n"#1 fan"\tx\n', {"#1 fan": "x"}),
        ("terms.tsv", 'en\tde\n"dog"\tHund\n"New York"\t"NY"\n', {"dog": "Hund", "New York": "NY"}),
        ("terms.txt", '"say ""hi"""\t"x"\n', {'say "hi"': "x"}),
        ("terms.tsv", '5" disk\t"a" b\n"\t""\n', {'5" disk': '"a" b', '"': '""'}),
        ("terms.csv", "sep=;\nen;de\ndog;Hund\n", {"dog": "Hund"}),
        ("terms.csv", "\ufeffsep=,\r\ndog,Hund\r\n", {"dog": "Hund"}),
        ("terms.csv", "dog;Hund\nsep=;x\n", {"dog": "Hund", "sep=": "x"}),
    ],
)
def test_quotes_enclose_cells_and_the_row_that_names_the_delimiter_is_no_entry(
    name: str, content: str, expected: dict[str, str], tmp_path: Path
) -> None:
    assert first_targets(read(tmp_path, content, name)) == expected


def test_how_many_terms_a_glossary_has_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("# animals\nen\tde\ndog\tHund\ncat\tKatze\n")
    read_terms(path)
    read_terms(path)
    captured = capsys.readouterr()
    assert captured.err.count(f"{path}: 2 terms") == 1
    assert not captured.out


# Several translations


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("terms.tsv", "dog\tHund\ncat\tKatze\ndog\tKöter\ndog\tHund\ndog\t\n"),
        ("terms.csv", 'cat,Katze\ndog,"Hund\nKöter"\n'),
        ("terms.jsonl", '{"en": "dog", "de": ["Hund", "Köter"]}\n{"en": "cat", "de": "Katze"}\n'),
    ],
    ids=["rows", "lines of a cell", "a list"],
)
def test_a_term_may_have_several_translations_of_which_the_first_is_the_best(
    name: str, content: str, tmp_path: Path
) -> None:
    expected = {"dog": ("Hund", "Köter"), "cat": ("Katze",)}
    assert read(tmp_path, content, name).entries == expected
    assert open_terms({"dog": ["Hund", "Köter"], "cat": "Katze"}).entries == expected


def test_a_term_that_is_one_of_its_translations_has_the_others_too(tmp_path: Path) -> None:
    assert read(tmp_path, "Team\tTeam\nTeam\tGruppe\n").entries == {"Team": ("Team", "Gruppe")}
    assert read(tmp_path, "Team\tTeam\nTeam\t\n").entries == {"Team": ()}


# Columns

TABLES = {
    "terms.tsv": "{en}\tPart of speech\t{de}\tNote\ndog\tnoun\tHund\tan animal\n",
    "terms.csv": "{en},Part of speech,{de},Note\ndog,noun,Hund,\n",
    "terms.jsonl": '{{"{en}": "dog", "nr": 7, "{de}": "Hund", "note": null}}\n',
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    ("en", "de"), [("en", "de"), ("English", "Deutsch"), ("EN-US", "de_AT"), ("source", "target")]
)
@pytest.mark.parametrize("is_packed", [False, True])
def test_the_header_names_the_columns_and_others_are_ignored(
    name: str, en: str, de: str, is_packed: bool, tmp_path: Path
) -> None:
    content = TABLES[name].format(en=en, de=de).encode()
    if is_packed:
        name += ".gz"
        content = gzip.compress(content)
    with silently():
        glossary = read(tmp_path, content, name).directed(("en", "de"))
    assert glossary.entries == {"dog": ("Hund",)}


@pytest.mark.parametrize("name", ["terms.tsv", "terms.csv"])
def test_without_a_header_the_first_two_columns_hold_the_terms(name: str, tmp_path: Path) -> None:
    content = "dog\tHund\tnoun\ncat\tKatze\t\n"
    content = content.replace("\t", ",") if name.endswith("csv") else content
    assert first_targets(read(tmp_path, content, name)) == {"dog": "Hund", "cat": "Katze"}


def test_a_row_without_terms_is_no_entry(tmp_path: Path) -> None:
    content = "en\tnote\tde\n\tanimals\t\ndog\tx\tHund\n"
    assert first_targets(read(tmp_path, content)) == {"dog": "Hund"}


def test_an_object_without_languages_has_a_term_and_its_translation(tmp_path: Path) -> None:
    glossary = read(tmp_path, '{"term": "dog", "use": "Hund"}\n\n{"term": "x"}\n', "terms.jsonl")
    assert first_targets(glossary) == {"dog": "Hund", "x": ""}


MANY = """en-US\ten-GB\tGerman\tfr
elevator\tlift\tAufzug\t
dog\tdog\tHund\tchien
\t\tKatze\tchat
"""


@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        (("en", "de"), {"elevator": "Aufzug", "dog": "Hund"}),
        (("en-GB", "de"), {"lift": "Aufzug", "dog": "Hund"}),
        (("de", "fr"), {"Hund": "chien", "Katze": "chat"}),
        (("fr", "en"), {"chien": "dog"}),
        (("en-US", "en-GB"), {"elevator": "lift", "dog": ""}),
    ],
)
def test_of_many_languages_a_model_gets_its_own_and_rows_that_lack_one_are_left_out(
    languages: tuple[str, str], expected: dict[str, str], tmp_path: Path
) -> None:
    glossary = read(tmp_path, MANY)
    with silently():
        directed = glossary.directed(languages)
    assert first_targets(directed) == expected
    assert glossary.directed(languages) is directed


def test_how_many_rows_lack_a_language_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    glossary = read(tmp_path, MANY)
    glossary.directed(("en", "fr"))
    expected = "1 term to translate en-US to fr; left out 2 rows that lack one of these languages"
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("languages", [("en", "ko"), ("ko", "de")])
def test_many_languages_without_one_of_the_model_are_refused(
    languages: tuple[str, str], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="has terms in en-US, en-GB, de, fr, but the model"):
        read(tmp_path, MANY).directed(languages)


@given(
    rows=st.lists(
        st.lists(st.lists(st.text('ab #"é', max_size=4), max_size=3), min_size=3, max_size=3)
    )
)
def test_a_saved_glossary_of_many_languages_is_the_same(
    rows: list[list[list[str]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    cleaned = [[clean_terms(terms) for terms in row] for row in rows]
    filled = [row for row in cleaned if any(row)]
    glossary = TermGlossary(filled, ("en", "fil", "zh-Hant"))
    saved = load_saved(glossary, tmp_path_factory.mktemp("model"))
    assert [[*row] for row in saved.concepts] == filled
    assert [*saved.languages] == [*glossary.languages]
    assert saved.digest == glossary.digest


# Directions


@pytest.mark.parametrize(
    ("header", "languages", "first"),
    [
        ("en\tde", ("en", "de"), ("dog", "Hund")),
        ("en\tde", ("de", "en"), ("Hund", "dog")),
        ("English\tGerman", ("de", "en"), ("Hund", "dog")),
        ("en-GB\tde-AT", ("de", None), ("Hund", "dog")),
        ("en\tde", (None, "de"), ("dog", "Hund")),
        ("en\tde", (None, None), ("dog", "Hund")),
        ("source\ttarget", ("de", "en"), ("dog", "Hund")),
        ("target\tsource", ("en", "de"), ("Hund", "dog")),
    ],
)
def test_the_header_says_the_direction_of_the_columns(
    header: str,
    languages: tuple[str | None, str | None],
    first: tuple[str, str],
    tmp_path: Path,
) -> None:
    glossary = read(tmp_path, f"{header}\ndog\tHund\nUS\tUS\n").directed(languages)
    assert [*first_targets(glossary).items()] == [first, ("US", "")]


def test_an_entry_for_the_name_of_a_language_is_no_header(tmp_path: Path) -> None:
    glossary = read(tmp_path, "English\tEnglisch\nGerman\tDeutsch\n")
    assert first_targets(glossary) == {"English": "Englisch", "German": "Deutsch"}


@pytest.mark.parametrize("languages", [("ko", "de"), ("en", "de"), ("de", "fr"), (None, "de")])
def test_a_glossary_that_lacks_a_language_of_the_model_is_refused(
    languages: tuple[str | None, str], tmp_path: Path
) -> None:
    glossary = read(tmp_path, "English\tFrench\ndog\tchien\n")
    with pytest.raises(UserError, match="terms in en, fr, but the model translates"):
        glossary.directed(languages)


def test_two_terms_of_one_translation_are_its_translations_in_the_other_direction(
    tmp_path: Path,
) -> None:
    glossary = read(tmp_path, "en\tde\ndog\tHund\nhound\tHund\n")
    assert glossary.directed(("en", "de")) is glossary
    with silently():
        assert glossary.directed(("de", "en")).entries == {"Hund": ("dog", "hound")}


# Matching

ENTRIES = {
    "dog": "Hund",
    "New York": "NY",
    "New York City": "NYC",
    "City Hall": "Rathaus",
    "US": "USA",
    "iPhone": "",
    "C++": "",
    "a.b": "regex",
    "(x)": "brackets",
    "10": "zehn",
    "eau": "water",
    "Straße": "street",
    "café": "coffee",
    "कि": "that",
    "狗": "Hund",
    "狗跑": "Hunderennen",
    "สุนัข": "Hund",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a dog, the dog.", ["dog", "dog"]),
        ("hotdog dogs dog_x do", []),
        ("dog-friendly dog's", ["dog", "dog"]),
        ("de l'eau", ["eau"]),
        ("New York City Hall", ["New York City"]),
        ("New\xa0York", ["New York"]),
        ("New Yorker", []),
        ("C++ or C+ or C", ["C++"]),
        ("a.b aXb (x)", ["a.b", "(x)"]),
        ("10 or 10. or 10,000 or 1.10", ["10", "10"]),
        ("caf\u00e9 cafe", ["café"]),
        ("कि किताब", ["कि"]),
        ("这狗跑了狗", ["狗跑", "狗"]),
        ("用iPhone写", ["iPhone"]),
        ("สุนัขวิ่ง", ["สุนัข"]),
        ("", []),
    ],
)
def test_terms_are_whole_words_leftmost_and_longest(text: str, expected: list[str]) -> None:
    found = [written.replace("\xa0", " ") for written, _ in matches(ENTRIES, text)]
    assert found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the dog", ["dog"]),
        ("Dog food", ["dog"]),  # at the start of a line or a sentence
        ("He left. Dog food", ["dog"]),
        ("he said: “Dog food", ["dog"]),
        ("- Dog food", ["dog"]),  # after a list mark
        ("(- Dog food)", ["dog"]),
        ("his - Dog", []),
        ("my Dog, Dog", []),  # a name
        ("the DOG", ["dog"]),  # in capitals
        ("The Old Dog Barks Loudly Today", ["dog"]),  # in a title
        ("The Dog in the Hat", []),
        ("The Dog In The Hat", ["dog"]),
        ("A Guide to the Dog", []),
        ("A Guide To The Dog", ["dog"]),
        ("the us", []),  # an entry with capitals: as it is written
        ("the US", ["US"]),
        ("new york", []),
        ("my IPHONE", []),
        ("MY IPHONE IN NEW YORK", ["iPhone", "New York"]),  # but in a line in capitals in any case
        ("IN DER STRASSE", ["Straße"]),
    ],
)
def test_case_counts_as_the_guide_says(text: str, expected: list[str]) -> None:
    found = [written for written, _ in matches(ENTRIES, text)]
    assert [written.casefold() for written in found] == [term.casefold() for term in expected]


def test_what_is_written_as_in_the_glossary_comes_before_other_cases() -> None:
    entries = {"pin": "Nadel", "PIN": "Geheimzahl"}
    assert matches(entries, "pin PIN") == [("pin", "Nadel"), ("PIN", "Geheimzahl")]


def test_a_term_without_translation_stays_as_the_text_has_it() -> None:
    assert matches({"mtkit": "", "Foo": "Foo"}, "Mtkit and Foo") == [
        ("Mtkit", "Mtkit"),
        ("Foo", "Foo"),
    ]


short_words = st.text("abA +狗\u0915\u093f.1-", min_size=1, max_size=4)


@given(
    entries=st.lists(short_words, max_size=6),
    text=st.text("abA +狗\u0915\u093f.1-", max_size=30),
)
def test_matching_agrees_with_a_search_at_every_place(entries: list[str], text: str) -> None:
    try:
        glossary = open_terms({normalise(entry): "x" for entry in entries})
    except UserError:
        return
    text = normalise(text)
    words = tokens_of(text)
    starts = [start for start, _ in words]
    ends = {end for _, end in words}
    expected: list[tuple[int, int]] = []
    place = 0
    while place < len(text):
        fitting = [
            len(entry)
            for entry in glossary.entries
            if text.startswith(entry, place) and place in starts and place + len(entry) in ends
        ]
        if fitting:
            expected.append((place, place + max(fitting)))
            place += max(fitting)
        else:
            place += 1
    case_exact = [
        (term.start, term.end)
        for term in glossary.index.find_terms(text)
        if text[term.start : term.end] in glossary.entries
    ]
    if len(case_exact) == len(glossary.index.find_terms(text)):
        assert case_exact == expected


@given(st.text(max_size=60))
def test_words_cover_all_but_white_space_and_are_never_cut(text: str) -> None:
    words = tokens_of(text)
    rest = list(text)
    end = 0
    for start, next_end in words:
        assert end <= start < next_end
        rest[start:next_end] = [" "] * (next_end - start)
        end = next_end
    assert not "".join(rest).strip()
    for start, end in words:
        is_plain = re.fullmatch(r"[a-z]+", text[start:end]) is not None
        if is_plain and end < len(text):
            assert not (text[end].isascii() and is_word_character(text[end]))


def test_columns_of_a_jsonl_are_the_keys_of_all_its_objects(tmp_path: Path) -> None:
    path = tmp_path / "terms.jsonl"
    path.write_text('{"en": "dog", "note": "x"}\n{"en": "cat", "de": "Mieze"}\n', "utf-8")
    assert read_terms(path).entries == {"dog": (), "cat": ("Mieze",)}


@pytest.mark.parametrize(
    "line", ["[1]", '"x"', '{"en": "cat", "de": [["x"]]}', r'{"en": "cat", "de": "\ud83d"}']
)
def test_a_line_of_a_jsonl_without_terms_is_an_error(line: str, tmp_path: Path) -> None:
    path = tmp_path / "terms.jsonl"
    path.write_text('{"en": "dog", "de": "Hund"}\n' + line, "utf-8")
    with pytest.raises(UserError, match=r"terms\.jsonl:2: "):
        read_terms(path)


@pytest.mark.parametrize("header", ["de\tsource", "target\ten", "target\tsource", "German\tsource"])
def test_a_header_may_name_the_side_of_targets_first(header: str, tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(f"{header}\nHund\tdog\n", "utf-8")
    assert read_terms(path).entries == {"dog": ("Hund",)}
