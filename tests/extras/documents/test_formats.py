r"""Laws of each format: texts are translated, all else keeps its bytes.

In each document, "cat" stands in texts, and "cot" in all that no translation changes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZipFile

import pytest
from lxml import etree

from documents import opened, translate_cats, translated
from mtkit.corpus.importers import find_importer
from mtkit.errors import UserError
from mtkit.extras.documents import formats
from mtkit.extras.documents.codes import InlineCode, NumberedText
from mtkit.extras.documents.subtitles import MAX_JOINED_LINES, divide_text

DOCUMENTS = {
    "strings.xml": r"""<?xml version="1.0" encoding="utf-8"?>
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2"><!-- cot -->
    <string name="cot">It\'s <b>a cat</b> &lt;cat&gt; <xliff:g id="cot">cot</xliff:g>\ncat</string>
    <string name="cot" translatable="false">cot</string>
    <string name="cot"><![CDATA[<b>a</b> & cat]]></string>
    <string name="cot">"  a  cat "</string>
    <string name="cot">\u0020and <b>a</b> cat\u0020</string>
    <string name="cot">
        a cat
    </string>
    <string name="cot">@string/cot</string>
    <string-array name="cot"><item>cat</item><item>cats</item></string-array>
    <plurals name="cot">
        <item quantity="one">%d cat</item>
        <item quantity="other">%d cats</item>
    </plurals>
    <plurals name="cot"><item quantity="other">@string/cot</item></plurals>
</resources>
""",
    "a.vtt": """WEBVTT

NOTE cot

cot
00:01.000 --> 00:02.000 align:left
When the cat came to a
big house,

00:02.000 --> 00:03.000
<i>a cat ran.</i>

00:03.000 --> 00:04.000
- A cat!
- What?
""",
    "a.json": r"""{"@cot": {"cot": "cot"},
"cot": {"cot\"": "a \"cat\"\n", "b": ["cat", 1, null, true]}}""",
    "messages.json": """{"cot": {
"message": "a cat", "description": "cot", "placeholders": {"a": "cot"}}}""",
    "a.properties": """# cot
! cot
cot = a cat
  cot:caf\\u00e9 cat
