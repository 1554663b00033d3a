"""Encoding in parts: the result is the same, whatever the parts and whoever encodes them."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import call
from mtkit.artifacts.locks import lock_path
from mtkit.artifacts.manifest import Artifact, open_artifact
from mtkit.artifacts.replacement import create
from mtkit.artifacts.runs import CHECKPOINTS, checkpoint_at
from mtkit.artifacts.stage import ChangedRunError, Draft
from mtkit.batching import parts, processes
from mtkit.batching.build import build_batches, count_parts, encode_part
from mtkit.batching.encode import Encoded
from mtkit.batching.part_store import PartStore, find_repeated, part_writer
from mtkit.config.corpora import Corpus, TableCorpus, TextCorpus, listed
from mtkit.config.settings import Config
from mtkit.config.yaml import dump_config
from mtkit.corpus.read import Pair, read_pairs
from mtkit.corpus.row_index import RowIndex
from mtkit.errors import MtkitError, UserError
from mtkit.tokenizer.train_spm import train_tokenizer

PAIRS = [
    (f"the dog number {number} runs to the old house", f"der Hund {number} rennt zum alten Haus")
    for number in range(150)
]
FAULTY = [("", "leer"), ("a <b>bold</b> dog", "ein fetter Hund"), ("dog", "Hund " * 90)]
RULES = ["markup", "overlap"]


def write(path: Path, lines: list[str]) -> str:
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def write_corpora(folder: Path) -> list[Corpus]:
    """Write corpora of all kinds of files, in which pairs are repeated and faulty."""
    first, second = [*PAIRS[:60], *FAULTY, *PAIRS[20:40]], [*PAIRS[50:], *PAIRS[:3]]
    texts = TextCorpus(
        source=[
            write(folder / "a.en", [source for source, _ in first]),
            write(folder / "b.en.gz", [source for source, _ in second]),
        ],
        target=[
            write(folder / "a.de", [target for _, target in first]),
            write(folder / "b.de.gz", [target for _, target in second]),
        ],
    )
    rows = [f'"{source}\nhere","{target}\nhier"' for source, target in PAIRS[:40]]
    table = TableCorpus(
        table=write(folder / "c.csv", ["source,target", *rows, *rows[:5]]),
        source_column="source",
        target_column="target",
        tag="dog",
    )
    return [texts, table]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A config of a run that has a tokenizer, and batches that were encoded in one part."""
    folder = tmp_path_factory.mktemp("corpora")
    valid = {
        "source": write(folder / "valid.en", [PAIRS[7][0], "a cat"]),
        "target": write(folder / "valid.de", [PAIRS[7][1], "eine Katze"]),
    }
    settings = {
        "run": str(folder / "run"),
        "data": {"train": write_corpora(folder), "valid": valid},
        "tokenizer": {"vocab_size": 330},
        "batching": {"deduplicate": True, "drop": RULES, "hints": 0.3, "max_length": 60},
        "training": {"steps": 1},
    }
    config = Config.model_validate(settings)
    train_tokenizer(config)
    build_batches(config)
    return config


@pytest.fixture
def in_parts(corpora: Config, tmp_path: Path) -> Callable[[int], Config]:
    """Return a config of the same corpora in parts of some rows, with a run of its own."""
    run = tmp_path / "run"
    shutil.copytree(Path(corpora.run) / "tokenizer", run / "tokenizer")

    def divide(rows: int) -> Config:
        batching = corpora.batching.model_copy(update={"part_rows": rows})
        return corpora.model_copy(update={"run": str(run), "batching": batching})

    return divide


