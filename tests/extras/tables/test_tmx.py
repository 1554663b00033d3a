"""Translation memories are read as tables of languages; a hostile file ends in one line."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml.etree import fromstring, tostring

from commands import call
from mtkit.config.corpora import TableCorpus
from mtkit.corpus.read import read_pairs
from mtkit.corpus.text import in_one_line, normalise
from mtkit.errors import UserError
from mtkit.extras.protect.spans import find_spans
from mtkit.extras.tables.tmx import _forget, find_languages, read_tmx

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
        [("<f0>A dog</f0> runs.", "Ein <f0>Hund</f0> rennt.")],
    ),
    "Trados": (
        TRADOS.encode("utf-16"),
        ("de-DE", "en-US"),
        [("Zweimal Enter drücken<br/>bitte<3/>.", "Press <1>Enter</1><2/>twice.")],
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
    source, target = columns or find_languages(path)
    corpus = TableCorpus(table=path, source_column=source, target_column=target)
    return [(pair.source, pair.target) for pair in read_pairs(corpus)]


@pytest.mark.parametrize("suffix", [".tmx", ".TMX", ".tmx.gz"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_memory_of_a_program_is_read_with_its_languages(program: str, suffix: str) -> None:
    content, languages, pairs = PROGRAMS[program]
    path = write(content, f"m{suffix}")
    assert find_languages(path) == languages
    assert pairs_of(path) == pairs_of(path, 0, 1) == pairs_of(path, "0", "1") == pairs
    assert pairs_of(path, *reversed(languages)) == [(target, source) for source, target in pairs]


XML_TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
    | st.sampled_from("\n\t<>&\"'")
)


@given(st.lists(st.tuples(XML_TEXT, XML_TEXT), min_size=1), st.sampled_from(["utf-8", "utf-16"]))
def test_any_text_survives_as_one_line(texts: list[tuple[str, str]], encoding: str) -> None:
    content = tmx([(("en", source), ("de", target)) for source, target in texts])
    path = write(content.encode(encoding))
    rows = list(read_tmx(path, ("en", "de")))
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
    assert find_languages(path) == ("en", "de")
    assert pairs_of(path) == [("a", "d")]
    assert pairs_of(path, "en-US", "de") == [("b", "d")]


def test_variants_of_one_language_are_offered_for_choice() -> None:
    path = write(tmx([(("en-US", "a"), ("en-GB", "b"), ("en-AU", "c"))]))
    with pytest.raises(
        UserError, match=r"choose two languages .*en-US \(1\), en-GB \(1\), en-AU \(1\)"
    ):
        find_languages(path)
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


def test_formatting_codes_are_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    path = write(TRADOS.encode("utf-16"))
    pairs_of(path)
    pairs_of(path)
    counted = "kept 5 formatting codes as placeholders or tags"
    assert capsys.readouterr().err.count(counted) == 1


def segments(source: str, target: str = "") -> str:
    """Return a memory with one unit, whose segments are XML."""
    return (
        tmx([(("en", "SOURCE"), ("de", "TARGET"))])
        .replace("SOURCE", source)
        .replace("TARGET", target or source)
    )


def in_seg(source: str, target: str = "") -> tuple[str, str]:
    """Return the texts of a unit whose segments are XML."""
    ((first, second),) = pairs_of(write(segments(source, target)), "en", "de")
    return first, second


READABLE = ["%s", "{0}", "{{name}}", "%(count)d files", "<b>", '<a href="x y">', "</b>", "<br/>"]
READABLE += ["&nbsp;", "&lt;b&gt;", ":func:`print`", "`a b`", "$t(key)", "[X1X]", "**", "\\n"]
READABLE += ["{count, plural, one {# file} other {# files}}", "__NAME__", " %s ", " "]


@pytest.mark.parametrize("element", ["ph", "it", "ut", "bpt"])
@pytest.mark.parametrize("content", READABLE)
def test_a_placeholder_or_tag_in_a_code_stays_as_a_translator_reads_it(
    element: str, content: str
) -> None:
    code = f"<{element} i='1' x='1'>{escape(content)}</{element}>"
    assert in_seg(f"Delete {code} now.") == (normalise(f"Delete {content} now."),) * 2


NATIVE = [
    "",
    "{\\b ",
    "}",
    "\\f1 ",
    "12",
    "x",
    "\\cs6\\f1\\cf6 ",
    "<b",
    "a>",
    "{0",
    "`a",
    "a" * 3000,
]


@pytest.mark.parametrize("content", NATIVE)
def test_a_code_of_a_program_becomes_a_numbered_tag(content: str) -> None:
    code = f"<ph>{escape(content)}</ph>"
    assert in_seg(f"a {code}b{code}", f"{code}a b{code}") == ("a <1/>b<2/>", "<1/>a b<2/>")


PAIR = "<bpt i='1' x='{x}'>{{\\b </bpt>{text}<ept i='1'>}}</ept>"


def pair(text: str, x: int) -> str:
    return PAIR.format(text=text, x=x)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        # by x, whatever the order
        (f"{pair('a', 5)} {pair('b', 7)}", f"{pair('b', 7)} {pair('a', 5)}", "<2>b</2> <1>a</1>"),
        ("<ph x='1'/>a<ph x='2'/>", "<ph x='2'/>a<ph x='1'/>", "<2/>a<1/>"),
        # by i, if there is no x
        (
            "<bpt i='2'/>a<ept i='2'/> <bpt i='1'/>b<ept i='1'/>",
            "<bpt i='1'/>b<ept i='1'/> <bpt i='2'/>a<ept i='2'/>",
            "<2>b</2> <1>a</1>",
        ),
        # by the order among the codes of a type
        ("<ph type='x'/>a<ph type='y'/>", "<ph type='y'/>a<ph type='x'/>", "<2/>a<1/>"),
        ("<ph/>a<ph/>", "<ph/><ph/>a", "<1/><2/>a"),
        # a code that only the target has
        ("<ph x='1'/>a", "<ph x='9'/>a<ph x='1'/>", "<2/>a<1/>"),
        # pairs in pairs
        ("<bpt i='1'/><bpt i='2'/>a<ept i='2'/><ept i='1'/>", "a", "a"),
        # isolated begins and ends
        ("<it pos='begin' x='1'/>a", "a<it pos='begin' x='1'/>", "a<1>"),
        ("<it pos='end' x='1'/>a", "a<it pos='end' x='1'/>", "a</1>"),
        ("<ut x='1'>{\\b </ut>a", "a<ut x='1'>{\\i </ut>", "a<1/>"),
        # an end without its begin
        ("a<ept i='3'/>", "a b<ept i='3'/>", "a b</1>"),
    ],
)
def test_the_same_code_has_the_same_number_on_both_sides(
    source: str, target: str, expected: str
) -> None:
    first, second = in_seg(source, target)
    assert second == expected
    numbers = [sorted(re.findall(r"<.*?>", text)) for text in (first, second)]
    assert numbers[0] == numbers[1] or source.count("<") != target.count("<")


def test_the_numbers_of_a_unit_begin_at_1() -> None:
    unit = "<tu><tuv lang='en'><seg>a<ph/></seg></tuv><tuv lang='de'><seg>b<ph/></seg></tuv></tu>"
    path = write(tmx([]).replace("<body>", f"<body>{unit}{unit}"))
    assert pairs_of(path) == [("a<1/>", "b<1/>")] * 2


@pytest.mark.parametrize("begin, end", [("&lt;b&gt;", "}"), ("{}", "{}"), ("", "&lt;/b&gt;")])
def test_both_codes_of_a_pair_are_written_alike(begin: str, end: str) -> None:
    assert in_seg(f"<bpt i='1'>{begin}</bpt>a<ept i='1'>{end}</ept>") == ("<1>a</1>",) * 2


def test_highlights_are_text_and_sub_flows_are_part_of_their_code() -> None:
    title = "<ph>&lt;a title='<sub>A <hi>dog</hi></sub>'&gt;</ph>"
    assert (
        in_seg(f"The <hi type='term'>big {title}</hi> dog")
        == ("The big <a title='A dog'> dog",) * 2
    )
    note = "<ph>{\\footnote <sub>A <it>i</it> note<ph/>.</sub>}</ph>"
    assert in_seg(f"A dog{note} runs<ph/>")[0] == "A dog<1/> runs<2/>"


def test_elements_of_other_formats_stay_as_tags() -> None:
    xliff = 'A <g id="1">dog</g> runs<x id="2"/>.'
    assert in_seg(xliff) == (xliff, xliff)


@given(st.lists(st.tuples(st.sampled_from(["ph", "bpt", "ept", "it", "ut", "hi"]), XML_TEXT)))
def test_no_code_is_deleted(codes: list[tuple[str, str]]) -> None:
    source = "".join(
        f"<{name} i='{n}'>{escape(text)}</{name}>" for n, (name, text) in enumerate(codes)
    )
    text, _ = in_seg(f"a{source}b")
    without = [text for name, text in codes if name != "hi" and not text.strip()]
    shown = [text for name, text in codes if text.strip()]
    assert len(normalise(text)) >= 2 + len(shown), (text, without)


@pytest.mark.parametrize("code", ["%s", "{0}", "<b>", "<1>", "</1>", "<2/>"])
def test_what_a_code_becomes_is_protected_at_translation(code: str) -> None:
    (span,) = find_spans(f"A {code} dog")
    assert (span.start, span.end) == (2, 2 + len(code))


def test_commands_read_a_memory_and_take_its_languages(capsys: pytest.CaptureFixture[str]) -> None:
    units = [(("en-US", f"The {n}th of all dogs."), ("de", f"Hund {n}.")) for n in range(120)]
    path = write(tmx([*units, [("fr", "Un chien.")]]))
    assert call("check", path) == 2
    assert "choose two languages" in capsys.readouterr().err
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
    "an unknown entity": (
        tmx(ONE).replace(">a<", ">a&nbsp;<"),
        "m.tmx:2: not XML .Entity 'nbsp' not defined",
    ),
    "an unknown entity in an attribute": (
        tmx(ONE).replace("<seg>a", "<seg x='&nbsp;'>a"),
        "m.tmx:2: not XML .Entity 'nbsp' not defined",
    ),
    "an entity of a file": (
        tmx(ONE, start='<!DOCTYPE tmx SYSTEM "t.dtd">').replace(">a<", ">a&nbsp;<"),
        "m.tmx:2: not XML .Entity 'nbsp' not defined",
    ),
    "two memories in a file": (
        tmx(ONE).replace(">a<", ">a&nbsp;<") + tmx(ONE),
        "m.tmx:2: not XML .Entity 'nbsp' not defined",
    ),
    "a cut file": (tmx(ONE)[:-40], "m.tmx:2: not XML .AttValue"),
    "an empty file": ("", "m.tmx:1: not XML .Document is empty"),
    "no XML": ("a\tb\n", "m.tmx:1: not XML"),
    "HTML": ("<html><body/></html>", "m.tmx has no translation units"),
    "crossed tags": (
        tmx(ONE).replace("</tuv>", "</tu>"),
        "m.tmx:2: not XML .Opening and ending tag mismatch",
    ),
    "one language": (
        tmx([[("en", "a")], [("en", "b")]]),
        r"m.tmx: choose two languages .*: en \(2\)",
    ),
    "no languages": (tmx([[("", "a")]]), "m.tmx has no translation units with languages"),
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
        tmx(ONE).replace(">a<", f">{'<hi>' * 300}a{'</hi>' * 300}<"),
        "m.tmx:2: not XML .Excessive depth",
    ),
    "deep nesting outside of segments": (
        tmx(ONE).replace("<body>", "<body>" + "<tuv>" * 300).replace("</body>", "</tuv>" * 300),
        "m.tmx:1: not XML .Excessive depth",
    ),
    "deep nesting of headers": (
        tmx(ONE, head="<header>" * 300 + "</header>" * 300),
        "m.tmx:1: not XML .Excessive depth",
    ),
    "an endless tag": (
        tmx(ONE).replace("<tuv", f"<tuv a='{'a' * (5 << 20)}'"),
        "m.tmx:2: over 4 MiB",
    ),
    "an endless comment": (tmx(ONE) + f"<!--{'-a' * (3 << 20)}", "m.tmx:4: over 4 MiB"),
    "many notes in a unit": (
        tmx(ONE).replace("<tuv", f"<note>{'a' * 90}</note>" * 45_000 + "<tuv"),
        "m.tmx:2: over 4 MiB without the end of a unit",
    ),
    "an endless document type": (
        tmx(ONE, start=f"<!DOCTYPE tmx [{'<!ELEMENT a ANY>' * (1 << 19)}]>"),
        "m.tmx:1: over 4 MiB without the end of a unit",
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
    assert "replaced 1 invalid character (not in its encoding" in capsys.readouterr().err
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
    assert (
        "replaced 1 invalid character (not in its encoding, or forbidden by XML)"
        in capsys.readouterr().err
    )
    path = write(tmx([(("en", "B"), ("de", "b"))]).replace(">B<", ">&#x42;&#9;&#x1F600;&amp;<"))
    assert pairs_of(path, "en", "de") == [("B \U0001f600&", "b")]


def test_a_text_larger_than_any_sentence_is_blank() -> None:
    path = write(tmx([(("en", "a" * ((1 << 20) + 1)), ("de", "b")), *ONE]))
    assert pairs_of(path, "en", "de") == [("", "b"), ("a", "b")]


READ = """
import resource, sys
from mtkit.extras.tables.tmx import read_tmx
for path in sys.argv[1:]:
    count = sum(1 for _ in read_tmx(path, ("en", "de")))
    print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_file() -> None:
    """Measured from outside, because the parser allocates memory that Python does not see."""
    unit = tmx(ONE).splitlines()[1].replace(">a<", ">a<ph x='1'>{}</ph><note>n</note><")
    head, tail = tmx([])[:-14], tmx([])[-14:]
    counts = [2_000, 20_000]
    paths = [write(head + f"{unit}<!-- x -->\n" * n + tail, f"{n}.tmx.gz") for n in counts]
    command = [sys.executable, "-c", READ, *paths]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    small_count, small_peak, large_count, large_peak = map(int, output.split())
    assert [small_count, large_count] == counts
    assert large_peak < 1.1 * small_peak


def test_a_unit_that_has_ended_is_removed_from_the_tree() -> None:
    body = fromstring("<body><note/>a<tu><seg>b</seg></tu>c<tu/></body>")
    _forget(body[1])
    assert tostring(body) == b"<body><tu/><tu/></body>"


def test_a_memory_may_have_a_namespace() -> None:
    content = segments("a<ph>%s</ph><g id='1'>b</g>").replace(
        "<tmx", "<tmx xmlns='http://a.b/tmx14'"
    )
    assert pairs_of(write(content)) == [('a%s<g id="1">b</g>',) * 2]


def test_every_unit_has_its_line_in_a_file_of_any_length() -> None:
    unit, padding = tmx(ONE).splitlines()[1], "\n" * (1 << 15)
    content = f"{unit}\n{padding}\n{unit} {unit}{padding}{padding}\n{unit}\n<!--\n-->{unit}\n"
    path = write(tmx([]).replace("\n</body>", f"\n{content}</body>"))
    lines = Path(path).read_text().split("\n")
    expected = [number for number, line in enumerate(lines, 1) for _ in range(line.count("<tu>"))]
    assert [line for _, line, _, _ in read_tmx(path, ("en", "de"))] == expected
    assert expected[-1] > 1 << 16
