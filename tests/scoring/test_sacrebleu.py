"""Laws of the metrics: they are sacreBLEU's, and Moses-tokenised BLEU follows its definition."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.ter import TER
from sacremoses import MosesPunctNormalizer, MosesTokenizer
from texts import HYPOTHESES, OTHERS, REFERENCES, SENTENCES, corpus_bleu, write

from mtkit.artifacts.records import dump_record, load_record
from mtkit.errors import UserError
from mtkit.scoring.metrics import (
    MAX_RESAMPLED,
    METRICS,
    MIN_RESAMPLED,
    MetricScores,
    ReferenceTexts,
    Score,
    compute_scores,
    resampling_obstacle,
    score,
)
from mtkit.scoring.writing import Writing

ENGLISH, GERMAN = Writing("en", "LATIN"), Writing("de", "LATIN")


def compute(
    key: str, hypotheses: list[str], references: ReferenceTexts, language: str | None = None
) -> Score:
    intervals = resampling_obstacle(len(hypotheses)) is None
    systems = {"": hypotheses}
    writing = Writing.of(language, references[0])
    return METRICS[key].compute(systems, references, writing, intervals=intervals)[""]


@pytest.mark.parametrize("references", [1, 2])
def test_scores_intervals_and_signatures_equal_sacrebleus(references: int, tmp_path: Path) -> None:
    texts = {"ref": REFERENCES * 5, "other": OTHERS * 5}
    paths = [write(tmp_path / name, lines) for name, lines in texts.items()][:references]
    hypothesis = write(tmp_path / "hyp", HYPOTHESES * 5)
    command = [sys.executable, "-m", "sacrebleu", *map(str, paths), "-i", str(hypothesis)]
    command += ["-m", "bleu", "chrf", "ter", "--format", "json", "-w", "4", "--confidence"]
    theirs = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    ours = score(HYPOTHESES * 5, [*texts.values()][:references], intervals=True)
    for key, expected in zip(("bleu", "chrf", "ter"), theirs, strict=True):
        assert ours[key].value == pytest.approx(expected["score"], abs=1e-3)
        assert ours[key].signature == expected["signature"]
        assert f"nrefs:{references}|" in ours[key].signature
        interval = ours[key].interval
        assert interval is not None
        low, high = interval
        assert (low + high) / 2 == pytest.approx(expected["confidence_mean"], abs=1e-3)
        assert (high - low) / 2 == pytest.approx(expected["confidence_var"], abs=1e-3)
    plain = score(HYPOTHESES * 5, [*texts.values()][:references])
    assert [it.value for it in plain.values()] == pytest.approx([it.value for it in ours.values()])
    assert all(it.interval is None for it in plain.values())


BLANKS = st.sampled_from(["", " ", "\u200b", "\t"])
"""Lines that are blank to the eye."""


@given(st.lists(st.sampled_from([0, 1, None]), min_size=4, max_size=4), BLANKS)
def test_a_blank_reference_counts_as_little_as_a_repeated_one(
    blank_in: list[int | None], blank: str
) -> None:
    """`blank_in`: for each line, which of two references is blank there."""
    references, repeated = [REFERENCES[:], OTHERS[:]], [REFERENCES[:], OTHERS[:]]
    for row, index in enumerate(blank_in):
        if index is not None:
            references[index][row] = blank
            repeated[index][row] = repeated[1 - index][row]
    hypotheses = ["Ein Hund.", *HYPOTHESES[1:]]  # BLEU would prefer the length of a blank line
    scores, expected = score(hypotheses, references), score(hypotheses, repeated)
    for key in expected:
        assert scores[key].value == pytest.approx(expected[key].value)
    has_blanks = any(index is not None for index in blank_in)
    has_both = None in blank_in
    count = "var" if has_blanks and has_both else "1" if has_blanks else "2"
    assert f"nrefs:{count}|" in scores["bleu"].signature


def test_scores_are_shown_as_a_table_and_in_one_line() -> None:
    for intervals in (False, True):
        scores = score(HYPOTHESES * 3, REFERENCES * 3, intervals=intervals)
        rows = str(scores).splitlines()
        assert len(rows) == len(scores) == 3
        for row, one in zip(rows, scores.values(), strict=True):
            assert row.startswith(one.name) and row.endswith(str(one))
        assert repr(scores).count("=") == 3 and "\n" not in repr(scores)
    assert str(MetricScores()) == ""


def test_a_line_whose_references_are_all_blank_counts() -> None:
    """As in sacreBLEU: whatever is written there is wrong."""
    blank = [*REFERENCES[:3], ""]
    wrong = [*HYPOTHESES[:3], "Warum denn?"]
    for references in ([blank], [blank, [*OTHERS[:3], " "]]):
        assert score(wrong, references)["ter"].value > score(HYPOTHESES, references)["ter"].value


def test_moses_bleu_lowercases_normalises_and_tokenises() -> None:
    tokenizer, normalizer = MosesTokenizer("de"), MosesPunctNormalizer("de")

    def prepare(lines: list[str]) -> list[str]:
        return [
            tokenizer.tokenize(normalizer.normalize(line.lower()), return_str=True, escape=False)
            for line in lines
        ]

    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    expected = metric.corpus_score(prepare(HYPOTHESES), [prepare(REFERENCES)]).score
    moses = score(HYPOTHESES, REFERENCES, language="de-AT")["bleu_lc_moses"]
    assert moses.value == pytest.approx(expected)
    assert moses.name == "BLEU (lower-cased, Moses-tokenised)"
    assert "|case:lc|" in moses.signature and "|tok:moses-de|" in moses.signature
    assert expected != pytest.approx(corpus_bleu(HYPOTHESES, REFERENCES), abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("language", [None, "zh", "ja", "de"])
def test_moses_bleu_needs_a_language_with_spaces(language: str | None) -> None:
    lines = ["我喜欢你。", "他来了。"] * 5
    assert set(score(lines, lines, language=language)) == {"bleu", "chrf", "ter"}
    assert "bleu_lc_moses" in score(lines, lines, language="ko")


@pytest.mark.parametrize(
    ("language", "package", "tokenizer"),
    [
        ("de", None, "13a"),
        ("zh-Hans", None, "zh"),
        ("ja", "MeCab", "ja-mecab"),
        ("ko", "mecab_ko", "ko-mecab"),
        ("th", None, "char"),
        (None, "mecab_ko", "ko-mecab"),
    ],
)
def test_bleu_tokenises_by_language(
    language: str | None, package: str | None, tokenizer: str
) -> None:
    text = ["ein Hund, zwei Hunde." if language == "de" else "나는 学校."]
    is_installed = package is None or find_spec(package)
    chosen = tokenizer if is_installed else "char"
    bleu = score(text, text, language=language)["bleu"]
    assert f"tok:{chosen}" in bleu.signature
    assert bleu.name == ("BLEU" if chosen == "13a" else f"BLEU ({chosen})")


@pytest.mark.parametrize("script", SENTENCES)
def test_equal_texts_of_every_script_score_the_best_or_are_not_scored(script: str) -> None:
    lines = [SENTENCES[script]] * 3
    scores = score(lines, lines)
    values = {key: it.value for key, it in scores.items()}
    best = {"bleu": 100.0, "chrf": 100.0, "ter": 0.0}
    assert values == pytest.approx({key: best[key] for key in values})
    assert values.keys() >= {"bleu", "chrf"}
    # Without spaces a wrong mark is one of many tokens, not of one.
    wrong = [f"{line[:-1]}!" for line in lines]
    assert score(wrong, lines)["bleu"].value > 70


@pytest.mark.parametrize("script", ["HAN", "KANA"])
def test_ter_of_text_without_spaces_counts_ideographs_as_sacrebleu(script: str) -> None:
    lines = [SENTENCES[script]] * 3
    wrong = [f"{line[:-1]}！" for line in lines]
    expected = TER(normalized=True, asian_support=True).corpus_score(wrong, [lines]).score
    ter = score(wrong, lines)["ter"]
    assert ter.value == expected < 20
    assert "asian:yes" in ter.signature


@pytest.mark.parametrize("line", ["Yes.", "Nein", "ja ja", "是。", "ใช่"])
def test_lines_too_short_for_bleu_are_not_scored_by_it(line: str) -> None:
    assert "bleu" not in score([line] * 3, [line] * 3)
    assert score([line] * 3, [line] * 3)["chrf"].value == 100


@given(st.floats(0, 100))
def test_a_score_is_rounded_once(value: float) -> None:
    stored = json.loads(json.dumps(dump_record(Score("BLEU", value, "", (0.0, value)))))
    score = load_record(Score, stored, Path("x"))
    assert (score.value, score.interval) == (value, (0.0, value))
    assert str(score).split()[0] == f"{value:.2f}"


@pytest.mark.parametrize("missing", ["MeCab", "ipadic"])
def test_bleu_counts_characters_without_all_packages_of_a_tokenizer(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mtkit.scoring.writing.find_spec", lambda name: name != missing)
    assert Writing.of("ja", []).tokenizer == "char"
    assert Writing.of("ko", []).tokenizer == "ko-mecab"


def test_long_lines_leave_out_the_slow_metrics() -> None:
    line, long = "a b c d", "x" * 10_001
    for hypotheses, references in (([line, long], [line, "b"]), ([line, "b"], [line, long])):
        assert set(score(hypotheses, references, language="de")) == {"bleu", "chrf"}
    assert "ter" in score(["", long[1:]], [line, "b"], language="de")
    long = "我" * 301
    assert set(score([long], [long])) == {"bleu", "chrf"}


@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [([], []), (["a"], []), (["a"], ["a", "b"]), (["a", "b"], [["a", "b"], ["a"]])],
)
def test_unequal_numbers_of_lines_are_refused(hypotheses: list[str], references: list[str]) -> None:
    with pytest.raises(UserError, match="hypotheses, but"):
        score(hypotheses, references)


@pytest.mark.parametrize(
    ("hypotheses", "key", "maximum"),
    [
        ([*REFERENCES * 4, "Wozu?"], "bleu", 100),
        (["x " * 40] * 17, "bleu", 100),
        (["x " * 40] * 17, "ter", 2000),  # there may be more edits than words
        ([""] * 17, "chrf", 100),
    ],
)
def test_an_interval_stays_on_the_scale_of_its_metric(
    hypotheses: list[str], key: str, maximum: int
) -> None:
    actual = compute(key, hypotheses, [[*REFERENCES * 4, REFERENCES[0]]])
    assert actual.interval is not None
    low, high = actual.interval
    assert 0 <= low <= high <= maximum
    assert low <= actual.value + 1e-9 and actual.value - 1e-9 <= high
    assert key != "ter" or high > 100 or not hypotheses[0].startswith("x")


@pytest.mark.slow
def test_p_values_equal_sacrebleus(tmp_path: Path) -> None:
    generator = random.Random(1)
    pairs = zip(HYPOTHESES * 5, REFERENCES * 5, strict=True)
    systems = {"base": HYPOTHESES * 5, "other": [generator.choice(pair) for pair in pairs]}
    references = [REFERENCES * 5, OTHERS * 5]
    paths = [write(tmp_path / str(i), lines) for i, lines in enumerate(references)]
    named = [write(tmp_path / name, lines) for name, lines in systems.items()]
    command = [sys.executable, "-m", "sacrebleu", *map(str, paths), "-i", *map(str, named)]
    command += ["-m", "bleu", "--format", "json", "--paired-ar"]
    theirs = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    base, other = compute_scores(systems, references, ENGLISH, test=True).values()
    assert base["bleu"].p_value is None
    assert other["bleu"].p_value == pytest.approx(theirs[1]["BLEU"]["p_value"], abs=1e-4)


@pytest.mark.slow
def test_equal_systems_do_not_differ() -> None:
    systems = {"a": HYPOTHESES * 5, "same": HYPOTHESES * 5, "right": REFERENCES * 5}
    metric = METRICS["bleu_lc_moses"]
    scores = metric.compute(systems, [REFERENCES * 5], GERMAN, intervals=True, test=True)
    assert [scores[name].p_value for name in ("a", "same")] == [None, 1.0]
    assert (scores["right"].p_value or 0) < 0.05
    assert scores["a"].interval == scores["same"].interval
    alone = metric.compute({"a": HYPOTHESES * 5}, [REFERENCES * 5], GERMAN, intervals=True)
    assert scores["a"].interval == pytest.approx(alone["a"].interval)


def test_a_significance_test_needs_two_systems_and_enough_lines() -> None:
    with pytest.raises(UserError, match="at least two systems"):
        compute_scores({"a": ["x"]}, [["x"]], ENGLISH, test=True)
    for count in (MIN_RESAMPLED - 1, MAX_RESAMPLED + 1):
        lines = ["x"] * count
        with pytest.raises(UserError, match=f"not {count:,}"):
            compute_scores({"a": lines, "b": lines}, [lines], ENGLISH, test=True)
