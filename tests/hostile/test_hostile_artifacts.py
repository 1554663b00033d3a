"""Folders from strangers: broken or made to hurt, they load, or one line says why they do not.

Whoever makes such a folder can also write hashes that fit; so every case comes with and without.
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
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from architectures import ARCHITECTURES
from mtkit.artifacts.manifest import MANIFEST, hash_file, hashes_of, open_artifact
from mtkit.artifacts.recipe import checkpoint_recipe
from mtkit.artifacts.stage import Stage
from mtkit.batching.build import open_batches
from mtkit.config.settings import Config
from mtkit.decoding.api import Translator
from mtkit.errors import MtkitError, UserError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.weights import build_without_weights
from mtkit.pipeline import run
from mtkit.study.info.info import info
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.checkpoints import Checkpoints
from mtkit.training.processes import ALONE
from mtkit.training.setup import fresh_state
from tasks import tiny_config, write_reversal_task

pytestmark = pytest.mark.slow
SECONDS = 300
"""After which a case hangs."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    folder = tmp_path_factory.mktemp("sound")
    write_reversal_task(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run(config_in(folder))
    return folder / "run"


def config_in(folder: Path) -> Config:
    return tiny_config(folder, "transformer", training={"steps": 2, "keep": 1, "average": 1})


# How each kind of artifact is used


def use_tokenizer(folder: Path, _: Config) -> None:
    tokenizer = Tokenizer.load(open_artifact(folder, "tokenizer", verify=True).path)
    tokenizer.decode(tokenizer.encode_target(["ant bee ＦＵＬＬ", " ", "日本語"]))
    tokenizer.target_pieces(list(range(tokenizer.target_vocab)))


def use_batches(folder: Path, _: Config) -> None:
    data = open_batches(folder)
    for store in (data.train, data.valid):
        rows = np.array([0, len(store) - 1])
        for target in (False, True):
            ids, lengths = store.side(rows, target=target)
            assert len(ids) == lengths.sum()


def use_model(folder: Path, _: Config) -> None:
    translator = Translator.load(folder, "cpu", beam=2, max_length=4, min_length=0)
    assert len(translator.translate(["ant bee", ""])) == 2


def use_checkpoint(folder: Path, config: Config) -> None:
    tokenizer = Tokenizer.load(Path(config.run) / "tokenizer")
    state = fresh_state(config, tokenizer, ALONE)
    manifest = json.loads((Path(config.run) / "checkpoints" / folder.name / MANIFEST).read_text())
    recipe = checkpoint_recipe(config)
    stage = Stage("checkpoint", folder.parent, recipe, manifest["inputs"])
    Checkpoints(stage).load_last(state)


USES: dict[str, tuple[str, Callable[[Path, Config], None]]] = {
    "tokenizer": ("tokenizer", use_tokenizer),
    "batches": ("batches", use_batches),
    "model": ("model", use_model),
    "checkpoint": ("checkpoints/step-00000002", use_checkpoint),
}


# What can be done to one


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
    """One value somewhere in JSON replaced, or a key taken away or added."""
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
    """The header of safetensors, which says where each tensor lies, of what type and shape."""
    (length,) = struct.unpack("<Q", content[:8])
    header = spoil_json(content[8 : 8 + length], rng)
    claimed = rng.choice([len(header)] * 6 + [0, 2**40, 2**63])
    return struct.pack("<Q", claimed) + header + content[8 + length :]


def spoil_array(content: bytes, rng: random.Random) -> bytes:
    """The header of .npy."""
    header, rest = content[:128], content[128:]
    swaps = [
        (b"<u2", rng.choice([b"|O8", b"<i8", b">u2", b"<f4", b"|S9"])),
        (b"False", b"True "),
        (b", 2)", rng.choice([b", 3)", b")   ", b",-2)", b", 2,"])),
        (b"(", rng.choice([b"(9" * 9, b"(-", b"(" * 60, b"(10**9,"])),
        (b"\x93NUMPY\x01", b"\x93NUMPY" + bytes([rng.randrange(5)])),
        (b"{'descr'", b"-" * 8),
    ]
    changed = header.replace(*rng.choice(swaps), 1)
    return changed[:128].ljust(128) + rest


def spoil_place(file: Path, rng: random.Random) -> None:
    """Something else where a file should be."""
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
    """Whether these tests may read it: a pipe or a terabyte of nothing is for mtkit to refuse."""
    return file.is_file() and not file.is_symlink() and file.stat().st_size < 1 << 30


def spoil(folder: Path, rng: random.Random) -> None:
    file = rng.choice(sorted(filter(is_plain, folder.iterdir())))
    if rng.random() < 0.15:
        spoil_place(file, rng)
    elif rng.random() < 0.2:
        file.write_bytes(spoil_bytes(file.read_bytes(), rng))
    else:
        suited = {".json": spoil_json, ".safetensors": spoil_weights, ".npy": spoil_array}
        file.write_bytes(suited.get(file.suffix, spoil_bytes)(file.read_bytes(), rng))


def rehash(folder: Path) -> None:
    """Makes the manifest fit what lies there, as far as it is one."""
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


# The law


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
    """Whether it succeeds; else it must say so in one line."""
    try:
        with within(SECONDS):
            action()
    except (MtkitError, OSError) as error:  # the command line has one line for both
        assert str(error)
        return False
    return True


def hostile(examples: int) -> Any:
    """The law that a stranger's folder can do no harm, on so many of each kind."""

    @pytest.mark.parametrize("kind", USES)
    @settings(max_examples=examples)
    @given(st.randoms(use_true_random=False), st.booleans())
    def law(sound: Path, kind: str, rng: random.Random, fitting: bool) -> None:
        place, use = USES[kind]
        stranger = sound.parent / f"stranger-{os.getpid()}"
        folder = stranger / place
        shutil.rmtree(stranger, ignore_errors=True)
        shutil.copytree(sound / place, folder)
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            with suppress(
                ValueError, IndexError, RecursionError, struct.error
            ):  # spoilt beyond that already
                spoil(folder, rng)
        if fitting:
            rehash(folder)
        survives(lambda: use(folder, config_in(sound.parent)))
        survives(lambda: info(folder))
        survives(lambda: info(folder, verify=True))
        survives(lambda: info(folder, config=True))

    return law


test_what_a_stranger_made_loads_or_is_refused_in_one_line = hostile(75)
test_campaign_of_what_strangers_make = pytest.mark.campaign(hostile(1500))


# SentencePiece is C++: what ends the process can be seen only from another one


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


def spoilt_protobufs(sound: Path, cases: int, seed: int) -> int:
    """How many of so many spoilt SentencePiece models could be loaded, and used."""
    pytest.importorskip("google.protobuf")
    arguments = [str(sound / "tokenizer" / "spm.model"), str(cases), str(seed)]
    done = subprocess.run(
        [sys.executable, "-c", SPOILT_PROTOBUFS, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, f"ended with {done.returncode}: a crash, where it is negative"
    return int(done.stdout)


def test_no_tokenizer_ends_the_process(sound: Path) -> None:
    assert spoilt_protobufs(sound, 150, seed=1)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(5))
def test_campaign_of_tokenizers(sound: Path, seed: int) -> None:
    assert spoilt_protobufs(sound, 2000, seed)


# Single tricks


@pytest.fixture
def stranger(sound: Path, tmp_path: Path) -> Path:
    """A copy of the run to be spoilt."""
    shutil.copytree(sound, tmp_path / "run")
    return tmp_path / "run"


def spoil_config(model: Path, **changes: object) -> None:
    card = json.loads((model / "config.json").read_text())
    card["model"] |= changes
    (model / "config.json").write_text(json.dumps(card))
    rehash(model)


@contextmanager
def little_memory() -> Iterator[None]:
    """Half a gigabyte more than this process has by now."""
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
        {"layers": [6]},
        {"d_model": 10**9},
        {"ffn": 10**6},
        {"heads": 0},
        {"max_positions": 10**12},
        {"dropout": -1},
    ],
)
def test_a_model_cannot_claim_to_be_anything(stranger: Path, claim: dict[str, object]) -> None:
    spoil_config(stranger / "model", **claim)
    with pytest.raises(UserError, match=r"config\.json|weights of another model"):
        Translator.load(stranger, "cpu")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits are Linux's")
