"""Laws of `--memory`: which texts have an exact match, which translation it is, and its mark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polib
import pytest
from lxml import etree

from documents import opened
from mtkit.errors import UserError
from mtkit.extras.documents.memory import check_memories, reuse_matches

XLIFF = """<xliff version="1.2"><file><body><trans-unit id="1">
<source>A <g id="1">cat</g></source><target state="new" state-qualifier="mt-suggestion"/>
</trans-unit></body></file></xliff>"""
XLIFF_2 = """<xliff version="2.0"><file><unit><segment subState="a:b">
<source>A <pc id="1">cat</pc></source></segment></unit></file></xliff>"""


@pytest.fixture(autouse=True)
def _in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fill(content: str, name: str, memory: Sequence[tuple[str, str]]) -> tuple[list[str], str]:
    """Return the texts of a document that a memory lacks, and the document with the others."""
    entries = [polib.POEntry(msgid=source, msgstr=target) for source, target in memory]
    Path("memory.po").write_text("\n".join(map(str, entries)))
    document = opened(content, name)
    reuse_matches(list(document.parts.values()), ["memory.po"], None)
    texts = [line.text for line in document.lines(0)]
    document.parts[""].units = [unit for unit in document.parts[""].units if not unit.texts]
    return texts, document.end().decode()


@pytest.mark.parametrize(
    ("text", "source", "expected"),
    [
        ("A cat", "A cat", "Eine Katze"),
        (" A cat\n", "A cat ", " Eine Katze\n"),
        ("Ame\u0301lie", "Amélie", "Eine Katze"),
        ("A cat", "a cat", None),
        ("A cat", "A <b>cat</b>", None),
        ("A\ncat", "A cat", None),
        (" ", " ", None),
    ],
)
def test_a_match_is_exact_but_for_outer_spaces_and_unicode_forms(
    text: str, source: str, expected: str | None
) -> None:
    entry = polib.POEntry(msgid=text)
    texts, filled = fill(f"{entry}\n", "a.po", [(source, "Eine Katze")])
    assert polib.pofile(filled)[0].msgstr == (expected or "")
    assert (texts == []) == (expected is not None or not text.strip())


@pytest.mark.parametrize("targets", ["aab", "ba", "aba", "baba"])
def test_the_most_frequent_translation_wins_and_of_equally_frequent_ones_the_last(
    targets: str, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = [("A cat", target) for target in targets]
    _, filled = fill('["A cat", "a dog"]', "a.json", memory)
    assert filled == '["a", "a dog"]'
    message = capsys.readouterr().err
    assert "1 of 2 texts from memory.po" in message
    assert "1 text with several translations" in message


def test_the_forms_of_a_plural_match_together_or_not_at_all() -> None:
    content = 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    memory = [("a", "A"), ("b", "B")]
    for rows, forms in ((memory, ["A", "B"]), (memory[:1], ["", ""])):
        _, filled = fill(content, "a.po", rows)
        assert list(polib.pofile(filled)[0].msgstr_plural.values()) == forms


@pytest.mark.parametrize(
    ("content", "states"),
    [
        (XLIFF, {"state": "translated", "state-qualifier": "exact-match"}),
        (XLIFF_2, {"state": "translated", "subState": "mtkit:exact-match"}),
    ],
)
@pytest.mark.parametrize("is_intact", [True, False])
def test_xliff_marks_a_match_unless_it_has_lost_a_code(
    content: str, states: dict[str, str], is_intact: bool
) -> None:
    target = "Eine <1>Katze</1>" if is_intact else "Eine Katze"
    _, filled = fill(content, "a.xlf", [("A <1>cat</1>", target)])
    found = etree.fromstring(filled).find(".//{*}target")
    attributes = dict(found.attrib) or dict(found.getparent().attrib)
    expected = states if is_intact else {"state": attributes["state"]}
    assert attributes == expected
    assert (attributes["state"] == "translated") == is_intact


def test_a_match_equal_to_its_text_keeps_the_escapes_of_the_document() -> None:
    content = r'["caf\u00e9 \u0041"]'
    assert fill(content, "a.json", [("café A", "café A")]) == ([], content)


def test_the_languages_of_the_model_choose_those_of_a_memory() -> None:
    languages = {"de": "Katze", "fr": "chat", "en-US": "cat"}
    texts = [f'<tuv xml:lang="{tag}"><seg>{text}</seg></tuv>' for tag, text in languages.items()]
    unit = f"<tu>{''.join(texts)}</tu>"
    Path("a.tmx").write_text(f'<tmx><header srclang="de"/><body>{unit}</body></tmx>')
    document = opened('["cat"]', "a.json")
    reuse_matches(list(document.parts.values()), ["a.tmx"], ("en", "fr"))
    assert document.end() == b'["chat"]'


def test_a_memory_is_no_text_and_not_the_output() -> None:
    Path("a.po").touch()
    with pytest.raises(UserError, match=r"a\.po is an input; choose another output"):
        check_memories(["a.po"], Path("a.po"))
    with pytest.raises(UserError, match=r"a\.txt: the name of a translation memory ends in \.csv"):
        check_memories(["a.txt"], None)
