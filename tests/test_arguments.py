"""A wrong argument in Python is an error that says what was expected, not an answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mtkit
import signatures
from architectures import transformer
from folders import SENTENCES, as_if_trained, train, write_model
from mtkit.decoding.api import Translator
from mtkit.errors import MtkitError, UserError

NO_LISTS = ["A dog runs.", b"A dog runs.", Path("in.txt"), None, 7, {"A": 1}, {"A"}]
"""What is no list of lines, although some of it can be iterated over."""
NO_LINES = [None, 7, b"A dog runs.", ["A dog runs."]]

BY_LINES: dict[str, Callable[[Translator, Any], object]] = {
    "score hypotheses": lambda _, lines: mtkit.score(lines, ["A dog runs."]),
    "score references": lambda _, lines: mtkit.score(["A dog runs."], lines),
    "score second references": lambda _, lines: mtkit.score(["A"], [["A"], lines]),
    "translate": lambda translator, lines: translator.translate(lines),
    "results": lambda translator, lines: translator.results(lines),
    "stream": lambda translator, lines: translator.stream(lines),
    "submit": lambda translator, lines: translator.submit(lines),
}
BY_CONFIG: dict[str, Callable[[Any], object]] = {
    "load_config": mtkit.load_config,
    "run": mtkit.run,
    "train": mtkit.train,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model"
    return write_model(path, train(), transformer(), as_if_trained)


@pytest.fixture(scope="module")
def translator(model: Path) -> Translator:
    return mtkit.load(model, "cpu")


@pytest.fixture(autouse=True)
def without_checks_of_tests() -> None:
    """Let arguments of wrong types reach mtkit, which runs without beartype elsewhere."""
    signatures.stop_checks()


@pytest.mark.parametrize("call", BY_LINES)
@pytest.mark.parametrize("lines", NO_LISTS, ids=repr)
def test_what_is_no_list_of_lines_is_refused_at_once(
    call: str, lines: object, translator: Translator
) -> None:
    with pytest.raises(TypeError, match=r"expected a list of lines, not "):
        BY_LINES[call](translator, lines)


def test_a_string_is_told_how_to_become_a_list(translator: Translator) -> None:
    for call in BY_LINES.values():
        with pytest.raises(TypeError, match=r"of type str; for one line, write \[line\]$"):
            call(translator, "A dog runs.")


@pytest.mark.parametrize("call", ["score hypotheses", "score references", "translate", "submit"])
@pytest.mark.parametrize("line", NO_LINES, ids=repr)
def test_a_line_that_is_no_text_is_named(call: str, line: object, translator: Translator) -> None:
    with pytest.raises(TypeError, match=r"line 2: expected a string, not "):
        BY_LINES[call](translator, ["A dog runs.", line])


def test_an_iterator_ends_with_an_error_at_a_line_that_is_no_text(translator: Translator) -> None:
    lines: Any = iter(["A dog runs.", 7])
    with pytest.raises(TypeError, match=r"line 2: expected a string, not .* type int"):
        list(translator.results(lines))


@pytest.mark.parametrize("collect", [list, tuple, iter])
def test_lines_of_any_ordered_collection_are_scored_and_translated(
    collect: Callable[[list[str]], Any], translator: Translator
) -> None:
    expected = mtkit.score(SENTENCES, SENTENCES[::-1])
    assert mtkit.score(collect(SENTENCES), collect(SENTENCES[::-1])) == expected
    translations = translator.translate(SENTENCES)
    assert translator.translate(collect(SENTENCES)) == translations
    assert [line.text for line in translator.results(collect(SENTENCES))] == translations


@pytest.mark.parametrize("call", BY_CONFIG)
@pytest.mark.parametrize("config", [{"run": "x"}, ["mtkit.yaml"], 7, b"mtkit.yaml"], ids=repr)
def test_what_is_no_config_is_refused(call: str, config: object) -> None:
    with pytest.raises(TypeError, match="expected the path of a config file, not "):
        BY_CONFIG[call](config)


@pytest.mark.parametrize("call", BY_CONFIG)
def test_the_text_of_a_config_and_a_folder_are_refused(call: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="path of a config file, not its text"):
        BY_CONFIG[call]("run: x\ndata: {}\n")
    with pytest.raises(UserError, match=f"^{tmp_path} is a folder; give a config file"):
        BY_CONFIG[call](tmp_path)


@pytest.mark.parametrize("overrides", ["seed=2", {"seed": 2}, [7]], ids=repr)
def test_overrides_are_a_list_of_texts(overrides: Any) -> None:
    with pytest.raises(TypeError, match=r"^overrides: (expected|override 1: expected)"):
        mtkit.load_config("mtkit.yaml", overrides)


@pytest.mark.parametrize("path", [7, [7], {"a": 1}, b"run"], ids=repr)
def test_a_model_is_named_by_a_path(path: Any) -> None:
    with pytest.raises(TypeError, match=r"^path: expected "):
        mtkit.load(path)


def test_other_arguments_are_checked(translator: Translator) -> None:
    wrong: Any
    for wrong in (["A dog runs."], None, 7):
        with pytest.raises(TypeError, match=r"^source: expected a string, not "):
            translator.attention(wrong)
        with pytest.raises(TypeError, match=r"^Line: text: expected a string, not "):
            mtkit.Line(wrong)
    for wrong in ({"beam": 2}, "beam=2"):
        with pytest.raises(TypeError, match=r"^request: expected a Request.*request\.changed"):
            translator.submit(SENTENCES, wrong)
        with pytest.raises(TypeError, match=r"^request: expected a Request"):
            translator.results(SENTENCES, wrong)
    with pytest.raises(TypeError, match=r"^keys: expected a list of metrics, not .* str"):
        mtkit.score(SENTENCES, SENTENCES, keys="bleu")
    with pytest.raises(UserError, match=r"^keys: unknown metric 'comet'; choose from bleu, chrf"):
        mtkit.score(SENTENCES, SENTENCES, keys=["comet"])
    with pytest.raises(UserError, match=r"^language: 'elvish' is not a language"):
        mtkit.score(SENTENCES, SENTENCES, language="elvish")


def test_references_that_are_grouped_by_line_are_recognised() -> None:
    by_line = [["A dog.", "One dog."], ["Two men.", "Both men."], ["Why?", "How so?"]]
    with pytest.raises(UserError, match="a list for each reference translation, not for each line"):
        mtkit.score(["A dog.", "Two men.", "Why?"], by_line)


def test_a_closed_translator_shows_no_attention(model: Path) -> None:
    closed = mtkit.load(model, "cpu")
    closed.close()
    with pytest.raises(MtkitError, match="closed"):
        closed.attention("A dog runs.")
