"""Translation memories are read as tables of languages; a hostile file ends in one line."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import call
from mtkit.config.corpora import TableCorpus
from mtkit.corpus.read import read_pairs
from mtkit.corpus.tables import find_columns, read_table
from mtkit.corpus.text import in_one_line
from mtkit.errors import UserError

OMEGAT = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx11.dtd">
<tmx version="1.1">
  <header creationtool="OmegaT" o-tmf="OmegaT TMX" adminlang="EN-US" datatype="plaintext"
   creationtoolversion="6.0.0_0_e3dd8ac" segtype="sentence" srclang="EN-US"/>
  <body>
<!-- Default translations -->
    <tu>
      <prop type="file">Test.odt</prop>
      <note>a note</note>
      <tuv lang="EN-US">
        <seg>&lt;f0&gt;A dog&lt;/f0&gt; runs.</seg>
      </tuv>
      <tuv lang="DE-DE" changeid="me" changedate="20260101T000000Z">
        <seg>Ein <bpt i="0" x="0">&lt;f0&gt;</bpt>Hund<ept i="0">&lt;/f0&gt;</ept> rennt.</seg>
      </tuv>
    </tu>
  </body>
</tmx>
"""
TRADOS = """<?xml version="1.0" encoding="utf-16"?>\r
<!DOCTYPE tmx SYSTEM "tmx14.dtd">\r
<tmx version="1.4">\r
  <header creationtool="SDL Language Platform" creationtoolversion="8.0" o-tmf="SDL TM8 Format"
    datatype="xml" segtype="sentence" adminlang="en-US" srclang="de-DE">\r
    <prop type="x-Recognizers">RecognizeAll</prop>\r
  </header>\r
  <body>\r
    <tu creationdate="20260101T000000Z" usagecount="0">\r
      <prop type="x-LastUsedBy">me</prop>\r
      <tuv xml:lang="en-US">\r
        <seg>Press <bpt i="1" type="8" x="1"/>Enter<ept i="1"/><ph x="2" type="lb"/>twice.</seg>\r
      </tuv>\r
      <tuv xml:lang="de-DE">\r
        <seg>Zweimal <hi type="bold">Enter</hi> drücken<ph>&lt;br/&gt;</ph>bitte<ph>x<sub>hidden
        </sub></ph>.</seg>\r
      </tuv>\r
    </tu>\r
  </body>\r
</tmx>\r
"""
WEBLATE = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><header creationtool="Translate Toolkit"
 creationtoolversion="3.1" segtype="sentence" o-tmf="UTF-8" adminlang="en" srclang="en"
 datatype="PlainText"/><body><tu><note>Context</note><tuv xml:lang="en"><seg>%d file
deleted</seg></tuv><tuv xml:lang="pt_BR"><seg>%d arquivo apagado</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Yes &amp; no</seg></tuv><tuv xml:lang="pt_BR"><seg/></tuv></tu>
</body></tmx>"""
OPUS = """<?xml version="1.0" encoding="UTF-8" ?>
<tmx version="1.4">
<header creationdate="Tue Jan 1 00:00:00 2026" srclang="en" adminlang="en" o-tmf="unknown"
 segtype="sentence" creationtool="Uplug" creationtoolversion="unknown" datatype="PlainText" />
  <body>
    <tu>
      <tuv xml:lang="zh"><seg>一只狗。</seg></tuv>
      <tuv xml:lang="en"><seg>A dog.</seg></tuv>
    </tu>
  </body>
