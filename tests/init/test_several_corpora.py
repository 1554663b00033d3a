"""Laws of `mtkit init` for several languages in one model."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mtkit.init.from_scratch
from commands import call
from mtkit.config.corpora import listed
from mtkit.config.yaml import load_config
from mtkit.corpus.files import read_lines
from mtkit.corpus.rules import normalised
from mtkit.init.facts import CorpusFacts
from mtkit.init.presets import Plan, Trial
from mtkit.init.survey import TEMPERATURE, balance

Capture = pytest.CaptureFixture[str]
sizes = st.lists(st.integers(1, 10**7), min_size=1, max_size=6)


@given(sizes)
def test_weights_follow_the_temperature_and_keep_the_size_of_an_epoch(pairs: list[int]) -> None:
    weights = balance(pairs)
    in_epoch = [weight * size for weight, size in zip(weights, pairs, strict=True)]
    assert sum(in_epoch) == pytest.approx(sum(pairs))
    expected = [size ** (1 / TEMPERATURE) for size in pairs]  # p ∝ n^(1/T)
    shares = [amount / sum(in_epoch) for amount in in_epoch]
    assert shares == pytest.approx([each / sum(expected) for each in expected])


@given(st.integers(1, 10**7), st.integers(1, 6))
def test_corpora_of_equal_size_keep_their_weight(pairs: int, corpora: int) -> None:
    assert balance([pairs] * corpora) == [1.0] * corpora


@pytest.fixture
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[str, str]]]:
    """Write pairs of the demo as two tables and as texts; the smaller one shares its sources."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mtkit.init.from_scratch, "run_trial", fixed_trial)
    sides = (list(islice(read_lines(f"demo:train.{side}"), 900)) for side in ("en", "ko"))
    pairs = list(zip(*sides, strict=True))
    spoken = [(source, f"{target} {target}") for source, target in pairs[:200]]
    random.Random(1).shuffle(spoken)
    by_tag = {"ko": pairs, "spoken": spoken}
    for tag, rows in by_tag.items():
        Path(f"en-{tag}.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in rows), "utf-8")
        Path(f"{tag}.en").write_text("".join(f"{source}\n" for source, _ in rows), "utf-8")
        Path(f"{tag}.txt").write_text("".join(f"{target}\n" for _, target in rows), "utf-8")
    return by_tag


def fixed_trial(facts: CorpusFacts, plan: Plan, sample: Sequence[object]) -> Trial:
    """Return the trial of a machine of known speed."""
    return replace(plan.trial, tokens_per_second=5000.0, vocabulary=600)


TABLES = ["en-ko.tsv", "en-spoken.tsv"]


def test_the_config_shares_a_vocabulary_and_balances_the_corpora(
    corpora: dict[str, list[tuple[str, str]]], capsys: Capture
) -> None:
    assert call("init", *TABLES, "--tags", "ko", "<2spoken>", "--minutes", "3") == 0
    output = capsys.readouterr().out
    config = load_config("mtkit.yaml")
    train = listed(config.data.train)
    assert [corpus.target_tag for corpus in train] == ["ko", "spoken"]
    for part in (config.data.valid, config.data.test):
        assert [corpus.target_tag for corpus in listed(part)] == ["ko", "spoken"]
    row = next(line for line in output.splitlines() if line.startswith("= trained on"))
    counts = [int(count.replace(",", "")) for count in row.split()[-2:]]
    assert [corpus.weight for corpus in train] == pytest.approx(balance(counts), rel=0.01)
    text = Path("mtkit.yaml").read_text()
    assert f"pairs^(1/{TEMPERATURE:g})" in text and f"for {sum(counts):,} pairs" in text
    assert config.tokenizer.joint is False  # English and Korean


def test_no_source_that_a_corpus_holds_out_is_in_the_training_data_of_another(
    corpora: dict[str, list[tuple[str, str]]],
) -> None:
    assert call("init", *TABLES, "--tags", "ko", "spoken") == 0
    sources: dict[str, set[str]] = {"train": set(), "valid": set(), "test": set()}
    for part, lines in sources.items():
        for tag in corpora:
            found = {normalised(line) for line in read_lines(f"mtkit-data/{part}.{tag}.en")}
            assert found
            lines |= found
    assert not sources["train"] & (sources["valid"] | sources["test"])
    assert not sources["valid"] & sources["test"]


def test_pairs_of_texts_give_the_same_corpora_as_tables(
    corpora: dict[str, list[tuple[str, str]]],
) -> None:
    assert call("init", *TABLES, "--tags", "ko", "spoken", "-o", "a.yaml") == 0
    texts = ["ko.en", "ko.txt", "spoken.en", "spoken.txt"]
    assert call("init", "-o", "b.yaml", *texts, "--tags", "ko", "spoken") == 0
    written = [
        {path.name: path.read_bytes() for path in Path(f"{name}-data").glob("*.*.*")}
        for name in ("a", "b")
    ]
    assert written[0] == written[1] and len(written[0]) == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (TABLES, "are tables, which hold both sides"),
        ([*TABLES, "ko.en"], "give the tag of each corpus"),
        ([*TABLES, "--tags", "ko"], "are tables, which hold both sides"),
        ([*TABLES, "--tags", "ko", "a", "b"], "3 tags for 2 files"),
        ([*TABLES, "--tags", "ko", "<2ko>"], "two tags are equal"),
        ([*TABLES, "--tags", "ko", "a b"], "expected a short name"),
        ([*TABLES, "--tags", "ko", "sp", "--valid", "ko.en", "ko.txt"], "--valid is for one"),
        ([*TABLES, "--tags", "ko", "sp", "--languages", "en", "ko"], "--languages is for one"),
        (["--tags", "ko", "sp", *TABLES], "Missing argument"),
        (["ko.en", "spoken.en", "--tags", "ko", "sp"], "give TARGET, too"),
    ],
    ids=str,
)
def test_unclear_corpora_are_refused(
    corpora: dict[str, list[tuple[str, str]]],
    arguments: list[str],
    message: str,
    capsys: Capture,
) -> None:
    assert call("init", *arguments) == 2
    error = capsys.readouterr().err
    assert message.lower() in error.lower()
    assert not Path("mtkit.yaml").exists()


def test_a_corpus_that_is_too_small_is_named(
    corpora: dict[str, list[tuple[str, str]]], capsys: Capture
) -> None:
    Path("en-small.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in corpora["ko"][:101]), "utf-8")
    lines = Path("en-small.tsv").read_text("utf-8").splitlines(keepends=True)
    Path("en-small.tsv").write_text("".join(lines[:60]), "utf-8")
    assert call("init", "en-ko.tsv", "en-small.tsv", "--tags", "ko", "small") == 2
    assert "en-small.tsv" in capsys.readouterr().err
