"""`mtkit check`: findings about whole corpora, and their agreement with what `batch` drops."""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commands import call
from mtkit.batching.build import build_batches
from mtkit.config.corpora import TextCorpus
from mtkit.config.settings import DROP_RULES, BatchingSettings, Config
from mtkit.corpus.check import CorpusReport
from mtkit.corpus.findings import check_languages
from mtkit.corpus.read import MAX_EXCERPT, read_pairs
from mtkit.corpus.rules import held_out_keys
from mtkit.corpus.statistics import CorpusStatistics, SideStatistics
from mtkit.corpus.summary import show_reports
from mtkit.tokenizer.train_spm import train_tokenizer
from nasties import INVALID, VALID
from parallel import FAULTS, LINES, Lines, check_corpus, write_corpus


def failures(report: CorpusReport) -> set[str]:
    return {finding.name for finding in report.failed}


def counts(report: CorpusReport) -> list[tuple[str, int]]:
    return [(finding.name, finding.count) for finding in report.findings]


@pytest.fixture(scope="module")
def mixed() -> Lines:
    lines = [*LINES[:600], *FAULTS]
    random.Random(1).shuffle(lines)
    return lines


@pytest.mark.slow
def test_a_clean_corpus_passes(tmp_path: Path) -> None:
    report = check_corpus(write_corpus(tmp_path, LINES))
    assert {it.name for it in report.findings if it.status != "passed"} == set()
    (statistics,) = report.statistics
    source, target = statistics.source, statistics.target
    assert (source.language, target.language) == ("en", "ko")
    assert source.scripts | target.scripts == {"LATIN", "HANGUL"}
    assert (report.drop, report.frequent) == ([], [])
    assert report.distinct_pairs == report.pairs == len(LINES)


def test_counts_do_not_depend_on_the_order_of_pairs(tmp_path: Path, mixed: Lines) -> None:
    report = check_corpus(write_corpus(tmp_path, mixed))
    again = check_corpus(write_corpus(tmp_path, sorted(mixed)))
    assert counts(report) == counts(again)
    assert report.statistics == again.statistics


@pytest.fixture(scope="module")
def tokenized(tmp_path_factory: pytest.TempPathFactory, mixed: Lines) -> Config:
    folder = tmp_path_factory.mktemp("batches")
    train, valid = write_corpus(folder, mixed), write_corpus(folder, LINES[:3], "valid")
    config = Config.model_validate(
        {
            "run": str(folder / "run"),
            "data": {"train": train.model_dump(), "valid": valid.model_dump()},
            "tokenizer": {"vocab_size": 800},
            "training": {"steps": 1},
        }
    )
    train_tokenizer(config)
    return config


@pytest.mark.slow
@pytest.mark.parametrize("setting", [*({"drop": [it]} for it in DROP_RULES), {"deduplicate": True}])
def test_batch_drops_what_check_counts(
    tokenized: Config, mixed: Lines, setting: dict[str, Any]
) -> None:
    batching = BatchingSettings.model_validate(setting)
    dropped = build_batches(tokenized.model_copy(update={"batching": batching})).report["train"]
    held_out = held_out_keys(read_pairs(tokenized.data.valid))
    report = check_corpus(tokenized.data.train, held_out=held_out)
    reason = batching.drop[0] if batching.drop else "duplicate"
    count = (report.repeated if batching.deduplicate else report.rules[reason]).count
    assert dropped["dropped"].get(reason, 0) == count
    assert dropped["dropped"].get("blank", 0) == report.blank.count == 1
    assert dropped["kept"] == len(mixed) - count - 1
    assert count > 0 or reason in ("glued", "letters", "repetition")