@pytest.mark.parametrize("claim", [{"ffn": 32768, "d_model": 32768}, {"layers": 64}])
def test_a_claim_that_the_weights_do_not_bear_out_takes_no_memory(
    stranger: Path, claim: dict[str, object]
) -> None:
    spoil_config(stranger / "model", **claim)
    with little_memory(), pytest.raises(UserError, match=r"model\.safetensors: "):
        Translator.load(stranger, "cpu")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_has_its_shapes_before_it_has_memory(name: str) -> None:
    real = dict(EncoderDecoder(ARCHITECTURES[name], 30, 30).named_parameters())
    hollow = dict(build_without_weights(ARCHITECTURES[name], 30, 30).named_parameters())
    assert all(parameter.is_meta for parameter in hollow.values())
    assert {k: v.shape for k, v in hollow.items()} == {k: v.shape for k, v in real.items()}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused(stranger: Path, value: float) -> None:
    file = stranger / "model" / "model.safetensors"
    weights = load_file(file)
    weights["encoder.layers.0.feed_forward.expand.bias"][3] = value
    save_file(weights, file)
    rehash(stranger / "model")
    with pytest.raises(UserError, match=r"feed_forward\.expand\.bias has values that are not fin"):
        Translator.load(stranger, "cpu")


def test_weights_that_overflow_still_translate_line_by_line(stranger: Path) -> None:
    file = stranger / "model" / "model.safetensors"
    save_file({name: torch.full_like(w, 3e38) for name, w in load_file(file).items()}, file)
    rehash(stranger / "model")
    translator = Translator.load(stranger, "cpu", max_length=5)
    assert len(translator.translate(["ant", "", "bee cat"])) == 3


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
    with within(SECONDS), pytest.raises(UserError, match=f"{file.name}: a link, pipe or device"):
        Translator.load(stranger, "cpu")


