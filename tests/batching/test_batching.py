"""Stage 2: which pairs are kept or dropped, the report, and when batches are rebuilt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from folders import tokenizer_in
from mtkit.artifacts.manifest import Artifact
from mtkit.batching import encode
from mtkit.batching.build import build_batches, open_batches
from mtkit.batching.store import Store
from mtkit.config.corpora import TextCorpus
from mtkit.config.settings import Config
from mtkit.corpus import store
from mtkit.corpus.store import temporary_rows
from mtkit.corpus.text import normalise
from mtkit.errors import UserError
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import train_tokenizer

VALID = [("a b", "c d"), ("", "no source"), ("tab\there \u2028 x", "y\rz"), ("no target", " ")]
MANY = [(f"number {i} is here", f"{i} 번 입니다 {i % 7}") for i in range(300)]


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    return str(path)


def corpus(folder: Path, name: str, pairs: list[tuple[str, str]], **more: Any) -> dict[str, Any]:
    source = write(folder / f"{name}.en", [source for source, _ in pairs])
    target = write(folder / f"{name}.ko", [target for _, target in pairs])
    return {"source": source, "target": target, **more}


def config(
    folder: Path, train: Any, valid: list[tuple[str, str]] = VALID, **batching: Any
) -> Config:
    return Config.model_validate(
        {
            "run": str(folder / "run"),
            "data": {"train": train, "valid": corpus(folder, "valid", valid)},
            "tokenizer": {"vocab_size": 300},
            "batching": batching,
            "training": {"steps": 1},
        }
    )


def built(folder: Path, pairs: list[tuple[str, str]], **settings: Any) -> Artifact:
    made = config(folder, corpus(folder, "train", pairs), **settings)
    train_tokenizer(made)
    return build_batches(made)


def pairs_in(store: Store, artifact: Artifact) -> list[tuple[str, str]]:
    """Return the decoded text of every pair."""
    tokenizer = tokenizer_in(artifact.path.with_name("tokenizer"))
    rows = np.arange(len(store))
    sides = []
    for target in (False, True):
        ids, lengths = store.side(rows, target=target)
        parts = np.split(ids, lengths.cumsum()[:-1])
        sides.append(tokenizer.decode([part.tolist() for part in parts]))
    return list(zip(*sides, strict=True))


def test_pairs_are_stored_in_order(tmp_path: Path) -> None:
    artifact = built(tmp_path, MANY)
    data = open_batches(artifact.path)
    assert pairs_in(data.train, artifact) == MANY
    assert data.weights is None
    assert artifact.report["train"]["kept"] == artifact.report["train"]["pairs"] == len(MANY)


def test_validation_text_is_kept_unfiltered(tmp_path: Path) -> None:
    pairs = corpus(tmp_path, "train", MANY)
    made = config(tmp_path, pairs, [*VALID, *VALID], deduplicate=True)
    train_tokenizer(made)
    artifact = build_batches(made)
    data = open_batches(artifact.path)
    expected = [(normalise(source), normalise(target)) for source, target in [*VALID, *VALID]]
    assert list(zip(data.valid_source, data.valid_target, strict=True)) == expected
    assert pairs_in(data.valid, artifact) == [("a b", "c d"), ("tab here x", "y z")] * 2


def test_a_duplicate_has_both_sides_equal(tmp_path: Path) -> None:
    alike = [("is here", "번"), ("is", " here번"), ("is", "번"), ("here", "번"), ("is", "here")]
    artifact = built(tmp_path, [*alike, *MANY, *alike], deduplicate=True)
    assert artifact.report["train"]["dropped"] == {"duplicate": len(alike)}


@pytest.mark.parametrize("part", ["valid", "test", "keep"])
def test_overlap_is_dropped_and_recomputed_if_held_out_sets_change(
    part: str, tmp_path: Path
) -> None:
    made = config(tmp_path, corpus(tmp_path, "train", MANY), drop=["overlap"])
    for count in (3, 5):
        held_out = corpus(tmp_path, part, MANY[:count])
        data = made.data.model_copy(update={part: TextCorpus(**held_out)})
        made = made.model_copy(update={"data": data})
        train_tokenizer(made)
        artifact = build_batches(made)
        assert artifact.report["train"]["dropped"] == {"overlap": count}


def test_each_reason_is_reported_with_its_first_examples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blank = [("", "x"), ("x", " \t\u3000"), ("x", "\u200b"), ("", ""), ("", "")]
    long = [("number " * 50, "is"), ("is", "number " * 50)]
    artifact = built(tmp_path, [*blank, *MANY, *MANY[:7], *long], max_length=40, deduplicate=True)
    assert pairs_in(open_batches(artifact.path).train, artifact) == MANY
    dropped = {"blank": 5, "duplicate": 7, "too long": 2}
    assert artifact.report["train"]["dropped"] == dropped
    record = json.loads((artifact.path / "report.json").read_text(encoding="utf-8"))
    record = record["train"]["dropped"]
    assert {rule: facts["count"] for rule, facts in record.items()} == dropped
    where = [example["where"] for example in record["duplicate"]["examples"]]
    lines = [f"train.en:{5 + len(MANY) + i}" for i in range(1, 6)]
    assert [place.rpartition("/")[2] for place in where] == lines
    assert record["too long"]["examples"][0]["source"] == ("number " * 50)[:79] + "…"
    assert record["blank"]["examples"][1]["target"] == ""
    err = capsys.readouterr().err
    assert f"train: 300 of {300 + 14} pairs kept" in err
    assert "dropped 7 pairs (duplicate)" in err and "train.en:306" in err


def test_length_limits_are_inclusive(tmp_path: Path) -> None:
    def encode_letters(lines: list[str], threads: int) -> list[list[int]]:
        return [[7] * line.count("x") for line in lines]

    encode_side = {"encode_source": encode_letters, "encode_target": encode_letters}
    tokenizer = Mock(spec=Tokenizer, vocab=9, **encode_side)
    lengths = [(8, 4), (4, 8), (9, 5), (8, 0)]
    train = corpus(tmp_path, "train", [("x" * s + ".", "x" * t + ".") for s, t in lengths])
    with temporary_rows(TextCorpus(**train)) as rows:
        encoder = encode.RowEncoder(config(tmp_path, train, max_length=8), tokenizer, rows)
        encoded = encoder.encode(range(len(rows)))
    assert encoded.lengths.tolist() == [[8, 4], [4, 8]]
    faults = [encode.FAULTS[fault] for fault in encoded.faults]
    assert faults == ["", "", "too long", "blank"]


@pytest.mark.parametrize(("size", "threads"), [(1, 1), (7, 1), (16, 2), (64, 2)])
def test_the_result_does_not_depend_on_chunks_and_threads(
    tmp_path: Path, size: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [*MANY, *MANY[:20], ("", "")]
    whole = built(tmp_path, pairs, deduplicate=True)
    monkeypatch.setattr(store, "CHUNK_PAIRS", size)
    monkeypatch.setattr(encode, "count_cores", lambda: threads)
    (tmp_path / "run" / "batches").rename(tmp_path / "elsewhere")
    assert built(tmp_path, pairs, deduplicate=True).identity == whole.identity


def test_each_pair_has_the_weight_of_its_corpus(tmp_path: Path) -> None:
    train = [
        corpus(tmp_path, "a", MANY[:30], weight=0.5),
        corpus(tmp_path, "b", [("", ""), *MANY[30:50]], weight=3),
    ]
    settings = config(tmp_path, train)
    train_tokenizer(settings)
    data = open_batches(build_batches(settings).path)
    assert data.weights is not None
    assert data.weights(np.arange(len(data.train))).tolist() == [0.5] * 30 + [3.0] * 20


@pytest.mark.parametrize(
    ("max_length", "message"),
    [
        (2, r"data\.valid: the only pair was dropped: 1 too long"),
        (4, r"data\.train: all 300 pairs .*: 300 too long"),
    ],
)
def test_dropping_all_pairs_is_an_error_with_reasons(
    max_length: int, message: str, tmp_path: Path
) -> None:
    pairs = corpus(tmp_path, "train", MANY)
    made = config(tmp_path, pairs, valid=[("a", "c d")], max_length=max_length)
    train_tokenizer(made)
    with pytest.raises(UserError, match=message):
        build_batches(made)
    assert not (tmp_path / "run" / "batches").exists()


def test_a_missing_tokenizer_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="`mtkit train-spm`"):
        build_batches(config(tmp_path, corpus(tmp_path, "train", MANY)))


def test_the_model_reads_the_tag_and_rules_do_not(tmp_path: Path) -> None:
    synthetic = [(f"text {source}", target) for source, target in MANY]
    corpora = [corpus(tmp_path, "a", MANY), corpus(tmp_path, "b", synthetic, tag="<bt>")]
    asked = config(tmp_path, corpora, drop=["markup"])
    train_tokenizer(asked)
    artifact = build_batches(asked)
    report = json.loads((artifact.path / "report.json").read_text())["train"]
    assert (report["kept"], report["dropped"]) == (600, {})
    sources = [source for source, _ in pairs_in(Store.open(artifact.paths, "train"), artifact)]
    assert sources == [source for source, _ in MANY] + [f"<bt> {source}" for source, _ in synthetic]