@pytest.mark.slow
def test_faults_are_counted_in_a_sample_but_leaks_in_all_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    german = "Das ist ein sehr langer deutscher Satz, und er hat die Nummer {}."
    lines = [(s, t if row % 20 else german.format(row)) for row, (s, t) in enumerate(LINES)]
    corpus = write_corpus(tmp_path, lines)
    every = check_corpus(corpus)
    assert every.rules["language"].count == len(LINES) // 20
    monkeypatch.setattr("mtkit.corpus.check.IDENTIFIED_PAIRS", 800)
    monkeypatch.setattr("mtkit.corpus.statistics.SAMPLE_SIZE", 1000)
    assert call("check", str(corpus.source), str(corpus.target)) == 0
    assert "2,500 pairs; rules are applied to 1,000 of them" in capsys.readouterr().out
    some = check_corpus(corpus)
    assert (some.rules["language"].checked, some.rules["uneven"].checked) == (800, 1000)
    held_out = held_out_keys(read_pairs(write_corpus(tmp_path, LINES[:2], "valid")))
    leaks = check_corpus(corpus, held_out=held_out).rules["overlap"]
    assert (leaks.count, leaks.checked) == (2, 2500)
    assert some.rules["language"].count / 800 == pytest.approx(1 / 20, rel=0.3)


def test_examples_name_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = write_corpus(tmp_path, [*LINES[:300], FAULTS[3], *LINES[300:400]])
    report = check_corpus(corpus)
    assert report.drop == ["markup"]
    assert call("check", str(corpus.source), str(corpus.target), "--json") == 0
    findings = json.loads(capsys.readouterr().out)["train"]["findings"]
    (finding,) = (it for it in findings if it["name"] == "markup")
    assert finding["setting"] == "batching.drop: [markup]"
    (example,) = finding["examples"]
    assert (example["where"], example["source"]) == (f"{corpus.source}:301", FAULTS[3][0])


@pytest.mark.slow
def test_both_sides_in_one_language_fail_unless_declared(tmp_path: Path) -> None:
    """As for another spelling or plainer words; the same text on both sides always fails."""
    corpus = write_corpus(tmp_path, [(line, f"And so: {line}") for line, _ in LINES])
    for languages, expected in {
        (None, None): {"languages"},
        ("en-GB", None): {"languages"},
        ("en-GB", "en_US"): set(),
        ("en", "bm"): set(),
        ("en", "ko"): {"languages"},
    }.items():
        assert failures(check_corpus(corpus, languages)) == expected
    assert failures(check_corpus(write_corpus(tmp_path, LINES), ("ko", "en"))) == {"languages"}
    half = [(line, line if row % 2 else f"And so: {line}") for row, (line, _) in enumerate(LINES)]
    assert failures(check_corpus(write_corpus(tmp_path, half), ("en-US", "en-GB"))) == set()
    same = write_corpus(tmp_path, [(line, line) for line, _ in LINES])
    assert {"languages", "copied"} == failures(check_corpus(same))
    assert "languages" in failures(check_corpus(same, ("en", "en")))


@pytest.mark.slow
def test_lines_of_an_unsupported_language_are_not_foreign(tmp_path: Path) -> None:
    """py3langid takes them for a relative, or for another language."""
    lines = [(t, s) if row % 5 == 0 else (s, t) for row, (s, t) in enumerate(LINES)]
    corpus = write_corpus(tmp_path, lines)
    many = check_corpus(corpus, ("en", "ko"))
    assert many.rules["language"].count > 400
    assert "language" in many.drop and many.rules["language"] in many.frequent
    assert check_corpus(corpus, ("fur", "ast")).rules["language"].count == 0
    half = check_corpus(corpus, ("en", "ast"))
    assert half.rules["language"].count > 200
    assert "language" not in half.drop, "batch does not know what is declared"


ENGLISH, CROATIAN = {"en": 99}, {"hr": 570, "bs": 240, "sl": 190}


