"""Scores against sacreBLEU's own command line, and against the formula of Moses-tokenised BLEU."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from commands import Stdin
from mtkit.errors import MtkitError, UserError
from mtkit.scoring import metrics
from mtkit.scoring.comet import MODEL
from mtkit.scoring.metrics import (
    FEWEST_LINES,
    METRICS,
    MOST_LINES,
    SACREBLEU_NAMES,
    Test,
    bleu_tokenizer,
    can_resample,
    corpus_bleu,
    corpus_chrf,
    p_values,
)
from mtkit.scoring.score import Extras, score
from mtkit.scoring.sentences import EDGES, buckets_of, worst_sentences

REFERENCES = [
    "Ein Hund rennt über die Wiese.",
    "Zwei Männer, „stark“ wie Bären, heben z. B. ein Boot.",
    "Am 3. Mai regnete es.",
    "Warum?",
]
OTHERS = [
    "Ein hund läuft über das Gras.",
    "Zwei bärenstarke Männer heben ein Boot.",
    "Am 3. Mai hat es geregnet.",
    "Weshalb?",
]
"""What somebody else translated."""
HYPOTHESES = [
    "Ein hund läuft über die Wiese.",
    'Zwei Männer, "stark" wie Bären, tragen ein Boot.',
    "Am 3. Mai regnete es sehr.",
    "",
]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write(tmp_path / "ref", REFERENCES), write(tmp_path / "hyp", HYPOTHESES)


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


@pytest.mark.parametrize("translators", [1, 2])
def test_scores_intervals_and_signatures_are_those_of_sacrebleu(
    translators: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {"ref": REFERENCES * 5, "other": OTHERS * 5}
    references = [write(tmp_path / name, lines) for name, lines in texts.items()][:translators]
    hypothesis = write(tmp_path / "hyp", HYPOTHESES * 5)
    command = [sys.executable, "-m", "sacrebleu", *map(str, references), "-i", str(hypothesis)]
    command += ["-m", "bleu", "chrf", "ter", "--format", "json", "-w", "4", "--confidence"]
    theirs = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    score(references, [hypothesis], as_json=True)
    (ours,) = json.loads(capsys.readouterr().out)
    assert f"nrefs:{translators}|" in ours["bleu"]["signature"]
    for key, wanted in zip(("bleu", "chrf", "ter"), theirs, strict=True):
        assert ours[key]["score"] == pytest.approx(wanted["score"], abs=1e-3)
        assert ours[key]["signature"] == wanted["signature"]
        low, high = ours[key]["interval"]
        assert low < ours[key]["score"] < high
        assert (low + high) / 2 == pytest.approx(wanted["confidence_mean"], abs=1e-3)
        assert (high - low) / 2 == pytest.approx(wanted["confidence_var"], abs=1e-3)
    if translators == 1:
        assert corpus_bleu(HYPOTHESES, REFERENCES) == pytest.approx(theirs[0]["score"], abs=1e-3)
        assert corpus_chrf(HYPOTHESES, REFERENCES) == pytest.approx(theirs[1]["score"], abs=1e-3)


def test_moses_bleu_lower_cases_normalises_and_tokenises_by_the_language() -> None:
    tokenizer, normalizer = MosesTokenizer("de"), MosesPunctNormalizer("de")

    def prepare(lines: list[str]) -> list[str]:
        return [
            tokenizer.tokenize(normalizer.normalize(line.lower()), return_str=True, escape=False)
            for line in lines
        ]

    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    wanted = metric.corpus_score(prepare(HYPOTHESES), [prepare(REFERENCES)]).score
    found = METRICS["bleu_lc_moses"].compute(HYPOTHESES, [REFERENCES], "de-AT")
    assert found.value == pytest.approx(wanted)
    assert found.name == "BLEU (lower-cased, Moses-tokenised)"
    assert "tok:moses-de" in found.signature
    assert wanted != pytest.approx(corpus_bleu(HYPOTHESES, REFERENCES), abs=0.1)


def test_the_moses_row_appears_where_the_language_is_known(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    reference, hypothesis = files
    score([reference], [hypothesis])
    assert "Moses" not in capsys.readouterr().out
    score([reference], [hypothesis], language="de")
    assert "Moses" in capsys.readouterr().out


@pytest.mark.parametrize("language", ["zh", "ja", "th-TH"])
def test_words_are_not_counted_where_no_spaces_part_them(language: str) -> None:
    lines = ["我喜欢你。", "他来了。"] * 5
    assert set(metrics.evaluate(lines, [lines], language)) == {"bleu", "chrf", "ter"}
    assert "bleu_lc_moses" in metrics.evaluate(lines, [lines], "ko")


@pytest.mark.parametrize(
    ("language", "package", "words"),
    [
        ("zh-Hans", None, "zh"),
        ("ja", "MeCab", "ja-mecab"),
        ("ko", "mecab_ko", "ko-mecab"),
        ("th", None, "char"),
    ],
)
def test_bleu_suits_the_language(language: str, package: str | None, words: str) -> None:
    found = METRICS["bleu"].compute(["나는 学校."], [["나는 学校."]], language)
    is_there = package is None or find_spec(package)
    assert f"tok:{words if is_there else 'char'}" in found.signature


def test_bleu_of_characters_is_never_silent(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    reference, hypothesis = files
    score([reference], [hypothesis], language="ko")
    out, err = capsys.readouterr()
    assert ("tok:char" in out) == ("sacrebleu[ko]" in err)
    assert ("tok:char" in out) == (find_spec("mecab_ko") is None)


def test_systems_stand_side_by_side_and_stdin_is_one(
    files: tuple[Path, Path], stdin: Stdin, capsys: pytest.CaptureFixture[str]
) -> None:
    reference, hypothesis = files
    score([reference], [hypothesis, reference])
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == [str(hypothesis), str(reference)]
    row = next(line.split() for line in table if line.startswith("BLEU"))
    values = [float(value) for value in row[1:]]
    assert values == pytest.approx([corpus_bleu(HYPOTHESES, REFERENCES), 100.0], abs=0.005)
    stdin(hypothesis.read_text(encoding="utf-8"))
    score([reference], as_json=True)
    (system,) = json.loads(capsys.readouterr().out)
    assert system["hypotheses"] == "stdin"
    assert system["bleu"]["score"] == pytest.approx(values[0], abs=0.005)


def test_only_line_feeds_end_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference, hypothesis = tmp_path / "ref", tmp_path / "hyp"
    reference.write_bytes("\ufeffa b c d\u2028e\x85f\r\ng h i j".encode())
    hypothesis.write_bytes("a b c d\u2028e\x85f\ng h i j\n".encode())
    score([reference], [hypothesis], as_json=True)
    (system,) = json.loads(capsys.readouterr().out)
    assert system["lines"] == 2
    assert system["bleu"]["score"] == pytest.approx(100.0)


def test_gzipped_files_are_scored_as_their_text_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {"ref": REFERENCES, "other": OTHERS, "hyp": HYPOTHESES, "src": HYPOTHESES}
    found = []
    for pack in (bytes, gzip.compress):
        reference, other, hypothesis, source = (tmp_path / name for name in texts)
        for name, lines in texts.items():
            (tmp_path / name).write_bytes(pack("".join(f"{line}\n" for line in lines).encode()))
        score([reference, other], [hypothesis], source=source, extras=Extras(worst=4), as_json=True)
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]
    whole = hypothesis.read_bytes()
    for content in (whole[:-9], whole[:20], whole + b"more"):
        hypothesis.write_bytes(content)
        with pytest.raises(UserError, match=r"^.*hyp:\d+: gzip damaged .*: get it anew$"):
            score([reference], [hypothesis])
    (tmp_path / "plain.gz").write_bytes(b"text\n")
    with pytest.raises(UserError, match=r"plain\.gz:1: gzip damaged .*Not a gzip"):
        score([tmp_path / "plain.gz"], [reference])


def test_unequal_numbers_of_lines_are_refused_with_both(tmp_path: Path) -> None:
    reference = write(tmp_path / "ref", REFERENCES)
    hypothesis = write(tmp_path / "hyp", HYPOTHESES[:3])
    with pytest.raises(UserError, match=r"hyp: 3 lines, but .*ref has 4"):
        score([reference], [hypothesis])
    with pytest.raises(UserError, match=r"hyp: 3 lines, but .*ref has 4"):
        score([reference, hypothesis], [reference])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(None, "cannot be read"), (b"", "empty"), (b"a\n\xff\n", ":2: not UTF-8")],
)
def test_files_that_cannot_be_scored_are_named(
    content: bytes | None, complaint: str, tmp_path: Path
) -> None:
    reference, hypothesis = write(tmp_path / "ref", ["a", "b"]), tmp_path / "hyp"
    if content is not None:
        hypothesis.write_bytes(content)
    for pair in ((reference, hypothesis), (hypothesis, reference)):
        with pytest.raises(UserError, match=f"hyp.*{complaint}"):
            score([pair[0]], [pair[1]])


def test_metrics_for_sentences_are_left_out_where_a_line_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = write(tmp_path / "ref", ["Why?", "It rains."])
    long = write(tmp_path / "long", ["Why?", "x" * 10_001])
    score([reference], [long, reference], language="de")
    out, err = capsys.readouterr()
    assert err.count("\n") == 1 and "long:2: 10,001 characters, over 10,000" in err
    rows = {line[:12].strip(): line.split()[-2:] for line in out.splitlines() if "  " in line}
    assert rows["TER"] == ["-", "0.00"]
    assert "-" not in rows["BLEU"]
    score([reference], [write(tmp_path / "fits", ["", "x" * 10_000])], language="de", as_json=True)
    (system,) = json.loads(capsys.readouterr().out)
    assert {"bleu", "chrf", "ter", "bleu_lc_moses"} < system.keys()
    score([long], [reference], language="de", as_json=True)
    (system,) = json.loads(capsys.readouterr().out)
    assert {"bleu", "chrf"} < system.keys() and not {"ter", "bleu_lc_moses"} & system.keys()


def test_a_closed_stdin_is_told(tmp_path: Path, stdin: Stdin) -> None:
    stdin(None)
    with pytest.raises(UserError, match="stdin: closed"):
        score([write(tmp_path / "ref", ["a"])])


def test_tokenised_text_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = write(tmp_path / "ref", ["It rains.", "Why?"])
    score([reference], [write(tmp_path / "tok", ["It rains .", "Why ?"])])
    score([reference], [write(tmp_path / "raw", ["It rains.", "Why?"])])
    err = capsys.readouterr().err
    assert "tok: looks tokenised" in err
    assert "raw" not in err


def other_hypotheses(seed: int) -> list[str]:
    """Each either right or as in HYPOTHESES."""
    generator = random.Random(seed)
    pairs = zip(HYPOTHESES * 5, REFERENCES * 5, strict=True)
    return [generator.choice(pair) for pair in pairs]


@pytest.mark.parametrize("test", SACREBLEU_NAMES)
def test_differences_are_as_significant_as_sacrebleu_says(
    test: Test, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    references = [write(tmp_path / "ref", REFERENCES * 5), write(tmp_path / "ref2", OTHERS * 5)]
    lines = {"base": HYPOTHESES * 5, "other": other_hypotheses(1)}
    paths = [write(tmp_path / name, of_system) for name, of_system in lines.items()]
    command = [sys.executable, "-m", "sacrebleu", *map(str, references), "-i", *map(str, paths)]
    command += ["-m", "bleu", "--format", "json", f"--paired-{SACREBLEU_NAMES[test]}"]
    theirs = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    score(references, paths, extras=Extras(paired=test), as_json=True)
    ours = json.loads(capsys.readouterr().out)
    assert "p" not in ours[0]["bleu"]
    for system, wanted in zip(ours[1:], theirs[1:], strict=True):
        assert system["bleu"]["p"] == pytest.approx(wanted["BLEU"]["p_value"], abs=1e-4)
        assert system["bleu"]["test"] == test


def test_a_system_does_not_differ_from_itself() -> None:
    systems = {"a": HYPOTHESES * 5, "same": HYPOTHESES * 5, "right": REFERENCES * 5}
    tests: dict[Test, Iterable[str]] = {"bootstrap": METRICS, "approximate": ["bleu_lc_moses"]}
    for test, chosen in tests.items():
        found = p_values(systems, [REFERENCES * 5], "de", test, chosen)
        assert found["a"] == {}
        assert found["same"].keys() == found["right"].keys() == set(chosen)
        assert set(found["same"].values()) == {1.0}
        assert max(found["right"].values()) < 0.05


@pytest.mark.parametrize(
    ("hypotheses", "key", "scale"),
    [
        ([*REFERENCES * 4, "Wozu?"], "bleu", (0, 100)),
        ([*REFERENCES * 4, "Wozu?"], "chrf", (0, 100)),
        ([*REFERENCES * 4, "Wozu?"], "ter", (0, 1000)),
        (["x " * 40] * 17, "bleu", (0, 100)),
        (["x " * 40] * 17, "ter", (0, 2000)),  # edits may be more than words
        ([""] * 17, "chrf", (0, 100)),
    ],
)
def test_an_interval_stays_on_the_scale_of_its_metric(
    hypotheses: list[str], key: str, scale: tuple[int, int]
) -> None:
    references = [*REFERENCES * 4, REFERENCES[0]]
    found = METRICS[key].compute(hypotheses, [references], None, interval=True)
    assert found.interval is not None
    low, high = found.interval
    assert scale[0] <= low <= high <= scale[1]
    assert low <= found.value + 1e-9 and found.value - 1e-9 <= high
    if hypotheses[0].startswith("x") and key == "ter":
        assert high > 100


def test_intervals_are_made_of_neither_too_few_lines_nor_too_many(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not can_resample(FEWEST_LINES - 1)
    assert can_resample(FEWEST_LINES) and can_resample(MOST_LINES)
    assert capsys.readouterr().err == ""
    assert not can_resample(MOST_LINES + 1)
    assert "10,001 lines" in capsys.readouterr().err


def test_what_cannot_be_tested_is_refused() -> None:
    with pytest.raises(UserError, match="a single system"):
        p_values({"a": ["x"]}, [["x"]], None, "bootstrap", ["bleu"])
    for count in (FEWEST_LINES - 1, MOST_LINES + 1):
        lines = ["x"] * count
        with pytest.raises(UserError, match=f"{count:,} lines: a test is made of 10 to 10,000"):
            p_values({"a": lines, "b": lines}, [lines], None, "bootstrap", ["bleu"])


@pytest.mark.parametrize("missing", ["MeCab", "ipadic"])
def test_without_all_packages_for_words_characters_are_counted(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mtkit.scoring.metrics.find_spec", lambda name: name != missing)
    assert bleu_tokenizer("ja") == "char"
    assert bleu_tokenizer("ko") == "ko-mecab"


def test_packages_for_words_are_named_where_there_are_any(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = write(tmp_path / "ref", ["ก ข"])
    score([reference], [reference], language="th")
    assert capsys.readouterr().err == "warning: BLEU is counted on characters\n"


def test_the_length_ratio_is_of_all_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = write(tmp_path / "ref", ["a b c d", "e f g h"])
    score([reference], [write(tmp_path / "hyp", ["a b c d e", "e"])], as_json=True)
    (system,) = json.loads(capsys.readouterr().out)
    assert system["length_ratio"] == pytest.approx(6 / 8)


@given(st.lists(st.integers(0, 80), min_size=1, max_size=50))
def test_length_buckets_divide_the_corpus(counts: list[int]) -> None:
    buckets = buckets_of([" ".join(["word"] * count) for count in counts])
    assert sorted(row for bucket in buckets for row in bucket.rows) == list(range(len(counts)))
    for bucket in buckets:
        lengths = [counts[row] for row in bucket.rows]
        assert bucket.shortest <= min(lengths)
        assert max(lengths) <= (bucket.longest or 80)
        assert bucket.longest in (*EDGES, None)
    assert [bucket.shortest for bucket in buckets] == sorted(b.shortest for b in buckets)


def test_a_bucket_is_scored_as_a_corpus_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference, hypothesis = write(tmp_path / "ref", REFERENCES), write(tmp_path / "hyp", HYPOTHESES)
    source = write(tmp_path / "src", ["one two", "1 2 3 4 5 6", "one", "1 2 3 4 5 6 7 8 9 10"])
    picture = tmp_path / "lengths.png"
    systems = [hypothesis, reference]
    drawn = Extras(by_length=True, plot=picture)
    score([reference], systems, source=source, extras=drawn, as_json=True)
    first, second = json.loads(capsys.readouterr().out)
    assert [(of["words"], of["lines"]) for of in first["by_length"]] == [([0, 5], 2), ([6, 10], 2)]
    for of, rows in zip(first["by_length"], ([0, 2], [1, 3]), strict=True):
        wanted = corpus_bleu([HYPOTHESES[row] for row in rows], [REFERENCES[row] for row in rows])
        assert of["bleu"]["score"] == pytest.approx(wanted, abs=1e-3)
    assert all(of["chrf"]["score"] == 100 for of in second["by_length"])
    assert picture.read_bytes().startswith(b"\x89PNG")
    score([reference], systems, source=source, extras=Extras(by_length=True))
    table = capsys.readouterr().out.partition("BLEU by words of the source")[2].splitlines()
    assert [line.split()[:2] for line in table[1:3]] == [["0-5", "2"], ["6-10", "2"]]


def test_few_words_between_blanks_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    buckets_of(["今日は図書館で新しい本を何冊も借りてから家に帰りました。"])
    assert "counts words between blanks" in capsys.readouterr().err


def test_the_worst_sentences_come_first() -> None:
    found = worst_sentences(HYPOTHESES, [REFERENCES], [], 10)
    chrf = CHRF()
    for sentence in found:
        row = sentence.line - 1
        assert (sentence.hypothesis, sentence.references) == (HYPOTHESES[row], [REFERENCES[row]])
        wanted = chrf.sentence_score(HYPOTHESES[row], [REFERENCES[row]]).score
        assert sentence.chrf == pytest.approx(wanted)
    assert [sentence.chrf for sentence in found] == sorted(sentence.chrf for sentence in found)
    assert found[0].line == 4  # that of the empty hypothesis
    several = worst_sentences(HYPOTHESES, [REFERENCES, OTHERS], [], 4)
    for sentence in several:
        row = sentence.line - 1
        wanted = chrf.sentence_score(HYPOTHESES[row], [REFERENCES[row], OTHERS[row]]).score
        assert sentence.chrf == pytest.approx(wanted)
    assert worst_sentences(HYPOTHESES, [REFERENCES], HYPOTHESES, 2) == [
        replace(sentence, source=HYPOTHESES[sentence.line - 1]) for sentence in found[:2]
    ]


def test_the_worst_sentences_cannot_steer_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = write(tmp_path / "ref", ["a"])
    source = write(tmp_path / "src", ["\x1b[31m\u2028x"])
    score([reference], [reference], source=source, extras=Extras(worst=1))
    assert capsys.readouterr().out.splitlines()[-3] == r"  source      \x1b[31m\u2028x"


@pytest.mark.parametrize(
    ("source", "extras", "complaint"),
    [
        (None, {"by_length": True}, "--by-length: needs the source text"),
        (None, {"comet": True}, "--comet: needs the source text"),
        (Path("src"), {}, "--source: only with"),
        (None, {"plot": Path("a.png")}, "--plot: only with --by-length"),
        (Path("s"), {"by_length": True, "plot": Path("a.pdf")}, r"a.pdf: .* \.png or"),
        (Path("s"), {"comet": True}, "install it with `pipx install unbabel-comet`"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    source: Path | None, extras: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=complaint):
        score([tmp_path / "ref"], [tmp_path / "hyp"], source=source, extras=Extras(**extras))


def test_a_file_named_twice_is_refused(files: tuple[Path, Path]) -> None:
    reference, hypothesis = files
    with pytest.raises(UserError, match="hypotheses is named twice"):
        score([reference], [hypothesis, hypothesis])
    with pytest.raises(UserError, match="references is named twice"):
        score([reference, reference], [hypothesis])


def test_each_reference_that_is_named_counts(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference, hypothesis = files
    other = write(tmp_path / "other", OTHERS)
    extras = Extras(worst=1, by_length=True)
    score([reference, other], [hypothesis], source=other, extras=extras)
    out = capsys.readouterr().out
    shown = [line.split()[1] for line in out.splitlines() if line.startswith("  reference ")]
    assert shown == ["Warum?", "Weshalb?"]
    found = METRICS["bleu"].compute(HYPOTHESES[:1], [REFERENCES[:1], OTHERS[:1]], None)
    alone = METRICS["bleu"].compute(HYPOTHESES[:1], [REFERENCES[:1]], None)
    assert found.value > alone.value
    with pytest.raises(UserError, match="--comet: compares with one reference"):
        score([reference, other], [hypothesis], source=other, extras=Extras(comet=True))


COMET = """#!/bin/sh
while [ "$1" != -t ]; do shift; done
shift
for file; do
    score=${COMET_SAYS:-0.$(wc -l < "$file" | tr -d ' ')5}
    printf '%s\\tscore: %s\\n' "$file" "$score"
