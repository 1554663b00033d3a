"""The commands of the page on WMT, as the page shows them, lead from archives to scores.

The text is made up, the model is tiny, and `curl` takes the archives from a folder. By hand, with
a thousandth of all pairs: python -m pytest -m campaign tests/guide/test_wmt.py
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from random import Random

import pytest
from sacremoses import MosesTokenizer

import mtkit
from commands import call
from mtkit.config.corpora import TextCorpus, listed
from mtkit.config.yaml import load_config
from wmt import PAIRS, TEST_SENTENCES, Pair, draw_corpus, write_archives, write_test_sets

ROOT = Path(__file__).parents[2]
CONFIG = "configs/wmt17-en-de.yaml"
RUN = Path("runs/wmt17-en-de")
DATA = Path("data/wmt17")
PAGE = (Path(mtkit.__file__).parent / "guide/wmt.md").read_text("utf-8")
SMALLER = {
    "tokenizer.vocab_size": "700",
    "batching.max_tokens": "1000",
    "model": "{kind: transformer, layers: 1, d_model: 64, ffn: 128, heads: 2, norm: pre}",
    "training.steps": "2",
    "training.validate_every": "1",
    "training.save_every": "1",
    "training.validation_sentences": "4",
    "training.device": "cpu",
    "training.precision": "float32",
    "training.ranks": "1",
    "decoding.max_length": "40",
}
LONGER = {
    "tokenizer.vocab_size": "4000",
    "training.schedule.peak": "0.01",
    "training.warmup": "50",
    "training.steps": "300",
    "training.validate_every": "100",
    "training.save_every": "100",
    "decoding.max_length": "128",
}
CURL = """\
#!/bin/sh
for last; do :; done
cp "$ARCHIVES/${last##*/}" .
"""
"""Copies the archive that the URL names, instead of downloading it."""


@pytest.mark.slow
def test_the_commands_of_the_page_lead_from_archives_to_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_page(share=1 / 4000, settings=SMALLER)


@pytest.mark.campaign
def test_a_thousandth_of_the_pairs_is_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_page(share=1 / 1000, settings=SMALLER | LONGER)
    rows = map(json.loads, (RUN / "metrics.jsonl").read_text("utf-8").splitlines())
    losses = [row["loss"] for row in rows if row["kind"] == "valid"]
    assert len(losses) == 3
    assert losses == sorted(losses, reverse=True)


def check_page(share: float, settings: Mapping[str, str]) -> None:
    """Run all commands of the page in this folder, and check what each of them has made.

    `share`: of the training pairs. `settings`: overrides of the config, by name.
    """
    printed = follow_page(prepare_downloads(share), settings)
    counts = [round(pairs * share) for pairs in PAIRS.values()]
    for count in counts:
        assert re.search(rf"^ *{count} \S+\.de-en\.en$", printed, re.MULTILINE)
    assert not list(DATA.rglob("*fr-en*"))

    report = json.loads((RUN / "batches/report.json").read_text("utf-8"))
    assert report["train"]["pairs"] == sum(counts)
    assert set(report["train"]["dropped"]) == {"blank", "too long"}
    assert report["valid"]["pairs"] == TEST_SENTENCES["wmt13"]

    hypotheses = Path("hypotheses.de").read_text("utf-8")
    assert hypotheses.count("\n") == TEST_SENTENCES["wmt14/full"]
    tokenizer = MosesTokenizer("de")
    for file in (DATA / "newstest2014.de", Path("hypotheses.de")):
        lines = file.read_text("utf-8").split("\n")[:-1]
        tokens = [tokenizer.tokenize(line, return_str=True) for line in lines]
        split = [re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line) for line in tokens]
        assert Path(f"{file}.split").read_text("utf-8").split("\n")[:-1] == split
    signatures = re.findall(r'"signature": "(.*)"', printed)
    shown = [re.findall(r"case:\w+|tok:\w+", signature) for signature in signatures]
    assert shown == [["case:lc", "tok:intl"], ["case:mixed", "tok:none"]]
    for name in {*shown[0], *shown[1]}:
        assert f"`{name}`" in PAGE


def prepare_downloads(share: float) -> dict[str, str]:
    """Write what the page downloads, and return the environment in which the shell finds it."""
    folders = {name: Path(name).absolute() for name in ("archives", "sacrebleu", "bin")}
    for folder in folders.values():
        folder.mkdir()
    write_archives(folders["archives"], share)
    write_test_sets(folders["sacrebleu"])
    curl = folders["bin"] / "curl"
    curl.write_text(CURL)
    curl.chmod(0o755)
    programs = [str(curl.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    return os.environ | {
        "PATH": os.pathsep.join(programs),
        "ARCHIVES": str(folders["archives"]),
        "SACREBLEU": str(folders["sacrebleu"]),
    }


def follow_page(environment: Mapping[str, str], settings: Mapping[str, str]) -> str:
    """Run all commands of the page, and return what those of the shell have printed."""
    Path("configs").symlink_to(ROOT / "configs")
    overrides = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    printed = ""
    for is_mtkit, lines in read_commands():
        if is_mtkit:
            for line in lines:
                words = shlex.split(line, comments=True)[1:]
                assert call(*words, *(overrides if CONFIG in words else [])) == 0, line
        else:
            script = "\n".join(["set -e", *lines])
            command = ["bash", "-c", script]
            ended = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert ended.returncode == 0, ended.stderr
            printed += ended.stdout
    return printed


def read_commands() -> Iterator[tuple[bool, list[str]]]:
    """Yield the commands of the page in order: lines of mtkit (True), or of other programs."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).splitlines()
    for is_mtkit, group in groupby(lines, lambda line: line.startswith("mtkit ")):
        yield is_mtkit, list(group)


def test_the_config_reads_each_corpus_that_the_page_downloads() -> None:
    corpora = listed(load_config(ROOT / CONFIG).data.train)
    for (name, pairs), corpus in zip(PAIRS.items(), corpora, strict=True):
        assert isinstance(corpus, TextCorpus)
        assert corpus.source == f"data/wmt17/{name}.en"
        assert corpus.target == f"data/wmt17/{name}.de"
        assert f"| `{name}` | {pairs:,} |" in PAGE


def test_the_expected_time_follows_from_published_and_measured_figures() -> None:
    tokens, tokens_per_second, seconds = 367_000_000, 281_884, 1_302
    assert round(tokens / tokens_per_second) == seconds
    for text in (PAGE, (ROOT / "configs/RESULTS.md").read_text("utf-8")):
        assert f"{tokens_per_second:,} target tokens/s" in text
        assert f"= {seconds:,} s" in text
    training = load_config(ROOT / CONFIG).training
    assert training.steps == 3_700
    assert round(training.steps * 99_300, -6) == tokens


def test_made_up_text_has_the_lengths_and_the_vocabulary_of_natural_text() -> None:
    pairs = list(draw_corpus(Random(3), 1000))
    assert pairs == list(draw_corpus(Random(3), 1000))
    for side in Pair._fields:
        words = [word for pair in pairs for word in getattr(pair, side).split()]
        counts = Counter(words)
        rare = sum(count == 1 for count in counts.values())
        assert 20 < len(words) / len(pairs) < 30
        assert 0.4 < rare / len(counts) < 0.8
        # By Heaps' law, the vocabulary grows with a power of the text between 0.5 and 0.8.
        first_half = set(words[: len(words) // 2])
        assert 0.5**0.8 < len(first_half) / len(counts) < 0.5**0.5