@pytest.mark.parametrize(
    ("votes", "declared", "expected"),
    [
        ((ENGLISH, {"de": 990, "nl": 10}), "de", "passed"),
        ((ENGLISH, {"en": 990, "nl": 10}), "fr", "failed"),  # the other side's
        ((ENGLISH, {"de": 990, "nl": 10}), "fr", "warned"),
        ((ENGLISH, {"hr": 1000}), "sr-Latn", "warned"),
        ((ENGLISH, {"ko": 1000}), "chr", "passed"),  # Cherokee, which py3langid does not know
        ((ENGLISH, {"no": 550, "da": 450}), "da", "passed"),  # close relatives
        ((ENGLISH, {"de": 600, "fr": 380, "da": 20}), "da", "warned"),  # a mixture without it
        ((ENGLISH, {"nso": 750, "st": 250}), "tn", "passed"),  # Setswana
        ((ENGLISH, {"en": 990, "nso": 10}), "tn", "warned"),
        ((ENGLISH, {"de": 5}), "fr", "passed"),  # too few
        ((ENGLISH, {"de": 990, "nl": 10}), None, "passed"),
        ((ENGLISH, {"fuv": 800, "so": 200}), None, "warned"),  # Wolof
        ((ENGLISH, {"nso": 750, "st": 250}), None, "warned"),
        ((ENGLISH, {"de": 5}), None, "warned"),
        ((CROATIAN, {"hr": 430, "bs": 380, "sr": 190}), None, "warned"),  # perhaps not one language
        ((CROATIAN, {"hr": 510, "bs": 490}), None, "warned"),
        (({"hr": 690, "bs": 310}, {"hr": 710, "bs": 200, "sl": 90}), None, "failed"),
    ],
)
def test_languages_that_are_uncertain_or_contradict_the_declared_one_are_told(
    votes: tuple[dict[str, int], dict[str, int]], declared: str | None, expected: str
) -> None:
    """`votes`: how many lines of each side are in each language; `declared`: of the target."""
    sides = [SideStatistics(frozenset(), Counter(of_side)) for of_side in votes]
    target = replace(sides[1], declared=declared)
    statistics = CorpusStatistics(sides[0], target, ratio=1.0, spread=1.0)
    codes = "en" if votes[0] == ENGLISH else None, declared
    assert check_languages(statistics, codes).status == expected


@pytest.mark.parametrize(
    ("is_tagged", "advice"),
    [
        (False, "declare both, such as --languages en ko"),
        (True, "of the target language as its tag"),
    ],
)
def test_the_advice_on_languages_can_be_followed_for_a_corpus_with_and_without_a_tag(
    is_tagged: bool, advice: str
) -> None:
    english = SideStatistics(frozenset(), Counter(ENGLISH))
    statistics = CorpusStatistics(english, english, ratio=1.0, spread=1.0)
    note = check_languages(statistics, (None, None), is_tagged=is_tagged).note
    assert note.endswith(advice)
    assert ("--languages" in note) != is_tagged


@pytest.mark.parametrize(
    "cut",
    [
        lambda line: re.sub(r"(\w{2})(\w{2,})", r"\1@@ \2", line),
        lambda line: "▁" + line.replace(" ", " ▁"),
        lambda line: re.sub(r"(\w)([.,])", r"\1 \2", line),
    ],
)
@pytest.mark.parametrize("side", ["source", "target"])
def test_text_that_is_already_split_is_warned_of(
    tmp_path: Path, cut: Callable[[str], str], side: str
) -> None:
    lines = [(cut(s), t) if side == "source" else (s, cut(t)) for s, t in LINES[:300]]
    report = check_corpus(write_corpus(tmp_path, lines))
    assert report.already_split.status == "warned"
    assert report.already_split in report.frequent
    few = check_corpus(write_corpus(tmp_path, [*lines[:5], *LINES[:300]]))
    assert few.already_split.status == "passed"


def test_examples_show_the_place_of_the_fault(tmp_path: Path) -> None:
    long = "The dog runs over the green field to the old house of the farmer, and then it "
    lines = [(f"{long} {source} , so .", target) for source, target in LINES[:300]]
    report = check_corpus(write_corpus(tmp_path, lines))
    examples = report.already_split.examples
    assert all(" ," in example["source"] for example in examples)
    assert max(len(example["source"]) for example in examples) <= MAX_EXCERPT


def test_markup_never_fails(tmp_path: Path) -> None:
    tagged = [(f"<p>{source}", target) for source, target in LINES[:500]]
    assert failures(check_corpus(write_corpus(tmp_path, tagged))) == set()


def test_markup_of_both_sides_is_neither_accused_nor_dropped(tmp_path: Path) -> None:
    tagged = [
        (f"<b>{source}</b> &amp;", f"&amp; <b>{target}</b>") for source, target in LINES[:500]
    ]
    report = check_corpus(write_corpus(tmp_path, tagged))
    assert "markup" not in report.drop
    assert report.rules["markup"].count == 0
    faulty = check_corpus(write_corpus(tmp_path, [*tagged, ("Two <i>men</i>.", "남자 둘.")]))
    assert "markup" in faulty.drop
    assert faulty.rules["markup"].count == 1