cot that''s {0} cat\\n
cot = it''s '{'cot'}' of {0}
cot = '{'cot'}'
cot = {0,choice,0#no cot|1#one cot|1<{0} cot}
cot = \\u0020and a cat\\u0020
cot =
""",
    "a.ftl": """# cot
-cot = a cat
b = Hello { $n }, cat
    .cot = a cat
    .accesskey = cot
c = { $cot ->
    [cot] a cat
   *[other] { $n } cats
}
""",
    "a.html": """<!DOCTYPE html><html lang="cot"><title>cat</title><script>if (a<b) "cot"</script>
<p class="cot">A <a href="cot" title="a cat">black</a> cat &amp;&nbsp;cat<br>
saw a cat<code>cot</code>.</p>
<p translate="no">cot</p><pre>cot</pre><!-- cot --><ul><li>cat<li>cat</ul>
""",
    "a.md": """---
title: cot
---
# A cat #

The *black* cat,\\
at the cat.

> - a cat

```
cot
```

| cat | b |
|-----|---|
| b | cat |

<div>cot</div>

[cot]: http://cot.org
""",
}


@pytest.fixture(autouse=True)
def _in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_texts_are_translated_and_all_else_stays(name: str) -> None:
    document = DOCUMENTS[name]
    expected = document.replace("cat", "kätzé")
    if name == "a.properties":  # in which all characters but ASCII are escapes
        expected = expected.replace("ä", r"\u00e4").replace("é", r"\u00e9")
    assert translated(document, name).decode() == expected


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize(("encoding", "line_end"), [("utf-8-sig", "\r\n"), ("utf-16", "\n")])
def test_the_same_texts_give_the_same_bytes(name: str, encoding: str, line_end: str) -> None:
    content = DOCUMENTS[name].replace("\n", line_end).encode(encoding)
    assert translated(content, name, str) == content


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.xml", "<a>\n", "a.xml:1: XML of an unknown kind"),
        ("a.xml", "<resources>\n<a>", "a.xml:2: not well-formed XML"),
        ("a.xlf", '<!DOCTYPE a [<!ENTITY b "c">]><xliff/>', "declares entities; remove"),
        ("a.xlf", "<a>" * 300 + "</a>" * 300, "over 200 elements within each other"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.json", '{"a": "\n"}', "a.json:1: not JSON"),
        ("a.srt", "Hello", "no cue with times"),
        ("a.ftl", "a = { $b", "a.ftl:1: not Fluent"),
        ("a.docx", b"PK\3\4", "is damaged or encrypted"),
        ("a.md", b"caf\xe9", "a.md: is not in utf-8"),
        ("a.html", "<meta charset='base64'>cat", "a.html: is not in base64"),
        ("a.html", "<meta charset='undefined'>cat", "a.html: is not in undefined"),
    ],
)
def test_a_hostile_document_is_an_error_in_one_line(
    name: str, content: str | bytes, problem: str
) -> None:
    with pytest.raises(UserError, match=problem) as raised:
        opened(content, name)
    assert "\n" not in str(raised.value)


XLIFF = """<?xml version="1.0"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">
 <file source-language="en"><body>
  <trans-unit id="1">
   <source>A <g id="1">fat &amp; cat</g> <x id="2" equiv-text="{{a}}"/><ph id="3">b</ph></source>
   <note>cot</note>
  </trans-unit>
  <trans-unit id="2" translate="no"><source>cot</source><target/></trans-unit>
  <trans-unit id="3"><source> cat </source><target state="new"/></trans-unit>
  <trans-unit id="4"><source>cat</source><target>kept</target></trans-unit>
 </body></file>
</xliff>
"""
XLIFF_2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
<file id="f"><unit id="u"><notes><note>cot</note></notes>
<segment><source>cat <pc id="1">cat</pc><ph id="2"/></source></segment>
<ignorable><source> </source></ignorable>
</unit></file></xliff>
"""


def test_inline_codes_of_xliff_come_back_in_their_places() -> None:
    source = XLIFF[XLIFF.index("A <g") : XLIFF.index("</source>")]
    target = f"<target>{source.replace('cat', 'kätzé')}</target>"
    expected = (
        XLIFF.replace("</ph></source>", f"</ph></source>\n   {target}")
        .replace('"en">', '"en" target-language="de">')
        .replace('<target state="new"/>', '<target state="translated"> kätzé </target>')
    )
    assert translated(XLIFF, "a.xlf").decode() == expected
    expected = (
        XLIFF_2.replace('"en">', '"en" trgLang="de">')
        .replace("<segment>", '<segment state="translated">')
        .replace(
            "</source></seg",
            '</source><target>kätzé <pc id="1">kätzé</pc><ph id="2"/></target></seg',
        )
    )
    assert translated(XLIFF_2, "a.xliff").decode() == expected


def test_a_translation_that_lost_a_code_has_all_of_them_and_is_for_review() -> None:
    for document, state in ((XLIFF, "needs-review-translation"), (XLIFF_2, "initial")):
        for lost in ("<1>", "</1>"):
            out = translated(document, "a.xlf", partial(re.sub, lost, ""))
            root = etree.fromstring(out)
            source, target = (root.find(f".//{{*}}{name}") for name in ("source", "target"))
            assert {child.tag for child in target} == {child.tag for child in source}
            assert state in (target.get("state"), target.getparent().get("state"))


def test_a_new_target_of_xliff_is_not_approved_and_one_of_codes_alone_is_none() -> None:
    document = XLIFF.replace('1">\n', '1" approved="yes">\n').replace("<target/>", "")
    document = document.replace("</ph></source>", '</ph></source><target><x id="2"/></target>')
    out = translated(document, "a.xlf").decode()
    assert "approved" in document
    assert "approved" not in out
    assert '<x id="2"/></target>' not in out


@pytest.mark.parametrize("name", ["a.xlf", "strings.xml"])
def test_what_is_not_sure_is_marked_or_stays(name: str) -> None:
    document = XLIFF if name == "a.xlf" else DOCUMENTS[name]
    out = translated(document, name, min_confidence=0.6)
    assert (out.count(b"needs-review"), out == document.encode()) in {(2, False), (0, True)}


def test_a_divided_text_keeps_its_words_and_no_part_is_empty_before_them() -> None:
    random = Random(0)
    for _ in range(100):
        text = "".join(random.choices("ab c<i>", k=random.randint(1, 30)))
        lengths = random.choices(range(1, 21), k=random.randint(1, 6))
        divided = divide_text(text, lengths)
        assert len(divided) == len(lengths)
        assert "".join(divided).replace(" ", "") == text.replace(" ", "")
        assert divided == sorted(divided, key=lambda part: part == "")


@pytest.mark.parametrize(
    ("text", "divided"),
    [
        ("Jawohl!", ["Jawohl!", ""]),
        ("ก็ก็", ["ก็", "ก็"]),
        ("はい、iPhoneです", ["はい、", "iPhoneです"]),
    ],
)
def test_only_a_script_without_spaces_is_divided_within_words(
    text: str, divided: list[str]
) -> None:
    assert divide_text(text, [1, 1]) == divided


def test_the_lines_of_a_dialogue_keep_their_dashes_and_tags() -> None:
    lines = "- Two dogs run.\n- <i>A cat ran.</i>\n"
    out = translated(f"1\n00:00:06,000 --> 00:00:08,000\n{lines}", "a.srt", str.upper)
    assert out.decode().endswith("- TWO DOGS RUN.\n- <I>A CAT RAN.</I>\n")


def test_codes_have_numbers_that_the_text_has_not() -> None:
    text = NumberedText([InlineCode("<x/>"), "<3> two", InlineCode("<y/>")])
    assert text.text == "<4/><3> two<5/>"
    assert text.restore("<5/><3> zwei<4/>", str.upper) == "<y/><3> ZWEI<x/>"


@pytest.mark.parametrize(
    ("translation", "restored"),
    [
        ("a <1>b <2/>c", "a b <x/>c<b></b><i></i>"),
        ("</1>a <3>b</3><2/>", "a <i>b</i><x/><b></b>"),
        ("<1>a <3>b</1> c</3>", "<b>a b</b> c<x/><i></i>"),
        ("<1>a</1> <1>b</1> <3></3>", "<b>a</b> b <i></i><x/>"),
    ],
)
def test_codes_that_are_not_lost_and_do_not_cross_stay_in_their_places(
    translation: str, restored: str
) -> None:
    bold = (InlineCode("<b>", "b"), "bold", InlineCode("</b>", "b", is_closing=True))
    italic = (InlineCode("<i>", "i"), "italic", InlineCode("</i>", "i", is_closing=True))
    text = NumberedText([*bold, InlineCode("<x/>"), *italic])
    assert text.text == "<1>bold</1><2/><3>italic</3>"
    assert text.restore(translation, str) == restored


def test_lines_of_a_cue_are_joined_up_to_the_end_of_a_sentence() -> None:
    document = "00:01.000 --> 00:02.000\nI met Mr.\nSmith in\nRome. (Really.)\n<i>He ran. </i>\nI"
    texts = [line.text for line in opened(document, "a.vtt").lines(0)]
    assert texts == ["I met Mr. Smith in Rome. (Really.)", "<i>He ran. </i>", "I"]
    many = "00:01.000 --> 00:02.000\n" + "and\n" * (MAX_JOINED_LINES + 1)
    assert opened(many, "a.vtt").count() == 2


def test_cues_of_one_sentence_share_its_translation() -> None:
    document = re.sub("</?i>", "", DOCUMENTS["a.vtt"])
    texts = [line.text for line in opened(document, "a.vtt").lines(0)]
    assert texts == ["When the cat came to a big house, a cat ran.", "A cat!", "What?"]
    out = translated(document, "a.vtt", lambda text: "As it came to the house, a kätzé ran.")
    assert out.decode().split("\n")[6:12] == [
        "As it came to the",
        "house, a",
        "",
        "00:02.000 --> 00:03.000",
        "kätzé ran.",
        "",
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("<i>A man in a hat</i>", "is walking."),
        ("A man in a hat", r"{\an8}is walking."),
        ("<v Anna>A man", "in a hat"),
        ("A <b>man", "in</b> a hat"),
        ("A <b>man</b>\nin a hat", "is walking."),
        ("A man in a hat", "is\n<i>walking</i>."),
    ],
)
def test_a_cue_with_a_tag_is_translated_alone(first: str, second: str) -> None:
    times = "00:00:01,000 --> 00:00:02,000"
    document = f"1\n{times}\n{first}\n\n2\n{times}\n{second}\n"
    texts = [line.text for line in opened(document, "a.srt").lines(0)]
    assert texts == [first.replace("\n", " "), second.replace("\n", " ")]


