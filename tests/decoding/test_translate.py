"""Laws of `mtkit translate`, with a model that copies its source and with real models."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import shutil
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

import mtkit
from architectures import transformer
from commands import Stdin
from folders import SENTENCES, Copier, copier_of, train, with_settings, write_model
from mtkit.artifacts.replacement import create
from mtkit.artifacts.runs import find_best
from mtkit.artifacts.storage import write_json
from mtkit.config.decoding import DecodingSettings
from mtkit.config.model import Seq2SeqSettings
from mtkit.decoding.api import FIRST_WINDOW, MAX_WINDOW, Translator, load
from mtkit.decoding.engines.auto import AutoEngine
from mtkit.decoding.engines.engine import Hypothesis
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.decoding.text.line import Line, Translation
from mtkit.decoding.text.pipeline import open_window
from mtkit.decoding.translate import Files, Format, translate
from mtkit.errors import UserError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.folder import open_model
from mtkit.symbols import EOS
from mtkit.tokenizer.codec import Tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train()


def model_of(translator: Translator) -> EncoderDecoder:
    engine = translator.engine
    if isinstance(engine, AutoEngine):
        engine = engine.engine_for(translator.request)
    assert isinstance(engine, PyTorchEngine) and isinstance(engine.model, EncoderDecoder)
    return engine.model


def sources_of(translator: Translator, text: str) -> list[list[int]]:
    """Return for each sentence of a line the subwords that the model reads, with EOS."""
    window = open_window([Line(text)], translator.tokenizer, translator.request)
    return [sentence.source for sentence in window.sentences]


@pytest.fixture
def faithful(copier: Translator) -> None:
    """Make `copier` copy every character, also white space and control characters."""
    copier.tokenizer = train(normalization_rule_name="identity", remove_extra_whitespaces=False)


@pytest.fixture(scope="module", params=["transformer", "seq2seq"])
def real(request: pytest.FixtureRequest, tokenizer: Tokenizer, tmp_path_factory: Any) -> Path:
    kind = transformer() if request.param == "transformer" else Seq2SeqSettings(d_model=16)
    return write_model(tmp_path_factory.mktemp("model") / "model", tokenizer, kind)


@pytest.fixture
def copier(tokenizer: Tokenizer) -> Translator:
    return copier_of(tokenizer)


def run(
    folder: Path,
    content: bytes,
    translator: Translator,
    *,
    n_best: int | None = None,
    jsonl: bool = False,
    begun: bytes | None = None,
    **expected: Any,
) -> bytes:
    (folder / "in").write_bytes(content)
    (folder / "begun").write_bytes(begun or b"")
    prefixes = None if begun is None else folder / "begun"
    files = Files(folder / "in", folder / "out", prefixes)
    translate(with_settings(translator, n_best=n_best, **expected), files, Format(n_best, jsonl))
    return (folder / "out").read_bytes()


def test_lines_keep_their_order_and_blank_ones_stay_blank(
    tmp_path: Path, copier: Translator
) -> None:
    texts = [" ".join(["dog"] * (1 + 7 * n % 5)) + f" {n}" for n in range(60)]
    texts[3:6] = ["", " \t ", "\r"]
    expected = [text.strip() for text in texts]
    assert run(tmp_path, "\n".join(texts).encode(), copier).decode().split("\n") == [*expected, ""]


def test_sentences_of_a_line_are_translated_one_by_one(copier: Translator) -> None:
    sentences = ["Am 3. Oktober kam Dr. Maier.", "Warum?", "Two dogs!"]
    line = " ".join(sentences)
    one_by_one = with_settings(copier, sentences="de-AT")
    texts = [line, "Dogs。Why！", " "]
    actual = [ids[:-1] for text in texts for ids in sources_of(one_by_one, text)]
    assert actual == copier.tokenizer.encode_source([*sentences, "Dogs。", "Why！"])
    spelled = copier.tokenizer.source_spelling.respell(line)
    assert one_by_one.translate([Line(line, prefix="Am"), " "]) == [spelled, ""]


def test_a_character_of_many_subwords_is_split_as_well(copier: Translator) -> None:
    copier = with_settings(copier, max_length=3)
    assert "".join(copier.translate(["A 雨 😀 \ufdfa"])).replace(" ", "") != ""
    assert max(map(len, sources_of(copier, "A 雨 😀 \ufdfa"))) == 3 + len([EOS])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_the_score_of_a_split_line_is_that_of_all_its_tokens(alpha: float, real: Path) -> None:
    sentences = ["A dog runs in the rain today.", "Two men, one boat, and the sea."]
    longest = max(map(len, train().encode_source(sentences)))
    translator = load(real, "cpu", length_penalty=alpha, max_length=longest)
    apart = list(translator.results(sentences))
    (together,) = translator.results([" ".join(sentences)])
    assert together.tokens == [*apart[0].tokens, *apart[1].tokens]
    total = sum((part.score or 0.0) * len(part.tokens) ** alpha for part in apart)
    assert total < -1
    assert together.score == pytest.approx(total / len(together.tokens) ** alpha)


def test_a_line_break_in_a_hypothesis_becomes_a_space(
    tmp_path: Path, copier: Translator, faithful: None
) -> None:
    out = run(tmp_path, "a\x0bb\u2028c\x85d\re\n".encode(), copier)
    assert out == b"a b c d e\n"


def test_a_tab_becomes_a_space(tmp_path: Path, copier: Translator, faithful: None) -> None:
    assert run(tmp_path, b"a\tb\n", copier) == b"a b\n"
    assert run(tmp_path, b"a\tb\n", copier, n_best=1).split(b"\t")[2:] == [b"a b\n"]


def test_blank_lines_never_reach_the_model(
    tmp_path: Path, copier: Translator, request: pytest.FixtureRequest
) -> None:
    blank = "\n \t \n\u3000\u2028\n\r\n".encode()
    model_of(copier).encode = None  # type: ignore[method-assign, assignment]
    assert run(tmp_path, blank + "\u200b\n".encode(), copier) == b"\n" * 5
    request.getfixturevalue("faithful")
    assert run(tmp_path, blank, copier) == b"\n" * 4


def test_batches_respect_batch_tokens(copier: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[torch.Size] = []
    encode = model_of(copier).encode

    def recording(source: Tensor, source_mask: Tensor) -> Any:
        shapes.append(source.shape)
        return encode(source, source_mask)

    monkeypatch.setattr(model_of(copier), "encode", recording)
    copier = with_settings(copier, batch_tokens=60)
    lines = [" ".join(["dog"] * (1 + n % 7)) for n in range(100)]
    assert copier.translate(lines) == lines
    assert sum(rows for rows, _ in shapes) == len(lines)
    assert max(shape.numel() for shape in shapes) <= 60
    assert len(shapes) < 40


def test_output_appears_while_input_is_still_arriving(
    copier: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    (in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
    monkeypatch.setattr(sys, "stdin", os.fdopen(in_read))
    monkeypatch.setattr(sys, "stdout", os.fdopen(out_write, "w"))
    worker = threading.Thread(target=translate, args=[copier, Files(), Format()])
    worker.start()
    for line in (b"A dog runs.\n", b"Why?\n"):
        os.write(in_write, line)
        assert os.read(out_read, 100) == line
    os.close(in_write)
    worker.join()
    sys.stdin.close()
    sys.stdout.close()
    assert os.read(out_read, 100) == b""
    os.close(out_read)


def test_a_closed_pipe_is_reported_as_such(
    copier: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out_read, out_write = os.pipe()
    os.close(out_read)
    (tmp_path / "in").write_text("A dog runs.\n")
    with os.fdopen(out_write, "wb", buffering=0) as broken:
        monkeypatch.setattr(sys, "stdout", type("Stdout", (), {"buffer": broken}))
        with pytest.raises(BrokenPipeError):
            translate(copier, Files(tmp_path / "in"), Format())


def test_outputs_that_reach_max_length_are_flagged_and_counted_in_one_warning(
    tmp_path: Path, copier: Translator, capsys: pytest.CaptureFixture[str]
) -> None:
    class Babbler(Copier):
        def project(self, hidden: Tensor) -> Tensor:
            return torch.where(torch.arange(hidden.shape[1]) == EOS, -30.0, hidden)

    copier.engine = PyTorchEngine(Babbler(copier.tokenizer.source_vocab).eval())
    out = run(tmp_path, b"A dog runs.\n\nWhy?\n", copier, jsonl=True)
    flags = [json.loads(line)["truncated"] for line in out.splitlines()]
    assert flags == [True, False, True]
    assert capsys.readouterr().err.count("2 of 3") == 1
    split = run(tmp_path, b"A dog runs. " * 30, copier, jsonl=True)
    assert json.loads(split)["truncated"] is True


def test_json_and_n_best_rows_agree(tmp_path: Path, real: Path) -> None:
    content = "\n".join([*SENTENCES, ""]).encode() + b"\n"
    translator = load(real, "cpu")
    rows = run(tmp_path, content, translator, n_best=3).decode().split("\n")[:-1]
    records = [
        json.loads(line)
        for line in run(tmp_path, content, translator, n_best=3, jsonl=True).splitlines()
    ]
    assert [list(record) for record in records] == [
        ["text", "score", "tokens", "truncated", "confidence", "flags", "n_best"]
    ] * len(records)
    split = [row.split("\t") for row in rows]
    assert [row[0] for row in split] == [str(n) for n in range(1, 6) for _ in range(3)]
    split = [row for row in split if row[1] != "-inf"]
    ranked = [hypothesis for record in records for hypothesis in record["n_best"]]
    assert [row[2] for row in split] == [hypothesis["text"] for hypothesis in ranked]
    assert [float(row[1]) for row in split] == pytest.approx(
        [it["score"] for it in ranked], abs=1e-5
    )
    assert all(record["text"] == record["n_best"][0]["text"] for record in records)


def test_samples_depend_on_seed_and_line_alone(real: Path) -> None:
    translator = load(real, "cpu", engine="torch")

    def texts(lines: list[Any], seed: int = 1) -> list[list[str]]:
        results = translator.results(lines, n_best=2, sample=True, seed=seed)
        return [[one.text, *(other.text for other in one.alternatives)] for one in results]

    whole = texts(SENTENCES)
    later = [Line(text, id=number) for number, text in enumerate(SENTENCES)][1:]
    assert texts(SENTENCES[:1]) + texts(later) == whole
    assert texts([Line(text) for text in SENTENCES]) == whole
    assert texts(SENTENCES, seed=2) != whole
    assert len({text for samples in whole for text in samples}) == 2 * len(SENTENCES)


def test_the_model_is_path_then_environment_then_latest_run(
    real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"runs/latest holds no model.*mtkit run"):
        find_best(None)
    Path("runs").mkdir()
    Path("runs/latest").symlink_to(real.parent)
    assert find_best(None).path == Path("runs/latest/model")
    monkeypatch.setenv("MTKIT_MODEL", str(real))
    assert find_best(None).path == real
    assert find_best("runs/latest").path == Path("runs/latest/model")
    monkeypatch.delenv("MTKIT_MODEL")
    Path("mtkit.yaml").write_text("run: own\n")
    assert find_best(None).path == Path("runs/latest/model")
    Path("own").mkdir()
    with pytest.raises(UserError, match="own holds no model"):
        find_best(None)
    with pytest.raises(UserError, match="elsewhere holds no model"):
        find_best("elsewhere")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("beams", "beam"),
        ("num_beams", "beam"),
        ("n_bst", "n_best"),
        ("temprature", "temperature"),
        ("no_repeat_ngram_size", "no_repeat_ngram"),
    ],
)
def test_a_misspelt_setting_is_answered_by_the_right_name(
    name: str, meant: str, real: Path
) -> None:
    translator = load(real, "cpu")
    calls: list[Callable[..., object]] = [
        translator.request.changed,
        partial(load, "nowhere", "cpu"),
    ]
    for call in calls:
        with pytest.raises(UserError, match=f"^{name}: unknown setting; did you mean '{meant}'"):
            call(**{name: 3})
    with pytest.raises(UserError, match="did you mean 'device'"):
        load("nowhere", devce="cpu")


def test_results_take_the_settings_of_a_call(real: Path) -> None:
    translator = load(real, "cpu", engine="torch")
    settings: dict[str, Any] = {"n_best": 2, "alignments": True, "sample": True, "seed": 3}
    request = translator.request.changed(**settings)
    assert isinstance(request, mtkit.Request)
    lines = [mtkit.Line(text, id=number) for number, text in enumerate(SENTENCES)]
    both = translator.results(lines, **settings), translator.results(lines, request)
    for one, other in zip(*both, strict=True):
        assert one.score is not None and one.alternatives and one.alignment is not None
        assert (one.text, one.score) == (other.text, other.score)
    texts = translator.translate(lines, n_best=2, sample=True, seed=3)
    assert texts == [str(it) for it in translator.results(lines, request)]  # prints as its text


def test_a_notebook_shows_a_translation_as_its_text() -> None:
    printer = Mock()
    Translation("Ein Hund.")._repr_pretty_(printer, False)
    printer.text.assert_called_once_with("Ein Hund.")


def test_a_tokenizer_of_another_size_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", tokenizer, transformer())
    with create(tmp_path / "other", "model", {}, {}) as other:
        for name in ("model.safetensors", "spm.model"):
            shutil.copy(model / name, other)
        card = json.loads((model / "config.json").read_text())
        write_json(other / "config.json", card | {"source_vocab": 299, "target_vocab": 299})
    with pytest.raises(UserError, match=r"tokenizer of another model.*300.*299"):
        load(tmp_path / "other", "cpu")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"beam": 0}, r"^beam: .*greater than 0.*found 0"),
        ({"length_penalty": -1.0}, r"^length_penalty: .*found -1\.0"),
        ({"min_length": 9, "max_length": 8}, r"^min_length 9 is above max_length 8$"),
        ({"top_k": 3}, r"^top_k needs sample=True$"),
        ({"sample": True, "top_p": 2.0}, r"^top_p: should be less"),
        ({"n_best": 0}, r"^n_best must"),
    ],
)
def test_invalid_settings_are_refused(real: Path, changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        load(real, "cpu", **changes)


def test_n_best_is_at_most_the_beam(real: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="n_best: 6 exceeds the beam of 5"):
        run(tmp_path, b"a\n", load(real, "cpu"), n_best=6)
    assert not (tmp_path / "out").exists()


def test_output_is_never_named_gz() -> None:
    with pytest.raises(UserError, match=r"out\.gz: the output is plain text"):
        Files(output=Path("out.gz")).check()


def test_none_leaves_the_settings_of_the_model(real: Path) -> None:
    translator = load(real, "cpu", beam=None, min_length=3)
    assert translator.request.settings == DecodingSettings(max_length=12, min_length=3)


@pytest.mark.parametrize("fails", [False, True])
def test_a_stream_that_ends_early_cancels_its_searches(
    fails: bool, copier: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[Future[Any]] = []

    search_nothing = copier.engine.search([], copier.request)

    def search(sentences: Any, *args: Any, **kwargs: Any) -> Future[Any]:
        if not sentences:
            return search_nothing
        searches.append(Future())
        if fails:
            searches[-1].set_exception(MemoryError())
        elif len(searches) == 1:
            searches[-1].set_result([[Hypothesis([], 0.0, True)] for _ in sentences])
        return searches[-1]

    monkeypatch.setattr(copier.engine, "search", search)
    stream = copier.stream(["Why?"] * 100)
    with pytest.raises(MemoryError) if fails else nullcontext():
        assert len(next(stream)) == FIRST_WINDOW
    stream.close()  # type: ignore[attr-defined]
    assert searches[1].cancelled() != fails


# Prefixes


def test_prefixes_appear_in_every_format_but_not_on_blank_lines(
    tmp_path: Path, copier: Translator
) -> None:
    (tmp_path / "begun").write_text("\nA dog\nMen\n It\n\n")
    (tmp_path / "in").write_text("Why?\nA dog runs.\n \nIt rains.\nA dog")
    files = Files(tmp_path / "in", tmp_path / "out", tmp_path / "begun")
    texts = ["Why?", "A dog runs.", "", "It rains.", "A dog"]
    translate(copier, files, Format())
    assert (tmp_path / "out").read_text().splitlines() == texts
    translate(with_settings(copier, n_best=2), files, Format(n_best=2))
    rows = [row.split("\t") for row in (tmp_path / "out").read_text().splitlines()]
    assert [row[2] for row in rows[::2]] == texts
    assert rows[3][2].startswith("A dog")
    translate(copier, files, Format(jsonl=True))
    records = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [record["text"] for record in records] == texts
    assert not any(record["truncated"] for record in records)


def test_a_split_line_begins_with_its_prefix(copier: Translator) -> None:
    short = with_settings(copier, max_length=12)
    line = "A dog runs in the rain. It rains. Why?"
    assert short.translate([Line(line, prefix="A dog")]) == [line]
    (cut,) = short.results([Line("Why?", prefix="dog " * 20)])
    assert ("dog " * 20).startswith(cut.text)
    assert cut.truncated and len(cut.tokens) == 12


@pytest.mark.parametrize("begun", ["A\n", "A\nB\nC\n"])
def test_prefix_files_of_another_length_are_refused(
    begun: str, tmp_path: Path, copier: Translator
) -> None:
    (tmp_path / "in").write_text("A dog runs.\nWhy?\n")
    (tmp_path / "begun").write_text(begun)
    with pytest.raises(UserError, match=r"begun has . lines?, .*in 2; "):
        translate(copier, Files(tmp_path / "in", tmp_path / "out", tmp_path / "begun"), Format())


@pytest.mark.parametrize("begun", ["", "A\n\n"])
def test_prefixes_that_do_not_match_piped_lines_are_named(
    begun: str, tmp_path: Path, copier: Translator, stdin: Stdin
) -> None:
    (tmp_path / "begun").write_text(begun)
    stdin(io.BytesIO(b"A dog runs.\n"))
    with pytest.raises(UserError, match="/begun: give one prefix for each line"):
        translate(copier, Files(None, tmp_path / "out", tmp_path / "begun"), Format())


# Gzip


def test_input_and_prefixes_may_be_gzipped(tmp_path: Path, copier: Translator) -> None:
    (tmp_path / "in").write_bytes(gzip.compress(b"A dog runs.\n\nWhy?"))
    (tmp_path / "begun").write_bytes(gzip.compress(b"A dog\n\n\n"))
    files = Files(tmp_path / "in", tmp_path / "out", tmp_path / "begun")
    translate(copier, files, Format())
    assert (tmp_path / "out").read_text() == "A dog runs.\n\nWhy?\n"
    for name in ("begun", "in"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-9])
        with pytest.raises(UserError, match=rf"{name}:\d: the gzip data is damaged or cut short"):
            translate(copier, files, Format())
    assert left_behind(tmp_path) == []


# Resuming


def left_behind(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


@pytest.mark.slow
@pytest.mark.parametrize("n_best", [None, 2])
@pytest.mark.parametrize("share", [0.0, 0.31, 0.5, 0.99, 1.0])
def test_resuming_after_a_kill_gives_the_same_output(
    share: float, n_best: int | None, tmp_path: Path, copier: Translator
) -> None:
    content = "\ufeffdog\n\n".encode() + b"".join(b"A dog %d.\n" % n for n in range(60)) + b"end"
    begun = b"dog\n\n" + b"A dog\n" * 60 + b"\n"
    expected = run(tmp_path, content, copier, n_best=n_best, begun=begun)
    half = expected[: int(share * len(expected))]
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path, copier, n_best)
    (tmp_path / ".out.partial").write_bytes(half)
    actual = run(tmp_path, content, copier, n_best=n_best, begun=begun)
    assert actual == expected
    assert left_behind(tmp_path) == []


def interrupted(folder: Path, translator: Translator, n_best: int | None = None) -> None:
    """Translate `in`, but raise KeyboardInterrupt after the first window."""
    asked = with_settings(translator, n_best=n_best)
    begun = folder / "begun"
    prefixes = begun if begun.stat().st_size else None
    interrupt(asked, Files(folder / "in", folder / "out", prefixes), Format(n_best))


def interrupt(translator: Translator, files: Files, form: Format) -> None:
    """Translate files, but raise KeyboardInterrupt after the first window."""
    stream = Translator.stream

    def once(*args: Any, **kwargs: Any) -> Any:
        yield next(stream(*args, **kwargs))
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Translator, "stream", once)
        translate(translator, files, form)


def test_the_same_command_goes_on_where_it_was_interrupted(
    tmp_path: Path, copier: Translator, capsys: pytest.CaptureFixture[str]
) -> None:
    content = b"".join(b"A dog %d.\n" % n for n in range(100))
    expected = run(tmp_path, content, copier)
    for jsonl in (True, False):  # another form of output begins anew
        with pytest.raises(KeyboardInterrupt):
            interrupted(tmp_path, copier)
        done = (tmp_path / ".out.partial").read_bytes()
        (tmp_path / ".out.partial").write_bytes(done.replace(b"dog", b"cat"))
        again = run(tmp_path, content, copier, jsonl=jsonl)
        assert again.count(b"A cat") == (0 if jsonl else FIRST_WINDOW)
        assert again.count(b"\n") == expected.count(b"\n")
    assert f"resuming after line {FIRST_WINDOW}" in capsys.readouterr().err


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"null"])
def test_a_command_begins_anew_if_the_record_of_its_partial_output_is_damaged(
    damage: bytes, tmp_path: Path, copier: Translator
) -> None:
    content = b"".join(b"A dog %d.\n" % n for n in range(100))
    expected = run(tmp_path, content, copier)
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path, copier)
    (tmp_path / ".out.partial").write_bytes(b"cat\n")
    (tmp_path / ".out.partial.json").write_bytes(damage)
    assert run(tmp_path, content, copier) == expected
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("kind", ["flags", "a table in UTF-16"])
def test_what_cannot_continue_begins_anew(kind: str, tmp_path: Path, copier: Translator) -> None:
    encoding = "utf-8" if kind == "flags" else "utf-16"
    table = tmp_path / "t.csv"
    table.write_bytes(
        "".join(["text,n\n", *(f"A dog {n}.,{n}\n" for n in range(99))]).encode(encoding)
    )
    flags = tmp_path / "flags" if kind == "flags" else None
    files = Files(table, tmp_path / "out", flags=flags, column="text")
    with pytest.raises(KeyboardInterrupt):
        interrupt(copier, files, Format())
    translate(copier, files, Format())
    assert (tmp_path / "out").read_text(encoding).count("\n") == 100
    if flags is not None:
        assert flags.read_text().count("\n") == 100


def test_resuming_translates_only_the_rest(
    tmp_path: Path, copier: Translator, capsys: pytest.CaptureFixture[str]
) -> None:
    content = b"".join(b"A dog %d.\n" % n for n in range(100))
    expected = run(tmp_path, content, copier)
    (tmp_path / "out").unlink()
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path, copier)
    assert "out: kept the partial output; the same command continues" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    done = (tmp_path / ".out.partial").read_bytes()
    assert expected.startswith(done) and done.count(b"\n") == FIRST_WINDOW
    (tmp_path / ".out.partial").write_bytes(done.replace(b"dog", b"cat"))
    assert run(tmp_path, content, copier) == expected.replace(b"dog", b"cat", FIRST_WINDOW)


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (b"Another text.\n", {}),
        (None, {"jsonl": True}),
        (None, {"sample": True}),
        (None, {"begun": b"A dog.\n" * 100}),
    ],
    ids=["the input", "the form of the output", "the sampling", "the prefixes"],
)
def test_other_inputs_or_settings_begin_anew(
    content: bytes | None, options: dict[str, Any], tmp_path: Path, copier: Translator
) -> None:
    run(tmp_path, b"A dog.\n" * 100, copier)
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path, copier)
    partial = tmp_path / ".out.partial"
    partial.write_bytes(partial.read_bytes().replace(b"dog", b"zebra"))
    assert b"zebra" not in run(tmp_path, content or b"A dog.\n" * 100, copier, **options)
    assert left_behind(tmp_path) == []


def test_another_model_begins_anew(tmp_path: Path, copier: Translator, real: Path) -> None:
    run(tmp_path, b"A dog.\n" * 100, copier)
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path, copier)
    partial = tmp_path / ".out.partial"
    partial.write_bytes(partial.read_bytes().replace(b"dog", b"zebra"))
    other = replace(copier, models=[open_model(real)])
    assert b"zebra" not in run(tmp_path, b"A dog.\n" * 100, other)


class FullDisk(io.FileIO):
    """A file on a disk that is full after 100 bytes."""

    def write(self, data: Any) -> int:
        if self.tell() >= 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data[: 100 - self.tell()])


@pytest.mark.parametrize("source", ["a file", "stdin"])
def test_a_full_disk_names_the_file_and_keeps_resumable_output(
    source: str,
    tmp_path: Path,
    copier: Translator,
    stdin: Stdin,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    content = b"A dog.\n" * 100
    (tmp_path / "in").write_bytes(content)
    stdin(io.BytesIO(content))
    files = Files(tmp_path / "in" if source == "a file" else None, tmp_path / "out")

    def narrow(path: Path, mode: str, **how: Any) -> Any:
        return io.BufferedWriter(FullDisk(path, mode))

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left") as error:
        patch.setattr("mtkit.artifacts.output.open", narrow, raising=False)
        translate(copier, files, Format())
    assert error.value.filename == str(tmp_path / "out")
    err = capsys.readouterr().err
    assert ("the same command continues" in err) == (source == "a file")
    assert left_behind(tmp_path) == (
        [".out.partial", ".out.partial.json"] if source == "a file" else []
    )


@pytest.mark.slow
def test_memory_does_not_grow_with_the_input(copier: Translator) -> None:
    made: list[weakref.ref[Translation]] = []
    copier = with_settings(copier, beam=1)
    for window in copier.stream(f"A dog {number}." for number in range(5 * MAX_WINDOW)):
        made += map(weakref.ref, window)
        assert sum(translation() is not None for translation in made) <= 3 * MAX_WINDOW


def test_half_a_surrogate_pair_becomes_a_question_mark(copier: Translator) -> None:
    halves: list[str | Line] = [Line("a\ud800 dog", prefix="\udc00"), "A dog."]
    assert copier.translate(halves) == ["?? dog", "A dog."]


def test_typed_lines_are_translated_one_by_one(
    copier: Translator, stdin: Stdin, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = io.BytesIO()
    asked: list[bytes] = []

    def ask(prompt: str) -> str | None:
        asked.append(answers.getvalue())
        return ["A dog runs.", "", "Why?", None][len(asked) - 1]

    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    stdin(Terminal())
    monkeypatch.setattr(sys, "stdout", type("Stdout", (), {"buffer": answers}))
    monkeypatch.setattr("mtkit.decoding.translate.ask", ask)
    translate(copier, Files(), Format())
    expected = [b"", b"A dog runs.\n", b"A dog runs.\n\n", b"A dog runs.\n\nWhy?\n"]
    assert asked == expected


def test_a_string_is_no_list_of_lines(copier: Translator) -> None:
    with pytest.raises(TypeError, match="a list of lines"):
        copier.translate("a dog")
