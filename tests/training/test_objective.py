"""An objective over whole sentences needs one file and no change to the training step."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from architectures import make, sources, targets
from mtkit.config.settings import Sgd
from mtkit.symbols import PAD
from mtkit.terms import Batch
from mtkit.training.loss import Loss, Objective
from mtkit.training.state import new_state
from mtkit.training.step import train_step


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
    model = make(name)
    state = new_state(Risk(model, smoothing=0.0), Sgd(), "float32")
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