def test_blocks_and_settings_of_webvtt_stay() -> None:
    document = """WEBVTT - cot
Kind: cot

STYLE
::cue { color: cot }

REGION
id:cot

NOTE
cot cot

1
00:00:01.000 --> 00:00:02.000 region:cot line:10% align:start
<v Anna>A cat!</v>
Two cats,

00:02.000 --> 00:03.000
and a cat

NOTE cot
"""
    for line_end in ("\n", "\r\n"):
        content = document.replace("\n", line_end)
        assert translated(content, "a.vtt").decode() == content.replace("cat", "kätzé")


def test_a_cue_ends_before_the_next_one_without_a_blank_line() -> None:
    times = "00:00:01,000 --> 00:00:02,000"
    document = f"1\n{times}\nA cat.\n12\n2\n{times}\nThe cat\n{times}\nA cat"
    for line_end in ("\n", "\r\n"):
        content = document.replace("\n", line_end)
        texts = [line.text for line in opened(content, "a.srt").lines(0)]
        assert texts == ["A cat.", "The cat", "A cat"]
        assert translated(content, "a.srt").decode() == content.replace("cat", "kätzé")


def run(text: str, properties: str = "") -> str:
    """Return a run of Word."""
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def translated_word(body: str, translate: Callable[[str], str] = translate_cats) -> str:
    """Return the translated text of a document of Word, and check that other files stay."""
    document = f'<w:document xmlns:w="w" xmlns:mc="mc"><w:body>{body}</w:body></w:document>'
    content = io.BytesIO()
    with ZipFile(content, "w") as archive:
        archive.writestr("word/document.xml", document)
        archive.writestr("word/media/cat.png", b"cat")
    out = ZipFile(io.BytesIO(translated(content.getvalue(), "a.docx", translate)))
    assert out.read("word/media/cat.png") == b"cat"
    written = out.read("word/document.xml").decode()
    return written[written.index("<w:body>") + 8 : written.index("</w:body>")]


