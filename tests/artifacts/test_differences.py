"""What has changed since an artifact was made is told in words, and never passed over."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtkit.artifacts.explain import explain
from mtkit.batching.build import build_batches
from mtkit.config.corpora import TextCorpus
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.pipeline import run
from mtkit.tokenizer.train import train_tokenizer
from mtkit.training.train import train

Capture = pytest.CaptureFixture[str]
HASH = re.compile(r"[0-9a-f]{12}")


def text(lines: int, size: int, name: str = "x") -> dict[str, Any]:
    return {"data.train: a": {"lines": lines, "bytes": size, "sha256": name}}


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ({"seed": 1}, {"seed": 1}, None),
        ({"model.layers": 4, "seed": 1}, {"model.layers": 4, "seed": 2}, "seed: 1, now 2"),
        (text(5, 50), text(6, 60, "y"), "data.train: a has 1 line more, 6 now"),
        (text(5000, 50), text(10, 60, "y"), "data.train: a has 4,990 lines fewer, 10 now"),
        (text(5, 50), text(5, 48, "y"), "data.train: a has 2 bytes fewer, 48 now"),
        (text(5, 50), text(5, 50, "y"), "data.train: a has other text of the same length"),
        ({"seed": 1}, {"seed": 1, **text(5, 50)}, "data.train: a was not read before"),
        ({}, text(5, 50), None),
        ({"seed": 1}, {"seed": 1, "added": 7}, None),
    ],
)
def test_changes_are_told_in_words(before: Any, now: Any, words: str | None) -> None:
    assert explain(before, now) == words


@pytest.fixture
def with_own_corpus(fresh: Callable[..., Config], prepared: Path, tmp_path: Path) -> Config:
    """Of a run that is ready for training, on a corpus that may be changed."""
    for path in prepared.glob("*.*"):
        shutil.copy(path, tmp_path)
    data = {
        name: {"source": f"{name}.src", "target": f"{name}.tgt"}
        for name in ("train", "valid", "test")
    }
    config = fresh("transformer", data=data)
    shutil.rmtree(config.run)
    train_tokenizer(config)
    build_batches(config)
    return config


def test_a_corpus_of_another_name_is_told_unless_it_has_the_same_text(
    with_own_corpus: Config, capsys: Capture
) -> None:
    train(with_own_corpus)
    moved = {side: f"moved.{side}" for side in ("src", "tgt")}
    for side, name in moved.items():
        shutil.copy(f"train.{side}", name)
    corpus = TextCorpus(source=moved["src"], target=moved["tgt"])
    data = with_own_corpus.data.model_copy(update={"train": corpus})
    config = with_own_corpus.model_copy(update={"data": data})
    capsys.readouterr()
    train(config)
    assert "which only" not in capsys.readouterr().err
    with Path("moved.tgt").open("a") as file:
        file.write("eel fox\n")
    train(config)
    said = capsys.readouterr().err
    assert "data.train: moved.tgt was not read for it, which only `mtkit batch` takes in" in said


def test_why_a_model_is_made_anew_is_told(with_own_corpus: Config, capsys: Capture) -> None:
    train(with_own_corpus)
    shutil.rmtree(Path(with_own_corpus.run) / "checkpoints")
    settings = with_own_corpus.decoding.model_copy(update={"length_penalty": 0.9})
    capsys.readouterr()
    train(with_own_corpus.model_copy(update={"decoding": settings}))
    assert "model: rebuilding: decoding.length_penalty: 1.0, now 0.9\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("part", "line", "words"),
    [
        ("train", "eel fox", "data.train: train.src has 1 line more, 401 now"),
        ("valid", "eel fox", "data.valid: valid.src has 1 line more, 21 now"),
    ],
)
def test_a_changed_corpus_is_told_at_every_stage_and_by_no_hash(
    part: str, line: str, words: str, with_own_corpus: Config, capsys: Capture
) -> None:
    config = with_own_corpus
    train(config)
    for side in ("src", "tgt"):
        with Path(f"{part}.{side}").open("a") as file:
            file.write(f"{line}\n")
    capsys.readouterr()
    train(config)
    said = capsys.readouterr().err
    assert f"batches: data.{part}: {part}.src has 8 bytes more since, which only `mtkit b" in said
    text = Path(f"{part}.src").read_bytes()
    Path(f"{part}.src").write_bytes(text[:-8].swapcase())
    train(config)
    assert f"data.{part}: {part}.src has other text of the same le" in capsys.readouterr().err
    Path(f"{part}.src").write_bytes(text)
    with pytest.raises(UserError, match=re.escape(words)) as refused:
        train_tokenizer(config)
        build_batches(config)
    assert not HASH.search(str(refused.value))
    undo = "undo that to resume; to train anew, choose another run directory, or delete "
    assert undo in str(refused.value)
    shutil.rmtree(Path(config.run) / "checkpoints")
    train_tokenizer(config)
    build_batches(config)
    said = capsys.readouterr().err
    assert ("tokenizer: up to date" in said) == (part == "valid")
    assert f"batches: rebuilding: {words}\n" in said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tokenizer": {"vocab_size": 50}}, "tokenizer.vocab_size: 60, now 50"),
        ({"batching": {"max_length": 19}}, "batching.max_length: 256, now 19"),
    ],
)
def test_nothing_is_built_on_what_was_made_with_other_settings(
    changes: dict[str, Any], words: str, fresh: Callable[..., Config], capsys: Capture
) -> None:
    train(fresh("transformer"))
    settings = Path("run/config.yaml").read_bytes()
    other = fresh("transformer", **changes)
    with pytest.raises(UserError, match=rf"run/batches: of other settings \({words}\): rerun"):
        train(other)
    if "tokenizer" in changes:
        with pytest.raises(UserError, match=rf"run/tokenizer: of other settings \({words}\)"):
            build_batches(other)
    assert Path("run/config.yaml").read_bytes() == settings
    with pytest.raises(UserError, match=rf"checkpoint of other settings \({words}\): undo"):
        train_tokenizer(other)
        build_batches(other)
    shutil.rmtree("run/checkpoints")
    capsys.readouterr()
    train_tokenizer(other)
    build_batches(other)
    assert f"rebuilding: {words}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": {"dropout": 0.5}}, "model.dropout: 0.1, now 0.5"),
        ({"training": {"label_smoothing": 0.2}}, "training.label_smoothing: 0.1, now 0.2"),
        ({"batching": {"max_tokens": 512}}, "batching.max_tokens: 256, now 512"),
    ],
)
def test_checkpoints_of_other_settings_say_which_and_what_to_do(
    changes: dict[str, Any], words: str, fresh: Callable[..., Config]
) -> None:
    train(fresh("transformer", training={"steps": 2}))
    with pytest.raises(UserError, match=rf"other settings \({words}\): undo that to resume"):
        train(fresh("transformer", **changes))


@pytest.mark.slow
def test_a_test_set_is_translated_again_for_a_reason_that_is_told(
    with_own_corpus: Config, capsys: Capture
) -> None:
    config = with_own_corpus
    run(config)
    for side in ("src", "tgt"):
        Path(f"test.{side}").write_text("ant\n" * 3)
    capsys.readouterr()
    run(config)
    said = capsys.readouterr().err
    assert said.count("up to date") == 3
    assert "test: rebuilding: data.test: test.src has 17 lines fewer, 3 now\n" in said
