"""The text of a run: it is read once, again only if it has changed, and never in part."""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mtkit import pipeline
from mtkit.artifacts.manifest import MANIFEST, Artifact, open_artifact
from mtkit.batching.build import build_batches
from mtkit.config.settings import Config, SetName
from mtkit.corpus import sets
from mtkit.corpus.read import hash_corpora
from mtkit.corpus.sets import hash_sets, hold_sets, open_set
from mtkit.corpus.store import write_rows
from mtkit.errors import SettingError, UserError
from mtkit.scoring.line_files import REFERENCE_FILE
from tasks import tiny_config, write_reversal_task


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file is opened, by its name."""
    names: Counter[str] = Counter()
    open_file = io.open

    def count_and_open(path: object, *arguments: Any, **options: Any) -> object:
        names[Path(str(path)).name] += 1
        return open_file(path, *arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(io, "open", count_and_open)
    return names


@pytest.fixture
def config(tmp_path: Path) -> Config:
    write_reversal_task(tmp_path)
    return tiny_config(tmp_path, "transformer")


def texts(config: Config) -> list[tuple[str, str]]:
    with open_set(config, "train") as rows:
        return [(pair.source, pair.target) for pair in rows]


def import_sets(config: Config, *names: SetName) -> None:
    with hold_sets(config, *names):
        pass


def rewrite(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")


def test_a_held_text_stays_as_it_was_read(
    config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with hold_sets(config, "train"):
        hashes, before = hash_sets(config, "train"), texts(config)
        rewrite(tmp_path / "train.tgt", "ANT", "OWL")
        with hold_sets(config, "train", "valid") as sets:  # a later stage
            assert hash_sets(config, "train") == hashes
            assert [(pair.source, pair.target) for pair in sets["train"]] == before
        (tmp_path / "train.src").unlink()
        assert (hash_sets(config, "train"), texts(config)) == (hashes, before)
    output = capsys.readouterr().err
    assert output.count("has changed since it was read") == 1


def test_a_held_text_that_is_only_copied_has_not_changed(
    config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with hold_sets(config, "train"):
        os.utime(tmp_path / "train.tgt", (1, 1))
    assert "has changed" not in capsys.readouterr().err


def test_a_set_is_not_held_after_an_error(config: Config, tmp_path: Path) -> None:
    with pytest.raises(KeyError), hold_sets(config, "train"):
        raise KeyError
    rewrite(tmp_path / "train.tgt", "ANT", "OWL")
    with hold_sets(config, "train") as sets:
        assert any("OWL" in pair.target for pair in sets["train"])


def test_all_stages_of_a_run_have_the_text_of_its_start(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = build_batches

    def change_and_build(config: Config, cluster: str | None) -> Artifact:
        rewrite(tmp_path / "train.tgt", "ANT", "OWL")
        rewrite(tmp_path / "test.tgt", "ANT", "OWL")
        return build(config, cluster)

    monkeypatch.setattr(pipeline, "build_batches", change_and_build)
    pipeline.run(config)
    run = Path(config.run)
    tokenizer = open_artifact(run / "tokenizer", "tokenizer").manifest["inputs"]
    batches = open_artifact(run / "batches", "batches").manifest["inputs"]
    assert tokenizer.items() <= batches.items()
    assert "OWL" not in (run / "test" / REFERENCE_FILE).read_text("utf-8")


def test_a_text_is_opened_twice_and_never_again(config: Config, opened: Counter[str]) -> None:
    import_sets(config, "train", "valid", "test", "keep")
    assert opened["train.src"] == 2
    opened.clear()
    import_sets(config, "train", "valid", "test", "keep")
    assert hash_sets(config, "train") == hash_corpora(config.data.train, "data.train")
    assert texts(config)
    assert opened["train.src"] == 1  # by `hash_corpora`


def test_a_copied_text_is_hashed_and_not_read_again(config: Config, opened: Counter[str]) -> None:
    import_sets(config, "train")
    folder = Path(config.run) / "corpus" / "train"
    before = folder.stat().st_ino
    os.utime(folder.parents[2] / "train.src", (1, 1))
    opened.clear()
    import_sets(config, "train")
    assert opened["train.src"] == 1
    assert folder.stat().st_ino == before


def test_changed_text_of_the_same_size_and_time_is_read_again(
    config: Config, tmp_path: Path
) -> None:
    import_sets(config, "train")
    before = texts(config)
    path = tmp_path / "train.src"
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    rewrite(path, "ant", "owl")
    os.utime(path, ns=times)
    import_sets(config, "train")
    assert texts(config) == [(source.replace("ant", "owl"), target) for source, target in before]


def test_tags_change_hashes_but_are_not_stored(config: Config, opened: Counter[str]) -> None:
    import_sets(config, "train")
    train = config.data.train.model_copy(update={"tag": "<bt>"})  # type: ignore[union-attr]
    data = config.data.model_copy(update={"train": train})
    tagged = config.model_copy(update={"data": data})
    opened.clear()
    with hold_sets(tagged, "train") as sets:
        assert sets["train"][0].tagged.startswith("<bt> ")
    assert hash_sets(tagged, "train").keys() - hash_sets(config, "train").keys()
    assert not opened["train.src"]


def test_text_that_changes_while_it_is_read_is_an_error(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = write_rows

    def write_and_change(*arguments: object) -> None:
        write(*arguments)  # type: ignore[arg-type]
        rewrite(tmp_path / "train.tgt", "ANT", "ANTS")

    monkeypatch.setattr(sets, "write_rows", write_and_change)
    with pytest.raises(UserError, match=r"train\.tgt changed while it was read"):
        import_sets(config, "train")
    assert not any((Path(config.run) / "corpus").iterdir())


def _damage_text(folder: Path) -> None:
    content = bytearray((folder / "text").read_bytes())
    content[3] ^= 0xFF
    (folder / "text").write_bytes(content)


def _damage_manifest(folder: Path) -> None:
    rewrite(folder / MANIFEST, '"inputs"', '"input"')


def _remove_keys(folder: Path) -> None:
    (folder / "keys").unlink()


def _remove_manifest(folder: Path) -> None:
    (folder / MANIFEST).unlink()


def _age(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    (folder / MANIFEST).write_text(json.dumps(manifest | {"format": 0}), "utf-8")


@pytest.mark.parametrize(
    "damage", [_damage_text, _damage_manifest, _remove_manifest, _remove_keys, _age]
)
def test_a_damaged_or_older_store_is_replaced(
    config: Config, damage: Callable[[Path], None]
) -> None:
    import_sets(config, "train")
    before = texts(config)
    damage(Path(config.run) / "corpus" / "train")
    assert texts(config) == before  # read without the store
    import_sets(config, "train")
    assert texts(config) == before
    assert hash_sets(config, "train") == hash_corpora(config.data.train, "data.train")


def test_a_full_disk_leaves_nothing_behind(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_disk(*arguments: object) -> Iterator[None]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mtkit.corpus.store.hash_texts", fill_disk)
    with pytest.raises(OSError, match="No space left on device"):
        import_sets(config, "train")
    assert not any((Path(config.run) / "corpus").iterdir())


def test_all_files_are_looked_for_before_any_is_read(config: Config, tmp_path: Path) -> None:
    (tmp_path / "valid.tgt").unlink()
    with pytest.raises(SettingError, match=r"data\.valid\.target: .*no such file"):
        import_sets(config, "train", "valid")
    assert not Path(config.run).exists()


def test_files_of_the_user_in_the_place_of_a_store_are_kept(config: Config) -> None:
    folder = Path(config.run) / "corpus" / "train"
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("mine", "utf-8")
    with pytest.raises(UserError, match="was not written by mtkit"):
        import_sets(config, "train")
    assert (folder / "mine.txt").read_text("utf-8") == "mine"