</tmx>
"""
PROGRAMS: dict[str, tuple[bytes, tuple[str, str], list[tuple[str, str]]]] = {
    "OmegaT": (
        OMEGAT.encode(),
        ("en-US", "de-DE"),
        [("<f0>A dog</f0> runs.", "Ein Hund rennt.")],
    ),
    "Trados": (
        TRADOS.encode("utf-16"),
        ("de-DE", "en-US"),
        [("Zweimal Enter drücken bitte.", "Press Enter twice.")],
    ),
    "Weblate": (
        WEBLATE.encode(),
        ("en", "pt-BR"),
        [("%d file deleted", "%d arquivo apagado"), ("Yes & no", "")],
    ),
    "OPUS": (OPUS.encode(), ("en", "zh"), [("A dog.", "一只狗。")]),
}


@pytest.fixture(autouse=True)
def _in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


Variants = Sequence[tuple[str, str]]
"""Languages and texts of a unit."""


def tmx(units: Sequence[Variants], head: str = '<header srclang="*all*"/>', start: str = "") -> str:
    """Return a memory with a unit per line, from line 2 on."""
    lines = ""
    for variants in units:
        tuvs = ""
        for language, text in variants:
            segment = f"<seg>{escape(text)}</seg>"
            tuvs += f"<tuv xml:lang={quoteattr(language)}>{segment}</tuv>"
        lines += f"<tu>{tuvs}</tu>\n"
    return f'{start}<tmx version="1.4">{head}<body>\n{lines}</body></tmx>\n'


def write(content: str | bytes, path: str = "m.tmx") -> str:
    data = content.encode() if isinstance(content, str) else content
    Path(path).write_bytes(gzip.compress(data) if path.endswith(".gz") else data)
    return path


def pairs_of(path: str, *columns: str | int) -> list[tuple[str, str]]:
    source, target = columns or find_columns(path)
    corpus = TableCorpus(table=path, source_column=source, target_column=target)
    return [(pair.source, pair.target) for pair in read_pairs(corpus)]


@pytest.mark.parametrize("suffix", [".tmx", ".TMX", ".tmx.gz"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_memory_of_a_program_is_read_with_its_languages(program: str, suffix: str) -> None:
    content, languages, pairs = PROGRAMS[program]
    path = write(content, f"m{suffix}")
    assert find_columns(path) == languages
    assert pairs_of(path) == pairs_of(path, 0, 1) == pairs
    assert pairs_of(path, *reversed(languages)) == [(target, source) for source, target in pairs]


XML_TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
    | st.sampled_from("\n\t<>&\"'")
)


@given(st.lists(st.tuples(XML_TEXT, XML_TEXT), min_size=1), st.sampled_from(["utf-8", "utf-16"]))
def test_any_text_survives_as_one_line(texts: list[tuple[str, str]], encoding: str) -> None:
    content = tmx([(("en", source), ("de", target)) for source, target in texts])
    path = write(content.encode(encoding))
    rows = list(read_table(path, ("en", "de")))
    assert [(source, target) for _, _, source, target in rows] == [
        (in_one_line(source), in_one_line(target)) for source, target in texts
    ]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "iso-8859-1", "shift_jis"])
def test_the_declared_encoding_or_byte_order_mark_is_followed(encoding: str) -> None:
    text = "日本" if encoding == "shift_jis" else "Bär"
    declared = encoding.removesuffix("-sig")
    start = f'<?xml version="1.0" encoding="{declared}"?>'
    content = tmx([(("en", text), ("de", text))], start=start).encode(encoding)
    assert pairs_of(write(content)) == [(text, text)]


@pytest.mark.parametrize("language", ["en", "EN", "EN-US", "en_GB", "eng", "English", "eng_Latn"])
def test_a_language_is_found_by_any_of_its_names(language: str) -> None:
    path = write(tmx([((language, "a"), ("de-AT", "b"))]))
    assert pairs_of(path, "en", "de") == [("a", "b")]
    assert pairs_of(path, "German", "English") == [("b", "a")]


def test_a_region_or_script_that_is_named_must_be_there() -> None:
    variants = [("pt-PT", "a"), ("pt-BR", "b"), ("zh-TW", "c"), ("zh-CN", "d")]
    path = write(tmx([variants]))
    assert pairs_of(path, "pt", "zh") == [("a", "c")]
    assert pairs_of(path, "pt-BR", "zh-CN") == [("b", "d")]
    assert pairs_of(path, "pt-BR", "pt") == [("b", "a")]
    with pytest.raises(
        UserError, match=r"no unit has texts in pt-AO and zh; .* pt-PT \(1\), pt-BR"
    ):
        pairs_of(path, "pt-AO", "zh")


def test_of_several_variants_the_first_is_read() -> None:
    path = write(tmx([(("en-GB", "a"), ("en-US", "b"), ("en-GB", "c"), ("de", "d"), ("de", "e"))]))
    assert find_columns(path) == ("en", "de")
    assert pairs_of(path) == [("a", "d")]
    assert pairs_of(path, "en-US", "de") == [("b", "d")]


def test_variants_of_one_language_are_offered_for_choice() -> None:
    path = write(tmx([(("en-US", "a"), ("en-GB", "b"), ("en-AU", "c"))]))
    with pytest.raises(
        UserError, match=r"choose two of its 3 languages .*en-US \(1\), en-GB \(1\), en-AU \(1\)"
    ):
        find_columns(path)
    assert pairs_of(path, "en-GB", "en-AU") == [("b", "c")]


def test_units_without_a_language_are_counted_and_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = (("en", "a"), ("de", "b"))
    path = write(tmx([both, both[:1], (), both, (("en", "a"), ("", "b"))]))
    corpus = TableCorpus(table=path, source_column="en", target_column="de")
    assert [pair.where for pair in read_pairs(corpus)] == ["m.tmx:2", "m.tmx:5"]
    list(read_pairs(corpus))
    errors = capsys.readouterr().err
    assert errors.count("leaving out 3 of 5 units, which have no text in en or in de") == 1


def test_formatting_codes_are_dropped_and_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    path = write(TRADOS.encode("utf-16"))
    pairs_of(path)
    pairs_of(path)
    assert capsys.readouterr().err.count("dropping 5 formatting codes in its texts") == 1


@pytest.mark.parametrize("code", ["", "x", "{1}", " "])
def test_a_code_of_the_type_of_line_breaks_divides_words_whatever_its_text(code: str) -> None:
    content = tmx([(("en", "a|b"), ("de", "c"))])
    path = write(content.replace("|", f'<ph type="lb">{code}</ph>'))
    assert pairs_of(path) == [("a b", "c")]


def test_commands_read_a_memory_and_take_its_languages(capsys: pytest.CaptureFixture[str]) -> None:
    units = [(("en-US", f"The {n}th of all dogs."), ("de", f"Hund {n}.")) for n in range(120)]
    path = write(tmx([*units, [("fr", "Un chien.")]]))
    assert call("check", path) == 2
    assert "choose two of its 3 languages" in capsys.readouterr().err
    for option in ("--columns", "--languages"):
        assert call("check", path, option, "en", "de") == 0
        assert "train: 120 pairs" in capsys.readouterr().out
    assert call("check", path, path) == 2
    assert call("translate", path) == call("translate", path, "--columns", "en") == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3
    assert all(error.startswith("m.tmx is a translation memory") for error in errors)


LAUGHS = '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">'
ONE = [(("en", "a"), ("de", "b"))]
HOSTILE: dict[str, tuple[str, str]] = {
    "entities": (tmx(ONE, start=f"<!DOCTYPE tmx [{LAUGHS}]>"), "m.tmx:1: .*entity 'a'"),
    "an external entity": (
        tmx(ONE, start='<!DOCTYPE tmx [<!ENTITY a SYSTEM "file:///etc/passwd">]>'),
        "m.tmx:1: .*entity 'a'",
    ),
    "a parameter entity": (
        tmx(ONE, start='<!DOCTYPE tmx [<!ENTITY % a SYSTEM "http://a.b/c">%a;]>'),
        "m.tmx:1: .*entity 'a'",
    ),
    "a default attribute": (
        tmx(ONE, start=f'<!DOCTYPE tmx [<!ATTLIST tu a CDATA "{"a" * 999}">]>'),
        "m.tmx:1: .*'a' a default",
    ),
    "an unknown entity": (tmx(ONE).replace(">a<", ">a&nbsp;<"), "m.tmx:2: not XML .undefined"),
    "an entity of a file": (
        tmx(ONE, start='<!DOCTYPE tmx SYSTEM "t.dtd">').replace(">a<", ">a&nbsp;<"),
        "m.tmx:2: the entity &nbsp; is defined outside this file",
    ),
    "a cut file": (tmx(ONE)[:-40], "m.tmx:2: the file ends too early"),
    "an empty file": ("", "m.tmx:1: the file ends too early"),
    "no XML": ("a\tb\n", "m.tmx:1: not XML"),
    "HTML": ("<html><body/></html>", "m.tmx:1: not a translation memory: its root is <html>"),
    "crossed tags": (tmx(ONE).replace("</tuv>", "</tu>"), "m.tmx:2: not XML .mismatched tag"),
    "one language": (tmx([[("en", "a")], [("en", "b")]]), r"m.tmx: .*one language, en \(2\)"),
    "no languages": (tmx([[("", "a")]]), "m.tmx: its texts name no languages"),
    "no units": (tmx([]), "m.tmx has no translation units"),
    "an unknown encoding": (
        tmx(ONE, start='<?xml version="1.0" encoding="klingon"?>'),
        "m.tmx:1: unknown encoding 'klingon'",
    ),
    "an encoding of bytes": (
        tmx(ONE, start='<?xml version="1.0" encoding="hex"?>'),
        "m.tmx:1: unknown encoding 'hex'",
    ),
    "deep nesting": (
        tmx(ONE).replace(">a<", f">{'<hi>' * 200}a{'</hi>' * 200}<"),
        "m.tmx:2: elements are nested over 100 deep",
    ),
    "deep nesting outside of segments": (
        tmx(ONE).replace("<body>", "<body>" + "<tuv>" * 200).replace("</body>", "</tuv>" * 200),
        "m.tmx:1: elements are nested over 100 deep",
    ),
    "deep nesting of headers": (
        tmx(ONE, head="<header>" * 200 + "</header>" * 200),
        "m.tmx:1: elements are nested over 100 deep",
    ),
    "a unit as the root": (
        "<tu><tuv/></tu>",
        "m.tmx:1: not a translation memory: its root is <tu>",
    ),
    "a segment as the root": ("<seg>a</seg>", "m.tmx:1: not a translation memory: .* <seg>"),
    "an endless tag": (tmx(ONE).replace("<tuv", f"<tuv a='{'a' * (3 << 20)}'"), "m.tmx:2: a tag"),
    "an endless comment": (tmx(ONE) + f"<!--{'-a' * (3 << 20)}", "m.tmx:4: a tag or comment"),
    "many names": (
        tmx(ONE).replace("<tuv", f"{''.join(f'<a{n}/>' for n in range(20_000))}<tuv"),
        "m.tmx:2: over 10,000 different names",
    ),
    "many languages": (
        tmx([[(f"a{n}", "a") for n in range(400)]]),
        "m.tmx:2: over 300 languages",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_or_damaged_memory_ends_in_one_line(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    content, message = HOSTILE[kind]
    path = write(content)
    assert call("check", path) == 2
    (error,) = capsys.readouterr().err.splitlines()
    with pytest.raises(UserError, match=f"^{message}") as raised:
        pairs_of(path)
    assert error == str(raised.value)


def test_a_memory_that_is_cut_anywhere_is_refused() -> None:
    content = TRADOS.encode()
    compressed = gzip.compress(content)
    for length in range(0, len(content) - 20, 97):
        with pytest.raises(UserError):
            pairs_of(write(content[:length]))
    for length in range(0, len(compressed), 97):
        Path("m.tmx.gz").write_bytes(compressed[:length])
        with pytest.raises(UserError):
            pairs_of("m.tmx.gz")


def test_invalid_bytes_are_replaced_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    content = tmx([(("en", "B\xe4r \ufffd"), ("de", "b"))]).encode()
    path = write(content.replace("\xe4".encode(), b"\xe4"))
    assert pairs_of(path, "en", "de") == [("B\ufffdr \ufffd", "b")]
    assert "invalid UTF-8 replaced" in capsys.readouterr().err
    assert pairs_of(write(tmx([(("en", "\ufffd"), ("de", "b"))])), "en", "de") == [("\ufffd", "b")]
    assert capsys.readouterr().err == ""


def test_a_real_replacement_character_is_no_fault_wherever_a_block_ends(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for length in range(4):
        source = "a" * length + "\ufffd" * (3 << 15)
        assert pairs_of(write(tmx([(("en", source), ("de", "b"))])), "en", "de") == [(source, "b")]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("start", ["", '<?xml version="1.0" encoding="shift_jis"?>'])
def test_a_character_that_is_cut_at_the_end_of_the_file_is_not_dropped(start: str) -> None:
    encoding = "shift_jis" if start else "utf-8"
    content = tmx(ONE, start=start).encode(encoding)
    assert pairs_of(write(content)) == [("a", "b")]
    with pytest.raises(UserError, match="not XML"):
        pairs_of(write(content + "日".encode(encoding)[:1]))


def test_characters_that_xml_forbids_are_replaced_with_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for forbidden in ("\0", "\x1b", "&#x1F;", "&#0;", "&#55296;", "&#xFFFF;", "&#9999999;"):
        padding = "a " * (1 << 15)  # so that a reference may cross the end of a block
        for length in range(12):
            source = padding[: len(padding) - length]
            content = tmx([(("en", source + "FORBIDDEN z"), ("de", "b"))])
            path = write(content.replace("FORBIDDEN", forbidden))
            ((pair, _),) = pairs_of(path, "en", "de")
            assert pair.endswith("\ufffd z")
            if len(forbidden) == 1:
                break
    assert "1 character that XML forbids, such as controls, replaced" in capsys.readouterr().err
    path = write(tmx([(("en", "B"), ("de", "b"))]).replace(">B<", ">&#x42;&#9;&#x1F600;&amp;<"))
    assert pairs_of(path, "en", "de") == [("B \U0001f600&", "b")]


def test_a_unit_larger_than_any_sentence_is_a_blank_pair(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write(tmx([(("en", "a" * (1 << 20)), ("de", "b" * 9)), *ONE]))
    assert pairs_of(path) == [("", ""), ("a", "b")]
    message = "m.tmx:2: a unit of over 1,048,576 characters, which is read as blank"
    assert message in capsys.readouterr().err


def test_memory_does_not_grow_with_the_file() -> None:
    unit = tmx(ONE).splitlines()[1]
    head, tail = tmx([])[:-14], tmx([])[-14:]

    def peak(units: int) -> int:
        path = write(head + f"{unit}\n" * units + tail, f"{units}.tmx.gz")
        tracemalloc.start()
        count = sum(1 for _ in read_table(path, ("en", "de")))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert count == units
        return most

    peak(10)
    assert peak(20_000) < 1.5 * peak(5_000)