@pytest.mark.slow
def test_small_corpora_warn_or_fail_by_their_distinct_pairs(tmp_path: Path) -> None:
    assert failures(check_corpus(write_corpus(tmp_path, LINES * 3))) == set()
    assert failures(check_corpus(write_corpus(tmp_path, LINES[:99] * 30))) == {"few pairs"}
    words = [(f"word{number}", f"낱말{number}") for number in range(150)]
    assert check_corpus(write_corpus(tmp_path, words)).size.status == "warned"
    five = check_corpus(write_corpus(tmp_path, LINES[:5]))
    assert (failures(five), five.statistics[0].source.language) == ({"few pairs"}, None)
    held_out = check_corpus(write_corpus(tmp_path, LINES[:50]), is_training=False)
    assert held_out.size.status == "warned"


def test_corpora_of_blank_or_binary_lines_fail(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path, [*LINES[:100], *[("", " "), ("", "")] * 75])
    assert failures(check_corpus(corpus)) == {"blank"}
    assert "blank" in failures(check_corpus(write_corpus(tmp_path, [("", "")] * 200)))
    noise = random.Random(5).randbytes(200_000)
    for path in (corpus.source, corpus.target):
        Path(str(path)).write_bytes(noise)
    assert "invalid text" in failures(check_corpus(corpus))


@pytest.mark.slow
def test_no_line_crashes_a_check_or_takes_long(tmp_path: Path) -> None:
    endless = ["a" * 500_000, "@" + "a." * 250_000, "<a " * 100_000, " > " * 100_000]
    endless += ["1,000" * 100_000, "{" * 200_000, "中" * 200_000, "( " * 200_000, "1" * 500_000]
    lines = [*(text.encode() for text in [*VALID.values(), *endless]), *INVALID.values()]
    for name, rows in (("a", lines), ("b", lines[::-1])):
        (tmp_path / name).write_bytes(b"\n".join(row.replace(b"\n", b"") for row in rows) + b"\n")
    started = time.process_time()
    report = check_corpus(TextCorpus(source=str(tmp_path / "a"), target=str(tmp_path / "b")))
    assert report.pairs == len(lines)
    assert time.process_time() - started < 60  # a pattern that backtracks takes hours


def test_the_command_checks_all_corpora_of_a_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, valid = write_corpus(tmp_path, LINES), write_corpus(tmp_path, LINES[:150], "valid")
    config = tmp_path / "mtkit.yaml"
    config.write_text(
        f"run: {tmp_path}/run\n"
        f"data:\n  train: {json.dumps(train.model_dump())}\n"
        f"  valid: {json.dumps(valid.model_dump())}\n"
        "training: {steps: 1}\n"
    )
    assert call("check", "-c", str(config), "--json") == 0
    reports = json.loads(capsys.readouterr().out)
    assert {name: one["pairs"] for name, one in reports.items()} == {"train": 2500, "valid": 150}
    rows = {row["name"]: row for row in reports["train"]["findings"]}
    assert (rows["overlap"]["count"], rows["overlap"]["status"]) == (150, "warned")
    assert "overlap" not in reports["train"]["drop"]  # 6 % should be looked at first
    assert not any(row["setting"] for row in reports["valid"]["findings"])


def test_the_report_fits_a_terminal_and_failure_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = write_corpus(tmp_path, [*LINES[:1000], *FAULTS])
    assert call("check", str(corpus.source), str(corpus.target), "--languages", "en", "ko") == 0
    output = capsys.readouterr().out
    assert max(len(line) for line in output.splitlines() if "/" not in line) <= 80
    assert "train.en:1004" in output
    assert "drop: [uneven" in output
    show_reports({"train": check_corpus(corpus)}, BatchingSettings(drop=["markup"]))
    assert re.search(r"drop: \[markup, uneven(?!.*markup)", capsys.readouterr().out)
    show_reports({"train": check_corpus(corpus)}, BatchingSettings(deduplicate=True))
    assert "  batching:\n    deduplicate: true\n    drop: [" in capsys.readouterr().out
    assert call("check", str(corpus.target), str(corpus.source), "--languages", "en", "jp") == 2
    assert call("check", str(corpus.target), str(corpus.source), "--languages", "en", "ko") == 2
    assert "languages" in capsys.readouterr().err
