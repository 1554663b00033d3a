"""Artifacts that are interrupted, damaged or malicious are complete, repaired, or refused.

A kill or a full disk loses nothing. Damage is found and repaired by running again. A model from
somebody else loads, or one line says why not; because whoever makes such a folder can also write
hashes that fit, each case comes with and without them.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import mtkit
from architectures import ARCHITECTURES
from crashes import survive_at
from folders import train as train_spm
from folders import write_model
from mtkit.artifacts.manifest import MANIFEST, Kind, hash_file, hashes_of, kind_at, open_artifact
from mtkit.artifacts.replacement import create, recover_all, remove
from mtkit.artifacts.runs import LOCK
from mtkit.batching.build import build_batches
from mtkit.cli.main import main
from mtkit.config.decoding import MAX_SEARCH_TOKENS
from mtkit.config.settings import Config
from mtkit.errors import MtkitError, UserError
from mtkit.info import info
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.weights import build_without_weights
from mtkit.pipeline import run
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import train_tokenizer
from mtkit.training.train import train
from tasks import tiny_config, write_reversal_task

pytestmark = pytest.mark.slow
KINDS: tuple[Kind, ...] = ("tokenizer", "batches", "model", "test")
TIMEOUT_SECONDS = 300


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus and a finished run."""
    folder = tmp_path_factory.mktemp("finished")
    write_reversal_task(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run(config_in(folder))
    return folder


@pytest.fixture
def here(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, as the working directory."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True, symlinks=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def stranger(here: Path) -> Path:
    """A run to be damaged."""
    return here / "run"


def config_in(folder: Path) -> Config:
    """Return a config whose run is the relative run/, so that copies are independent."""
    return tiny_config(Path(), "transformer", training={"steps": 4, "validate_every": 2})


def identities(folder: Path) -> dict[str, str]:
    return {
        kind: open_artifact(folder / "run" / kind, kind, verify=True).identity for kind in KINDS
    }


def failure_of(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return the exit code and the last line of stderr of a command that must fail."""
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    errors = capsys.readouterr().err
    assert "Traceback" not in errors and "internal error" not in errors
    assert isinstance(end.value.code, int)
    return end.value.code, errors.splitlines()[-1]


# Killed between any two disk operations


def make(path: Path, content: str) -> None:
    with create(path, "tokenizer", {"content": content}, {}) as folder:
        (folder / "one.txt").write_text(content)
        (folder / "two.txt").write_text(content)


def put_notes(path: Path) -> None:
    """Put a file and a folder of the user into an artifact."""
    (path / "folder").mkdir()
    for name in ("NOTES.txt", "folder/NOTES.txt"):
        (path / name).write_text("my only copy")


def has_notes(path: Path) -> bool:
    names = ("NOTES.txt", "folder/NOTES.txt")
    return all((path / name).read_text() == "my only copy" for name in names)


def content_of(path: Path) -> str:
    return str(open_artifact(path, "tokenizer", verify=True).manifest["settings"]["content"])


def test_a_kill_during_a_write_leaves_the_old_or_the_new_artifact(tmp_path: Path) -> None:
    seen = set()
    for moment in count():
        path = tmp_path / str(moment) / "tokenizer"
        make(path, "older")
        put_notes(path)
        survived = survive_at(moment, lambda path=path: make(path, "newer"))  # type: ignore[misc]
        with pytest.raises(ZeroDivisionError), create(path, "tokenizer", {}, {}):
            raise ZeroDivisionError  # the next try fails for another reason
        seen.add(content_of(path))
        make(path, "newest")
        assert content_of(path) == "newest"
        assert has_notes(path)
        assert [entry.name for entry in path.parent.iterdir()] == ["tokenizer"]
        if survived:
            break
    assert seen == {"older", "newer"}
    assert moment > 20


def test_a_kill_during_a_deletion_leaves_all_or_nothing(tmp_path: Path) -> None:
    seen = set()
    for moment in count():
        path = tmp_path / str(moment) / "tokenizer"
        make(path, "whole")
        survived = survive_at(moment, lambda path=path: remove(path))  # type: ignore[misc]
        seen.add(content_of(path) if kind_at(path) else "gone")
        recover_all(path.parent, "tokenizer")
        remove(path)
        assert list(path.parent.iterdir()) == []
        if survived:
            break
    assert seen == {"whole", "gone"}


def test_a_kill_during_a_deletion_leaves_the_files_of_the_user(tmp_path: Path) -> None:
    for moment in count():
        path = tmp_path / str(moment) / "tokenizer"
        make(path, "whole")
        put_notes(path)
        survived = survive_at(moment, lambda path=path: remove(path))  # type: ignore[misc]
        recover_all(path.parent, "tokenizer")
        (folder,) = path.parent.iterdir()
        assert folder.name in ("tokenizer", "tokenizer.kept")
        assert has_notes(folder)
        if survived:
            break
    assert folder.name == "tokenizer.kept" and not kind_at(folder)


# A full or read-only disk


LIMITED = """
import resource, sys
sys.dont_write_bytecode = True  # a file of bytecode, too, would be cut off, and stay so
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from mtkit.cli.main import main
main(sys.argv[2:])
"""


@pytest.mark.parametrize(
    ("command", "limit", "lost"), [("batch", 4_000, KINDS[1:]), ("train", 40_000, KINDS[2:])]
)
def test_a_run_resumes_after_the_disk_was_full(
    here: Path, command: str, limit: int, lost: tuple[str, ...]
) -> None:
    before = identities(here)
    for kind in lost:
        shutil.rmtree(here / "run" / kind)
    if "model" in lost:
        shutil.rmtree(here / "run" / "checkpoints")
    kept = sorted(path.name for path in (here / "run").iterdir())
    limited = subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), command, "-c", "run/config.yaml"],
        capture_output=True,
        text=True,
    )
    assert limited.returncode == 1
    line = limited.stderr.splitlines()[-1]
    assert "run/" in line and ("File too large" in line or "disk full" in line)
    assert "Traceback" not in limited.stderr and "internal error" not in limited.stderr
    after = {path.name for path in (here / "run").iterdir()}
    # What is finished stays: checkpoints, and the index and parts of a corpus.
    assert after - {LOCK, "checkpoints", "parts"} == set(kept) - {LOCK}
    run(config_in(here))
    assert identities(here) == before
    assert not (here / "run" / "parts").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte, if file systems can be mounted here."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_finished_run_on_a_read_only_disk_is_up_to_date(
    here: Path, small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_in(here).model_copy(update={"run": str(small_disk / "run")})
    for kind in ("corpus", "tokenizer", "batches", "model"):
        shutil.copytree(here / "run" / kind, small_disk / "run" / kind)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    train_tokenizer(config)
    build_batches(config)
    train(config)
    assert capsys.readouterr().err.count("up to date") == 3
    assert mtkit.load(config.run).translate(["ant bee"])
    with pytest.raises(OSError, match="Read-only file system"):
        train_tokenizer(config.model_copy(update={"seed": 2}))
    assert train_tokenizer(config).report


# Damaged files


def flip(file: Path) -> None:
    """Flip a bit in the middle; in a manifest, in a hash, because its report is not hashed."""
    content = bytearray(file.read_bytes())
    label = b'"request": "'
    is_manifest = file.name == "manifest.json"
    content[content.index(label) + len(label) if is_manifest else len(content) // 2] ^= 1
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


DAMAGES: dict[str, Callable[[Path], None]] = {"flip": flip, "cut": cut, "delete": Path.unlink}
CASES = [
    ("tokenizer/spm.model", "flip"),
    ("batches/train.uint16", "flip"),
    ("batches/manifest.json", "flip"),
    ("model/model.safetensors", "flip"),
    ("model/config.json", "cut"),
    ("model/spm.model", "delete"),
    ("model/manifest.json", "flip"),
    ("test/manifest.json", "cut"),
]


@pytest.mark.parametrize(("file", "damage"), CASES)
def test_damage_is_found_by_verify_and_repaired_by_run(
    here: Path, file: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = identities(here)
    DAMAGES[damage](here / "run" / file)
    folder = Path("run", file).parent
    code, line = failure_of("info", "--verify", str(folder), capsys=capsys)
    assert code == 2
    assert str(folder) in line
    if folder.name == "model":
        code, line = failure_of("translate", "-m", "run", capsys=capsys)
        assert code == 2 and "run" in line
    run(config_in(here))
    assert identities(here) == before


def test_a_damaged_tokenizer_is_refused(here: Path) -> None:
    shutil.rmtree("run/batches")
    flip(here / "run" / "tokenizer" / "spm.model")
    with pytest.raises(UserError, match=r"spm\.model is missing or damaged"):
        build_batches(config_in(here))


# Folders from somebody else


def use_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer.load(open_artifact(folder, "tokenizer", verify=True))
    tokenizer.decode(tokenizer.encode_target(["ant bee ＦＵＬＬ", " ", "日本語"]))
    tokenizer.target_pieces(list(range(tokenizer.target_vocab)))


def use_model(folder: Path) -> None:
    translator = mtkit.load(folder, "cpu", beam=2, max_length=4, min_length=0)
    assert len(translator.translate(["ant bee", ""])) == 2


USES: dict[str, Callable[[Path], None]] = {"tokenizer": use_tokenizer, "model": use_model}
NASTY: list[Any] = [
    None,
    True,
    -1,
    0,
    10**9,
    2**63,
    -(10**30),
    0.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "../../secret",
    "/etc/passwd",
    "\x1b]0;title\x07\r\n",
    "\ud800",
    "x" * 10_000,
    [],
    [[[]]] * 3,
    {},
    {"kind": "transformer"},
]
RAW = [b"", b"[" * 100_000, b'{"a":' * 5_000, b"1" * 5_000, b"1e999", b"\xff\xfe", b"null", b"{}"]


def spoil_bytes(content: bytes, rng: random.Random) -> bytes:
    spoiled = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8])):
        start = rng.randrange(len(spoiled) + 1)
        match rng.randrange(5):
            case 0 if spoiled:
                spoiled[start % len(spoiled)] ^= 1 << rng.randrange(8)
            case 1 if spoiled:
                spoiled[start % len(spoiled)] = rng.randrange(256)
            case 2:
                del spoiled[start : start + rng.randrange(1, 64)]
            case 3:
                spoiled[start:start] = rng.randbytes(rng.randrange(1, 16))
            case 4:
                del spoiled[start:]
    return bytes(spoiled)


def spoil_value(value: Any, rng: random.Random) -> Any:
    """Replace one value somewhere in JSON, or remove or add a key."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        match rng.randrange(8):
            case 0:
                return {name: inner for name, inner in value.items() if name != key}
            case 1:
                return value | {rng.choice(["x", "..", "\x00", key.upper()]): value[key]}
        return value | {key: spoil_value(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        index = rng.randrange(len(value))
        return [*value[:index], spoil_value(value[index], rng), *value[index + 1 :]]
    return rng.choice(NASTY)


def spoil_json(content: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.15:
        return rng.choice(RAW)
    value = json.loads(content)
    for _ in range(rng.choice([1, 1, 3])):
        value = spoil_value(value, rng)
    return json.dumps(value).encode()


def spoil_weights(content: bytes, rng: random.Random) -> bytes:
    """Damage the header of safetensors: place, type and shape of each tensor."""
    (length,) = struct.unpack("<Q", content[:8])
    header = spoil_json(content[8 : 8 + length], rng)
    claimed = rng.choice([len(header)] * 6 + [0, 2**40, 2**63])
    return struct.pack("<Q", claimed) + header + content[8 + length :]


def replace_file(file: Path, rng: random.Random) -> None:
    """Put something else in the place of a file."""
    content = file.read_bytes()
    file.unlink()
    match rng.randrange(7):
        case 0:
            os.mkfifo(file)
        case 1:
            file.symlink_to(rng.choice(["/dev/zero", "/etc/passwd", "/dev/stdin", file.name]))
        case 2:
            file.mkdir()
        case 3:
            file.with_name(rng.choice(["other", "spm.source.model", "train.int32"])).write_bytes(
                content
            )
        case 4:
            outside = file.parent.parent / f"outside-{file.name}"
            outside.write_bytes(content)
            file.symlink_to(outside)
        case 5:
            os.truncate(os.open(file, os.O_CREAT | os.O_WRONLY), 1 << 40)
        case 6:
            pass


def is_plain(file: Path) -> bool:
    """Return whether these tests can read the file: no pipe, no terabyte of zeros."""
    return file.is_file() and not file.is_symlink() and file.stat().st_size < 1 << 30


def spoil(folder: Path, rng: random.Random) -> None:
    file = rng.choice(sorted(filter(is_plain, folder.iterdir())))
    if rng.random() < 0.15:
        replace_file(file, rng)
    elif rng.random() < 0.2:
        file.write_bytes(spoil_bytes(file.read_bytes(), rng))
    else:
        suited = {".json": spoil_json, ".safetensors": spoil_weights}
        file.write_bytes(suited.get(file.suffix, spoil_bytes)(file.read_bytes(), rng))


def rehash(folder: Path) -> None:
    """Make the hashes of the manifest fit the files, as far as it is a manifest."""
    if not is_plain(folder / MANIFEST):
        return
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        for name in manifest["files"]:
            if is_plain(folder / name):
                size = (folder / name).stat().st_size
                manifest["files"][name] = {"bytes": size, "sha256": hash_file(folder / name)}
        (folder / MANIFEST).write_text(json.dumps(manifest | hashes_of(manifest)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return


@contextmanager
def within(seconds: int) -> Iterator[None]:
    def hung(*_: object) -> None:
        raise AssertionError(f"not done within {seconds} seconds")

    before = signal.signal(signal.SIGALRM, hung)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def survives(action: Callable[[], None]) -> bool:
    """Return whether the action succeeds; otherwise its error must have a message."""
    try:
        with within(TIMEOUT_SECONDS):
            action()
    except (MtkitError, OSError) as error:  # the command line shows one line for both
        assert str(error)
        return False
    return True


@pytest.mark.parametrize("kind", USES)
@pytest.mark.parametrize("examples", [75, pytest.param(1500, marks=pytest.mark.campaign)])
def test_a_malicious_folder_loads_or_is_refused(
    examples: int, kind: str, finished: Path, tmp_path: Path
) -> None:
    assert survives(lambda: USES[kind](finished / "run" / kind))  # as long as nothing is spoiled

    @settings(max_examples=examples)
    @given(st.randoms(use_true_random=False), st.booleans())
    def check(rng: random.Random, has_right_hashes: bool) -> None:
        parent = tmp_path / "stranger"
        folder = parent / kind
        shutil.rmtree(parent, ignore_errors=True)
        shutil.copytree(finished / "run" / kind, folder)
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            with suppress(
                ValueError, IndexError, RecursionError, struct.error
            ):  # already too broken
                spoil(folder, rng)
        if has_right_hashes:
            rehash(folder)
        survives(lambda: USES[kind](folder))
        survives(lambda: info(folder))
        survives(lambda: info(folder, full=True))
        survives(lambda: info(folder, verify=True))
        survives(lambda: info(folder, config=True))

    check()


# SentencePiece is written in C++: only another process can observe a crash


SPOILT_PROTOBUFS = r"""
import os, random, struct, sys
from pathlib import Path
from sentencepiece import sentencepiece_model_pb2 as protobuf
from mtkit.errors import UserError
from mtkit.tokenizer.codec import Tokenizer

os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
sound, rng = Path(sys.argv[1]).read_bytes(), random.Random(int(sys.argv[3]))
PIECES = ["", "a", "\0", "<0x00>", "<0xZZ>", "\u2581" * 3000, " ", "x" * 70000, "e\u0301"]
SCORES = [0.0, 1e38, -1e38, float("inf"), -float("inf"), float("nan")]
LINES = ["ant bee", " \u3000x", "\uff26\u2460\ufb01 \u00c5", "\0\1\u2028", "e\u0301" * 99, ""]

def bytes_of(length):
    return rng.randbytes(rng.choice([0, 1, length]))

def spoilt_fields():
    model = protobuf.ModelProto.FromString(sound)
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    for _ in range(rng.choice([1, 1, 3])):
        piece = rng.choice(model.pieces)
        chars = bytearray(normalizer.precompiled_charsmap)
        match rng.randrange(9):
            case 0: piece.score = rng.choice(SCORES)
            case 1: piece.type = rng.randrange(1, 7)
            case 2: piece.piece = rng.choice(PIECES)
            case 3: del model.pieces[rng.randrange(1, len(model.pieces)) :]
            case 4:
                for _ in range(rng.choice([1, 10, 1000])):
                    chars[rng.randrange(len(chars))] = rng.randrange(256)
                normalizer.precompiled_charsmap = bytes(chars)
            case 5:
                size = struct.pack("<I", rng.choice([0, 4, 1024, 2**31]))
                normalizer.precompiled_charsmap = size + bytes_of(5000)
            case 6: trainer.model_type = rng.randrange(1, 5)
            case 7:
                name = rng.choice(["unk_id", "bos_id", "eos_id", "pad_id"])
                setattr(trainer, name, rng.choice([-1, 0, 1, 50, 2**31 - 1, -(2**31)]))
            case 8: trainer.byte_fallback = not trainer.byte_fallback
    return model.SerializeToString()

def spoilt_bytes():
    content = bytearray(sound)
    for _ in range(rng.choice([1, 1, 4, 20])):
        place = rng.randrange(len(content))
        match rng.randrange(3):
            case 0: content[place] ^= 1 << rng.randrange(8)
            case 1: del content[place : place + rng.randrange(1, 50)]
            case 2: content[place:place] = bytes_of(20)
    return bytes(content[: rng.choice([len(content)] * 9 + [rng.randrange(len(content))])])

loaded = 0
for _ in range(int(sys.argv[2])):
    try:
        content = rng.choice([spoilt_fields, spoilt_bytes])()
        tokenizer = Tokenizer({Path("spm.model"): content})
    except UserError:
        continue
    loaded += 1
    tokenizer.decode(tokenizer.encode_source(LINES))
    tokenizer.decode([[i] for i in range(4, tokenizer.target_vocab)])
    tokenizer.target_pieces(list(range(tokenizer.target_vocab)))
print(loaded)
"""


def spoilt_protobufs(folder: Path, cases: int, seed: int) -> int:
    """Return how many of so many damaged SentencePiece models could be loaded and used."""
    pytest.importorskip("google.protobuf")
    (model,) = train_spm(normalization_rule_name="nmt_nfkc").models.values()
    (folder / "sound.model").write_bytes(model)
    arguments = [str(folder / "sound.model"), str(cases), str(seed)]
    done = subprocess.run(
        [sys.executable, "-c", SPOILT_PROTOBUFS, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, f"exit code {done.returncode}: negative if it crashed"
    return int(done.stdout)


CAMPAIGN = [pytest.param(2000, seed, marks=pytest.mark.campaign) for seed in range(5)]


@pytest.mark.parametrize(("cases", "seed"), [(150, 1), *CAMPAIGN])
def test_no_tokenizer_crashes_the_process(tmp_path: Path, cases: int, seed: int) -> None:
    assert spoilt_protobufs(tmp_path, cases, seed)


def spoil_config(model: Path, **changes: object) -> None:
    config = json.loads((model / "config.json").read_text())
    config["model"] |= changes
    (model / "config.json").write_text(json.dumps(config))
    rehash(model)


@contextmanager
def little_memory() -> Iterator[None]:
    """Limit memory to half a gigabyte more than this process has."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (1 << 29)
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize(
    "claim",
    [
        {"layers": 10**9},
        {"layers": 1e99},
        {"layers": "six"},
        {"d_model": 10**9},
        {"heads": 0},
        {"positions": "learned"},
        {"dropout": -1},
    ],
)
def test_a_model_config_out_of_range_is_refused(stranger: Path, claim: dict[str, object]) -> None:
    spoil_config(stranger / "model", **claim)
    with pytest.raises(UserError, match=r"config\.json|weights of another model"):
        mtkit.load(stranger, "cpu")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
@pytest.mark.parametrize("claim", [{"ffn": 32768, "d_model": 32768}, {"layers": 64}])
def test_a_config_larger_than_the_weights_takes_no_memory(
    stranger: Path, claim: dict[str, object]
) -> None:
    spoil_config(stranger / "model", **claim)
    with little_memory(), pytest.raises(UserError, match=r"model\.safetensors"):
        mtkit.load(stranger, "cpu")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_shapes_are_known_without_memory(name: str) -> None:
    real = dict(EncoderDecoder(ARCHITECTURES[name], 30, 30).named_parameters())
    empty = dict(build_without_weights(ARCHITECTURES[name], 30, 30).named_parameters())
    assert all(parameter.is_meta for parameter in empty.values())
    assert {k: v.shape for k, v in empty.items()} == {k: v.shape for k, v in real.items()}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused(stranger: Path, value: float) -> None:
    file = stranger / "model" / "model.safetensors"
    weights = load_file(file)
    weights["encoder.layers.0.feed_forward.expand.bias"][3] = value
    save_file(weights, file)
    rehash(stranger / "model")
    with pytest.raises(UserError, match=r"feed_forward\.expand\.bias has values that ar"):
        mtkit.load(stranger, "cpu")


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("trick", ["pipe", "link out", "link in", "device"])
def test_links_pipes_and_devices_are_never_opened(stranger: Path, trick: str, listed: bool) -> None:
    file = stranger / "model" / ("spm.model" if listed else "spm.source.model")
    (stranger / "spm.model").write_bytes((stranger / "model" / "spm.model").read_bytes())
    file.unlink(missing_ok=True)
    match trick:
        case "pipe":
            os.mkfifo(file)
        case "link out":
            file.symlink_to(stranger / "spm.model")
        case "link in":
            file.symlink_to("config.json")
        case "device":
            file.symlink_to("/dev/zero")
    with within(TIMEOUT_SECONDS):
        if listed:
            with pytest.raises(UserError, match=f"{file.name} is a link, pipe, device or folder"):
                mtkit.load(stranger, "cpu")
        else:
            assert len(mtkit.load(stranger, "cpu").translate(["ant bee"])) == 1


def test_a_manifest_that_lists_no_files_is_refused(stranger: Path) -> None:
    manifest = json.loads((stranger / "model" / MANIFEST).read_text()) | {"files": {}}
    (stranger / "model" / MANIFEST).write_text(json.dumps(manifest | hashes_of(manifest)))
    with pytest.raises(UserError, match="lists no files"):
        mtkit.load(stranger, "cpu")


@pytest.mark.parametrize("name", ["config.json", "spm.model", "model.safetensors"])
def test_a_file_that_the_manifest_does_not_list_is_missing(stranger: Path, name: str) -> None:
    manifest = json.loads((stranger / "model" / MANIFEST).read_text())
    del manifest["files"][name]
    (stranger / "model" / MANIFEST).write_text(json.dumps(manifest | hashes_of(manifest)))
    with pytest.raises(UserError, match=r"manifest\.json lists no "):
        mtkit.load(stranger, "cpu", engine="torch")


@pytest.mark.parametrize("beam", [1, 5, 10_000])
def test_the_memory_of_a_search_has_a_bound(stranger: Path, beam: int) -> None:
    longest = MAX_SEARCH_TOKENS // beam
    mtkit.load(stranger, "cpu", beam=beam, max_length=longest, engine="torch")
    with pytest.raises(UserError, match="times max_length"):
        mtkit.load(stranger, "cpu", beam=beam, max_length=longest + 1, engine="torch")


@pytest.mark.parametrize("name", ["transformer", "seq2seq-general", "transformer-lstm"])
@pytest.mark.parametrize("options", [[], ["--explain"]])
def test_attention_of_huge_finite_weights_is_one_line(
    tmp_path: Path, name: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def enlarge(model: EncoderDecoder) -> None:
        for parameter in model.parameters():
            parameter.data.fill_(3e38)

    model = write_model(tmp_path / "model", train_spm(), ARCHITECTURES[name], enlarge)
    code, line = failure_of("attend", "-m", str(model), "A dog runs.", *options, capsys=capsys)
    assert code == 2
    assert "not finite" in line or "nothing to explain" in line


PIPES = {
    "model/manifest.json": (False, False),
    "batches/manifest.json": (False, False),
    "config.yaml": (True, False),
    "metrics.jsonl": (True, True),
}
"""Whether `info` and `info --config` have something to show if this file is a pipe."""


@pytest.mark.parametrize("config", [False, True])
@pytest.mark.parametrize("name", PIPES)
def test_info_does_not_wait_for_a_pipe(stranger: Path, name: str, config: bool) -> None:
    file = stranger / name
    file.unlink()
    os.mkfifo(file)
    refused = pytest.raises(UserError, match=r"is not a run|holds no run")
    with within(TIMEOUT_SECONDS), nullcontext() if PIPES[name][config] else refused:
        info(file.parent, config=config)


def test_info_does_not_expand_nested_yaml_aliases(stranger: Path) -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60))]
    (stranger / "config.yaml").write_text("\n".join(lines))
    with within(TIMEOUT_SECONDS), pytest.raises(UserError, match="settings"):
        info(stranger, config=True)


def test_info_prints_no_terminal_control_sequences(
    stranger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads((stranger / "model" / MANIFEST).read_text())
    manifest["report"] = {"\x1b[2Jscore": "\x1b]0;title\x07 \u202etxt.exe \x9b1m"}
    manifest["mtkit"] = "1\r2\n"
    (stranger / "model" / MANIFEST).write_text(json.dumps(manifest))
    info(stranger / "model")
    info(stranger / "model", full=True)
    shown = capsys.readouterr().out
    assert "score" in shown and "title" in shown
    assert not {"\x1b", "\x07", "\x9b", "\r", "\u202e"} & set(shown)
