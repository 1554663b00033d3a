"""Every stage, `translate` and `score` survive any text: everything in `nasties`, and random files.

A command does what is documented, or exits with 2 and one line that names the place. `translate`
writes as many lines as it reads: for 160 random files here, and 11,200 in the campaign.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from architectures import transformer
from commands import Stdin, call
from folders import tokenizer_in, with_settings
from mtkit.artifacts.replacement import create
from mtkit.artifacts.storage import write_json
from mtkit.batching.build import open_batches
from mtkit.config.decoding import DecodingSettings, ModelConfig
from mtkit.config.yaml import dump_config
from mtkit.corpus.text import is_blank, normalise
from mtkit.decoding.api import Translator, load
from mtkit.decoding.engines import pytorch
from mtkit.decoding.search.search import Hypotheses
from mtkit.decoding.translate import Files, Format, translate
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.weights import get_weights, save_weights
from mtkit.symbols import EOS, PAD
from nasties import ALL, FILES, INVALID, LARGE, LINES, VALID
from tasks import tiny_config, write_reversal_task

pytestmark = pytest.mark.slow
Capture = pytest.CaptureFixture[str]
LINE_BREAKS = set("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
MILLION = 1 << 20


def said(capture: Capture) -> list[str]:
    """Return the lines on stderr except warnings; they hold no control sequences or traceback."""
    text = capture.readouterr().err
    assert "Traceback" not in text
    assert all(line.isprintable() for line in text.split("\n"))
    return [line for line in text.split("\n")[:-1] if not line.startswith("warning: ")]


def refused(capture: Capture, *arguments: str) -> str:
    """Run a command that exits with 2, and return its one line on stderr."""
    capture.readouterr()
    assert call(*arguments, *["--quiet"] * (arguments[0] != "score")) == 2
    (line,) = said(capture)
    return line


@pytest.fixture(autouse=True)
def _in_time(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Run each test in its own folder, with a time limit and without progress lines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mtkit.progress.SECONDS_BETWEEN_LINES", math.inf)
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("hangs"))
    signal.alarm(7200 if request.node.get_closest_marker("campaign") else 300)
    yield
    signal.alarm(0)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small corpus, its config, its tokenizer, and an untrained model."""
    folder = tmp_path_factory.mktemp("home")
    write_reversal_task(folder)
    every_byte = {"vocab_size": 310, "byte_fallback": True, "normalization": "identity"}
    config = tiny_config(folder, "transformer", tokenizer=every_byte)
    (folder / "mtkit.yaml").write_text(dump_config(config))
    assert call("train-spm", "-c", str(folder / "mtkit.yaml"), "--quiet") == 0
    card = ModelConfig(
        model=transformer(layers=1, d_model=8, ffn=8, heads=1),
        source_vocab=310,
        target_vocab=310,
        decoding=DecodingSettings(beam=3, max_length=12, batch_tokens=8192),
    )
    torch.manual_seed(0)
    with create(folder / "model", "model", {}, {}) as model:
        weights = get_weights(EncoderDecoder(card.model, 310, 310))
        save_weights(weights, model / "model.safetensors")
        write_json(model / "config.json", card.model_dump())
        tokenizer_in(folder / "run/tokenizer").copy_to(model)
    return folder


@pytest.fixture(scope="module")
def model(home: Path) -> str:
    """Used before, so that nothing more is to be said of it."""
    load(home / "model", "cpu")
    return str(home / "model")


def stage(command: str, home: Path, *changes: str) -> list[str]:
    """Return the arguments of a stage command that writes to ./run."""
    pairs = [part for change in changes for part in ("--set", change)]
    return [command, "-c", str(home / "mtkit.yaml"), "--run", "run", *pairs]


def lines_in(content: bytes) -> list[bytes]:
    """Split into lines: only a line feed ends a line, and the last line needs none."""
    return [line.removesuffix(b"\n") for line in re.findall(rb"[^\n]*\n|[^\n]+", content)]


