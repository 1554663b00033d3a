"""Laws of several languages in one model, from the corpora to the exported model."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mtkit
from commands import call
from mtkit.artifacts.manifest import open_artifact
from mtkit.batching.build import build_batches, open_batches
from mtkit.config.settings import Config
from mtkit.corpus.read import read_pairs
from mtkit.corpus.tag_words import TagWords
from mtkit.decoding.api import load
from mtkit.errors import UserError
from mtkit.pipeline import run_and_print
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import train_tokenizer
from tasks import TINY

Capture = pytest.CaptureFixture[str]
WORDS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"]
TARGETS = {
    "up": ["mo", "ra", "ti", "ku", "le", "sa", "no", "vi", "pe", "zu"],
    "vy": ["wix", "bax", "dux", "fey", "goq", "hyx", "jal", "lux", "mex", "rox"],
}
DICTIONARIES = {tag: dict(zip(WORDS, words, strict=True)) for tag, words in TARGETS.items()}
"""Two toy languages with the same sources: single words, which a tiny model learns in seconds."""
LINES = ["ant", "cat", "", "fox"]


def translated(line: str, tag: str) -> str:
    return " ".join(DICTIONARIES[tag][word] for word in line.split())


def write_corpora(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Write a table for each set and tag; return the corpora of a config."""
    generator = random.Random(1)
    data: dict[str, list[dict[str, Any]]] = {}
    for part, count in (("train", 300), ("valid", 8), ("test", 20)):
        lines = generator.choices(WORDS, k=count)
        data[part] = []
        for tag in DICTIONARIES:
            path = folder / f"{part}.{tag}.tsv"
            rows = ["English\tOther", *(f"{line}\t{translated(line, tag)}" for line in lines)]
            path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
            columns = {"source_column": "English", "target_column": "Other"}
            data[part].append({"table": str(path), "target_tag": tag, **columns})
    return data


