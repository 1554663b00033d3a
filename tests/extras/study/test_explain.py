"""`mtkit attend --explain`: what importance is, and that the table says what was measured."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

import pytest
import torch
from torch import Tensor

from architectures import ARCHITECTURES, VOCAB, make
from commands import Stdin
from mtkit.decoding.reading import Reader, Reading
from mtkit.errors import UserError
from mtkit.extras.study.attend.explain import (
    RANKINGS,
    REMOVED,
    explain,
    kendall,
    log_probs,
    measure_faithfulness,
    word_attention,
)
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.symbols import BOS, EOS
from mtkit.training.train import train
from tasks import tiny_config

Capture = pytest.CaptureFixture[str]
every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)
with_attention = pytest.mark.parametrize(
    "name", [name for name in ARCHITECTURES if name != "seq2seq-none"]
)


GENERATOR = torch.Generator().manual_seed(1)
SOURCE, TARGET = (torch.randint(4, VOCAB, (n,), generator=GENERATOR).tolist() for n in (7, 5))
SOURCE_WORDS, TARGET_WORDS = [0, 1, 1, 2, 3, 3, 4], [0, 0, 1, 2, 2]
READING = Reading(
    "",
    SOURCE,
    TARGET,
    list(zip("abcde", [1, 2, 1, 2, 1], strict=True)),
    list(zip("ABC", [2, 1, 2], strict=True)),
)


def stepwise_log_probs(model: EncoderDecoder, removed: Sequence[int] = ()) -> Tensor:
    """log P of each target word without these source words, step by step."""
    numbered = zip(SOURCE, SOURCE_WORDS, strict=True)
    ids = torch.tensor([[*(symbol for symbol, word in numbered if word not in removed), EOS]])
    hidden = model(ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([[BOS, *TARGET[:-1]]]))
    steps = model.project(hidden)[0].log_softmax(dim=-1)
    words = torch.zeros(3, dtype=steps.dtype)
    for step, symbol, word in zip(steps, TARGET, TARGET_WORDS, strict=True):
        words[word] += step[symbol].detach()
    return words


# Rank correlations: the values are worked out by hand


@pytest.mark.parametrize(
    ("a", "b", "tau"),
    [
        ([1, 2, 3, 4], [2, 4, 6, 9], 1.0),
        ([1, 2, 3, 4], [9, 6, 4, 2], -1.0),
        ([1, 2, 3, 4], [1, 2, 4, 3], 2 / 3),
        ([12, 2, 1, 12, 2], [1, 4, 7, 1, 0], -4 / math.sqrt(72)),
        ([1, 2, 3, 4, 5], [5, 6, 7, 8, 7], 7 / math.sqrt(90)),
    ],
)
def test_rank_correlations_of_known_value(a: list[int], b: list[int], tau: float) -> None:
    left, right = torch.tensor(a).double(), torch.tensor(b).double()
    assert kendall(left, right).item() == pytest.approx(tau)


def test_rank_correlations_go_row_by_row_and_are_nan_where_all_is_tied() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(2, 3, 6), torch.randn(2, 3, 6)
    rows = kendall(a, b)
    assert rows.shape == (2, 3)
    torch.testing.assert_close(rows[1, 2], kendall(a[1, 2], b[1, 2]))
    torch.testing.assert_close(kendall(a.exp(), b), rows)  # ranks alone count
    assert kendall(torch.zeros(6), a[0, 0]).isnan()


# Importance


@every_architecture
def test_without_a_word_the_model_reads_the_sentence_without_it(name: str) -> None:
    model = make(name)
    rows = log_probs(model, READING, [set(), {1}, {0, 3}, {1}])
    for row, removed in zip(rows, ([], [1], [0, 3], [1]), strict=True):
        torch.testing.assert_close(row, stepwise_log_probs(model, removed))


@with_attention
def test_attention_of_words_sums_to_what_is_not_on_the_end(name: str) -> None:
    shares = word_attention(make(name), READING)
    assert shares.shape == (3, 5)
    assert (shares >= 0).all()
    assert (shares.sum(dim=1) < 1).all()


@pytest.mark.slow
@with_attention
def test_falls_are_those_without_the_best_words(name: str) -> None:
    model = make(name)
    falls, taus = measure_faithfulness(model, READING, torch.Generator().manual_seed(1))
    assert falls.shape == (3, len(REMOVED))
    assert taus.shape == (2,)
    whole = stepwise_log_probs(model)
    best = word_attention(model, READING).argsort(dim=1, descending=True)
    for column, count in enumerate(REMOVED):
        without = [stepwise_log_probs(model, best[j, :count].tolist())[j] for j in range(3)]
        expected = (whole - torch.stack(without)).mean()
        torch.testing.assert_close(falls[RANKINGS.index("attention"), column], expected)
    assert (falls[:, 0] <= falls[0, 0] + 1e-9).all()


# The command


@pytest.fixture(scope="module")
def run(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explained") / "run"
    shutil.copytree(prepared / "run", folder)
    config = tiny_config(prepared, "seq2seq", decoding={"min_length": 2})
    with chdir(folder):  # where the link to the last run goes
        train(config.model_copy(update={"run": str(folder)}))
    return folder


SENTENCES = "ant bee cat dog\nant\n\neel fox gnu hen ibis\n"


def test_the_table_has_the_means_of_the_sentences_that_can_be_measured(
    run: Path, stdin: Stdin, capsys: Capture, tmp_path: Path
) -> None:
    translations = ["DOG CAT BEE ANT", "ANT", "", "IBIS HEN GNU FOX EEL"]
    (tmp_path / "translations").write_text("".join(f"{line}\n" for line in translations))
    stdin(SENTENCES)
    explain(str(run), references=tmp_path / "translations")
    shown, said = capsys.readouterr()
    assert shown.startswith("2 sentences; ")
    assert "left out 2 of 4 lines" in said
    reader = Reader.load(str(run), "auto")
    generator = torch.Generator().manual_seed(1)
    pairs = [*zip(SENTENCES.splitlines(), translations, strict=True)]
    measured = [
        measure_faithfulness(reader.model, reader.read(*pairs[row]), generator) for row in (0, 3)
    ]
    falls = torch.stack([of for of, _ in measured])
    half = 1.96 * falls.std(dim=0) / 2**0.5
    rows = [re.split(" {2,}", line) for line in shown.splitlines()]
    for name, means, halves in zip(RANKINGS, falls.mean(dim=0), half, strict=True):
        cells = [f"{m:.3f} ± {h:.3f}" for m, h in zip(means, halves, strict=True)]
        assert [name, *cells] in rows


def test_by_default_the_translations_of_the_model_are_explained(run: Path, capsys: Capture) -> None:
    explain(str(run), "ant bee cat dog eel")
    out = capsys.readouterr().out
    assert out.startswith("1 sentence; ")
    assert re.search(r"^attention and leave one out +-?\d\.\d+$", out, re.MULTILINE)  # no ± of one


def test_what_cannot_be_explained_is_refused(run: Path, stdin: Stdin, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("DOG\n")
    stdin(SENTENCES)
    with pytest.raises(UserError, match="short has 1"):
        explain(str(run), references=tmp_path / "short")


@pytest.mark.parametrize("line", ["ant bee cat", "ant bee " * 20])
def test_short_and_long_sentences_are_left_out(line: str, run: Path) -> None:
    with pytest.raises(UserError, match="nothing to explain: "):
        explain(str(run), line)
