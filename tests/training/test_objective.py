"""R-Drop, SimCut and token dropout against their definitions, for every architecture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from architectures import ARCHITECTURES, make, sources, targets
from mtkit.config.settings import Learning, Sgd
from mtkit.models.layers import Dropout
from mtkit.terms import Batch
from mtkit.tokenizer.symbols import BOS, EOS, PAD, UNK
from mtkit.training.objective.consistency import Agreement, Constancy
from mtkit.training.objective.loss import CHUNK_TOKENS, Loss, RowLoss, projected_loss
from mtkit.training.objective.objective import Objective, TokenDropout
from mtkit.training.state import new_state
from mtkit.training.step import train_step

SMOOTHING, ALPHA = 0.1, 3.0


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


def simcut(hidden: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of the first pass and how far the second is from it (Gao et al. 2022)."""
    real = target != PAD
    plain, less = (hidden @ weight.T)[:, real]
    loss = F.cross_entropy(plain, target[real], label_smoothing=SMOOTHING, reduction="sum")
    p, q = plain.log_softmax(-1), less.log_softmax(-1)
    return loss + ALPHA * F.kl_div(q, p, log_target=True, reduction="sum")


Formula = Callable[[Tensor, Tensor, Tensor], Tensor]
methods = pytest.mark.parametrize(
    ("row_loss", "formula"),
    [
        pytest.param(Agreement(ALPHA), r_drop, id="r_drop"),
        pytest.param(Constancy(ALPHA), simcut, id="simcut"),
    ],
)


@methods
@pytest.mark.parametrize("rows", [1, 5, CHUNK_TOKENS])
def test_loss_and_gradients_of_two_passes_equal_the_equation(
    rows: int, row_loss: RowLoss, formula: Formula
) -> None:
    hidden, weight, target = example(rows)
    loss = projected_loss(hidden, weight, target, SMOOTHING, row_loss)
    expected = formula(hidden, weight, target)
    torch.testing.assert_close(loss.smoothed, expected)
    ours = torch.autograd.grad(loss.smoothed * 1.7, (hidden, weight))
    torch.testing.assert_close(ours, torch.autograd.grad(expected * 1.7, (hidden, weight)))


@methods
def test_two_passes_over_each_sentence_have_a_gradient_of_its_own(
    row_loss: RowLoss, formula: Formula
) -> None:
    hidden, weight, target = example(9)
    loss = projected_loss(hidden, weight, target, SMOOTHING, row_loss)
    each = [formula(hidden[:, i : i + 1], weight, target[i : i + 1]) for i in range(2)]
    torch.testing.assert_close(loss.smoothed_of, torch.stack(each))
    ours = torch.autograd.grad(loss.smoothed_of.prod(), (hidden, weight))
    theirs = torch.autograd.grad(each[0] * each[1], (hidden, weight))
    torch.testing.assert_close(ours, theirs)


@methods
def test_two_equal_passes_cost_what_one_does(row_loss: RowLoss, formula: Formula) -> None:
    hidden, weight, target = example(7)
    both = projected_loss(hidden[:1].expand(2, -1, -1, -1), weight, target, 0.1, row_loss)
    one = projected_loss(hidden[:1], weight, target, 0.1)
    torch.testing.assert_close(both.smoothed, one.smoothed)
    torch.testing.assert_close(both.nll, one.nll)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_r_drop_compares_two_draws_of_dropout(name: str) -> None:
    model, source, target = make(name), sources([5, 3, 7]), targets(3, 6)
    objective = Objective(model, SMOOTHING, Agreement(ALPHA))
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


def without_dropout(objective: Objective) -> Objective:
    """In training, but for the dropout of the model itself."""
    for module in objective.train().modules():
        if isinstance(module, Dropout):
            module.p = 0.0
    return objective


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_simcut_compares_with_a_pass_that_words_of_both_sides_are_hidden_from(name: str) -> None:
    model, source, target = make(name), sources([9, 3, 7]), targets(3, 8)
    read = torch.cat([torch.full((3, 1), BOS), target[:, :-1]], dim=1)
    objective = Objective(model, SMOOTHING, Constancy(ALPHA), cut=0.5)
    without = Objective(model, SMOOTHING)(source, read, target)
    torch.testing.assert_close(objective.eval()(source, read, target).smoothed, without.smoothed)
    seen: list[Tensor] = []
    model.register_forward_pre_hook(lambda _, given: seen.extend(given))
    loss = without_dropout(objective)(source, read, target)
    for plain, (first, second) in ((source, seen[0].split(3)), (read, seen[2].split(3))):
        assert torch.equal(first, plain)
        hidden = second != plain
        assert hidden.any()
        assert (second[hidden] == UNK).all()
        assert (plain[hidden] > EOS).all()
    assert torch.equal(seen[1], source.repeat(2, 1) != PAD)
    both, weight = model.output_factors(model(*seen[:3]))
    expected = simcut(both.unflatten(0, (2, -1)), weight, target)
    torch.testing.assert_close(loss.smoothed, expected)
    torch.testing.assert_close(loss.nll, without.nll)


@pytest.mark.parametrize("name", ["transformer", "seq2seq-dot"])
def test_padding_changes_nothing_of_simcut(name: str) -> None:
    source, target = sources([6, 6]), targets(2, 5)
    ids = (source, target, target)
    padded = [F.pad(side, (0, 3), value=PAD) for side in ids]
    objective = Objective(make(name), SMOOTHING, Constancy(ALPHA), cut=0.5)
    without_dropout(objective).cut = Unk()  # drawn words would lie elsewhere
    torch.testing.assert_close(vars(objective(*ids)), vars(objective(*padded)))


class Unk(TokenDropout):
    """Hides every second word."""

    def __init__(self) -> None:
        super().__init__(0.5)

    def forward(self, ids: Tensor) -> Tensor:
        even = torch.arange(ids.shape[1]) % 2 == 0
        return ids.masked_fill(even & (ids > EOS), UNK)


@methods
def test_two_passes_in_bfloat16_stay_near_float32(row_loss: RowLoss, formula: Formula) -> None:
    hidden, weight, target = (tensor.detach() for tensor in example(400))
    hidden, weight = hidden.float().requires_grad_(), weight.float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        loss = projected_loss(hidden, weight, target, SMOOTHING, row_loss)
    expected = formula(hidden, weight, target)
    assert loss.smoothed.item() == pytest.approx(expected.item(), rel=5e-3)
    ours = torch.autograd.grad(loss.smoothed, (hidden, weight))
    theirs = torch.autograd.grad(expected, (hidden, weight))
    for got, wanted in zip(ours, theirs, strict=True):
        assert (got - wanted).norm() < 0.02 * wanted.norm()


def test_token_dropout_hides_its_share_of_words_and_nothing_else() -> None:
    torch.manual_seed(1)
    ids = torch.randint(EOS + 1, 100, (200, 50))
    ids[:, 0], ids[:, 40], ids[:, 41:] = BOS, EOS, PAD
    dropped = TokenDropout(0.2)(ids)
    hidden = dropped != ids
    assert (dropped[hidden] == UNK).all()
    assert not hidden[:, 40:].any()
    assert not hidden[:, 0].any()
    assert hidden[:, 1:40].double().mean().item() == pytest.approx(0.2, abs=0.02)
    torch.testing.assert_close(TokenDropout(0.2).eval()(ids), ids)


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
