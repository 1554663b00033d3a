"""Termbases: versions and dialects of TBX, the status of terms, and files that are refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from mtkit.errors import UserError
from mtkit.extras.terms.files import load_terms
from mtkit.extras.terms.glossary import TermGlossary
from mtkit.report import silently


def read(tmp_path: Path, content: str | bytes, name: str = "terms.tbx") -> TermGlossary:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with silently():
        return load_terms(path).directed(("en", "de"))


def entry(german: str) -> str:
    """Return a termbase with an entry of an English term and these German ones."""
    return (
        '<martif type="TBX-Basic"><text><body><termEntry id="1"><note>n</note>'
        '<langSet xml:lang="en-US"><descrip type="definition">a pet</descrip>'
        "<tig><term>dog</term></tig></langSet>"
        f'<langSet xml:lang="de">{german}</langSet></termEntry></body></text></martif>'
    )


def term(text: str, status: str = "", kind: str = "administrativeStatus") -> str:
    return f'<tig><term>{text}</term><termNote type="{kind}">{status}</termNote></tig>'


VERSION_2 = '<?xml version="1.0"?><!DOCTYPE martif SYSTEM "TBXBasiccoreStructV02.dtd">' + entry(
    "<ntig><termGrp><term>Hund</term></termGrp></ntig><tig><term>K\nöter</term></tig>"
)
VERSION_3 = """<?xml version="1.0" encoding="UTF-8"?>
<tbx style="dct" type="TBX-Min" xml:lang="en" xmlns="urn:iso:std:iso:30042:ed-2"
 xmlns:min="http://www.tbxinfo.net/ns/min"><text><body><conceptEntry id="1">
<langSec xml:lang="en"><termSec><term>dog</term></termSec></langSec>
<langSec xml:lang="de-AT"><termSec><term>K
öter</term></termSec><termSec><term>H<hi>un</hi>d</term>
<min:administrativeStatus>preferredTerm-admn-sts</min:administrativeStatus></termSec></langSec>
</conceptEntry></body></text></tbx>"""


@pytest.mark.parametrize(
    "content",
    [
        VERSION_2,
        VERSION_3,
        VERSION_3.replace("UTF-8", "UTF-16").encode("utf-16"),
        VERSION_3.replace("UTF-8", "ISO-8859-1").encode("latin-1"),
    ],
    ids=["version 2", "version 3", "UTF-16", "Latin-1"],
)
def test_an_entry_has_terms_in_several_languages(content: str | bytes, tmp_path: Path) -> None:
    assert read(tmp_path, content).entries == {"dog": ("Hund", "K öter")}


def test_a_termbase_may_be_packed(tmp_path: Path) -> None:
    content = gzip.compress(VERSION_2.encode())
    assert read(tmp_path, content, "terms.tbx.gz").entries == {"dog": ("Hund", "K öter")}


@pytest.mark.parametrize(
    "status", ["deprecatedTerm-admn-sts", "supersededTerm-admn-sts", "deprecatedTerm", "obsolete"]
)
@pytest.mark.parametrize("kind", ["administrativeStatus", "normativeAuthorization"])
def test_a_term_that_nobody_shall_use_is_left_out(status: str, kind: str, tmp_path: Path) -> None:
    german = term("Köter", status, kind) + term("Hund", "admittedTerm-admn-sts")
    assert read(tmp_path, entry(german)).entries == {"dog": ("Hund",)}


def test_preferred_terms_come_first_and_other_notes_do_not_matter(tmp_path: Path) -> None:
    german = (
        term("Köter")
        + term("Hund", "preferredTerm-admn-sts")
        + term("Kläffer", "deprecated", "usageNote")
    )
    assert read(tmp_path, entry(german)).entries == {"dog": ("Hund", "Köter", "Kläffer")}


def test_an_entry_without_a_translation_is_left_out(tmp_path: Path) -> None:
    content = entry(term("Hund")).replace(
        "</body>",
        '<termEntry><langSet xml:lang="en-US"><tig><term>cat</term></tig></langSet></termEntry>'
        "</body>",
    )
    assert read(tmp_path, content).entries == {"dog": ("Hund",)}


LAUGHS = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
BOMB = f'<!DOCTYPE x [<!ENTITY a0 "ha">{LAUGHS}]>' + entry(term("&a9;"))
FILE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + entry(term("&a;"))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (BOMB, "not XML"),
        (FILE, "not XML"),
        (entry(term("&a;")), "not XML"),
        (VERSION_2[:300], "not XML"),
        ("", "not XML"),
        ("dog\tHund\n", "not XML"),
        ("<tmx/>", "no entry has terms in two languages"),
        (entry(term("Köter", "deprecatedTerm")), "no entry has terms in two languages"),
        (gzip.compress(VERSION_2.encode(), mtime=0)[:50], "the gzip data is damaged"),
    ],
)
def test_the_error_for_another_file_is_one_line(
    content: str | bytes, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as error:
        read(tmp_path, content)
    assert str(error.value).startswith(f"{tmp_path / 'terms.tbx'}")
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_a_damaged_packed_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="gzip data is damaged"):
        read(tmp_path, gzip.compress(VERSION_2.encode())[:50], "terms.tbx.gz")
