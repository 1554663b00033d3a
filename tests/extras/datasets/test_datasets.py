"""Datasets: what is read, what identifies it, and errors of one line."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mtkit.config.corpora import DatasetCorpus
from mtkit.corpus.read import hash_corpora, read_pairs
from mtkit.errors import UserError
from nasties import TABLES

ROWS = [{"id": i, "translation": {"en": f"line {i}", "ko": f"{i}번\n줄"}} for i in range(5)]
PAIRS = [(f"line {i}", f"{i}번 줄") for i in range(5)]


def of_dataset(path: str, **settings: Any) -> DatasetCorpus:
    columns = {"source_column": "translation.en", "target_column": "translation.ko"}
    return DatasetCorpus.model_validate({"dataset": path, **columns, **settings})


def identity(corpus: DatasetCorpus) -> dict[str, str]:
    return hash_corpora(corpus, "data.train")


def texts(corpus: DatasetCorpus) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in read_pairs(corpus)]


@pytest.fixture(scope="module")
def dataset_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Write the same rows in all formats that `datasets` reads."""
    import datasets

    datasets.disable_progress_bars()
    folder = tmp_path_factory.mktemp("datasets")
    rows = datasets.Dataset.from_list(ROWS)
    for name in ("plain", "parquet"):
        (folder / name).mkdir()
    rows.to_parquet(str(folder / "parquet" / "train.parquet"))
    records = "".join(f"{json.dumps(row)}\n" for row in ROWS)
    (folder / "plain" / "train.jsonl").write_text(records, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", str(folder / "cache"))
        yield folder


@pytest.mark.parametrize("name", ["plain", "parquet"])
def test_local_datasets_are_read(
    dataset_folder: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    pairs = list(read_pairs(of_dataset(str(dataset_folder / name))))
    assert [(pair.source, pair.target) for pair in pairs] == PAIRS
    assert pairs[4].where.endswith(f"/{name}:5")
    assert capfd.readouterr() == ("", "")


def test_a_slice_of_a_split_is_read(dataset_folder: Path) -> None:
    assert texts(of_dataset(str(dataset_folder / "plain"), split="train[1:3]")) == PAIRS[1:3]


def test_identity_of_a_dataset_depends_on_its_content(dataset_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(dataset_folder / "plain", tmp_path / "moved")
    first = identity(of_dataset(str(dataset_folder / "plain")))
    assert identity(of_dataset(str(tmp_path / "moved"))) == first
    assert identity(of_dataset(str(tmp_path / "moved"), split="train[:1]")) != first
    with (tmp_path / "moved" / "train.jsonl").open("a") as file:
        file.write("\n")
    assert identity(of_dataset(str(tmp_path / "moved"))) != first


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("plain", {"source_column": "translation.fr"}, "choose from id, translation.en, transl"),
        ("plain", {"source_column": "id"}, ":1: column 'id' holds '0', not text"),
        ("plain", {"split": "test"}, "cannot load it .*test"),
        ("plain/train.jsonl", {}, "cannot load it .give a folder"),
    ],
)
def test_errors_of_datasets_are_one_line(
    dataset_folder: Path, name: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        texts(of_dataset(str(dataset_folder / name), **settings))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TABLES if "jsonl" in TABLES[name][0]])
def test_a_dataset_of_any_json_is_read_or_refused_with_its_name(
    name: str, dataset_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("folder/train.jsonl").write_bytes(TABLES[name][1])
    try:
        texts(of_dataset("folder", source_column="s", target_column="t"))
    except UserError as error:
        assert re.match(r"folder:( .*cannot load it |1: .*column)", str(error))


def test_an_unreachable_hub_is_an_error_of_one_line() -> None:
    with pytest.raises(UserError, match=r"nobody/nothing: .* cannot load it") as caught:
        identity(of_dataset("nobody/nothing"))
    assert "\n" not in str(caught.value)