done
exit ${COMET_FAILS:-0}
"""
"""Speaks as `comet-score` does; the score tells how many lines it got."""


@pytest.fixture
def comet_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "bin/comet-score"
    command.parent.mkdir()
    command.write_text(COMET.replace("\\\\", "\\"), "utf-8")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.usefixtures("comet_command")
def test_comet_is_asked_by_its_own_command(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reference, hypothesis = files
    asked = Extras(comet=True)
    score([reference], [hypothesis, reference], source=reference, extras=asked, as_json=True)
    systems = json.loads(capsys.readouterr().out)
    wanted = {"score": 0.45, "signature": f"model:{MODEL}"}
    assert [system["comet"] for system in systems] == [wanted, wanted]
    score([reference], [hypothesis], source=reference, extras=asked)
    assert re.search(r"^COMET +0\.4500$", capsys.readouterr().out, re.MULTILINE)
    monkeypatch.setenv("COMET_FAILS", "1")
    with pytest.raises(MtkitError, match="comet-score failed"):
        score([reference], [hypothesis], source=reference, extras=asked)


@pytest.mark.parametrize("said", ["nan", "-inf", "none"])
@pytest.mark.usefixtures("comet_command")
def test_what_comet_says_that_is_no_finite_number_is_a_failure(
    said: str, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    reference, hypothesis = files
    monkeypatch.setenv("COMET_SAYS", said)
    with pytest.raises(MtkitError, match=f"--comet: comet-score failed: .*\tscore: {said}"):
        score([reference], [hypothesis], source=reference, extras=Extras(comet=True), as_json=True)


def test_scores_are_shown_before_they_are_drawn(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    reference, hypothesis = files
    monkeypatch.setattr("mtkit.scoring.score.plot_buckets", full)
    extras = Extras(by_length=True, plot=reference.with_name("plot.png"))
    with pytest.raises(OSError, match="No space left"):
        score([reference], [hypothesis], source=reference, extras=extras)
    assert "chrF2 by words of the source" in capsys.readouterr().out


def test_json_is_json_or_nothing_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "text", ["a b", "c"])
    monkeypatch.setattr(metrics, "length_ratio", lambda *_: math.nan)
    with pytest.raises(ValueError, match="not JSON compliant"):
        score([path], [path], as_json=True)
    assert capsys.readouterr().out == ""