def test_a_document_of_word_keeps_formatting_fields_and_other_files() -> None:
    bold = "<w:rPr><w:b/></w:rPr>"
    begin, end = (f'<w:r><w:fldChar w:fldCharType="{side}"/></w:r>' for side in ("begin", "end"))
    field = f"{begin}{run('cot')}{end}"
    text = (
        f"<w:p><w:pPr/>{run('The cat and ')}{run('a fat cat', bold)}{field}{run(' or cat')}</w:p>"
    )
    link = f'<w:p><w:hyperlink w:anchor="cot">{run("a cat", bold)}</w:hyperlink></w:p>'
    assert translated_word(f"{text}<w:p/>{link}") == f"{text}<w:p/>{link}".replace("cat", "kätzé")


def test_a_text_box_of_word_is_translated_in_both_of_its_forms() -> None:
    box = f"<w:txbxContent><w:p>{run('a cat')}</w:p></w:txbxContent>"
    forms = f"<mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>"
    drawing = f"<w:r><mc:AlternateContent>{forms}</mc:AlternateContent></w:r>"
    body = f"<w:p>{run('The cat')}{drawing}{run('and a cat')}</w:p>"
    assert translated_word(body) == body.replace("cat", "kätzé")


def test_breaks_of_word_divide_a_text_and_page_breaks_do_not() -> None:
    page = "<w:r><w:lastRenderedPageBreak/><w:t>The cat</w:t></w:r>"
    control = f"<w:sdt><w:sdtPr/><w:sdtContent>{run('a cat')}</w:sdtContent></w:sdt>"
    body = f"<w:p>{page}{run('</w:t><w:br/><w:t>A cat')}{control}</w:p>"
    out = translated_word(body, lambda text: f"[{translate_cats(text)}]")
    assert re.sub(r"</?w:[prt]\b[^<>]*>", "", out) == (
        "[The kätzé]<w:br/>[A kätzé<w:sdt><w:sdtPr/><w:sdtContent>a kätzé</w:sdtContent></w:sdt>]"
    )


@pytest.mark.parametrize(
    ("name", "packing", "problem"),
    [
        ("word/image.xml", ZIP_DEFLATED, "a.docx: is no document of Word"),
        ("word/document2.xml", ZIP_DEFLATED, "a.docx:1: XML of Word with an unusual prefix"),
        ("word/document.xml", ZIP_BZIP2, "a.docx: is damaged or encrypted .packed in a way"),
    ],
)
def test_an_archive_that_is_not_of_word_is_refused(name: str, packing: int, problem: str) -> None:
    archive = io.BytesIO()
    with ZipFile(archive, "w", packing) as file:
        file.writestr(name, "<n:document xmlns:n='w'/>")
    with pytest.raises(UserError, match=problem):
        opened(archive.getvalue(), "a.docx")


