"""R-Drop and token dropout against their definitions, written out, for every architecture."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from architectures import ARCHITECTURES, make, sources, targets
from mtkit.config.training import TrainingSettings
from mtkit.models.layers import Dropout
from mtkit.tokenizer.symbols import EOS, PAD, UNK
from mtkit.training.objective.loss import CHUNK, projected_cross_entropy, projected_loss
from mtkit.training.objective.objective import Objective, TokenDropout, build_objective
from mtkit.training.objective.r_drop import Agreement

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


@pytest.mark.parametrize("rows", [1, 5, CHUNK])
def test_r_drop_and_its_gradients_equal_the_equation(rows: int) -> None:
    hidden, weight, target = example(rows)
    loss = projected_loss(hidden, weight, target, SMOOTHING, Agreement(ALPHA))
    expected = r_drop(hidden, weight, target)
    torch.testing.assert_close(loss.smoothed, expected)
    ours = torch.autograd.grad(loss.smoothed * 1.7, (hidden, weight))
    torch.testing.assert_close(ours, torch.autograd.grad(expected * 1.7, (hidden, weight)))


def test_two_equal_passes_cost_what_one_does() -> None:
    hidden, weight, target = example(7)
    both = projected_loss(hidden[:1].expand(2, -1, -1, -1), weight, target, 0.1, Agreement(ALPHA))
    one = projected_cross_entropy(hidden[0], weight, target, 0.1)
    torch.testing.assert_close(both.smoothed, one.smoothed)
    torch.testing.assert_close(both.nll, one.nll)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_r_drop_compares_two_draws_of_dropout(name: str) -> None:
    model, source, target = make(name), sources([5, 3, 7]), targets(3, 6)
    objective = Objective(model, SMOOTHING, 0.0, Agreement(ALPHA), passes=2)
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


def test_bfloat16_r_drop_stays_near_float32() -> None:
    hidden, weight, target = (tensor.detach() for tensor in example(400))
    hidden, weight = hidden.float().requires_grad_(), weight.float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        loss = projected_loss(hidden, weight, target, SMOOTHING, Agreement(ALPHA))
    expected = r_drop(hidden, weight, target)
    assert loss.smoothed.item() == pytest.approx(expected.item(), rel=5e-3)
    ours = torch.autograd.grad(loss.smoothed, (hidden, weight))
    theirs = torch.autograd.grad(expected, (hidden, weight))
    for got, wanted in zip(ours, theirs, strict=True):
        assert (got - wanted).norm() < 0.02 * wanted.norm()


def test_token_dropout_hides_its_share_of_words_and_nothing_else() -> None:
    torch.manual_seed(1)
    ids = torch.randint(EOS + 1, 100, (200, 50))
    ids[:, 40], ids[:, 41:] = EOS, PAD
    dropped = TokenDropout(0.2)(ids)
    hidden = dropped != ids
    assert (dropped[hidden] == UNK).all()
    assert not hidden[:, 40:].any()
    assert hidden[:, :40].double().mean().item() == pytest.approx(0.2, abs=0.02)
    torch.testing.assert_close(TokenDropout(0.2).eval()(ids), ids)


@pytest.mark.parametrize("name", ["transformer", "seq2seq-dot"])
@pytest.mark.parametrize("settings", [{}, {"r_drop": 5.0}])
def test_the_source_is_hidden_in_training_alone(name: str, settings: dict[str, float]) -> None:
    hiding = TrainingSettings.model_validate({"steps": 1, "source_dropout": 0.9} | settings)
    model, source, target = make(name), sources([9, 8]), targets(2, 6)
    objective = build_objective(model, hiding)
    plain = Objective(model, SMOOTHING)(source, target, target).nll
    torch.testing.assert_close(objective.eval()(source, target, target).nll, plain)
    for module in objective.train().modules():
        if isinstance(module, Dropout):
            module.p = 0.0
    assert (objective(source, target, target).nll - plain).abs() > 1e-6