def texts_in(content: bytes) -> list[str]:
    """Return the lines as mtkit reads them: no byte order mark, no invalid UTF-8."""
    texts = [raw.decode(errors="replace").rstrip("\r") for raw in lines_in(content)]
    return [texts[0].removeprefix("\ufeff"), *texts[1:]] if texts else []


def unfolded(name: str) -> bytes:
    """Return the text of one of FILES, which may be gzip or have another encoding, as UTF-8."""
    if name.startswith("UTF-"):
        return FILES[name].decode(name).encode()
    return gzip.decompress(FILES[name]) if name == "gzip" else FILES[name]


# translate


SAMPLES = {"n_best": 2, "sample": True, "temperature": 3.0}
OPTIONS: dict[str, tuple[dict[str, Any], Format]] = {
    "plain": ({}, Format()),
    "jsonl": ({}, Format(jsonl=True)),
    "n-best": ({"n_best": 3}, Format(n_best=3)),
    "samples": (SAMPLES, Format(n_best=2, jsonl=True)),
}
"""What is requested, and the form of the output."""


def assert_line_for_line(content: bytes, out: bytes, option: str) -> None:
    """Check that `out` has a line for each of `content`, blank ones blank, without line breaks."""
    rows = out.decode().split("\n")
    assert rows.pop() == ""
    lines = texts_in(content)
    if option == "n-best":
        cells = [row.split("\t") for row in rows]
        assert [cell[0] for cell in cells] == [str(1 + i // 3) for i in range(3 * len(lines))]
        texts = [[text for _, _, text in cells[i : i + 3]] for i in range(0, len(cells), 3)]
    elif option == "plain":
        texts = [[row] for row in rows]
    else:
        records = [json.loads(row) for row in rows]
        ranked = [record.get("n_best", []) for record in records]
        texts = [[h["text"] for h in (r, *n)] for r, n in zip(records, ranked, strict=True)]
    assert len(texts) == len(lines)
    for line, of_line in zip(lines, texts, strict=True):
        assert all(LINE_BREAKS.isdisjoint(text) for text in of_line)
        assert line.strip() or not any(of_line)


@pytest.fixture(scope="module")
def loaded(home: Path) -> Translator:
    return load(home / "model", "cpu", max_length=6)


ASKED = [(name, option) for name in ("every line", "blank among others") for option in OPTIONS]
ASKED += [(name, [*OPTIONS][number % 4]) for number, name in enumerate(FILES)]
"""All options on some files, and one option on each file."""


def check_line_for_line(translator: Translator, content: bytes, text: bytes, option: str) -> None:
    """Translate a file with `content`, which has the `text`."""
    Path("in").write_bytes(content)
    wanted, form = OPTIONS[option]
    translate(with_settings(translator, **wanted), Files(Path("in"), Path("out")), form)
    assert_line_for_line(text, Path("out").read_bytes(), option)


@pytest.mark.parametrize(("name", "option"), dict.fromkeys(ASKED))
def test_translate_writes_a_line_for_each_line(
    name: str, option: str, loaded: Translator, capsys: Capture
) -> None:
    check_line_for_line(loaded, FILES[name], unfolded(name), option)
    said(capsys)


def copy(model: EncoderDecoder, source: Tensor, *how: object) -> Hypotheses:
    """Return the source as the only hypothesis."""
    tokens = source.masked_fill(source == EOS, PAD).unsqueeze(1)
    lengths = (tokens != PAD).sum(dim=2)
    return Hypotheses(tokens, lengths, torch.zeros(lengths.shape), lengths > 0)


@pytest.mark.parametrize("name", LARGE)
def test_translate_omits_nothing_from_a_large_line(
    name: str, model: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytorch, "search", copy)
    Path("in").write_bytes(LARGE[name])
    options = ["--max-length", "256", "--engine", "torch", "-q"]
    assert call("translate", "in", "-o", "out", "-m", model, *options) == 0
    for warning in capsys.readouterr().err.splitlines():
        assert "of the letters are not in the vocabulary" in warning
    out = Path("out").read_bytes()
    assert_line_for_line(LARGE[name], out, "plain")
    assert [line.replace(b" ", b"") for line in lines_in(out)] == [
        line.replace(b" ", b"") for line in lines_in(LARGE[name])
    ]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).map(str.encode)
NASTY = st.sampled_from([line for line in LINES.values() if len(line) < 200])
FRAGMENT = st.one_of(
    NASTY, TEXT, st.sampled_from(list(INVALID.values())), st.binary(max_size=4), NASTY.map(reversed)
).map(bytes)
JOIN = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\r", b" ", b"\t", b"", "\u2028".encode()])
EDIT = st.tuples(st.integers(0, 1 << 16), st.integers(0, 2), st.binary(max_size=2))


def mutated(content: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """Replace bytes at some places."""
    for place, cut, new in edits:
        at = place % (len(content) + 1)
        content = content[:at] + new + content[at + cut :]
    return content


def joined(parts: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(part + end for part, end in parts)


MAGIC = tuple(b'\x1f\x8b|BZh|\xfd7zXZ|(\xb5/\xfd|PK|7z\xbc|Rar!|\x04"M|%PDF|\xd0\xcf'.split(b"|"))
"""What files begin with that are unpacked, as gzip, or refused."""
MARKS = b"\xff\xfe", b"\xfe\xff"
"""What text in UTF-16 begins with."""
STRATEGIES: dict[str, st.SearchStrategy[bytes]] = {
    "bytes": st.lists(st.tuples(st.binary(max_size=20), JOIN), max_size=8).map(joined),
    "text": st.lists(st.tuples(TEXT, JOIN), min_size=2, max_size=8).map(joined),
    "mutated UTF-8": st.builds(
        mutated,
        st.lists(st.tuples(TEXT, JOIN), min_size=1, max_size=8).map(joined),
        st.lists(EDIT, min_size=1, max_size=6),
    ),
    "mixed nasties": st.lists(st.tuples(FRAGMENT, JOIN), min_size=3, max_size=8).map(joined),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("examples", [40, pytest.param(2_800, marks=pytest.mark.campaign)])
def test_translate_writes_a_line_for_each_random_line(
    examples: int, strategy: str, loaded: Translator
) -> None:
    @settings(max_examples=examples)
    @given(STRATEGIES[strategy], st.sampled_from(list(OPTIONS)))
    def check(content: bytes, option: str) -> None:
        assume(not content.startswith((*MAGIC, *MARKS)))
        check_line_for_line(loaded, content, content, option)

    check()


def test_translate_reads_a_pipe_and_names_unreadable_input(
    model: str, capsys: Capture, stdin: Stdin
) -> None:
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(ALL))
    writer.start()
    assert call("translate", "pipe", "-o", "out", "-m", model, "-q") == 0
    writer.join()
    assert said(capsys) == []
    assert_line_for_line(ALL, Path("out").read_bytes(), "plain")
    assert call("translate", "/dev/null", "-m", model) == 0
    assert refused(capsys, "translate", ".", "-m", model).startswith(". cannot be read (Is a dir")
    assert refused(capsys, "translate", "no", "-m", model).startswith("no: no such file")
    assert refused(capsys, "translate", "out", "-m", model, "-o", ".").startswith(". is a folder")
    stdin(None)
    assert refused(capsys, "translate", "-m", model) == "stdin is closed; give a text file"


class Failing(io.BytesIO):
    def readinto(self, buffer: Any, /) -> int:
        raise OSError(5, "Input/output error")


def test_an_input_error_names_the_input(model: str, capsys: Capture, stdin: Stdin) -> None:
    stdin(Failing())
    assert call("translate", "-m", model, "-q") == 1
    assert said(capsys) == ["stdin cannot be read (Input/output error)"]


# train-spm and batch


def check_batches(home: Path, capture: Capture, nasty: bytes, *changes: str) -> None:
    """Check what stage 2 keeps of `nasty`, as source and as target of clean text."""
    clean = [b"ant bee %d" % i for i in range(len(lines_in(nasty)))]
    head = b"".join(b"dog cat %d\n" % i for i in range(40))
    sides = [head + nasty, head + b"\n".join(clean)]
    Path("a").write_bytes(sides[0])
    Path("b").write_bytes(sides[1])
    corpora = "data.train=[{source: a, target: b}, {source: b, target: a}]"
    length = "batching.max_length=50"
    for command in ("train-spm", "batch"):
        assert call(*stage(command, home, corpora, length, *changes)) == 0
        said(capture)
    first = [text if len(text.encode()) < MILLION else "" for text in texts_in(sides[0])]
    first, second = ([*map(normalise, side)] for side in (first, texts_in(sides[1])))
    pairs = [*zip(first, second, strict=True), *zip(second, first, strict=True)]
    tokenizer = tokenizer_in(Path("run/tokenizer"))
    sources, targets = map(list, zip(*pairs, strict=True))
    encoded = tokenizer.encode_source(sources), tokenizer.encode_target(targets)
    kept, blank, long = [], 0, 0
    for (source, target), ids in zip(pairs, zip(*encoded, strict=True), strict=True):
        if is_blank(source) or is_blank(target) or not all(ids):
            blank += 1
        elif max(map(len, ids)) > 50:
            long += 1
        else:
            kept.append(ids)
    batches = open_batches(Path("run/batches"))
    rows = np.arange(len(batches.train))
    stored = []
    for is_target in (False, True):
        ends = batches.train.side(rows, target=is_target)
        parts = np.split(ends[0], ends[1].cumsum()[:-1])
        stored.append([part.tolist() for part in parts])
    assert list(zip(*stored, strict=True)) == kept
    report = batches.artifact.report["train"]
    assert report["pairs"] == len(pairs)
    assert report["kept"] == len(kept)
    dropped = {"blank": blank, "too long": long}
    assert report["dropped"] == {rule: count for rule, count in dropped.items() if count}


@pytest.mark.parametrize("name", FILES)
def test_batch_keeps_exactly_the_valid_pairs(name: str, home: Path, capsys: Capture) -> None:
    quick = ("tokenizer.type=char", "tokenizer.vocab_size=300")
    check_batches(home, capsys, FILES[name], *quick)


@pytest.mark.parametrize(
    ("kind", "normalization", "size"), [("bpe", "identity", 600), ("unigram", "nmt_nfkc", 400)]
)
def test_every_tokenizer_type_trains_on_every_line(
    kind: str, normalization: str, size: int, home: Path, capsys: Capture
) -> None:
    tokenizer = {"type": kind, "normalization": normalization, "vocab_size": size}
    changes = [f"tokenizer.{key}={value}" for key, value in tokenizer.items()]
    check_batches(home, capsys, ALL, *changes)


@pytest.mark.parametrize("name", LARGE)
def test_batch_drops_lines_that_are_too_long(name: str, home: Path, capsys: Capture) -> None:
    check_batches(home, capsys, LARGE[name], "tokenizer.type=char")


def unreadable(patch: pytest.MonkeyPatch, name: str) -> None:
    """Make a file unreadable, also for a user who may read everything."""
    opening = Path.open

    def guarded(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == name:
            raise PermissionError(13, "Permission denied", str(path))
        return opening(path, *arguments, **options)

    patch.setattr(Path, "open", guarded)


def test_a_path_that_is_no_text_file_is_refused(
    home: Path, model: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo("pipe")
    Path("folder").mkdir()
    Path("loop").symlink_to("loop")
    Path("empty").touch()
    Path("secret").write_text("a\n")
    assert call(*stage("train-spm", home)) == 0
    device = "is a pipe or device, which cannot be read again; write it to a file"
    for name, complaint in {
        "pipe": device,
        "/dev/null": device,
        "/dev/zero": device,
        "folder": "is a folder; give a file",
        "loop": "no such file",
        "x" * 300: "cannot be read (File name too long)",
        "empty": "is empty",
        "secret": "cannot be read (Permission denied)",
    }.items():
        for command, part in ("train-spm", "train"), ("batch", "valid"):
            corpus = f"data.{part}={{source: {name}, target: {name}}}"
            with pytest.MonkeyPatch.context() as patch:
                # A user who may read everything has no other way to lack a permission.
                patch.setattr(os, "access", lambda path, mode: Path(path).name != "secret")
                line = refused(capsys, *stage(command, home, corpus))
            assert re.search(rf": {re.escape(name)}:? {re.escape(complaint)}", line)
    os.mkfifo("pipe.tsv")
    line = refused(capsys, *stage("batch", home, "data.train={table: pipe.tsv}"))
    assert line.endswith(f": pipe.tsv {device}")
    dataset = "data.train={dataset: pipe, source_column: a, target_column: b}"
    assert "give a folder" in refused(capsys, *stage("batch", home, dataset))
    unreadable(monkeypatch, "secret")
    line = refused(capsys, "translate", "secret", "-m", model)
    assert line.startswith("secret cannot be read (Permission denied)")
    assert refused(capsys, "score", "-r", "secret", "empty").startswith("secret cannot be read")


# score


@pytest.mark.parametrize("name", FILES)
def test_score_counts_every_line_or_names_one(name: str, home: Path, capsys: Capture) -> None:
    Path("a").write_bytes(FILES[name])
    content = unfolded(name)
    try:
        is_text = not is_blank(content.decode())
    except UnicodeDecodeError:
        is_text = False
    if is_text:
        assert call("score", "-r", "a", "a", "--language", "de", "--json") == 0
        out, err = capsys.readouterr()
        scores = json.loads(out, parse_constant=pytest.fail)
        assert scores[0]["lines"] == len(lines_in(content))
        assert "Traceback" not in err
    else:
        line = refused(capsys, "score", "-r", "a", "a")
        assert re.match(r"a:\d+: not UTF-8|a is empty|a has only blank lines", line)


@pytest.mark.parametrize("language", ["de", "zh"])
def test_score_takes_every_line_as_reference_or_hypothesis(language: str, capsys: Capture) -> None:
    lines = [text.encode() for text in VALID.values()]
    Path("a").write_bytes(b"\n".join(lines))
    Path("b").write_bytes(b"\n".join(reversed(lines)))
    assert call("score", "-r", "a", "b", "a", "--language", language) == 0
    assert said(capsys) == []


def test_score_reads_pipes_and_refuses_bad_files(capsys: Capture, stdin: Stdin) -> None:
    Path("three").write_bytes(b"a\nb\nc")
    Path("two").write_bytes(b"a\nb\n")
    Path("empty").touch()
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(b"a\nb\n"))
    writer.start()
    assert call("score", "-r", "pipe", "two") == 0
    writer.join()
    for arguments, line in {
        ("two", "three"): "three has 3 lines, but two has 2; line n must belong to line n",
        ("no", "two"): "no cannot be read (No such file or directory); give a text file",
        ("two", "."): ". cannot be read (Is a directory); give a text file",
        ("/dev/null", "two"): "/dev/null is empty, so there is nothing to score",
        ("two", "empty"): "empty is empty, so there is nothing to score",
    }.items():
        assert refused(capsys, "score", "-r", *arguments) == line
    for content, line in {
        b"a\n\xc3\n": "stdin:2: not UTF-8; convert the file",
        b"": "stdin is empty, so there is nothing to score",
    }.items():
        stdin(io.BytesIO(content))
        assert refused(capsys, "score", "-r", "two") == line


def test_a_gzip_bomb_takes_little_memory(home: Path, capsys: Capture) -> None:
    with gzip.open("bomb.gz", "wb", compresslevel=1) as file:
        for _ in range(256):
            file.write(bytes(MILLION))
    code = (
        "import resource, sys\n"
        "from mtkit.corpus.files import read_lines\n"
        "next(read_lines(sys.argv[2]))\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert list(read_lines(sys.argv[1])) == ['']\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    arguments = [sys.executable, "-c", code, "bomb.gz", str(home / "train.src")]
    grown = int(subprocess.run(arguments, capture_output=True, check=True).stdout)
    assert grown < 32 << 10  # KiB
