"""Laws of `mtkit score`: which files it takes, what it shows, and which options it refuses."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import unicodedata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics.chrf import CHRF
from texts import HYPOTHESES, OTHERS, REFERENCES, corpus_bleu, write

from commands import Stdin, call
from mtkit.artifacts.records import dump_record
from mtkit.artifacts.replacement import create
from mtkit.config.yaml import dump_config
from mtkit.errors import UserError
from mtkit.scoring.line_files import load_lines
from mtkit.scoring.metrics import score
from mtkit.scoring.score import score_files, score_lines, worst_sentences
from tasks import tiny_config

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write(tmp_path / "ref", REFERENCES), write(tmp_path / "hyp", HYPOTHESES)


def only_record(*arguments: Any, **options: Any) -> dict[str, Any]:
    (system,) = score_files(*arguments, **options)
    record = dump_record(system)
    assert isinstance(record, dict)
    return record


def test_systems_stand_side_by_side(files: tuple[Path, Path], stdin: Stdin) -> None:
    reference, hypothesis = files
    lines = list(score_lines(score_files([reference], [hypothesis, reference])))
    first = next(at for at, line in enumerate(lines) if line.startswith("BLEU"))
    above = [line.split() for line in lines[:first]]  # names, broken after "/"
    assert {"".join(column) for column in zip(*above, strict=True)} == {
        str(hypothesis),
        str(reference),
    }
    row = lines[first].split()
    values = [float(value) for value in row[1:]]
    assert values == pytest.approx([corpus_bleu(HYPOTHESES, REFERENCES), 100.0], abs=0.005)
    stdin(hypothesis.read_text(encoding="utf-8"))
    record = only_record([reference])
    assert record["hypotheses"] == "stdin"
    assert record["bleu"]["score"] == pytest.approx(values[0], abs=0.005)


def test_the_command_shows_tables_or_json(files: tuple[Path, Path], capsys: Capture) -> None:
    reference, hypothesis = files
    arguments = ("score", "-r", str(reference), str(hypothesis), "--language", "de")
    assert call(*arguments) == 0
    assert "BLEU (lower-cased, Moses-tokenised)" in capsys.readouterr().out
    assert call(*arguments, "--json") == 0
    assert capsys.readouterr().out.lstrip().startswith("[")


def test_p_values_are_of_the_first_system(tmp_path: Path, capsys: Capture) -> None:
    reference = write(tmp_path / "ref", REFERENCES * 5)
    systems = [write(tmp_path / "base", HYPOTHESES * 5), reference]
    scored = score_files([reference], systems, paired=True)
    base, other = (dump_record(system)["bleu"] for system in scored)
    assert "p" not in base
    assert other["p"] < 0.05
    assert any(line.split()[:1] == ["p-value"] for line in score_lines(scored))
    names = [str(path) for path in systems]
    assert call("score", "-r", str(reference), "--paired", *names, "--json") == 0
    _, second = json.loads(capsys.readouterr().out)
    assert second["bleu"] == other


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    reference, hypothesis = tmp_path / "ref", tmp_path / "hyp"
    reference.write_bytes("\ufeffa b c d\u2028e\x85f\r\ng h i j".encode())
    hypothesis.write_bytes("a b c d\u2028e\x85f\ng h i j\n".encode())
    record = only_record([reference], [hypothesis])
    assert record["lines"] == 2
    assert record["bleu"]["score"] == pytest.approx(100.0)


def test_gzip_files_score_as_their_text(tmp_path: Path) -> None:
    texts = {"ref": REFERENCES, "other": OTHERS, "hyp": HYPOTHESES, "src": HYPOTHESES}
    reference, other, hypothesis, source = (tmp_path / name for name in texts)
    records = []
    for pack in (bytes, gzip.compress):
        for name, lines in texts.items():
            (tmp_path / name).write_bytes(pack("".join(f"{line}\n" for line in lines).encode()))
        records.append(only_record([reference, other], [hypothesis], source=source, worst=4))
    assert records[0] == records[1]


def test_memory_does_not_grow_with_what_a_file_decompresses_to(
    tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "hyp.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(64):
            file.write(b"x" * (1 << 20))
        file.write(b"\nA dog runs.\n")
    tracemalloc.start()
    assert load_lines(path) == ["", "A dog runs."]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20
    assert f"{path}:1: longer than 1 MiB" in capsys.readouterr().err


def test_a_file_named_twice_is_refused(files: tuple[Path, Path]) -> None:
    reference, hypothesis = files
    with pytest.raises(UserError, match="hypotheses is given twice"):
        score_files([reference], [hypothesis, hypothesis])
    with pytest.raises(UserError, match="references is given twice"):
        score_files([reference, reference], [hypothesis])


def test_windows_line_ends_are_no_fault_but_blank_references_are(
    tmp_path: Path, capsys: Capture
) -> None:
    windows, old, blank = (tmp_path / name for name in ("windows", "old", "blank"))
    windows.write_bytes("".join(f"{line}\r\n" for line in REFERENCES).encode())
    assert only_record([windows], [write(tmp_path / "hyp", REFERENCES)])["chrf"]["score"] == 100
    assert capsys.readouterr().err == ""
    old.write_bytes("\r".join(REFERENCES).encode())
    score_files([old], [write(tmp_path / "one", ["x"])])
    assert "old:1: " in capsys.readouterr().err
    for line in ("", " ", "\u200b"):
        with pytest.raises(UserError, match="blank has only blank lines"):
            score_files([write(blank, [line] * len(REFERENCES))], [windows])


def test_a_closed_stdin_is_refused(tmp_path: Path, stdin: Stdin) -> None:
    stdin(None)
    with pytest.raises(UserError, match="stdin is closed"):
        score_files([write(tmp_path / "ref", ["a"])])


def test_tokenised_text_and_bleu_of_characters_are_warned_of(
    tmp_path: Path, capsys: Capture
) -> None:
    reference = write(tmp_path / "ref", ["It rains today.", "Why?"])
    for split in (
        "It rains today .",
        "It ra@@ ins today.",
        "今天 下雨 了 吗 ？",
        "▁It ▁rains ▁today.",
    ):
        score_files([reference], [write(tmp_path / "tok", [split, "Why?"])])
        assert "tok seems to be tokenised" in capsys.readouterr().err
    for language, hint in (("de", False), ("th", True), ("ko", find_spec("mecab_ko") is None)):
        score_files([reference], [reference], language=language)
        assert ("counts characters" in capsys.readouterr().err) == hint


def test_the_length_ratio_counts_all_tokens(tmp_path: Path) -> None:
    reference = write(tmp_path / "ref", ["a b c d", "e f g h"])
    hypothesis = write(tmp_path / "hyp", ["a b c d e", "e"])
    assert only_record([reference], [hypothesis])["length_ratio"] == pytest.approx(6 / 8)
    blank = write(tmp_path / "blank", ["a b c d", ""])
    assert only_record([reference, blank], [hypothesis])["length_ratio"] == pytest.approx(6 / 8)


@pytest.mark.parametrize("language", [None, "zh"])
def test_the_files_of_a_run_have_its_language(language: str | None, tmp_path: Path) -> None:
    config = tiny_config(tmp_path, "transformer").model_copy(update={"run": str(tmp_path)})
    config = config.model_copy(
        update={"data": config.data.model_copy(update={"target_language": "de"})}
    )
    (tmp_path / "config.yaml").write_text(dump_config(config), "utf-8")
    with create(tmp_path / "test", "test", {}, {}) as folder:
        write(folder / "reference.txt", REFERENCES)
    reference = tmp_path / "test/reference.txt"
    record = only_record([reference], [write(tmp_path / "hyp", HYPOTHESES)], language=language)
    assert ("bleu_lc_moses" in record) == (language is None)


def test_below_a_score_stands_its_difference_from_the_first_system(
    tmp_path: Path, capsys: Capture
) -> None:
    reference = write(tmp_path / "ref", REFERENCES * 5)
    worse = write(tmp_path / "worse", HYPOTHESES * 5)
    other = write(tmp_path / "other", OTHERS * 5)
    first, second = (dump_record(it) for it in score_files([reference], [worse, other]))
    for key in ("bleu", "chrf"):
        difference = second[key]["score"] - first[key]["score"]
        assert second[key]["difference"] == pytest.approx(difference)
        assert "difference" not in first[key]
    assert call("score", "-r", str(reference), str(worse), str(other)) == 0
    labels = [line.split()[:1] for line in capsys.readouterr().out.splitlines()]
    assert labels.count(["difference"]) == 2


def test_the_worst_sentences_come_first() -> None:
    chrf = CHRF()
    worst = worst_sentences(HYPOTHESES, [REFERENCES, OTHERS], REFERENCES, 10)
    for sentence in worst:
        row = sentence.line - 1
        assert sentence.source == REFERENCES[row]
        assert (sentence.hypothesis, sentence.references) == (
            HYPOTHESES[row],
            [REFERENCES[row], OTHERS[row]],
        )
        expected = chrf.sentence_score(HYPOTHESES[row], [REFERENCES[row], OTHERS[row]]).score
        assert sentence.chrf == pytest.approx(expected)
    assert [sentence.chrf for sentence in worst] == sorted(sentence.chrf for sentence in worst)
    assert worst[0].line == 4  # the empty hypothesis
    assert worst_sentences(HYPOTHESES, [REFERENCES], [], 1)[0].source is None


def test_blank_references_are_neither_counted_nor_shown(tmp_path: Path, capsys: Capture) -> None:
    gaps = ["", OTHERS[1], "\u200b", ""]
    names = {"ref": REFERENCES, "gaps": gaps, "hyp": HYPOTHESES}
    reference, other, hypothesis = (str(write(tmp_path / n, t)) for n, t in names.items())
    command = ("score", "-r", reference, "-r", other, hypothesis, "--source", reference)
    assert call(*command, "--worst", "4", "--json") == 0
    output = capsys.readouterr()
    assert output.err.count("gaps: 3 blank lines of 4 do not count as references\n") == 1
    (record,) = json.loads(output.out)
    shown = {sentence["line"]: sentence["references"] for sentence in record["worst"]}
    assert shown == {row + 1: [REFERENCES[row]] for row in (0, 2, 3)} | {
        2: [REFERENCES[1], OTHERS[1]]
    }


def test_text_cannot_steer_a_terminal(tmp_path: Path) -> None:
    reference = write(tmp_path / "ref", ["a"])
    source = write(tmp_path / "src", ["\x1b[31m\x85x"])
    lines = list(score_lines(score_files([reference], [reference], source=source, worst=1)))
    assert lines[-3] == r"  source      \x1b[31m\x85x"


@pytest.mark.parametrize(
    "line",
    [
        "Tôi đọc một quyển sách ở thư viện.",
        "Ọ̀rọ̀ ọmọdé ni ẹ̀kọ́ ṣe.",
        "আমি একটি বা\u09dcি দেখি।",
        "나는 어제 학교에 갔다.",
        "Ёлка и ёж, її.",
    ],
)
def test_texts_that_differ_in_composition_alone_are_equal(tmp_path: Path, line: str) -> None:
    forms = [line, unicodedata.normalize("NFD", line)]
    assert forms[0] != forms[1]
    paths = [write(tmp_path / name, [form] * 4) for name, form in zip("ab", forms, strict=True)]
    for reference, hypothesis in (paths, paths[::-1]):
        (system,) = score_files([reference], [hypothesis], worst=1)
        assert system.scores["chrf"].value == system.worst[0].chrf == pytest.approx(100)
        assert system.scores["bleu"].value == pytest.approx(100)
    for ours, right in (forms, forms[::-1]):
        assert score([ours], [right])["chrf"].value == pytest.approx(100)


def test_a_source_is_scored_as_if_it_were_the_translation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference, hypothesis, source = (tmp_path / name for name in ("ref", "hyp", "src"))
    for path, lines in ((reference, REFERENCES), (hypothesis, HYPOTHESES), (source, OTHERS)):
        path.write_text("".join(f"{line}\n" for line in lines))
    command = ("score", "-r", str(reference), str(hypothesis), "--source", str(source))
    assert call(*command) == 0
    expected = score(OTHERS, REFERENCES, keys=["bleu", "chrf"])
    copied = f"BLEU {expected['bleu'].value:.2f}, chrF2 {expected['chrf'].value:.2f}"
    assert f"copying the source gives {copied}" in capsys.readouterr().out
    assert call(*command, "--json") == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["copied_source"]["chrf"]["score"] == expected["chrf"].value
