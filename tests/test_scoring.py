"""Scores against sacreBLEU's own command line, and against the formula of Moses-tokenised BLEU."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from mtkit.errors import UserError
from mtkit.scoring import corpus_bleu, corpus_chrf, score
from mtkit.scoring.metrics import METRICS

REFERENCES = [
    "Ein Hund rennt über die Wiese.",
    "Zwei Männer, „stark“ wie Bären, heben z. B. ein Boot.",
    "Am 3. Mai regnete es.",
    "Warum?",
]
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


def test_scores_and_signatures_are_those_of_sacrebleu(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    reference, hypothesis = files
    command = [sys.executable, "-m", "sacrebleu", str(reference), "-i", str(hypothesis)]
    command += ["-m", "bleu", "chrf", "ter", "--format", "json", "-w", "4"]
    theirs = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    score(reference, [hypothesis], as_json=True)
    (ours,) = json.loads(capsys.readouterr().out)
    for key, wanted in zip(("bleu", "chrf", "ter"), theirs, strict=True):
        assert ours[key]["score"] == pytest.approx(wanted["score"], abs=1e-3)
        assert ours[key]["signature"] == wanted["signature"]
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
    found = METRICS["bleu_lc_moses"].compute(HYPOTHESES, REFERENCES, "de-AT")
    assert found.value == pytest.approx(wanted)
    assert found.name == "BLEU (lower-cased, Moses-tokenised)"
    assert "tok:moses-de" in found.signature
    assert wanted != pytest.approx(corpus_bleu(HYPOTHESES, REFERENCES), abs=0.1)


def test_the_moses_row_appears_where_the_language_is_known(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    reference, hypothesis = files
    score(reference, [hypothesis])
    assert "Moses" not in capsys.readouterr().out
    score(reference, [hypothesis], language="de")
    assert "Moses" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("language", "package", "words"),
    [("zh", None, "zh"), ("ja", "MeCab", "ja-mecab"), ("ko", "mecab_ko", "ko-mecab")],
)
def test_bleu_suits_the_language(language: str, package: str | None, words: str) -> None:
    found = METRICS["bleu"].compute(["나는 学校."], ["나는 学校."], language)
    is_there = package is None or find_spec(package)
    assert f"tok:{words if is_there else 'char'}" in found.signature


def test_bleu_of_characters_is_never_silent(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    reference, hypothesis = files
    score(reference, [hypothesis], language="ko")
    out, err = capsys.readouterr()
    assert ("tok:char" in out) == ("sacrebleu[ko]" in err)
    assert ("tok:char" in out) == (find_spec("mecab_ko") is None)


def test_systems_stand_side_by_side_and_stdin_is_one(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reference, hypothesis = files
    score(reference, [hypothesis, reference])
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == [str(hypothesis), str(reference)]
    row = next(line.split() for line in table if line.startswith("BLEU"))
    assert [float(value) for value in row[1:]] == pytest.approx(
        [corpus_bleu(HYPOTHESES, REFERENCES), 100.0], abs=0.005
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(hypothesis.read_bytes())))
    score(reference, as_json=True)
    (system,) = json.loads(capsys.readouterr().out)
    assert system["hypotheses"] == "stdin"
    assert system["bleu"]["score"] == pytest.approx(float(row[1]), abs=0.005)


def test_only_line_feeds_end_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference, hypothesis = tmp_path / "ref", tmp_path / "hyp"
    reference.write_bytes("\ufeffa b c d\u2028e\x85f\r\ng h i j".encode())
    hypothesis.write_bytes("a b c d\u2028e\x85f\ng h i j\n".encode())
    score(reference, [hypothesis], as_json=True)
    (system,) = json.loads(capsys.readouterr().out)
    assert system["lines"] == 2
    assert system["bleu"]["score"] == pytest.approx(100.0)


def test_unequal_numbers_of_lines_are_refused_with_both(tmp_path: Path) -> None:
    reference = write(tmp_path / "ref", REFERENCES)
    hypothesis = write(tmp_path / "hyp", HYPOTHESES[:3])
    with pytest.raises(UserError, match=r"hyp: 3 lines, but .*ref has 4"):
        score(reference, [hypothesis])


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
            score(pair[0], [pair[1]])


def test_metrics_for_sentences_are_left_out_where_a_line_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = write(tmp_path / "ref", ["Why?", "It rains."])
    long = write(tmp_path / "long", ["Why?", "x" * 10_001])
    score(reference, [long, reference], language="de")
    out, err = capsys.readouterr()
    assert err.count("\n") == 1 and "long:2: 10,001 characters, over 10,000" in err
    rows = {line[:12].strip(): line.split()[-2:] for line in out.splitlines() if "  " in line}
    assert rows["TER"] == ["-", "0.00"]
    assert "-" not in rows["BLEU"]
    score(reference, [write(tmp_path / "fits", ["", "x" * 10_000])], language="de", as_json=True)
    (system,) = json.loads(capsys.readouterr().out)
    assert {"bleu", "chrf", "ter", "bleu_lc_moses"} < system.keys()
    score(long, [reference], language="de", as_json=True)
    (system,) = json.loads(capsys.readouterr().out)
    assert {"bleu", "chrf"} < system.keys() and not {"ter", "bleu_lc_moses"} & system.keys()


def test_a_closed_stdin_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError, match="stdin: closed"):
        score(write(tmp_path / "ref", ["a"]))


def test_tokenised_text_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = write(tmp_path / "ref", ["It rains.", "Why?"])
    score(reference, [write(tmp_path / "tok", ["It rains .", "Why ?"])])
    score(reference, [write(tmp_path / "raw", ["It rains.", "Why?"])])
    err = capsys.readouterr().err
    assert "tok: looks tokenised" in err
    assert "raw" not in err


def test_scoring_needs_no_torch() -> None:
    code = "import sys, mtkit.scoring; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
