"""Laws of beam search with terms; the references share no code with the search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.search.constraints import constraints_of
from mtkit.decoding.search.lexical import LexicalBeam, pad_terms
from mtkit.decoding.search.search import Hypotheses, search
from mtkit.models.interfaces import TranslationModel
from mtkit.symbols import EOS, PAD
from searches import Scored, assert_same, everything, hypotheses_of, random_model, teacher_forcing

SOURCE = torch.tensor([[4, 5, 6, 5, EOS], [6, EOS, PAD, PAD, PAD], [5, 5, 4, EOS, PAD]])
Terms = list[list[list[int]]]
TERMS: list[Terms] = [
    [[[4]], [[6]], [[6, 1]]],
    [[[4, 5]], [[4], [6]], [[6, 6, 6]]],  # numbers of terms and of symbols differ
    [[[4], [4, 5]], [[4, 1], [1, 6]], [[6, 4]]],  # terms overlap
]
WORD_PARTS = [[], [5]]

both = pytest.mark.parametrize("name", ["transformer", "seq2seq-general-feeding"])
all_terms = pytest.mark.parametrize("terms", TERMS)
all_parts = pytest.mark.parametrize("parts", WORD_PARTS)


def search_terms(
    model: TranslationModel[Any, Any],
    terms: Terms,
    parts: Sequence[int],
    settings: DecodingSettings,
    prefixes: Sequence[Sequence[int]] = (),
    source: torch.Tensor = SOURCE,
) -> Hypotheses:
    beam = LexicalBeam(
        settings.beam,
        settings.length_penalty,
        pad_terms(terms),
        torch.tensor(parts, dtype=torch.long),
    )
    return search(model, source, beam, constraints_of(settings, prefixes), settings.max_length)


def has_all(tokens: tuple[int, ...], terms: list[list[int]], parts: Sequence[int]) -> bool:
    """Return whether each term is in the tokens, and no part of a word follows it."""
    return all(
        any(
            tokens[start : start + len(term)] == tuple(term)
            and tokens[start + len(term) : start + len(term) + 1] not in [(part,) for part in parts]
            for start in range(len(tokens))
        )
        for term in terms
    )


@both
@all_terms
@all_parts
def test_an_exhaustive_beam_finds_all_hypotheses_with_the_terms_in_order(
    name: str, terms: Terms, parts: list[int]
) -> None:
    model = random_model(name)
    for alpha in (0.0, 1.0):
        settings = DecodingSettings(beam=200, length_penalty=alpha, max_length=3)
        actual = search_terms(model, terms, parts, settings)
        for sentence, wanted in enumerate(terms):
            log_probs = teacher_forcing(model, SOURCE[sentence])
            expected: list[Scored] = [
                scored
                for scored in everything(log_probs, 3, alpha)
                if has_all(scored[0], wanted, parts)
            ]
            assert_same(hypotheses_of(actual, sentence), expected)


@both
@all_terms
@all_parts
@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("max_length", [4, 12])
def test_hypotheses_have_all_terms_whatever_the_beam(
    name: str, terms: Terms, parts: list[int], beam: int, max_length: int
) -> None:
    settings = DecodingSettings(beam=beam, max_length=max_length)
    actual = search_terms(random_model(name), terms, parts, settings)
    for sentence, wanted in enumerate(terms):
        hypotheses = hypotheses_of(actual, sentence)
        assert hypotheses
        assert all(has_all(tokens, wanted, parts) for tokens, _ in hypotheses)


@both
@all_terms
def test_a_sentence_is_searched_as_if_it_were_alone(name: str, terms: Terms) -> None:
    model = random_model(name, seed=1)
    settings = DecodingSettings(beam=3, max_length=8)
    together = search_terms(model, terms, [5], settings)
    for sentence, wanted in enumerate(terms):
        source = SOURCE[sentence : sentence + 1]
        source = source[:, source[0] != PAD]
        alone = search_terms(model, [wanted], [5], settings, source=source)
        assert_same(hypotheses_of(together, sentence), hypotheses_of(alone, 0))


@both
def test_scores_are_those_of_the_model(name: str) -> None:
    model = random_model(name, seed=2)
    settings = DecodingSettings(beam=2, length_penalty=0.0, max_length=6)
    actual = search_terms(model, TERMS[1], [], settings)
    for sentence in range(len(SOURCE)):
        log_probs = teacher_forcing(model, SOURCE[sentence])
        for place, (tokens, total) in enumerate(hypotheses_of(actual, sentence)):
            is_finished = bool(actual.finished[sentence, place])
            symbols = [*tokens, EOS] if is_finished else tokens
            expected = sum(log_probs(tokens[:at])[symbol] for at, symbol in enumerate(symbols))
            assert total == pytest.approx(expected, abs=1e-4)


@both
def test_terms_follow_a_prefix_or_are_in_it(name: str) -> None:
    prefixes = [[5, 4, 5], [1], []]
    settings = DecodingSettings(beam=2, max_length=8)
    actual = search_terms(random_model(name), TERMS[1], [], settings, prefixes)
    for sentence, wanted in enumerate(TERMS[1]):
        for tokens, _ in hypotheses_of(actual, sentence):
            prefix = tuple(prefixes[sentence])
            assert tokens[: len(prefix)] == prefix
            assert has_all(tokens, wanted, [])


def test_there_are_no_hypotheses_if_the_terms_do_not_fit() -> None:
    settings = DecodingSettings(beam=2, max_length=2)
    actual = search_terms(random_model("transformer"), TERMS[1], [], settings)
    has_any = [bool(hypotheses_of(actual, sentence)) for sentence in range(3)]
    assert has_any == [True, True, False]
