"""Laws of target tags: a symbol before each text of the model, which no text contains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from architectures import transformer
from commands import call
from folders import SENTENCES, Copier, as_if_trained, train, with_settings, write_model
from mtkit.config.decoding import DecodingSettings
from mtkit.config.target_tags import piece_of_tag, standard_tag
from mtkit.decoding.api import Translator, load
from mtkit.decoding.engines.engine import Request
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.decoding.text.line import Line
from mtkit.decoding.text.pipeline import open_window
from mtkit.errors import UserError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.tokenizer.codec import Tokenizer

TAGS = ["hau", "yor"]
PIECES = [piece_of_tag(tag) for tag in TAGS]
ROOM = 8
"""Subwords of text that a part may have in these tests."""
texts = st.lists(
    st.sampled_from([*PIECES, *SENTENCES, "DOGS RUN.", "{name}", "<b>", "- ", "é", " ", "\t", "1"])
    | st.text(st.characters(exclude_characters="\n"), max_size=6),
    max_size=5,
).map("".join)


@pytest.fixture(scope="module")
def plain() -> Tokenizer:
    """A tokenizer without tags."""
    return train(normalization_rule_name="identity")


@pytest.fixture(scope="module")
def tagged() -> Tokenizer:
    """The same tokenizer with tags."""
    options: dict[str, Any] = {"normalization_rule_name": "identity", "control_symbols": PIECES}
    return train(vocab_size=300 + len(PIECES), **options)


@pytest.fixture(scope="module")
def copier(tagged: Tokenizer) -> Translator:
    """A model that copies its whole source, also the tag."""
    engine = PyTorchEngine(Copier(tagged.source_vocab).eval())
    return Translator(engine, tagged, Request(DecodingSettings(beam=2, max_length=60)))


def sources_of(line: Line, tokenizer: Tokenizer, settings: dict[str, Any]) -> list[list[str]]:
    """Return the pieces of each sentence that the model reads for a line."""
    window = open_window([line], tokenizer, Request(DecodingSettings(**settings)))
    return [tokenizer.source_pieces(sentence.source) for sentence in window.sentences]


@given(texts, st.sampled_from(TAGS), st.booleans(), st.sampled_from([None, "en"]))
@example("Why? DOGS RUN. It rains on the plain in Spain. " * 3, "yor", True, "en")
def test_each_part_of_a_line_has_the_tag_before_what_the_model_reads_without_tags(
    plain: Tokenizer, tagged: Tokenizer, text: str, tag: str, truecase: bool, sentences: str | None
) -> None:
    settings = {"truecase": truecase, "sentences": sentences}
    without = sources_of(Line(text), plain, settings | {"max_length": ROOM})
    assert sources_of(Line(text, tag=tag), tagged, settings | {"max_length": ROOM + 1}) == [
        [piece_of_tag(tag), *pieces] for pieces in without
    ]


@given(texts)
@example("<2yor> A dog runs.")
@example("yor")
def test_no_text_contains_a_tag(tagged: Tokenizer, text: str) -> None:
    assert tagged.tags.keys() == set(TAGS)
    for ids in (*tagged.encode_source([text]), *tagged.encode_target([text])):
        assert not {*ids} & {*tagged.tags.values()}


@pytest.mark.slow
@given(st.lists(texts, max_size=4), st.sampled_from(TAGS))
@example(["<2yor> A dog runs.", "", "<2hau>"], "hau")
def test_a_tag_never_appears_in_the_output_and_n_lines_give_n_lines(
    copier: Translator, lines: list[str], tag: str
) -> None:
    translations = list(copier.results(lines, tag=tag))
    others = list(copier.results([Line(line, tag=tag) for line in lines]))
    assert [each.text for each in translations] == [each.text for each in others]
    assert len(translations) == len(lines)
    for line, translation in zip(lines, translations, strict=True):
        for piece in PIECES:
            # A model that copies text writes what looks like a tag as often as the text has it.
            assert translation.text.count(piece) == line.count(piece)
        assert "\n" not in translation.text


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_no_search_writes_a_tag_however_probable_it_is(
    tagged: Tokenizer, tmp_path: Path, engine: str
) -> None:
    def prefer_tags(model: EncoderDecoder) -> None:
        as_if_trained(model)
        with torch.no_grad():
            model.output_weight[[*tagged.tags.values()], 0] = 60.0

    model = write_model(tmp_path / "model", tagged, transformer(), prefer_tags)
    translator = load(model, engine=engine, tag="yor")
    settings: list[dict[str, Any]] = [{"n_best": 3, "beam": 3}]
    if engine == "torch":
        settings.append({"sample": True, "temperature": 5.0})
    for changes in settings:
        for translation in translator.results(SENTENCES, **changes):
            for each in (translation, *translation.alternatives):
                assert not {*PIECES} & {*each.tokens}


@pytest.mark.parametrize("line", SENTENCES)
def test_alignments_do_not_count_the_tag(copier: Translator, line: str) -> None:
    (translation,) = copier.results([line], tag="yor", alignments=True)
    assert translation.alignment == {(word, word) for word in range(len(line.split()))}


@pytest.mark.parametrize("spelling", ["yor", "<2yor>", "<yor>", ">>yor<<", " yor "])
def test_a_tag_has_one_name_and_several_spellings(copier: Translator, spelling: str) -> None:
    assert standard_tag(spelling) == "yor"
    assert copier.translate(["Why?"], tag=spelling) == copier.translate([Line("Why?", tag="yor")])


@given(st.text(max_size=50))
@example("a b")
@example("")
@example("x" * 41)
def test_a_tag_is_a_short_word_or_refused(text: str) -> None:
    try:
        name = standard_tag(text)
    except ValueError as error:
        assert "such as yor or <2yor>" in str(error)
    else:
        assert name == standard_tag(name) == standard_tag(piece_of_tag(name))
        assert 0 < len(name) <= 40 and name.split() == [name]


def test_a_line_has_its_own_tag_before_that_of_the_request(copier: Translator) -> None:
    lines = [Line("A dog runs.", tag="hau"), Line("Why?")]
    request = copier.request.changed(tag="yor")
    window = open_window(lines, copier.tokenizer, request)
    pieces = [copier.tokenizer.source_pieces(each.source)[0] for each in window.sentences]
    assert pieces == ["<2hau>", "<2yor>"]


@pytest.mark.parametrize("line", ["A dog runs.", "", "12:30", "https://example.com/a"])
def test_a_missing_or_unknown_tag_is_an_error_with_the_choices_whatever_the_line(
    copier: Translator, plain: Tokenizer, line: str
) -> None:
    with pytest.raises(UserError, match=r"choose one by its tag \(hau, yor\)"):
        copier.translate([line])
    with pytest.raises(UserError, match="'ibo' is unknown to this model; choose from hau, yor"):
        copier.translate([line], tag="ibo")
    with pytest.raises(UserError, match="'ibo' is unknown"):
        copier.translate([Line(line, tag="ibo")])
    with pytest.raises(UserError, match="tag: expected a short name"):
        Line(line, tag="two words")
    with pytest.raises(UserError, match="tag: expected a short name"):
        copier.translate([line], tag="two words")
    untagged = Translator(copier.engine, plain, copier.request)
    with pytest.raises(UserError, match="has no target tags; leave out the tag 'yor'"):
        untagged.translate([line], tag="yor")


def test_a_translator_may_have_a_tag_for_all_calls(copier: Translator) -> None:
    assert copier.tags == TAGS
    assert with_settings(copier, tag="yor").translate(["Why?"]) == ["Why?"]


def test_the_command_checks_the_tag_before_it_writes(
    tagged: Tokenizer, plain: Tokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    several = str(write_model(tmp_path / "several", tagged, transformer()))
    one = str(write_model(tmp_path / "one", plain, transformer()))
    (tmp_path / "in").write_text("A dog runs.\n\n<2yor>\n")
    files = [str(tmp_path / "in"), "-o", str(tmp_path / "out")]
    for model, options, message in (
        (several, [], "hau, yor"),
        (several, ["--tag", "ibo"], "choose from hau, yor"),
        (one, ["--tag", "yor"], "no target tags"),
    ):
        assert call("translate", *files, "-m", model, *options) == 2
        *before, error = capsys.readouterr().err.splitlines()
        assert message in error and all("preparing" in line for line in before)
        assert not (tmp_path / "out").exists()
    assert call("translate", *files, "-m", several, "--tag", "<2yor>") == 0
    assert (tmp_path / "out").read_text().count("\n") == 3
    assert call("attend", "Why?", "-m", several, "--tag", "yor") == 0
    assert "<2yor>" in capsys.readouterr().out  # the model attends to it, too
    assert call("attend", "Why?", "-m", several) == 2


def test_loading_checks_the_tag(tagged: Tokenizer, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", tagged, transformer())
    with pytest.raises(UserError, match="choose from hau, yor"):
        load(model, tag="ibo")
    by_engine = [
        load(model, engine=engine, tag="hau").translate(SENTENCES)
        for engine in ("torch", "ctranslate2")
    ]
    assert by_engine[0] == by_engine[1]