def test_tracked_changes_of_word_are_accepted_in_a_translation() -> None:
    deleted = "<w:del><w:r><w:delText>cot</w:delText></w:r></w:del>"
    body = f"<w:p>{run('A ')}<w:ins>{run('cat')}</w:ins>{deleted}{run('.')}</w:p>"
    assert translated_word(body) == f"<w:p>{run('A kätzé.')}</w:p>"
    body = body.replace("cat", "dog")
    assert translated_word(body) == body


def damaged(document: str, random: Random) -> str:
    """Return a document with parts deleted, doubled, moved, or with a sign of some format added."""
    for _ in range(random.randint(1, 4)):
        start, other = (random.randrange(len(document)) for _ in range(2))
        end = start + random.choice([1, 3, 10, 40])
        part = random.choice(["", document[start:end] * 2, document[other : other + 20]])
        part += random.choice(["", *"<>\"'&\\{}[]/=:#-%$\n\r\u2028"])
        document = document[:start] + part + document[end:]
    return document


@pytest.mark.parametrize("name", [*DOCUMENTS, "a.xlf", "a.xliff"])
def test_a_damaged_document_is_refused_or_what_is_written_can_be_read_again(name: str) -> None:
    document = {**DOCUMENTS, "a.xlf": XLIFF, "a.xliff": XLIFF_2}[name]
    random = Random(0)
    changes: list[Callable[[str], str]] = [
        str,
        str.upper,
        lambda text: text[::-1],
        lambda text: f"<1>\"'\\{{n}}&<{text}",
    ]
    for _ in range(30):
        with suppress(UserError):
            content = damaged(document, random)
            out = translated(content, name, random.choice(changes), all_texts=True)
            try:
                opened(out, name)
            except UserError as error:
                raise AssertionError(content) from error


def test_a_document_of_too_many_texts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MAX_UNITS", 2)
    assert opened('["a", "b"]', "a.json").count() == 2
    with pytest.raises(UserError, match="has over 2 texts; divide it"):
        opened('["a", "b", "c"]', "a.json")


def test_an_element_of_html_that_stays_ends_at_its_own_tag() -> None:
    document = (
        '<p translate="no">cot<p>cot</p></p>cat<img class="notranslate">cat'
        "{% if cot %}cat {{ n }}{# cot #}{{ cat {% cat"
    )
    expected = document.replace("cat", "kätzé")
    assert translated(document, "a.html").decode() == expected


def test_quotes_of_tags_in_a_section_of_android_stay() -> None:
    section = '<![CDATA[<a href="cot">"a cat"</a>]]>'
    out = translated(f"<resources><string>{section}</string></resources>", "strings.xml").decode()
    assert '<![CDATA[<a href=\\"cot\\">a kätzé</a>]]>' in out.replace("no text", "cot")


def test_an_escaped_space_ends_a_string_of_android() -> None:
    document = "<resources><string>cat\\ \n</string><string> a\n\\@ cat </string></resources>"
    out = translated(document, "strings.xml").decode()
    assert "<string>kätzé\\u0020\n</string><string> a @ kätzé </string>" in out


def test_spaces_around_a_text_of_html_stay() -> None:
    document = "<p>&nbsp; &#xA0;a cat&nbsp;ran&emsp;&#160;\n</p>"
    out = translated(document, "a.html", str.upper)
    assert out.decode() == document.replace("a cat&nbsp;ran", "A CAT&nbsp;RAN")


def test_statements_of_templates_are_parts_of_a_tag() -> None:
    document = (
        '<div class="cot" {% if cot > 1 and cot < 3 %}hidden{% endif %}>cat</div>'
        "<p{{ cot > 1 }} title='{% if cot > 1 %}cot{% endif %}'>a <b {# cot > #}>cat</b> {{</p>"
        "<i {% cat >cat</i>"
    )
    expected = document.replace("cat", "kätzé").replace("{% kätzé", "{% cat")
    assert translated(document, "a.html").decode() == expected


