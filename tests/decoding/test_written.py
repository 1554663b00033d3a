"""Laws of text that a model writes: in step with its other side, once, and as it is asked for."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

import mtkit.decoding.written
from architectures import transformer
from commands import call
from crashes import SAID, Moment, contents, run, run_alone
from folders import as_if_trained, train, write_model
from mtkit.artifacts.manifest import open_artifact
from mtkit.batching.build import build_batches
from mtkit.batching.store import Store
from mtkit.config.corpora import WrittenCorpus
from mtkit.config.decoding import SamplingSettings
from mtkit.config.settings import Config
from mtkit.config.yaml import dump_config, load_config
from mtkit.corpus.files import read_lines
from mtkit.corpus.read import read_pairs
from mtkit.corpus.texts import markup
from mtkit.corpus.written import SOURCE, TARGET, place_of, training_texts
from mtkit.decoding.api import Translator
from mtkit.decoding.engine import EngineOptions, Request
from mtkit.decoding.model import open_models
from mtkit.decoding.segment import Translation
from mtkit.decoding.translate import Files, Format
from mtkit.decoding.written import write_corpora
from mtkit.errors import UserError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train import train_tokenizer
from nasties import LINES
from tasks import tiny_config, write_reversal_task

TRAINED = Path(__file__).parents[1] / "compatibility/c514bd3"
"""Models of two architectures and one tokenizer, which have learnt a little."""
SENTENCES = (TRAINED / "source.txt").read_text("utf-8").splitlines()[:5]
TEXT = [*SENTENCES, "", " ".join(SENTENCES * 2), "One student.", " \t", SENTENCES[0]]
REFERENCES = (TRAINED / "corpus/train.ko").read_text("utf-8").splitlines()[: len(TEXT)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, a corpus to train on, and text whose other side is missing."""
    home = tmp_path_factory.mktemp("home")
    write_reversal_task(home)
    for name, kind in ("a", "transformer"), ("b", "seq2seq"):
        shutil.copytree(TRAINED / kind / "model", home / name)
    for name, lines in ("mono.src", TEXT), ("mono.tgt", REFERENCES):
        (home / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return home


@pytest.fixture
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own, with the same."""
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


Entry = dict[str, Any]
SELF: Entry = {"source": "mono.src", "model": "a"}
BACK: Entry = {"target": "mono.tgt", "model": "a", "tag": "<bt>"}
CHOSEN: Entry = {
    "source": "mono.src",
    "target": "mono.tgt",
    "model": ["a", "b"],
    "choose_by": "chrf",
    "n_best": 4,
}


def config_of(*entries: Entry, **changes: Any) -> Config:
    """Of a run beside its corpora; its last ones are written."""
    plain = {"source": "train.src", "target": "train.tgt"}
    return tiny_config(Path(), "transformer", data={"train": [plain, *entries]}, **changes)


def folder_of(config: Config, place: int = 1) -> Path:
    entry = list(config.data.corpora("train").values())[place]
    assert isinstance(entry, WrittenCorpus)
    return place_of(config, entry)


def sides_of(folder: Path) -> tuple[list[str], list[str]]:
    """Lines as anybody counts them: each ends with a line feed, and no other character does."""
    source, target = ((folder / name).read_text("utf-8").split("\n") for name in (SOURCE, TARGET))
    assert source.pop() == target.pop() == ""
    return source, target


def translations(
    models: list[str], lines: list[str], count: int = 1, sampling: Any = None, **changes: int
) -> list[Translation]:
    """By the engine that is the usual choice."""
    opened = open_models(models, changes)
    request = Request(opened[0].config.decoding, count, sampling)
    found = Translator.of(opened, request, EngineOptions(device="cpu")).stream([lines])
    return [translation for window in found for translation in window]


def finished(found: list[Translation]) -> list[str]:
    return ["" if translation.truncated else translation.text for translation in found]


# What is written


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        ({"model": "a"}, {"models": ["a"]}),
        ({"model": ["b", "a"], "beam": 2}, {"models": ["b", "a"], "beam": 2}),
        (
            {"model": "b", "sampling": {"top_k": 8, "seed": 3}},
            {"models": ["b"], "sampling": SamplingSettings(top_k=8, seed=3)},
        ),
    ],
    ids=["beam search", "ensemble", "sampling"],
)
def test_it_is_what_translate_makes_of_the_text(
    entry: Entry, wanted: dict[str, Any], here: Path
) -> None:
    config = config_of(entry | {"source": "mono.src"})
    write_corpora(config)
    source, target = sides_of(folder_of(config))
    assert source == TEXT
    assert target == finished(translations(lines=TEXT, **wanted))
    assert len(set(target)) > 4


def test_of_a_target_alone_the_source_is_written_and_the_tag_is_read_before_it(here: Path) -> None:
    config = config_of(BACK, {"source": "mono.src", "model": "b"})
    write_corpora(config)
    source, target = sides_of(folder_of(config))
    assert target == REFERENCES
    assert source == finished(translations(["a"], REFERENCES))
    plain, *written = ([*read_pairs(text)] for text in training_texts(config))
    assert [pair.source for pair in written[0]] == source
    assert [pair.tagged for pair in written[0]] == [f"<bt> {line}" for line in source]
    assert all(pair.tagged == pair.source for pair in [*plain, *written[1]])


def test_models_learn_from_the_tag_and_no_rule_sees_it(here: Path) -> None:
    changes = {"tokenizer": {"vocab_size": 150}, "batching": {"drop": ["markup"], "workers": 1}}
    config = config_of(BACK, **changes)
    write_corpora(config)
    train_tokenizer(config)
    batches = build_batches(config)
    tokenizer = Tokenizer.load(Path("run/tokenizer"))
    tag = tokenizer.encode_source(["<bt>"])[0]
    assert "<" in "".join(tokenizer.source_pieces(tag))
    store = Store.open(batches.path, "train")
    report = json.loads((batches.path / "report.json").read_text())["train"]
    source, target = sides_of(folder_of(config))
    whole = [row for row, pair in enumerate(zip(source, target, strict=True)) if all(pair)]
    assert all(markup(f"<bt> {line}", "") for line in source)
    assert report["dropped"] == {}
    assert report["kept"] == 400 + len(whole)
    for row, line in enumerate(whole, start=400):
        ids, _ = store.side(np.array([row]), target=False)
        assert ids.tolist() == tokenizer.encode_source([f"<bt> {source[line]}"])[0]


@pytest.mark.parametrize("metric", ["chrf", "bleu"])
@pytest.mark.parametrize("sampling", [None, SamplingSettings(top_k=9)], ids=str)
def test_what_is_chosen_has_the_highest_sentence_score_of_its_list(
    metric: str, sampling: SamplingSettings | None, here: Path
) -> None:
    asked = {"sampling": sampling and sampling.model_dump()}
    config = config_of(CHOSEN | {"choose_by": metric} | asked)
    write_corpora(config)
    source, target = sides_of(folder_of(config))
    scorer = CHRF() if metric == "chrf" else BLEU(effective_order=True)
    lists = translations(["a", "b"], TEXT, 4, sampling, **({} if sampling else {"beam": 4}))
    first, told_apart = 0, 0
    for line, reference, chosen, found in zip(source, REFERENCES, target, lists, strict=True):
        if not line.strip():
            assert chosen == ""
            continue
        whole = [it for it in found.n_best if it.tokens and not it.truncated]
        scores = [scorer.sentence_score(it.text, [reference]).score for it in whole]
        best = [it for it, of in zip(whole, scores, strict=True) if of == max(scores)]
        assert chosen == max(best, key=lambda it: it.score).text
        first += chosen == whole[0].text
        told_apart += len(set(scores)) > 1
    assert first < len([line for line in TEXT if line.strip()])
    assert told_apart > 2


# In step


@pytest.fixture(scope="module")
def nasty(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(home, tmp_path_factory.mktemp("nasty") / "home")


@settings(max_examples=15)
@given(
    st.lists(
        st.one_of(
            st.sampled_from([*LINES.values(), TEXT[6].encode(), b"", b"\r"]),
            st.text(st.characters(exclude_characters="\n"), max_size=8).map(
                lambda text: text.encode(errors="replace")
            ),
        ),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
)
def test_a_line_is_written_for_each_line_whatever_it_holds(
    nasty: Path, lines: list[bytes], ends: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(nasty)
        Path("nasty.txt").write_bytes(b"\n".join(lines) + b"\n" * ends)
        given = list(read_lines("nasty.txt"))
        config = config_of({"source": "nasty.txt", "model": "a", "beam": 1})
        if not given:  # a single line of nothing, without its end
            return
        write_corpora(config)
        source, target = sides_of(folder_of(config))
        assert source == given
        assert len(target) == len(given)
        assert target == finished(translations(["a"], given, beam=1))
        assert all(not line for line, of in zip(target, given, strict=True) if not of.strip())
        pairs = list(read_pairs(training_texts(config)[1]))
        assert len(pairs) == len(given)


def test_line_breaks_and_tabs_that_a_model_writes_put_nothing_out_of_step(here: Path) -> None:
    breaks = [f"<0x{byte:02X}>" for byte in b"\n\r\t\v\f\x1c\xe2\x80\xa8"]
    tokenizer = train()
    pieces = tokenizer.target_pieces(list(range(tokenizer.target_vocab)))

    def babbles(model: EncoderDecoder) -> None:
        """Line breaks, tabs and the end are likely everywhere."""
        with torch.no_grad():
            model.output_weight.mul_(0.1)
            as_if_trained(model)
            model.output_weight[[pieces.index(it) for it in breaks], 0] = 8.0

    write_model(here / "babbler", tokenizer, transformer(), babbles, max_length=40)
    sampling = SamplingSettings()
    config = config_of({"source": "mono.src", "model": "babbler", "sampling": {}})
    write_corpora(config)
    found = translations(["babbler"], TEXT, sampling=sampling)
    assert sum(token in breaks for it in found for token in it.tokens) > 20
    source, target = sides_of(folder_of(config))
    assert source == TEXT
    assert target == finished(found)
    pairs = list(read_pairs(training_texts(config)[1]))
    assert [pair.source for pair in pairs] == TEXT


def test_files_of_one_side_are_read_one_after_the_other(here: Path) -> None:
    Path("more.src").write_text(f"Why?\n{TEXT[0]}")
    config = config_of({"source": ["mono.src", "more.src"], "model": "a"})
    write_corpora(config)
    source, target = sides_of(folder_of(config))
    assert source == [*TEXT, "Why?", TEXT[0]]
    assert target[-1] == target[0]


# The report


def told(text: str, score: float | None = -1.0, *, truncated: bool = False) -> Entry:
    return {"text": text, "score": score, "truncated": truncated}


def answering(*records: Entry) -> Callable[..., None]:
    """Writes these for the lines of the text, in the place of a translator."""

    def translate(translator: Translator, files: Files, form: Format) -> None:
        assert form.jsonl
        rows = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        files.output.write_text("".join(rows), "utf-8") if files.output else None

    return translate


def test_the_report_counts_what_is_no_translation(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ["It rains.", "Two dogs run.", "", "One more", "A whole sentence.", "Eleven five"]
    Path("mono.src").write_text("".join(f"{line}\n" for line in text))
    records = [
        told("Es regnet immer."),
        told("", -0.5),
        told("", None),
        told("ohne Ende ohne", truncated=True),
        told("a whole  SENTENCE"),
        told("elf\u2028fünf"),
    ]
    monkeypatch.setattr(mtkit.decoding.written, "translate", answering(*records))
    config = config_of(SELF)
    write_corpora(config)
    artifact = open_artifact(folder_of(config), "corpus", verify=True)
    counted = {"lines": 6, "blank": 1, "empty": 1, "unfinished": 1, "copied": 1}
    assert {**artifact.report, **counted} == artifact.report
    assert artifact.report["length_ratio"] == round((16 / 9 + 17 / 17 + 8 / 11) / 3, 4)
    assert sides_of(artifact.path) == (
        text,
        ["Es regnet immer.", "", "", "", "a whole  SENTENCE", "elf\u2028fünf"],
    )
    said = capsys.readouterr().err
    assert "data.train.1: the target is written by a" in said
    assert "6 lines, 1 blank, 1 empty, 1 unfinished, 1 copied; 1.17 times as long" in said


def test_of_a_list_an_unfinished_translation_is_not_chosen_and_of_equals_the_most_probable(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mono.src").write_text("one\ntwo\nthree\n")
    Path("mono.tgt").write_text("eins\nzwei\ndrei\n")
    lists = [
        [told("eins", -0.1, truncated=True), told("ein", -0.2), told("xx", -0.3), told("", None)],
        [told("yy", -0.4), told("xx", -0.1), told("uu", -0.2), told("", None)],
        [told("dreidrei", -0.1, truncated=True), *[told("", None)] * 3],
    ]
    records = [of[0] | {"n_best": of} for of in lists]
    monkeypatch.setattr(mtkit.decoding.written, "translate", answering(*records))
    config = config_of(CHOSEN)
    write_corpora(config)
    assert sides_of(folder_of(config))[1] == ["ein", "xx", ""]
    assert open_artifact(folder_of(config), "corpus").report["unfinished"] == 1


# Once


@pytest.fixture
def nobody_writes(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From when it is called."""

    def refuse(*_: Any) -> None:
        raise AssertionError("written again")

    return lambda: monkeypatch.setattr(mtkit.decoding.written, "translate", refuse)


def test_an_unchanged_entry_is_not_written_again_when_others_come_go_or_move(
    here: Path, nobody_writes: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpora(config_of(SELF, CHOSEN))
    write_corpora(config_of(BACK))
    nobody_writes()
    capsys.readouterr()
    write_corpora(config_of(CHOSEN, BACK | {"weight": 3, "tag": "<other>"}, SELF, SELF))
    assert capsys.readouterr().err.splitlines() == [
        f"data.train.{place}: written, and up to date" for place in (1, 2, 3, 4)
    ]
    assert len(list(Path("run/written").iterdir())) == 3


def test_an_artifact_is_the_same_wherever_its_text_and_its_model_lie(here: Path) -> None:
    shutil.copytree("a", "elsewhere/a")
    Path("elsewhere/mono.txt").write_bytes(Path("mono.src").read_bytes())
    config = config_of(SELF, {"source": "elsewhere/mono.txt", "model": "elsewhere/a"})
    write_corpora(config)
    one, other = (open_artifact(folder_of(config, place), "corpus") for place in (1, 2))
    assert one.path != other.path
    assert one.identity == other.identity
    assert one.manifest["request"] == other.manifest["request"]


def retrained(here: Path) -> str:
    shutil.rmtree(here / "a")
    shutil.copytree(here / "b", here / "a")
    return "data.train: a is another model now"


def longer(here: Path) -> str:
    with (here / "mono.src").open("a") as file:
        file.write("Why?\n")
    return f"data.train: mono.src has 1 line more, {len(TEXT) + 1} now"


def damaged(here: Path) -> str:
    (path,) = here.glob(f"run/written/*/{TARGET}")
    path.write_bytes(path.read_bytes().replace(b" ", b"_"))
    return "it is damaged"


@pytest.mark.parametrize("change", [retrained, longer, damaged], ids=lambda it: it.__name__)
def test_it_is_written_anew_when_what_it_was_made_from_changes_which_is_said(
    change: Callable[[Path], str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_of(SELF)
    write_corpora(config)
    reason = change(here)
    with pytest.raises(UserError, match=r"data.train.1: not written yet.*`mtkit train-spm`"):
        training_texts(config)
    write_corpora(config)
    assert f"corpus: made anew: {reason}" in capsys.readouterr().err
    lines = list(read_lines("mono.src"))
    assert sides_of(folder_of(config)) == (lines, finished(translations(["a"], lines)))


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "damaged"])
def test_it_is_not_written_over_where_a_checkpoint_was_made_from_it(
    is_whole: bool, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_config(SELF, tokenizer={"vocab_size": 120}, training={"steps": 2, "ranks": 1})
    assert call("run") == 0
    if not is_whole:
        damaged(here)
    written = sides_of(folder_of(load_config("mtkit.yaml")))
    retrained(here)
    assert call("run") == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert "a checkpoint of other settings (data.train: a is another model now)" in told
    assert sides_of(folder_of(load_config("mtkit.yaml"))) == written


def test_what_checkpoints_know_nothing_of_is_refused_before_anything_is_written(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: Any = {"tokenizer": {"vocab_size": 120}, "training": {"steps": 2, "ranks": 1}}
    write_config(SELF, **settings)
    assert call("run") == 0
    before, there = Path("run/config.yaml").read_bytes(), os.listdir("run/written")
    write_config(SELF, BACK, **settings)
    assert call("run") == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert re.search(r"a checkpoint of other settings \(run/written/\w+ was no part of it\)", told)
    assert (Path("run/config.yaml").read_bytes(), os.listdir("run/written")) == (before, there)
    write_config(SELF, **settings)
    with open("mono.src", "a", encoding="utf-8") as file:
        file.write("more\n")
    assert call("train") == 0
    told = capsys.readouterr().err
    assert f"data.train: mono.src has {len('more') + 1} bytes more since, which only " in told
    assert "`mtkit train-spm` takes in" in told


@pytest.mark.parametrize("place", ["runs/latest", "runs/latest/model"])
def test_nothing_is_made_from_the_last_run_by_the_one_that_will_be(
    place: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("runs").mkdir()
    Path("runs/latest").symlink_to("../a")
    write_config(SELF | {"model": place})
    for command in (["run"], ["train-spm", "--set", f"training.init_from={place}"]):
        assert call(*command) == 2
        assert f"{place}: this run will be the last one itself: name that one, a\n" in (
            capsys.readouterr().err
        )


def test_what_a_process_left_that_was_killed_at_the_last_moment_is_cleared_away(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(SELF)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda path: None)
        write_corpora(config)
    assert len(list(Path("run/written").iterdir())) == 2
    write_corpora(config)
    assert list(Path("run/written").iterdir()) == [folder_of(config)]


class Killed(BaseException):
    """As a signal ends a process, so far as Python knows of it."""


@pytest.mark.slow
def test_what_is_interrupted_goes_on_and_ends_as_if_it_had_not_been(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{sentence[:12]} {number}" for number in range(20) for sentence in SENTENCES]
    Path("mono.src").write_text("".join(f"{line}\n" for line in lines))
    entries = [SELF | {"model": "b", "sampling": {}}, {"source": "mono.src", "model": ["a", "b"]}]
    whole = config_of(*entries)
    whole = whole.model_copy(update={"run": "whole"})
    write_corpora(whole)
    stream, asked = Translator.stream, []

    def stops(self: Translator, windows: Any, **options: Any) -> Iterator[list[Translation]]:
        """After the second window."""
        asked.append(options["first"])
        yield from islice(stream(self, windows, **options), 2)
        raise Killed

    config = config_of(*entries)
    monkeypatch.setattr(Translator, "stream", stops)
    for _ in range(2):
        with pytest.raises(Killed):
            write_corpora(config)
        assert "what is done is kept: the same command goes on" in capsys.readouterr().err
        (partial,) = Path("run").rglob("*.partial")
        partial.write_bytes(partial.read_bytes()[:-7])  # half a line, as a kill leaves it
        assert not Path("run/config.yaml").exists()
    monkeypatch.setattr(Translator, "stream", stream)
    write_corpora(config)
    assert 0 == asked[0] < asked[1]
    for place in (1, 2):
        one, other = (open_artifact(folder_of(it, place), "corpus") for it in (config, whole))
        assert one.manifest == other.manifest
        assert len(list(one.path.parent.iterdir())) == 2


@pytest.mark.slow
def test_a_command_that_is_killed_again_and_again_ends_as_if_it_had_not_been(here: Path) -> None:
    write_config(SELF, CHOSEN, tokenizer={"vocab_size": 120})
    home, other = (shutil.copytree(here, f"{here}-{name}") for name in ("killed", "whole"))
    whole = run(["train-spm"], Path(other))
    assert whole.code == 0
    kills, at = 0, 1
    while (ending := run(["train-spm"], Path(home), Moment(at))).code:
        assert ending.code == -signal.SIGKILL
        kills, at = kills + 1, at + whole.operations // 9
    assert kills > 5
    assert contents(Path(home)) == contents(Path(other))


# Commands


def write_config(*entries: Entry, **changes: Any) -> Path:
    Path("mtkit.yaml").write_text(dump_config(config_of(*entries, **changes)))
    return Path("mtkit.yaml")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"model": "nowhere"}, r"data.train.1.model: nowhere: no model there: train one"),
        (
            {"model": ["a", "babbler"]},
            r"data.train.1.model: a and babbler: no ensemble: source voc",
        ),
        ({"model": "run/model"}, r"data.train.1.model: run/model: the model of this very run"),
        ({"source": "mine.src"}, r"data.train.1.source: mine.src: no such file"),
        ({"source": "empty.src"}, r"data.train.1: empty.src: empty: give a corpus"),
        ({**CHOSEN, "target": "train.tgt"}, r"data.train.1: mono.src has 10 lines, train.tgt 400"),
    ],
    ids=str,
)
@pytest.mark.parametrize("command", ["run", "train-spm", "check"])
def test_what_cannot_be_written_is_told_with_its_line_before_any_work(
    command: str, change: Entry, complaint: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty.src").touch()
    write_model(here / "babbler", train(), transformer())
    path = write_config(SELF | change)
    line = path.read_text().split("\n").index("    tag: null") + 1
    assert call(command, "-c", "mtkit.yaml") == 2
    said = capsys.readouterr().err
    assert re.fullmatch(rf"mtkit.yaml:\d+: {complaint}.*\n", said)
    assert 0 < line - int(said.split(":")[1]) < 10
    assert not Path("run").exists()


def test_batches_are_refused_until_it_is_written_and_the_command_that_does_it_is_named(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_config(SELF, tokenizer={"vocab_size": 120})
    assert call("train-spm") == 0
    shutil.rmtree("run/written")
    call("check", "-c", "mtkit.yaml")
    assert "data.train.1: left out, as no model has written it yet" in capsys.readouterr().err
    assert call("batch") == 2
    found = r"mtkit.yaml:\d+: data.train.1: not written yet, .* make it with `mtkit train-spm`\n"
    assert re.fullmatch(found, capsys.readouterr().err)
    assert call("train-spm") == call("batch") == 0
    capsys.readouterr()
    call("check", "-c", "mtkit.yaml", "--json")
    captured = capsys.readouterr()
    assert "left out" not in captured.err
    assert json.loads(captured.out)["train"]["pairs"] == 400 + len(TEXT)


@pytest.mark.slow
def test_a_run_learns_from_what_models_wrote_and_needs_them_no_more_to_train(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = [SELF | {"weight": 2}, BACK, CHOSEN | {"choose_by": "bleu"}]
    write_config(*entries, tokenizer={"vocab_size": 160}, training={"steps": 4, "ranks": 2})
    assert run_alone(["run"], here).code == 0
    said = (here / SAID).read_text("utf-8")
    assert said.index("data.train.3: the target is written by a and b") < said.index("tokenizer:")
    assert "on 2 ranks of cpu" in said
    config = load_config("run/config.yaml")
    assert config == load_config("mtkit.yaml")
    assert call("run") == 0
    assert "data.train.3: written, and up to date\ntokenizer: up to date" in capsys.readouterr().err
    assert call("info", "run", "--verify") == 0
    assert capsys.readouterr().out.count("corpus  run/written/") == 3
    shutil.copytree("run", "other")
    assert call("compare", "run", "other") == 0
    for name in "ab":
        shutil.rmtree(name)
    assert run_alone(["train", "--set", "training.steps=6"], here).code == 0
    assert open_artifact(Path("run/model"), "model").manifest["settings"]["training"]["steps"] == 6
    assert call("run") == 2
    assert "data.train.1.model: a: no model there" in capsys.readouterr().err
