"""R-Drop against its definition, and an objective over whole sentences, for every architecture."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from architectures import ARCHITECTURES, make, sources, targets
from mtkit.config.settings import Learning, Sgd
from mtkit.terms import Batch
from mtkit.tokenizer.symbols import PAD
from mtkit.training.objective.agreement import Agreement
from mtkit.training.objective.loss import CHUNK_TOKENS, Loss, projected_loss
from mtkit.training.objective.objective import Objective
from mtkit.training.state import new_state
from mtkit.training.step import train_step

SMOOTHING, ALPHA = 0.1, 3.0
R_DROP = Agreement(ALPHA)


def example(rows: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(rows)
    hidden = torch.randn(2, 2, rows, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 6, dtype=torch.float64, requires_grad=True)
    target = torch.randint(1, 11, (2, rows))
    target[1, rows // 2 :] = PAD
    return hidden, weight, target


def r_drop(hidden: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    """Half of equation 4 of Liang et al. 2021, by torch's own losses."""
    real = target != PAD
    first, second = (hidden @ weight.T)[:, real]
    losses = [
        F.cross_entropy(logits, target[real], label_smoothing=SMOOTHING, reduction="sum")
        for logits in (first, second)
    ]
    p, q = first.log_softmax(-1), second.log_softmax(-1)
    apart = F.kl_div(q, p, log_target=True, reduction="sum")
    apart = apart + F.kl_div(p, q, log_target=True, reduction="sum")
    return sum(losses) / 2 + ALPHA / 4 * apart


@pytest.mark.parametrize("rows", [1, 5, CHUNK_TOKENS])
def test_loss_and_gradients_of_two_passes_equal_the_equation(rows: int) -> None:
    hidden, weight, target = example(rows)
    loss = projected_loss(hidden, weight, target, SMOOTHING, R_DROP)
    expected = r_drop(hidden, weight, target)
    torch.testing.assert_close(loss.smoothed, expected)
    ours = torch.autograd.grad(loss.smoothed * 1.7, (hidden, weight))
    torch.testing.assert_close(ours, torch.autograd.grad(expected * 1.7, (hidden, weight)))


def test_two_passes_over_each_sentence_have_a_gradient_of_its_own() -> None:
    hidden, weight, target = example(9)
    loss = projected_loss(hidden, weight, target, SMOOTHING, R_DROP)
    each = [r_drop(hidden[:, i : i + 1], weight, target[i : i + 1]) for i in range(2)]
    torch.testing.assert_close(loss.smoothed_of, torch.stack(each))
    ours = torch.autograd.grad(loss.smoothed_of.prod(), (hidden, weight))
    theirs = torch.autograd.grad(each[0] * each[1], (hidden, weight))
    torch.testing.assert_close(ours, theirs)


def test_two_equal_passes_cost_what_one_does() -> None:
    hidden, weight, target = example(7)
    both = projected_loss(hidden[:1].expand(2, -1, -1, -1), weight, target, 0.1, R_DROP)
    one = projected_loss(hidden[:1], weight, target, 0.1)
    torch.testing.assert_close(both.smoothed, one.smoothed)
    torch.testing.assert_close(both.nll, one.nll)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_r_drop_compares_two_draws_of_dropout(name: str) -> None:
    model, source, target = make(name), sources([5, 3, 7]), targets(3, 6)
    objective = Objective(model, SMOOTHING, R_DROP)
    without = Objective(model, SMOOTHING)(source, target, target)
    torch.testing.assert_close(objective(source, target, target).smoothed, without.smoothed)
    torch.manual_seed(5)
    loss = objective.train()(source, target, target)
    torch.manual_seed(5)
    doubled = model(source.repeat(2, 1), source.repeat(2, 1) != PAD, target.repeat(2, 1))
    hidden, weight = model.output_factors(doubled)
    expected = r_drop(hidden.unflatten(0, (2, -1)), weight, target)
    torch.testing.assert_close(loss.smoothed, expected)
    assert (hidden[0] != hidden[3]).any()


def test_two_passes_in_bfloat16_stay_near_float32() -> None:
    hidden, weight, target = (tensor.detach() for tensor in example(400))
    hidden, weight = hidden.float().requires_grad_(), weight.float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        loss = projected_loss(hidden, weight, target, SMOOTHING, R_DROP)
    expected = r_drop(hidden, weight, target)
    assert loss.smoothed.item() == pytest.approx(expected.item(), rel=5e-3)
    ours = torch.autograd.grad(loss.smoothed, (hidden, weight))
    theirs = torch.autograd.grad(expected, (hidden, weight))
    for got, wanted in zip(ours, theirs, strict=True):
        assert (got - wanted).norm() < 0.02 * wanted.norm()


class Risk(Objective):
    """Minimum risk training (Shen et al. 2016): the expected cost of the sentences of a batch.

    They stand for translations of one source; each costs what its number of words is.
    """

    def forward(self, source: Tensor, target_input: Tensor, target_output: Tensor) -> Loss:
        loss = super().forward(source, target_input, target_output)
        costs = (target_output != PAD).sum(dim=1)
        return replace(loss, smoothed=(loss.smoothed_of.neg().softmax(0) * costs).sum())

    def size(self, batch: Batch) -> int:
        return 1


@pytest.mark.parametrize("name", ["transformer", "seq2seq-dot"])
def test_an_objective_over_whole_sentences_needs_nothing_but_itself(name: str) -> None:
    learning = Learning(optimizer=Sgd(), clip_norm=None)
    model = make(name)
    state = new_state(model, learning, "float32")
    state.objective = state.parallel = Risk(model, smoothing=0.0)
    state.model.eval()  # without dropout
    source, target = sources([5, 3, 7, 4]), targets(4, 6)
    target[1, 4:] = target[3, 2:] = PAD
    batch = Batch(source, target, target, int((target != PAD).sum()))
    log_probs = model.project(model(source, source != PAD, target)).log_softmax(-1)
    real = target != PAD
    chosen = log_probs.gather(2, target.unsqueeze(2)).squeeze(2).where(real, 0.0)
    risk = (chosen.sum(1).softmax(0) * real.sum(1)).sum()
    expected = torch.autograd.grad(risk, list(model.parameters()))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    report = train_step(state, [batch], 1.0, seed=1, clip_norm=None)
    assert report.smoothed / report.tokens == pytest.approx(risk.item())
    for old, new, gradient in zip(before, model.parameters(), expected, strict=True):
        torch.testing.assert_close(old - new, gradient)