def config_of(data: dict[str, Any], run: Path, **changes: Any) -> Config:
    settings: dict[str, dict[str, Any]] = {
        "tokenizer": {"type": "bpe", "vocab_size": 100, "byte_fallback": False},
        "batching": {"max_tokens": 512},
        "model": TINY["transformer"] | {"d_model": 48, "dropout": 0.0},
        "training": {
            "steps": 120,
            "warmup": 20,
            "schedule": {"kind": "cosine", "peak": 0.02},
            "precision": "float32",
            "device": "cpu",
            "label_smoothing": 0.0,
            "validate_every": 120,
            "best_by": "step",
            "average": 1,
        },
        "decoding": {"beam": 2, "max_length": 20},
    }
    for section, values in changes.items():
        settings[section] = settings.get(section, {}) | values
    return Config.model_validate({"run": str(run), "data": data, **settings})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A run of two toy languages, trained, with the scores of its test set."""
    folder = tmp_path_factory.mktemp("toys")
    config = config_of(write_corpora(folder), folder / "run")
    mtkit.run(config)
    return config


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_model_of_two_languages_gives_the_one_that_the_tag_asks_for(
    trained: Config, engine: str, tmp_path: Path
) -> None:
    shutil.copytree(Path(trained.run) / "model", tmp_path / "copy")
    translator = load(tmp_path / "copy", engine=engine)
    for tag in DICTIONARIES:
        expected = [translated(line, tag) for line in LINES]
        assert translator.translate(LINES, tag=tag) == expected
    tags = ["up", "vy", "vy", "up"]
    mixed = [mtkit.Line(line, tag=tag) for line, tag in zip(LINES, tags, strict=True)]
    assert translator.translate(mixed) == list(map(translated, LINES, tags))


@pytest.mark.slow
def test_scores_are_printed_for_each_tag_and_in_total(trained: Config, capsys: Capture) -> None:
    run_and_print(trained)
    captured = capsys.readouterr()
    rows = [line.split() for line in captured.out.splitlines()]
    assert [row[:2] for row in rows if row[:1] in (["up"], ["vy"])] == [["up", "20"], ["vy", "20"]]
    assert ["all", "lines", "40"] in [row[:3] for row in rows]
    assert "mtkit translate -m" in captured.err and "--tag up (tags: up, vy)" in captured.err
    report = open_artifact(Path(trained.run) / "test", "test").report
    assert report["tags"].keys() == {"up", "vy"} and report["lines"] == 40


@pytest.mark.slow
def test_a_test_set_that_is_scored_in_part_has_files_of_all_lines_for_each_tag(
    trained: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("mtkit.evaluation.max_test_seconds", lambda training_seconds: 0.0)
    shutil.copytree(trained.run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run/test")
    run_and_print(trained.model_copy(update={"run": str(tmp_path / "run")}))
    error = capsys.readouterr().err
    assert "of 40 lines, spread over the test set" in error
    for tag in DICTIONARIES:
        assert (tmp_path / f"run/test/all.{tag}.source.txt").read_text().count("\n") == 20


@pytest.mark.slow
def test_info_lists_the_tags(trained: Config, tmp_path: Path, capsys: Capture) -> None:
    shutil.copytree(Path(trained.run) / "model", tmp_path / "copy")
    for place in (trained.run, str(tmp_path / "copy")):
        assert call("info", place) == 0
        output = " ".join(capsys.readouterr().out.split())
        assert "target tags: up, vy" in output
        assert "--tag up < in.txt" in output


@pytest.mark.slow
@pytest.mark.parametrize("format", ["ctranslate2", "huggingface"])
def test_an_export_says_how_to_choose_a_language(
    trained: Config, format: str, tmp_path: Path, capsys: Capture
) -> None:
    pytest.importorskip("ctranslate2")
    model = Path(trained.run) / "model"
    assert call("export", "-m", str(model), "--to", format, "-o", str(tmp_path / "out")) == 0
    symbol = ">>vy<<" if format == "huggingface" else "<2vy>"
    assert symbol in capsys.readouterr().err
    assert symbol in (tmp_path / "out/README.md").read_text()


@pytest.mark.slow
def test_an_exported_model_translates_with_ctranslate2_alone(
    trained: Config, tmp_path: Path
) -> None:
    import ctranslate2
    from sentencepiece import SentencePieceProcessor

    model = Path(trained.run) / "model"
    options = ["--quantization", "float32", "-o", str(tmp_path / "out")]
    assert call("export", "-m", str(model), "--to", "ctranslate2", *options) == 0
    pieces = SentencePieceProcessor(str(tmp_path / "out/spm.model"))
    translator = ctranslate2.Translator(str(tmp_path / "out"))
    source = ["<2vy>", *pieces.encode("ant", out_type=str)]
    (result,) = translator.translate_batch([source])
    assert pieces.decode(result.hypotheses[0]) == translated("ant", "vy")


@pytest.mark.slow
def test_an_imported_export_has_the_same_tags_and_translations(
    trained: Config, tmp_path: Path
) -> None:
    exported, imported = str(tmp_path / "out"), str(tmp_path / "back")
    assert call("export", "-m", trained.run, "--to", "huggingface", "-o", exported) == 0
    assert call("export", "--from", "huggingface", exported, "-o", imported) == 0
    before, after = (load(path, engine="torch") for path in (trained.run, imported))
    assert before.tags == after.tags == ["up", "vy"]
    for tag in before.tags:
        assert before.translate(LINES, tag=tag) == after.translate(LINES, tag=tag)


@pytest.mark.slow
def test_training_goes_on_from_a_model_only_with_tags_that_it_has(
    trained: Config, tmp_path: Path
) -> None:
    data = trained.data.model_dump()
    one = {part: data[part][:1] for part in ("train", "valid", "test")}
    training = {"init_from": trained.run}
    adapted = config_of(one, tmp_path / "run", training=training)
    train_tokenizer(adapted)
    build_batches(adapted)
    other = {part: [one[part][0] | {"target_tag": "new"}] for part in one}
    with pytest.raises(UserError, match="no target tag 'new'; choose from up, vy"):
        train_tokenizer(config_of(other, tmp_path / "other", training=training))
    untagged = {part: [one[part][0] | {"target_tag": None}] for part in one}
    with pytest.raises(UserError, match="has the target tags up, vy"):
        train_tokenizer(config_of(untagged, tmp_path / "untagged", training=training))


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    return write_corpora(tmp_path)


@pytest.mark.parametrize("joint", [True, False])
def test_each_source_begins_with_its_tag(data: dict[str, Any], tmp_path: Path, joint: bool) -> None:
    model = {} if joint else {"tie": "target"}
    tokenizer = {"joint": joint, "type": "bpe", "vocab_size": 60 if joint else 40}
    data["train"][1]["tag"] = "<bt>"  # a tag of training alone comes after it
    config = config_of(data, tmp_path / "run", tokenizer=tokenizer, model=model)
    codec = Tokenizer.load(train_tokenizer(config))
    batches = open_batches(build_batches(config).path)
    assert codec.tags.keys() == {"up", "vy"}
    assert max(codec.tags.values()) < codec.source_vocab
    train = batches.train
    pairs = list(read_pairs(config.data.train))
    for row in (0, len(train.lengths) - 1):
        first, *ids = train.side(np.array([row]), target=False)[0].tolist()
        assert first == codec.tags[pairs[row].target_tag or ""]
        assert ids == codec.encode_source([pairs[row].tagged])[0]
        assert pairs[row].tagged.startswith("<bt> ") == (row > 0)
    assert batches.valid_tags == ["up"] * 8 + ["vy"] * 8


def test_pairs_of_two_languages_are_not_duplicates_of_each_other(
    data: dict[str, Any], tmp_path: Path
) -> None:
    data["train"][1]["table"] = data["train"][0]["table"]
    kept = []
    for number, corpora in enumerate((data["train"], data["train"][:1])):
        run = tmp_path / f"run-{number}"
        tagged = data | {"train": corpora, "valid": data["valid"][:1], "test": None}
        small = {"vocab_size": 50}
        config = config_of(tagged, run, batching={"deduplicate": True}, tokenizer=small)
        train_tokenizer(config)
        kept.append(build_batches(config).report["train"]["kept"])
    assert kept[0] == 2 * kept[1] > 0


def test_an_existing_tokenizer_gets_the_tags(data: dict[str, Any], tmp_path: Path) -> None:
    untagged = {part: [corpus | {"target_tag": None} for corpus in data[part]] for part in data}
    first = train_tokenizer(config_of(untagged, tmp_path / "first"))
    settings = {"model": str(first.file("spm.model"))}
    second = train_tokenizer(config_of(data, tmp_path / "second", tokenizer=settings))
    before, after = Tokenizer.load(first), Tokenizer.load(second)
    assert after.tags.keys() == {"up", "vy"} and not before.tags
    for line in (*WORDS, "ant bee <2up> cat"):
        ids = [before.encode_source([line]), after.encode_source([line])]
        assert before.source_pieces(ids[0][0]) == after.source_pieces(ids[1][0])
    again = config_of(
        untagged, tmp_path / "third", tokenizer={"model": str(second.file("spm.model"))}
    )
    assert not Tokenizer.load(train_tokenizer(again)).tags


def test_a_tag_that_is_a_word_of_the_text_is_said_in_one_line(
    data: dict[str, Any], tmp_path: Path, capsys: Capture
) -> None:
    for part in data:
        for corpus, tag in zip(data[part], ("ant", "vy"), strict=True):
            corpus["target_tag"] = tag
    data["train"][1]["tag"] = "bee"
    config = config_of(data, tmp_path / "run")
    train_tokenizer(config)
    build_batches(config)
    lines = capsys.readouterr().err.splitlines()
    assert sum("'ant' is also a word of" in line and "stays a word" in line for line in lines) == 1
    assert sum("the tag 'bee' is also a word of" in line for line in lines) == 1
    words = TagWords(config.data.train)
    assert list(words.watch(read_pairs(config.data.train))) == list(read_pairs(config.data.train))
    assert len(list(words.messages())) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": {"target_tag": None}}, "some corpora have a target_tag and some have none"),
        ({"valid": {"target_tag": None}}, "some corpora have a target_tag and some have none"),
        ({"test": {"target_tag": "xx"}}, "data.test.0: 'xx' is the target_tag of no corpus"),
        ({"valid": {"tag": "<bt>"}}, "target_tag is for all"),
        ({"train": {"tag": "up"}}, "choose two words"),
        ({"train": {"target_tag": "a b"}}, "expected a short name, such as yor or <2yor>"),
    ],
    ids=str,
)
def test_tags_that_do_not_fit_together_are_refused(
    data: dict[str, Any], tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    for part, values in change.items():
        data[part][0] |= values
    with pytest.raises(ValueError, match=message):
        config_of(data, tmp_path / "run")


def test_the_default_tag_must_be_a_tag_of_the_corpora(data: dict[str, Any], tmp_path: Path) -> None:
    assert config_of(data, tmp_path, decoding={"tag": "<2vy>"}).decoding.tag == "vy"
    with pytest.raises(ValueError, match="decoding: 'xx' is the target_tag of no corpus"):
        config_of(data, tmp_path, decoding={"tag": "xx"})
