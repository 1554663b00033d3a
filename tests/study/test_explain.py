"""`mtkit attend --explain`: what importance is, and that the table says what was measured."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from architectures import ARCHITECTURES, VOCAB, make
from commands import Stdin
from mtkit.cli.main import main
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.study.attend import faithfulness
from mtkit.study.attend.explain import explain
from mtkit.study.attend.faithfulness import (
    ATTENTION,
    COMPARED,
    LEFT_OUT,
    RANKINGS,
    TAKEN_OUT,
    Pair,
    attention,
    fall_without_best,
    gradient_times_input,
    kendall,
    leave_one_out,
    log_probs,
    measure,
    spearman,
)
from mtkit.symbols import BOS, EOS
from mtkit.training.train import train
from tasks import tiny_config

Capture = pytest.CaptureFixture[str]
every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)
with_attention = pytest.mark.parametrize(
    "name", [name for name in ARCHITECTURES if name != "seq2seq-none"]
)


def pair(source_words: list[int] | None = None, seed: int = 1) -> Pair:
    """Five source words of seven subwords, if not others, and three target words of five."""
    generator = torch.Generator().manual_seed(seed)
    source_words = source_words or [0, 1, 1, 2, 3, 3, 4]
    source, target = (
        torch.randint(4, VOCAB, (length,), generator=generator) for length in (len(source_words), 5)
    )
    return Pair(source, target, torch.tensor(source_words), torch.tensor([0, 0, 1, 2, 2]))


def forced(model: EncoderDecoder, source: Tensor, example: Pair) -> Tensor:
    """log P of each target word, the plain way."""
    ids = torch.cat([source, torch.tensor([EOS])]).unsqueeze(0)
    read = torch.cat([torch.tensor([BOS]), example.target[:-1]]).unsqueeze(0)
    hidden = model(ids, torch.ones_like(ids, dtype=torch.bool), read)
    steps = model.project(hidden)[0].log_softmax(dim=-1)
    of_subwords = [steps[t, symbol] for t, symbol in enumerate(example.target.tolist())]
    words = example.target_words.tolist()
    return torch.stack(
        [
            sum(
                (p for p, word in zip(of_subwords, words, strict=True) if word == j),
                torch.zeros(()),
            )
            for j in range(example.size[1])
        ]
    )


# Rank correlations: the values are worked out by hand


@pytest.mark.parametrize(
    ("a", "b", "tau", "rho"),
    [
        ([1, 2, 3, 4], [2, 4, 6, 9], 1.0, 1.0),
        ([1, 2, 3, 4], [9, 6, 4, 2], -1.0, -1.0),
        ([1, 2, 3, 4], [1, 2, 4, 3], 2 / 3, 0.8),
        ([12, 2, 1, 12, 2], [1, 4, 7, 1, 0], -4 / math.sqrt(72), -5 / math.sqrt(9 * 9.5)),
        ([1, 2, 3, 4, 5], [5, 6, 7, 8, 7], 7 / math.sqrt(90), 8 / math.sqrt(95)),
    ],
)
def test_rank_correlations_of_known_value(
    a: list[int], b: list[int], tau: float, rho: float
) -> None:
    left, right = torch.tensor(a).double(), torch.tensor(b).double()
    assert kendall(left, right).item() == pytest.approx(tau)
    assert spearman(left, right).item() == pytest.approx(rho)


def test_rank_correlations_go_row_by_row_and_are_nan_where_all_is_tied() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(2, 3, 6), torch.randn(2, 3, 6)
    for correlation in (kendall, spearman):
        rows = correlation(a, b)
        assert rows.shape == (2, 3)
        torch.testing.assert_close(rows[1, 2], correlation(a[1, 2], b[1, 2]))
        torch.testing.assert_close(correlation(a.exp(), b), rows)  # ranks alone count
        assert correlation(torch.zeros(6), a[0, 0]).isnan()


# Taking words out


@every_architecture
def test_taking_nothing_out_changes_nothing(name: str) -> None:
    model, example = make(name), pair()
    found = log_probs(model, example, example.everything(2))
    torch.testing.assert_close(found[0], forced(model, example.source, example))
    assert (found[0] == found[1]).all()


@every_architecture
def test_without_a_word_the_model_reads_the_sentence_without_it(name: str) -> None:
    model, example = make(name), pair()
    kept = torch.tensor([[True, False, True, True, True], [False, True, True, False, True]])
    found = log_probs(model, example, kept)
    for row, choice in zip(found, kept, strict=True):
        shorter = example.source[choice[example.source_words]]
        torch.testing.assert_close(row, forced(model, shorter, example))


@every_architecture
def test_leaving_one_out_is_the_fall_without_it(name: str) -> None:
    model, example = make(name), pair()
    importances = leave_one_out(model, example)
    assert importances.shape == (3, 5)
    whole = forced(model, example.source, example)
    without = forced(model, example.source[example.source_words != 3], example)
    torch.testing.assert_close(importances[:, 3], whole - without)


def test_falls_are_those_without_the_words_scored_highest() -> None:
    model, example = make("transformer"), pair()
    importances = leave_one_out(model, example)
    scores = torch.stack([importances, -importances])
    falls, prob_falls = fall_without_best(model, example, scores, [1, 2, 4])
    assert falls.shape == prob_falls.shape == (2, 3, 3)
    torch.testing.assert_close(falls[0, :, 0], importances.max(dim=1).values)
    torch.testing.assert_close(falls[1, :, 0], importances.min(dim=1).values)
    whole = forced(model, example.source, example)
    lone = int(importances[1].argmin())
    without = forced(model, example.source[example.source_words == lone], example)
    torch.testing.assert_close(falls[0, 1, 2], (whole - without)[1])
    torch.testing.assert_close(prob_falls[0, 1, 2], (whole.exp() - without.exp())[1])


@with_attention
def test_a_few_tokens_at_a_time_give_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, example = make(name), pair()
    whole = leave_one_out(model, example), gradient_times_input(model, example)
    monkeypatch.setattr(faithfulness, "BATCH_TOKENS", 10)
    torch.testing.assert_close(
        whole, (leave_one_out(model, example), gradient_times_input(model, example))
    )


# Gradient × input


@every_architecture
def test_gradient_times_input_is_the_derivative_along_the_embedding(name: str) -> None:
    model, example = make(name), pair()
    found = gradient_times_input(model, example)

    def scaled(word: int, factor: float) -> Tensor:
        seen: list[Tensor] = []

        def scale(module: nn.Module, inputs: Any, output: Tensor) -> Tensor | None:
            if seen:  # the target, where embeddings are tied
                return None
            seen.append(output)
            ours = torch.cat([example.source_words == word, torch.tensor([False])])
            return torch.where(ours.unsqueeze(1), factor * output, output)

        handle = model.source_embedding.register_forward_hook(scale)
        with torch.no_grad():
            result = forced(model, example.source, example)
        handle.remove()
        return result

    step = 1e-5
    for word in range(5):
        slope = (scaled(word, 1 + step) - scaled(word, 1 - step)) / (2 * step)
        torch.testing.assert_close(found[:, word], slope, rtol=1e-5, atol=1e-8)


def test_gradients_are_taken_of_the_input_alone() -> None:
    model = make("transformer")
    gradient_times_input(model, pair())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not model.source_embedding._forward_hooks


# Measuring


@with_attention
def test_attention_of_words_sums_to_what_is_not_on_the_end(name: str) -> None:
    shares = attention(make(name), pair())
    assert shares.shape == (3, 5)
    assert (shares >= 0).all()
    assert (shares.sum(dim=1) < 1).all()


def test_a_measurement_has_a_row_for_each_sentence_and_depends_on_nothing_else() -> None:
    model, examples = make("seq2seq-general"), [pair(seed=1), pair(seed=2)]
    calls: list[None] = []
    found = measure(model, examples, lambda: calls.append(None))
    assert len(calls) == 2
    assert found.log_prob_falls.shape == (2, len(RANKINGS), len(TAKEN_OUT))
    assert found.kendall.shape == (2, len(COMPARED))
    again = measure(model, examples, lambda: None)
    assert all(
        torch.equal(a, b) for a, b in zip(vars(found).values(), vars(again).values(), strict=True)
    )
    best = found.log_prob_falls[:, RANKINGS.index(LEFT_OUT), 0]
    assert (found.log_prob_falls[:, :, 0] <= best.unsqueeze(1) + 1e-9).all()
    assert found.spearman.abs().max() <= 1 + 1e-9


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


def test_the_table_and_the_json_say_the_same(
    run: Path, stdin: Stdin, capsys: Capture, tmp_path: Path
) -> None:
    translations = tmp_path / "translations"
    translations.write_text("DOG CAT BEE ANT\nANT\n\nIBIS HEN GNU FOX EEL\n")
    stdin(SENTENCES)
    explain(str(run), references=translations, output=tmp_path / "plot.png")
    table, said = capsys.readouterr()
    stdin(SENTENCES)
    explain(str(run), references=translations, as_json=True)
    record = json.loads(capsys.readouterr().out)
    assert record["sentences"] == 2
    assert "2 of 4 lines left out" in said
    assert table.startswith("2 sentences")
    for falls in (record["log_prob_falls"], record["prob_falls"]):
        assert list(falls) == list(RANKINGS)
        row = " ".join(f"{of['mean']:.3f} ± {of['plus_minus']:.3f}" for of in falls[ATTENTION])
        assert row.split() in [line.split()[1:] for line in table.splitlines()]
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_without_translations_the_models_own_are_explained(run: Path, capsys: Capture) -> None:
    explain(str(run), "ant bee cat dog eel", as_json=True)
    record = json.loads(capsys.readouterr().out)
    assert record["sentences"] == 1
    assert all(math.isfinite(fall["mean"]) for fall in record["log_prob_falls"][ATTENTION])
    assert record["kendall"]["attention and leave one out"]["plus_minus"] is None  # of one


def test_what_cannot_be_measured_is_refused(run: Path, stdin: Stdin, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to explain: every line is under 4 words"):
        explain(str(run), "ant bee")
    with pytest.raises(UserError, match=r"a \.png or an \.svg"):
        explain(str(run), "ant bee cat dog", output=tmp_path / "plot.pdf")
    (tmp_path / "short").write_text("DOG\n")
    stdin(SENTENCES)
    with pytest.raises(UserError, match="1 lines for 4 sentences"):
        explain(str(run), references=tmp_path / "short")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("ant bee cat", "under 4 words"),
        ("ant bee " * 20, "over 20 subwords"),
        ("ant bee cat dog \N{ANT} eel fox", "several sentences or parts"),
        ("я ж ю ш щ", "unknown letters"),
    ],
)
def test_every_cause_by_which_a_line_is_left_out_is_named(line: str, cause: str, run: Path) -> None:
    with pytest.raises(UserError, match=f"nothing to explain: every line is .*{cause}"):
        explain(str(run), line)


def test_a_model_without_attention_is_refused(fresh: Callable[..., Config]) -> None:
    config = fresh("seq2seq", model={"attention": "none", "input_feeding": False})
    train(config)
    with pytest.raises(UserError, match="no attention"):
        explain(config.run, "ant bee cat dog")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--explain", "--view", "html"], "--view: not with --explain"),
        (["--explain", "--target", "DOG"], "--target: not with --explain"),
        (["--explain", "--subwords"], "--subwords: not with --explain"),
        (["--explain", "--layer", "2"], "--layer: not with --explain"),
        (["--explain", "--head", "2"], "--head: not with --explain"),
        (["--json"], "--json: only with --explain"),
        (["-r", "file"], "--reference: only with --explain"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    options: list[str], message: str, capsys: Capture
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["attend", "a dog", *options])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