@pytest.fixture
def single_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encode all parts in this process."""
    monkeypatch.setattr(processes, "count_cores", lambda: 1)


def expected(corpora: Config) -> Artifact:
    return open_artifact(Path(corpora.run) / "batches", "batches")


def config_file(config: Config) -> str:
    """Write the config to a file."""
    path = Path(config.run).with_name("mtkit.yaml")
    path.write_text(dump_config(config))
    return str(path)


@pytest.mark.usefixtures("single_core")
@pytest.mark.parametrize("rows", [11, 64, 150])
def test_the_result_does_not_depend_on_the_number_of_parts(
    rows: int, corpora: Config, in_parts: Callable[[int], Config]
) -> None:
    config = in_parts(rows)
    assert build_batches(config).identity == expected(corpora).identity
    assert not (Path(config.run) / "parts").exists()
    report = expected(corpora).report["train"]
    assert report["hinted"] > 20
    repeated = 20 + 10 + 3 + 5
    assert report["dropped"] == {"blank": 1, "overlap": 1, "markup": 1, "too long": 1} | {
        "duplicate": repeated
    }


@pytest.mark.usefixtures("single_core")
def test_parts_that_other_commands_have_encoded_are_joined(
    corpora: Config,
    in_parts: Callable[[int], Config],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = in_parts(100)
    file = config_file(config)
    assert call("batch", "-c", file, "--parts") == 0
    count = int(capsys.readouterr().out)
    assert count == 3
    for number in reversed(range(1, 1 + count)):
        assert call("batch", "-c", file, "--part", str(number)) == 0
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(parts.Parts, "_fill", Mock(side_effect=AssertionError))
    assert build_batches(config).identity == expected(corpora).identity


def test_parts_are_encoded_by_several_processes(
    corpora: Config, in_parts: Callable[[int], Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "count_cores", lambda: 2)
    monkeypatch.setattr(parts.Parts, "_fill", Mock(side_effect=AssertionError))
    config = in_parts(150)
    assert build_batches(config).identity == expected(corpora).identity
    assert sorted(path.name for path in Path(config.run).iterdir() if path.name[0] != ".") == [
        "batches",
        "config.yaml",
        "tokenizer",
    ]


@pytest.mark.usefixtures("single_core")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_stopped_command_keeps_the_parts_that_it_has_encoded(
    number: signal.Signals,
    corpora: Config,
    in_parts: Callable[[int], Config],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = in_parts(50)
    command = [sys.executable, "-m", "mtkit", "batch", "-c", config_file(config)]
    first = Path(config.run) / "parts" / "part-00001" / "manifest.json"
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while not first.exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
    encoded_later: list[range] = []
    fill = parts.Parts._fill

    def watched_fill(self: parts.Parts, draft: Draft, rows: range, description: str) -> None:
        encoded_later.append(rows)
        fill(self, draft, rows, description)

    monkeypatch.setattr(parts.Parts, "_fill", watched_fill)
    # Processes of a killed command may still be encoding; this waits for them.
    assert build_batches(config).identity == expected(corpora).identity
    assert range(50) not in encoded_later


def test_processes_end_with_the_command_that_started_them(
    in_parts: Callable[[int], Config],
) -> None:
    config = in_parts(20)
    command = [sys.executable, "-m", "mtkit", "batch", "-c", config_file(config)]
    folder = Path(config.run) / "parts"
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while not [*folder.glob(".part-*")] and process.poll() is None:
            time.sleep(0.01)
        process.terminate()
    for path in folder.glob(".part-*.lock"):
        with lock_path(path):  # fails if a process still holds it
            pass


@pytest.fixture
def own_corpus(tmp_path: Path, in_parts: Callable[[int], Config]) -> Config:
    """A config of a corpus that a test may change, in two parts, with an index."""
    config = in_parts(100)
    own = TextCorpus(
        source=write(tmp_path / "own.en", [source for source, _ in PAIRS]),
        target=write(tmp_path / "own.de", [target for _, target in PAIRS]),
    )
    config = config.model_copy(update={"data": config.data.model_copy(update={"train": own})})
    assert count_parts(config) == 2
    return config


@pytest.mark.usefixtures("single_core")
def test_changed_text_makes_all_parts_anew(own_corpus: Config, tmp_path: Path) -> None:
    encode_part(own_corpus, 1)
    write(tmp_path / "own.en", [f"{source} again" for source, _ in PAIRS])
    changed = build_batches(own_corpus)
    shutil.rmtree(Path(own_corpus.run) / "batches")
    assert build_batches(own_corpus).identity == changed.identity


@pytest.mark.usefixtures("single_core")
def test_a_part_is_made_of_the_text_that_was_indexed_and_of_no_other(
    own_corpus: Config, tmp_path: Path
) -> None:
    source = tmp_path / "own.en"
    original, times = source.read_bytes(), source.stat()
    source.write_bytes(original.replace(b"house", b"mouse"))  # as long as before
    with pytest.raises(UserError, match=r"data\.train\.source is not the text that was indexed"):
        encode_part(own_corpus, 1)
    source.write_bytes(original)
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns + 10**9))  # a copy
    encode_part(own_corpus, 1)


@pytest.mark.usefixtures("single_core")
def test_a_part_is_made_of_the_corpora_that_were_indexed(own_corpus: Config) -> None:
    table = write(Path(own_corpus.run).with_name("own.tsv"), ["a\tb"] * 150)
    other = own_corpus.data.model_copy(update={"train": TableCorpus(table=table)})
    with pytest.raises(UserError, match=r"data\.train\.table is not the text that was indexed"):
        encode_part(own_corpus.model_copy(update={"data": other}), 1)


@pytest.mark.usefixtures("single_core")
def test_text_that_changes_while_a_part_is_encoded_is_an_error(
    own_corpus: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(*arguments: Any) -> Iterator[Encoded]:
        write(tmp_path / "own.de", [target for _, target in PAIRS[:50]])
        return iter(())

    monkeypatch.setattr(parts, "encode_pairs", encode)
    with pytest.raises(UserError, match=r"data\.train\.target is not the text that was indexed"):
        encode_part(own_corpus, 1)


@pytest.mark.usefixtures("single_core")
def test_files_of_the_user_and_nothing_else_stay_in_the_folder_of_parts(
    own_corpus: Config,
) -> None:
    folder = Path(own_corpus.run) / "parts"
    own = [folder / "part-of-mine.txt", folder / "part-00009", folder / "config.yaml"]
    for path in own:
        path.write_text("mine")
    (folder / ".part-00007.lock").touch()  # of a killed command
    encode_part(own_corpus, 2)
    build_batches(own_corpus)
    assert sorted(folder.iterdir()) == sorted(own)
    assert all(path.read_text() == "mine" for path in own)


def test_no_part_is_encoded_for_batches_that_may_not_be_replaced(
    in_parts: Callable[[int], Config],
) -> None:
    config = in_parts(1000)
    batches = build_batches(config)
    step = checkpoint_at(Path(config.run) / CHECKPOINTS, 1)
    with create(step, "checkpoint", settings={}, inputs={"batches": batches.identity}) as draft:
        (draft / "optimizer.safetensors").touch()
    batching = config.batching.model_copy(update={"max_length": 9})
    with pytest.raises(ChangedRunError, match="max_length"):
        count_parts(config.model_copy(update={"batching": batching}))


@pytest.mark.usefixtures("single_core")
def test_a_part_needs_an_index_of_the_same_settings(in_parts: Callable[[int], Config]) -> None:
    config = in_parts(100)
    with pytest.raises(UserError, match="`mtkit batch --parts`"):
        encode_part(config, 1)
    assert count_parts(config) == 3
    with pytest.raises(UserError, match="4 is not between 1 and the number of parts, 3"):
        encode_part(config, 4)
    batching = config.batching.model_copy(update={"max_length": 9})
    with pytest.raises(UserError, match=r"max_length was 60, now 9; run `mtkit batch --parts`"):
        encode_part(config.model_copy(update={"batching": batching}), 1)


@pytest.mark.usefixtures("single_core")
def test_a_part_has_as_many_rows_as_the_index_was_made_for(
    in_parts: Callable[[int], Config],
) -> None:
    assert count_parts(in_parts(100)) == 3
    for rows in (50, 101, 1_000):
        with pytest.raises(UserError, match=r"batching\.part_rows changed; give the value"):
            encode_part(in_parts(rows), 1)
    assert count_parts(in_parts(50)) == 5
    encode_part(in_parts(50), 5)


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        (-signal.SIGKILL, MtkitError, r"part 3 was killed \(SIGKILL\); run the same command again"),
        (1, MtkitError, "part 3: the disk is full"),
        (2, UserError, "the disk is full"),
    ],
)
def test_the_error_of_a_process_is_raised_after_its_warnings(
    code: int,
    error: type[MtkitError],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    last_line = "the disk is full\n" if code > 0 else ""
    with pytest.raises(error, match=message):
        processes._pass_on(3, code, f"warning: a\nwarning: a\n{last_line}")
    assert capsys.readouterr().err == "warning: a\n"


@given(st.data())
def test_any_rows_of_an_index_are_those_of_all_pairs(corpora: Config, data: st.DataObject) -> None:
    train = listed(corpora.data.train)
    pairs = list(read_pairs(train))
    index = RowIndex(train, [[83, 103], [45]])
    assert RowIndex.count(train) == index
    assert index.total == len(pairs)
    place = st.integers(0, len(pairs))
    rows = range(data.draw(place), data.draw(place), data.draw(st.integers(1, 40)))
    assert list(index.read(rows)) == [pairs[row] for row in rows]


@given(st.lists(st.lists(st.integers(0, 20)), min_size=1, max_size=4))
def test_a_row_is_repeated_if_an_equal_one_comes_before_it(numbers: list[list[int]]) -> None:
    with TemporaryDirectory() as folder:
        stores = [_write_store(Path(folder, str(part)), own) for part, own in enumerate(numbers)]
        found = [is_repeated.tolist() for is_repeated in find_repeated(stores)]
    seen: set[int] = set()
    for own, is_repeated in zip(numbers, found, strict=True):
        for number, repeated in zip(own, is_repeated, strict=True):
            assert repeated == (number in seen)
            seen.add(number)


def _write_store(folder: Path, numbers: list[int]) -> PartStore:
    """Write a part with a pair for each number."""
    pairs = [Pair(f"source {number}", "target", 0, "file", 1) for number in numbers]
    chunk = Encoded(
        kept=pairs,
        positions=list(range(len(pairs))),
        lengths=np.ones((len(pairs), 2), np.uint16),
        tokens=np.zeros(2 * len(pairs), np.uint16),
        dropped=[],
    )
    folder.mkdir()
    with part_writer(folder, "train", 300) as append:
        append(chunk)
    files: dict[str, object] = {path.name: {} for path in folder.iterdir()}
    return PartStore(Artifact(folder, {"kind": "part", "files": files}), "train")
