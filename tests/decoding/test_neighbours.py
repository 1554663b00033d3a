"""A translation does not depend on the lines around it, whatever is searched again.

The models have random weights, so terms and spans stand anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from architectures import transformer
from folders import SENTENCES, as_if_trained, train, write_model
from mtkit.decoding.api import Translator, load
from mtkit.decoding.engines.engine import Sentence
from mtkit.decoding.losses import Losses
from mtkit.decoding.text.line import Line
from mtkit.decoding.translate import Files, Format, translate
from mtkit.report import silently

GLOSSARY = {"dog": "boat", "men": "Spain rain", "plain": "", "run": "a"}
LINES = [
    "A dog runs.",
    "Two men, one boat.",
    "It rains.",
    "Why?",
    "It rains in Spain. A dog on the plain.",
    "One boat rains on the rain.",
    "See http://example.org/a here.",
    "A {name} rains, why?",
    "Men run on.",
    "In rain, in Spain, in a boat.",
    "",
    "on the on the on the",
]
REQUESTS: dict[str, dict[str, Any]] = {
    "a glossary": {},
    "a glossary and an n-best list": {"n_best": 2},
    "a glossary and alignments": {"alignments": True},
    "a glossary and sentences": {"sentences": "en"},
    "a glossary, and short pieces": {"max_length": 12},
    "a glossary and small batches": {"batch_tokens": 8},
    "no glossary": {"glossary": {}},
}
ENGINES = ["auto", "torch"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = train([*SENTENCES, *LINES], normalization_rule_name="identity")
    folder = tmp_path_factory.mktemp("model")
    return write_model(folder / "m", tokenizer, transformer(), as_if_trained, max_length=16)


@pytest.fixture
def open_model(model: Path) -> Iterator[Any]:
    opened: list[Translator] = []

    def open_with(**settings: Any) -> Translator:
        with silently():
            opened.append(load(model, "cpu", beam=2, **{"glossary": GLOSSARY, **settings}))
        return opened[-1]

    yield open_with
    for translator in opened:
        translator.close()


@pytest.fixture
def many_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take half of all translations for loops, which random weights rarely make."""
    monkeypatch.setattr("mtkit.decoding.loops.has_loop", lambda text, _: len(text) % 2 == 0)


@pytest.mark.usefixtures("many_loops")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("settings", REQUESTS.values(), ids=REQUESTS)
def test_each_line_is_translated_as_if_it_were_alone(
    engine: str, settings: dict[str, Any], open_model: Any
) -> None:
    translator = open_model(engine=engine, **settings)
    lines = [Line(text, id=number) for number, text in enumerate(LINES)]
    with silently():
        together = list(translator.results(lines))
        alone = [translator.submit([line]).result()[0] for line in lines]
        in_parts = [*translator.results(lines[:5]), *translator.results(lines[5:])]
    faults = {fault for translation in together for fault in translation.mended}
    assert faults == {"loop"}
    for other in (alone, in_parts):
        for first, second in zip(together, other, strict=True):
            assert second.text == first.text
            assert second.mended == first.mended
            assert second.alignment == first.alignment
            texts = [each.text for each in first.alternatives]
            assert [each.text for each in second.alternatives] == texts


@pytest.mark.usefixtures("many_loops")
@pytest.mark.parametrize("engine", ENGINES)
def test_resumed_files_have_the_texts_of_the_whole_file(
    engine: str, open_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = open_model(engine=engine, n_best=2)
    form = Format(n_best=2)
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    # Lines without a term stand beside others in the middle of the file, but not at its end.
    lines = sorted(LINES * 6, key=lambda line: not any(term in line for term in GLOSSARY))
    source.write_text("".join(f"{line}\n" for line in lines))
    with silently():
        translate(translator, Files(source, output), form)
        whole = output.read_text()
        count = Losses.count

        def interrupt(losses: Losses, translations: Any) -> None:
            if losses.lines:  # the first window is written
                raise KeyboardInterrupt
            count(losses, translations)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Losses, "count", interrupt)
            translate(translator, Files(source, output), form)
        assert (tmp_path / ".out.txt.partial").read_text()
        translate(translator, Files(source, output), form)
    # Last digits of scores differ between batches.
    expected = [without_score(row) for row in whole.splitlines()]
    assert [without_score(row) for row in output.read_text().splitlines()] == expected


def without_score(row: str) -> tuple[str, str]:
    """Return the number of the line, and the text."""
    number, _, text = row.split("\t", 2)
    return number, text


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_searches_each_sentence_as_if_it_were_alone(engine: str, open_model: Any) -> None:
    translator = open_model(engine=engine, glossary={})
    encode = translator.tokenizer.encode_source
    sources = [[*ids, 3] for ids in encode([line for line in LINES if line])]
    sentences = [
        Sentence(
            source,
            prefix=[30, 31] if number % 3 == 0 else [],
            needs_attention=number % 2 == 0,
        )
        for number, source in enumerate(sources)
    ]
    request = translator.request
    together = translator.engine.search(sentences, request).result()
    for sentence, hypotheses in zip(sentences, together, strict=True):
        (alone,) = translator.engine.search([sentence], request).result()
        assert [each.tokens for each in alone] == [each.tokens for each in hypotheses]
        for first, second in zip(alone, hypotheses, strict=True):
            has_attention = sentence.needs_attention and bool(first.tokens)
            assert (first.attention is not None) >= has_attention
            if first.attention is not None and second.attention is not None:
                np.testing.assert_allclose(first.attention, second.attention, atol=1e-5)