def test_a_sign_in_a_quoted_placeholder_does_not_end_a_tag() -> None:
    document = """<p title="{{ cot|default:"x > y" }}" id='{{ 'cot>' }}'>cat</p> {{ cat"""
    out = translated(document, "a.html").decode()
    assert out == document.replace(">cat<", ">kätzé<").replace("{{ cat", "{{ kätzé")


@pytest.mark.parametrize(
    "document",
    [
        '<p title="a cat">The <a title="cat &amp; l\'cat" href="cot">cat</a> and <b>a cat</b></p>',
        "<img alt='cat'><input ALT = 'a cat' value='cot' data-title='cot' placeholder=\"the cat\">",
        "<textarea placeholder='cat'>title='cot'</textarea><code>title='cot'</code>",
        '<p title="{{ cot }}" {% if title="cot" %} title="cat"><img alt="<?= cot ?>" alt="">',
        """<p onclick='say( title="cot")'><b translate="no" title="cot">cot</b>""",
        '<!-- <b title="cot"> --><script>" title="cot" "</script>',
    ],
)
def test_attributes_that_users_see_are_translated_unless_a_template_fills_them(
    document: str,
) -> None:
    assert translated(document, "a.html").decode() == document.replace("cat", "kätzé")
    assert "title='&#39;\"'" in translated("<b title='a'>", "a.html", lambda text: "'\"").decode()


def test_a_script_ends_at_its_first_end_tag() -> None:
    document = (
        """<title>{% block cot %}The cat{% endblock %}</title>"""
        """<script>document.write('<script src="cot"><\\/script>')</script>"""
        """<p>cat</p><SCRIPT>"cot"</SCRIPT >cat<style>cot <p>cot"""
    )
    assert translated(document, "a.html").decode() == document.replace("cat", "kätzé")


def test_a_fluent_text_below_its_key_keeps_its_indent_and_paragraphs() -> None:
    document = """a =
    A cat
    { "runs" }
    in the park.
    Cats run.

    a cat
b = { $n ->
   *[other]
        { $n } cats
    } at a cat
    in the park.
"""
    expected = """a =
    {"."}A kätzé { "runs" } in the park.
    {"."}Cats run.

    {"."}a kätzé
b = { $n ->
   *[other]
        {"."}{ $n } kätzés at a kätzé in the park.
    }
"""
    for line_end in ("\n", "\r\n"):
        content = document.replace("\n", line_end)
        out = translated(content, "a.ftl", lambda text: translate_cats(f".{text}"))
        assert out.decode() == expected.replace("\n", line_end)


def test_each_variant_of_fluent_gets_a_whole_sentence() -> None:
    document = """a = In { $n ->
    [one] a cat
   *[other] { $n } cats { $m ->
       *[cot]
            and { "dogs" }
    }
} we trust.
"""
    texts = [line.text for line in opened(document, "a.ftl").lines(0)]
    assert texts == ["In a cat we trust.", 'In { $n } cats and { "dogs" } we trust.']
    assert (
        translated(document, "a.ftl").decode()
        == """a = { $n ->
    [one] In a kätzé we trust.
   *[other] { $m ->
       *[cot]
            In { $n } kätzés and { "dogs" } we trust.
    }
}
"""
    )
    broken = "a = cats of { $n\n}, two\n"
    assert [line.text for line in opened(broken, "a.ftl").lines(0)] == ["cats of <1/>, two"]
    many = "".join(f"{{ $n{number} ->\n *[a] cat\n}} " for number in range(99))
    assert translated(f"a = {many}\n", "a.ftl").decode() == f"a = {many}\n"


def test_extensions_of_markdown_stay() -> None:
    document = """+++
title = "cot"
+++

```
$$
```

> [!NOTE]
> A cat.

:::note cot
A cat.
:::

!!! cot
    cot

The cat
$$
x = cot
$$
is a cat.

$$ cot $$ {#cot}

A cat.
"""
    for line_end in ("\n", "\r\n"):
        content = document.replace("\n", line_end)
        assert translated(content, "a.md").decode() == content.replace("cat", "kätzé")


def test_marks_and_attributes_of_markdown_stay() -> None:
    document = """# A cat {#cot}

- [ ] a cat
> 1. [x] the cat

A cat {: .cot }
: The cat

    a cat
: Two cats

[TOC]

{% include "cot" %}

--8<-- "cot.md"
"""
    assert translated(document, "a.md").decode() == document.replace("cat", "kätzé")


