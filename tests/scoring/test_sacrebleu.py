"""Laws of the metrics: they are sacreBLEU's, and Moses-tokenised BLEU follows its definition."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacremoses import MosesPunctNormalizer, MosesTokenizer
from texts import HYPOTHESES, OTHERS, REFERENCES, write

from mtkit.errors import UserError
from mtkit.scoring.metrics import (
    MAX_RESAMPLED,
    METRICS,
    MIN_RESAMPLED,
    ReferenceTexts,
    Score,
    SignificanceTest,
    bleu_tokenizer,
    compute_scores,
    corpus_bleu,
    resampling_obstacle,
    score,
)


def compute(
    key: str, hypotheses: list[str], references: ReferenceTexts, language: str | None = None
) -> Score:
    intervals = resampling_obstacle(len(hypotheses)) is None
    systems = {"": hypotheses}
    return METRICS[key].compute(systems, references, language, intervals=intervals)[""]


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
@pytest.mark.parametrize("language", [None, "zh", "ja", "th-TH"])
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
    ],
)
def test_bleu_tokenises_by_language(language: str, package: str | None, tokenizer: str) -> None:
    is_installed = package is None or find_spec(package)
    bleu = score(["나는 学校."], ["나는 学校."], language=language)["bleu"]
    assert f"tok:{tokenizer if is_installed else 'char'}" in bleu.signature


@pytest.mark.parametrize("missing", ["MeCab", "ipadic"])
def test_bleu_counts_characters_without_all_packages_of_a_tokenizer(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mtkit.scoring.metrics.find_spec", lambda name: name != missing)
    assert bleu_tokenizer("ja") == "char"
    assert bleu_tokenizer("ko") == "ko-mecab"


def test_long_lines_leave_out_the_slow_metrics() -> None:
    long = "x" * 10_001
    for hypotheses, references in ((["a", long], ["a", "b"]), (["a", "b"], ["a", long])):
        assert set(score(hypotheses, references, language="de")) == {"bleu", "chrf"}
    assert "ter" in score(["", long[1:]], ["a", "b"], language="de")


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
@pytest.mark.parametrize("test", ["bootstrap", "approximate"])
def test_p_values_equal_sacrebleus(test: SignificanceTest, tmp_path: Path) -> None:
    generator = random.Random(1)
    pairs = zip(HYPOTHESES * 5, REFERENCES * 5, strict=True)
    systems = {"base": HYPOTHESES * 5, "other": [generator.choice(pair) for pair in pairs]}
    references = [REFERENCES * 5, OTHERS * 5]
    paths = [write(tmp_path / str(i), lines) for i, lines in enumerate(references)]
    named = [write(tmp_path / name, lines) for name, lines in systems.items()]
    command = [sys.executable, "-m", "sacrebleu", *map(str, paths), "-i", *map(str, named)]
    option = {"bootstrap": "--paired-bs", "approximate": "--paired-ar"}[test]
    command += ["-m", "bleu", "--format", "json", option]
    theirs = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    base, other = compute_scores(systems, references, None, test=test).values()
    assert base["bleu"].p_value is None
    assert other["bleu"].p_value == pytest.approx(theirs[1]["BLEU"]["p_value"], abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("test", ["bootstrap", "approximate"])
def test_equal_systems_do_not_differ(test: SignificanceTest) -> None:
    systems = {"a": HYPOTHESES * 5, "same": HYPOTHESES * 5, "right": REFERENCES * 5}
    metric = METRICS["bleu_lc_moses"]
    scores = metric.compute(systems, [REFERENCES * 5], "de", intervals=True, test=test)
    assert [scores[name].p_value for name in ("a", "same")] == [None, 1.0]
    assert (scores["right"].p_value or 0) < 0.05
    assert scores["a"].interval == scores["same"].interval
    alone = metric.compute({"a": HYPOTHESES * 5}, [REFERENCES * 5], "de", intervals=True)
    assert scores["a"].interval == pytest.approx(alone["a"].interval)


def test_a_significance_test_needs_two_systems_and_enough_lines() -> None:
    with pytest.raises(UserError, match="at least two systems"):
        compute_scores({"a": ["x"]}, [["x"]], None, test="bootstrap")
    for count in (MIN_RESAMPLED - 1, MAX_RESAMPLED + 1):
        lines = ["x"] * count
        with pytest.raises(UserError, match=f"not {count:,}"):
            compute_scores({"a": lines, "b": lines}, [lines], None, test="bootstrap")
