"""Laws of scores of several languages in one model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from texts import HYPOTHESES, REFERENCES

from mtkit.artifacts.records import dump_record, load_record
from mtkit.corpus.read import Pair
from mtkit.scoring.memory import translate_by_memory, translate_each_by_memory
from mtkit.scoring.metrics import score
from mtkit.scoring.quality import QualityReport, score_tags
from mtkit.scoring.verdict import tabulate_quality


def pairs_of(targets: list[str], tags: list[str | None]) -> list[Pair]:
    return [
        Pair(f"source {row}", target, 0, "file", row, target_tag=tag)
        for row, (target, tag) in enumerate(zip(targets, tags, strict=True), 1)
    ]


def test_each_tag_is_scored_as_a_corpus_of_its_own() -> None:
    tags: list[str | None] = [("b", "a")[row % 2] for row in range(len(REFERENCES))]
    scores = score_tags(pairs_of(REFERENCES, tags), HYPOTHESES, None)
    assert list(scores) == ["a", "b"]
    for start, tag in ((1, "a"), (0, "b")):
        expected = score(HYPOTHESES[start::2], REFERENCES[start::2])
        assert scores[tag].lines == len(REFERENCES[start::2])
        for key, value in scores[tag].scores.items():
            assert value.value == pytest.approx(expected[key].value)
    report = QualityReport(score(HYPOTHESES, REFERENCES), tags=scores)
    again = load_record(QualityReport, json.loads(json.dumps(dump_record(report))), Path("x"))
    assert again.tags == scores
    rows = [line.split() for line in tabulate_quality(again)]
    assert ["target", "tag", "lines"] in [row[:3] for row in rows]
    assert {"a", "b"} <= {row[0] for row in rows if row}


def test_lines_without_tags_have_no_scores_by_tag() -> None:
    untagged: list[str | None] = [None] * len(REFERENCES)
    assert score_tags(pairs_of(REFERENCES, untagged), HYPOTHESES, None) == {}


def test_a_tag_that_names_a_language_chooses_how_words_are_divided() -> None:
    lines = ["猫はとても可愛いです。", "犬が走っています。"] * 5
    tags: list[str | None] = ["ja"] * len(lines)
    scores = score_tags(pairs_of(lines, tags), lines, None)["ja"].scores
    assert scores["chrf"].value == pytest.approx(100)
    assert "tok:13a" not in str(scores["bleu"].signature)


def test_the_memory_copies_targets_of_the_same_tag() -> None:
    training = [
        Pair("a red dog", "ein roter Hund", 0, "file", 1, target_tag="de"),
        Pair("a red dog", "un chien rouge", 1, "file", 1, target_tag="fr"),
        Pair("two cats", "zwei Katzen", 0, "file", 2, target_tag="de"),
    ]
    tests = [training[row]._replace(target="") for row in (1, 0, 2)]
    memory = translate_each_by_memory(tests, training)
    assert memory == ["un chien rouge", "ein roter Hund", "zwei Katzen"]
    unknown = [tests[0]._replace(target_tag="es"), tests[1]]
    assert translate_each_by_memory(unknown, training) == ["", "ein roter Hund"]
    untagged = [pair._replace(target_tag=None) for pair in training]
    sources = [pair.source for pair in untagged]
    assert translate_each_by_memory(untagged, untagged) == translate_by_memory(sources, untagged)