def test_links_of_markdown_keep_their_labels() -> None:
    text = "The [cat page][Cot], ![cat][], [cat] and `[cat]`, not [cats] or [cat](/).\n"
    labels = "\n[cat]: /cot\n[COT]: /cot\n"
    labelled = text.replace("[]", "[cot]").replace("[cat] ", "[cat][cot] ")
    expected = labelled.replace("cat", "kätzé").replace("[cot]", "[cat]")
    assert translated(text + labels, "a.md").decode() == expected + labels
    out = translated(text + labels, "a.md", lambda text: text.replace("<1>", ""))
    assert out.decode() == text + labels


def test_only_a_paragraph_of_markdown_can_begin_another_block() -> None:
    document = "## 1. One\n\nTwo\n"
    out = translated(document, "a.md", lambda text: f"- {text}").decode()
    assert out == "## - 1. One\n\n\\- Two\n"


def test_bars_within_cells_are_escaped() -> None:
    head = "| a | b |\n|---|---|\n"
    out = translated(head + "| a \\| cat | cat |\n", "a.md", lambda text: f"{text}|")
    assert out.decode() == "| a\\| | b\\| |\n|---|---|\n| a \\| cat\\| | cat\\| |\n"


def test_an_escaped_backslash_is_no_hard_line_break() -> None:
    document = "one\\\\\ntwo\\\nthree  \nfour\n"
    texts = [line.text for line in opened(document, "a.md").lines(0)]
    assert texts == ["one\\\\ two", "three", "four"]


@pytest.mark.parametrize("attribute", ['mtype="protected"', 'translate="no"'])
def test_a_protected_part_of_xliff_stays(attribute: str) -> None:
    source = f'<source>cat <mrk {attribute}>cot</mrk> <mrk mtype="term">cat</mrk></source>'
    out = translated(f"<xliff><trans-unit>{source}</trans-unit></xliff>", "a.xlf").decode()
    assert source.replace("source>", "target>").replace("cat", "kätzé") in out


def test_a_character_that_the_encoding_lacks_is_an_entity_or_leaves_the_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    declaration = "<?xml version='1.0' encoding='US-ASCII'?>"
    for name, document in {
        "a.html": "<META charset=latin1><p>cat</p>",
        "a.xlf": f"{declaration}<trans-unit><source>a</source><target>cat</target></trans-unit>",
    }.items():
        expected = document.replace("cat", "&#1082;&#1086;&#1090;").encode("ascii")
        assert translated(document, name, lambda text: "кот", all_texts=True) == expected
    po = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=latin1\\n"\n\nmsgid "é"\nmsgstr ""\n'
    content = po.encode("latin-1")
    assert translated(content, "a.po", lambda text: "кот") == content
    assert "1 text left as in the source" in capsys.readouterr().err


def test_bilingual_documents_are_corpora_of_what_is_complete() -> None:
    xliff = XLIFF.replace('<target state="new"/>', "<target>Kätzé</target>").replace(
        "</ph></source>",
        '</ph></source><target><x id="2" equiv-text="{{a}}"/> A <g id="1">cat</g>'
        '<ph id="3">b</ph></target>',
    )
    po = 'msgid "cat"\nmsgstr "kätzé"\n\n#, fuzzy\nmsgid "a"\nmsgstr "b"\n\nmsgid "c"\nmsgstr ""\n'
    po += 'msgid "a mouse"\nmsgid_plural "mice"\nmsgstr[0] "Maus"\nmsgstr[1] "Mäuse"\n'
    expected = {
        "a.xlf": [
            ("A <1>fat & cat</1> {{a}}<2/>", "{{a}} A <1>cat</1><2/>"),
            (" cat ", "Kätzé"),
            ("cat", "kept"),
        ],
        "a.po": [("cat", "kätzé"), ("a mouse", "Maus"), ("mice", "Mäuse")],
    }
    for name, document in {"a.xlf": xliff, "a.po": po}.items():
        Path(name).write_text(document, encoding="utf-8")
        importer = find_importer(name)
        assert importer is not None
        rows = importer.read(name, importer.choose_columns(name, None, None))
        assert [(source, target) for _, _, source, target in rows] == expected[name]
        with pytest.raises(UserError, match="leave out --columns"):
            importer.check_translation(name, "a", None)
