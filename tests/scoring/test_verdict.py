"""Laws of the verdict: it judges by the lines that training has not seen, beside a baseline."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from texts import HYPOTHESES, OTHERS, REFERENCES, SENTENCES

from mtkit.scoring.metrics import corpus_bleu, corpus_chrf, score
from mtkit.scoring.verdict import MIN_SIMILARITY, ScoredTest, divide_test, score_parts
from mtkit.scoring.writing import Writing

TIMES = 5


def scored(
    hypotheses: list[str], memory: list[str], references: list[str], is_seen: list[bool]
) -> ScoredTest:
    """Return what a manifest would give back of these translations, half of them far."""
    similarity = [place % 2 / 1.0 for place in range(len(references))]
    parts = divide_test(similarity, is_seen)
    writing = Writing.of(None, references)
    records = score_parts(hypotheses, memory, references, parts, writing)
    report: dict[str, Any] = {key: it.record() for key, it in score(hypotheses, references).items()}
    report |= {"parts": records, "exposure": "1 sources and 2 targets"}
    return ScoredTest.from_report(json.loads(json.dumps(report, sort_keys=True)))


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1))
def test_the_parts_divide_the_lines(lines: list[tuple[float, bool]]) -> None:
    similarity, is_seen = zip(*lines, strict=True)
    parts = divide_test(similarity, is_seen)
    every = list(range(len(lines)))
    assert parts["all"] == parts["memory"] == every
    assert sorted(parts["seen"] + parts["unseen"]) == (every if any(is_seen) else [])
    assert parts["far"] == [row for row in every if similarity[row] < MIN_SIMILARITY]


def test_each_part_is_scored_as_a_corpus_of_its_own() -> None:
    hypotheses, references = HYPOTHESES * TIMES, REFERENCES * TIMES
    is_seen = [place < 10 for place in range(len(references))]
    test = scored(hypotheses, OTHERS * TIMES, references, is_seen)
    rows = {
        "all": slice(None),
        "far": slice(0, None, 2),
        "seen": slice(10),
        "unseen": slice(10, 99),
    }
    for name, chosen in rows.items():
        ours, right = hypotheses[chosen], references[chosen]
        values = {key: it.value for key, it in test.parts[name].scores.items()}
        expected = {"bleu": corpus_bleu(ours, right), "chrf": corpus_chrf(ours, right)}
        assert values == pytest.approx(expected)
    assert test.parts["memory"].scores["bleu"].value == pytest.approx(
        corpus_bleu(OTHERS * TIMES, references)
    )


def test_lines_that_training_has_seen_do_not_count_for_the_verdict() -> None:
    references = REFERENCES * TIMES
    half = len(references) // 2
    hypotheses = references[:half] + ["x"] * half
    is_seen = [place < half for place in range(len(references))]
    _, verdict, baseline = scored(hypotheses, references, references, is_seen).verdict()
    assert verdict.startswith("verdict: hardly usable") and "not seen" in verdict
    assert "no better" in baseline
    _, verdict, baseline = scored(references, hypotheses, references, [True] * 20).verdict()
    assert "says nothing about other text" in verdict
    assert "no better" not in baseline


@pytest.mark.parametrize("script", SENTENCES)
def test_a_level_is_named_where_bleu_counts_words(script: str) -> None:
    lines = [SENTENCES[script]] * 10
    test = scored(lines, lines, lines, [False] * 10)
    _, verdict, _ = test.verdict()
    assert ("very good" in verdict) == (Writing.of(None, lines).tokenizer != "char")
    assert len([*test.table()]) > 8


def test_scores_of_earlier_versions_have_no_parts_but_a_verdict() -> None:
    facts = {"name": "BLEU", "score": 35.0, "signature": "x"}
    test = ScoredTest.from_report({"bleu": facts, "from": {}})
    assert [*test.verdict()] == [
        "verdict: understandable, with errors (for text like the test set): BLEU 35.00 of 100"
    ]
    assert [*test.table()][1].split() == ["BLEU", "35.00"]


def test_lines_too_short_for_bleu_are_judged_by_chrf() -> None:
    lines = ["ja"] * 12
    _, verdict, baseline = scored(lines, ["nein"] * 12, lines, [False] * 12).verdict()
    assert "chrF2 100.00 of 100" in verdict and "0.00" in baseline