# Whether `info`, and `info --config`, have something to show when a file is a pipe.
PIPES = {
    "model/manifest.json": (False, False),
    "batches/manifest.json": (False, False),
    "config.yaml": (True, False),
    "metrics.jsonl": (True, True),
}


@pytest.mark.parametrize("config", [False, True])
@pytest.mark.parametrize("name", PIPES)
def test_a_pipe_does_not_keep_info_waiting(stranger: Path, name: str, config: bool) -> None:
    file = stranger / name
    file.unlink()
    os.mkfifo(file)
    there_is_none = "no run here" if config else "no run, model or artifact here"
    refused = pytest.raises(UserError, match=there_is_none)
    with within(SECONDS), nullcontext() if PIPES[name][config] else refused:
        info(file.parent, config=config)


HEADERS = {
    "objects": {"descr": "|O", "fortran_order": False, "shape": (400, 2)},
    "another order": {"descr": "<u2", "fortran_order": True, "shape": (400, 2)},
    "another type": {"descr": "<i8", "fortran_order": False, "shape": (100, 2)},
    "another shape": {"descr": "<u2", "fortran_order": False, "shape": (800,)},
    "a huge shape": {"descr": "<u2", "fortran_order": False, "shape": (1 << 62, 2)},
    "no shape": {"descr": "<u2", "fortran_order": False, "shape": (-1, 2)},
}


@pytest.mark.parametrize("name", HEADERS)
def test_arrays_are_what_mtkit_writes_or_nothing(stranger: Path, name: str) -> None:
    file = stranger / "batches" / "train.lengths.npy"
    values = file.read_bytes()[128:]
    with file.open("wb") as opened:
        np.lib.format.write_array_header_1_0(opened, HEADERS[name])
        opened.write(values)
    rehash(stranger / "batches")
    with pytest.raises(UserError, match=r"lengths\.npy: no column of a token store"):
        open_batches(stranger / "batches")


def test_aliases_of_aliases_do_not_keep_info_waiting(stranger: Path) -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60))]
    (stranger / "config.yaml").write_text("\n".join(lines))
    with within(SECONDS), pytest.raises(UserError, match="settings"):
        info(stranger, config=True)


def test_nothing_that_info_shows_commands_the_terminal(
    stranger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads((stranger / "model" / MANIFEST).read_text())
    manifest["report"] = {"\x1b[2Jscore": "\x1b]0;title\x07 \u202etxt.exe \x9b1m"}
    manifest["mtkit"] = "1\r2\n"
    (stranger / "model" / MANIFEST).write_text(json.dumps(manifest))
    info(stranger / "model")
    shown = capsys.readouterr().out
    assert "score" in shown and "title" in shown
    assert not {"\x1b", "\x07", "\x9b", "\r", "\u202e"} & set(shown)
