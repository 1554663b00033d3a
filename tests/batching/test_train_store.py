"""Encoding the training corpora: the same bytes, whatever the chunks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mtkit.artifacts.manifest import Artifact, open_artifact
from mtkit.batching.build import build_batches
from mtkit.config.corpora import Corpus, TableCorpus, TextCorpus
from mtkit.config.settings import Config
from mtkit.corpus import store
from mtkit.tokenizer.train_spm import train_tokenizer

PAIRS = [
    (f"the dog number {number} runs to the old house", f"der Hund {number} rennt zum alten Haus")
    for number in range(150)
]
FAULTY = [("", "leer"), ("a <b>bold</b> dog", "ein fetter Hund"), ("dog", "Hund " * 90)]


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return str(path)


def write_corpora(folder: Path) -> list[Corpus]:
    """Write a mix of corpora in which pairs are repeated and faulty."""
    pairs = [*PAIRS[:60], *FAULTY, *PAIRS[20:40], *PAIRS[50:], *PAIRS[:3]]
    texts = TextCorpus(
        source=write(folder / "a.en", [source for source, _ in pairs]),
        target=write(folder / "a.de", [target for _, target in pairs]),
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
    """A config of a run that has a tokenizer, and batches that were encoded by one process."""
    folder = tmp_path_factory.mktemp("corpora")
    valid = {
        "source": write(folder / "valid.en", [PAIRS[7][0], "a cat"]),
        "target": write(folder / "valid.de", [PAIRS[7][1], "eine Katze"]),
    }
    batching = {"deduplicate": True, "drop": ["markup", "overlap"], "hints": 0.3, "max_length": 60}
    settings = {
        "run": str(folder / "run"),
        "data": {"train": write_corpora(folder), "valid": valid},
        "tokenizer": {"vocab_size": 330},
        "batching": batching,
        "training": {"steps": 1},
    }
    config = Config.model_validate(settings)
    train_tokenizer(config)
    build_batches(config)
    return config


@pytest.fixture
def other_run(corpora: Config, tmp_path: Path) -> Config:
    """The config with a run that has only the tokenizer."""
    run = tmp_path / "run"
    shutil.copytree(Path(corpora.run) / "tokenizer", run / "tokenizer")
    return corpora.model_copy(update={"run": str(run)})


def expected(corpora: Config) -> Artifact:
    return open_artifact(Path(corpora.run) / "batches", "batches")


@pytest.mark.parametrize("size", [1, 11, 64])
def test_the_result_does_not_depend_on_the_size_of_chunks(
    size: int, corpora: Config, other_run: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "CHUNK_PAIRS", size)
    assert build_batches(other_run).identity == expected(corpora).identity
