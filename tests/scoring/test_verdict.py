"""Laws of the verdict: it judges by the lines that training has not seen, beside a baseline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from texts import HYPOTHESES, OTHERS, REFERENCES, SENTENCES, corpus_bleu, corpus_chrf

from mtkit.artifacts.records import dump_record, load_record
from mtkit.scoring.comparison import BeforeAndAfter
from mtkit.scoring.metrics import get_signatures, score
from mtkit.scoring.quality import QualityReport, score_parts
from mtkit.scoring.verdict import describe_quality, tabulate_quality
from mtkit.scoring.writing import Writing

TIMES = 5


def restore(record: object) -> QualityReport:
    """Return the report that a manifest holds."""
    return load_record(QualityReport, record, Path("manifest.json"))


def report(
    hypotheses: list[str], memory: list[str], references: list[str], is_seen: list[bool]
) -> QualityReport:
    """Return what a manifest would report of these translations; every second line is unlike."""
    parts = score_parts(
        hypotheses,
        references,
        memory=memory,
        overlaps=is_seen,
        is_unlike=[place % 2 == 0 for place in range(len(references))],
        writing=Writing.of(None, references),
    )
    written = dump_record(
        QualityReport(score(hypotheses, references), "1 source and 2 targets", parts)
    )
    return restore(json.loads(json.dumps(written, sort_keys=True)))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=10, max_size=40))
def test_the_parts_divide_the_lines(lines: list[tuple[bool, bool]]) -> None:
    is_unlike = [is_unlike for is_unlike, _ in lines]
    is_seen = [is_seen for _, is_seen in lines]
    texts = ["Ein Hund rennt über die Wiese."] * len(lines)
    parts = score_parts(
        texts,
        texts,
        memory=texts,
        overlaps=is_seen,
        is_unlike=is_unlike,
        writing=Writing("de", "LATIN"),
    )
    counts = {name: part.lines for name, part in parts.items()}
    seen, unlike = sum(is_seen), sum(is_unlike)
    expected = {"unlike": unlike, "seen": seen, "unseen": (len(lines) - seen) * bool(seen)}
    large = {name: count for name, count in expected.items() if count >= 10}
    judged = large.get("unseen", len(lines))
    assert counts == {"all": len(lines), "memory": judged} | large


def test_each_part_is_scored_as_a_corpus_of_its_own() -> None:
    hypotheses, references = HYPOTHESES * TIMES, REFERENCES * TIMES
    is_seen = [place < 10 for place in range(len(references))]
    parts = report(hypotheses, OTHERS * TIMES, references, is_seen).parts
    rows = {
        "all": slice(None),
        "unlike": slice(0, None, 2),
        "seen": slice(10),
        "unseen": slice(10, 99),
    }
    for name, chosen in rows.items():
        ours, right = hypotheses[chosen], references[chosen]
        values = {key: parts[name].scores[key].value for key in ("bleu", "chrf")}
        expected = {"bleu": corpus_bleu(ours, right), "chrf": corpus_chrf(ours, right)}
        assert values == pytest.approx(expected)
    baseline = corpus_bleu((OTHERS * TIMES)[10:], references[10:])  # of lines that are not seen
    assert parts["memory"].scores["bleu"].value == pytest.approx(baseline)


def test_lines_that_training_has_seen_do_not_count_for_the_verdict() -> None:
    references = REFERENCES * TIMES
    half = len(references) // 2
    hypotheses = references[:half] + ["x"] * half
    is_seen = [place < half for place in range(len(references))]
    _, judgement, baseline = describe_quality(report(hypotheses, references, references, is_seen))
    assert judgement.startswith("verdict: hardly usable") and "not seen" in judgement
    assert "no better" in baseline
    _, judgement, baseline = describe_quality(
        report(references, hypotheses, references, [True] * 20)
    )
    assert "says nothing about other text" in judgement
    assert "no better" not in baseline


@pytest.mark.parametrize("script", SENTENCES)
def test_a_level_is_named_where_bleu_counts_words(script: str) -> None:
    lines = [SENTENCES[script]] * 10
    facts = report(lines, lines, lines, [False] * 10)
    _, judgement, _ = describe_quality(facts)
    assert ("very good" in judgement) == (Writing.of(None, lines).tokenizer != "char")
    assert len([*tabulate_quality(facts)]) > 6


def test_scores_of_earlier_versions_have_no_parts_but_a_verdict() -> None:
    record = {"bleu": {"name": "BLEU", "score": 35.0, "signature": "x"}, "from": {}}
    facts = restore(record)
    assert facts.scores["bleu"].value == 35
    assert [*describe_quality(facts)] == [
        "verdict: understandable, with errors (for text like the test set): BLEU 35.00 of 100"
    ]
    assert [*tabulate_quality(facts)][1].split() == ["BLEU", "35.00"]


def test_the_overlap_in_reports_of_earlier_versions_is_read() -> None:
    record = {"bleu": {"name": "BLEU", "score": 35.0, "signature": "x"}, "exposure": "2 sources"}
    first, *_ = describe_quality(restore(record))
    assert first == "test: 2 sources"


def test_a_baseline_without_the_score_of_the_verdict_is_left_out() -> None:
    score = {"name": "BLEU", "score": 35.0, "signature": "x"}
    parts = {"all": {"lines": 12, "bleu": score}, "memory": {"lines": 12}}
    facts = restore({"bleu": score, "overlap": "2 sources", "parts": parts})
    assert [line.split(":")[0] for line in describe_quality(facts)] == ["test", "verdict"]


def test_lines_too_short_for_bleu_are_judged_by_chrf() -> None:
    lines = ["ja"] * 12
    _, judgement, baseline = describe_quality(report(lines, ["nein"] * 12, lines, [False] * 12))
    assert "chrF2 100.00 of 100" in judgement and "0.00" in baseline


def report_beside(
    *, sources: list[str] | None = None, base: list[str] | None = None
) -> QualityReport:
    """Return the report on HYPOTHESES beside copied sources, or beside the base model."""
    references = REFERENCES * TIMES

    def compare(others: list[str] | None) -> BeforeAndAfter | None:
        if others is None:
            return None
        return BeforeAndAfter.of(others * TIMES, HYPOTHESES * TIMES, references, None)

    report = QualityReport(
        score(HYPOTHESES * TIMES, references), copying=compare(sources), adaptation=compare(base)
    )
    written = json.dumps(dump_record(report))
    return load_record(QualityReport, json.loads(written), Path("manifest.json"))


@pytest.mark.parametrize("sources", [REFERENCES, HYPOTHESES], ids=["better", "as good"])
def test_a_model_no_better_than_copying_is_told_so_first(sources: list[str]) -> None:
    (verdict,) = describe_quality(report_beside(sources=sources))
    assert verdict.startswith("verdict: no better than copying the source, which gives chrF2 ")


def test_a_model_better_than_copying_names_both_scores() -> None:
    verdict, baseline = describe_quality(report_beside(sources=OTHERS))
    assert "copying" not in verdict
    copied, model = (
        corpus_chrf(lines * TIMES, REFERENCES * TIMES) for lines in (OTHERS, HYPOTHESES)
    )
    expected = f"copying the source gives chrF2 {copied:.2f}, the model {model:.2f}"
    assert baseline == f"baseline: {expected}"


def test_the_copied_source_is_scored_as_the_translations_are() -> None:
    copying = report_beside(sources=OTHERS).copying
    assert copying is not None
    assert copying.given.signature == copying.adapted.signature
    plain = get_signatures(None, REFERENCES)["chrf"].split("|")
    assert set(plain) <= set(copying.given.signature.split("|"))


@pytest.mark.parametrize("lines", [1, 9])
def test_too_few_lines_for_a_test_are_judged_by_the_scores(lines: int) -> None:
    references = (REFERENCES * TIMES)[:lines]
    copying = BeforeAndAfter.of(["x"] * lines, references, references, None)
    facts = QualityReport(score(references, references), copying=copying)
    assert "copying" not in next(iter(describe_quality(facts)))


def test_an_adapted_model_that_loses_on_the_test_set_is_told_so_first() -> None:
    verdict, *_ = describe_quality(report_beside(base=REFERENCES))
    assert verdict.startswith("verdict: worse than the base model on the test set (-")
    assert "the test set probably comes from another domain" in verdict
    verdict, *_ = describe_quality(report_beside(base=OTHERS))
    assert "base model" not in verdict
