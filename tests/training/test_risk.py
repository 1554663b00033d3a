"""Minimum risk training against the expected risk, written out, for every architecture."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from architectures import ARCHITECTURES, make, sources, targets
from mtkit.config.objective import MinimumRisk
from mtkit.config.settings import Config
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.scoring.metrics import sentence_scorer
from mtkit.symbols import BOS, EOS, PAD
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training import risk
from mtkit.training.data import NOTHING, load_batch
from mtkit.training.metrics import MetricsLog
from mtkit.training.processes import ALONE
from mtkit.training.risk import ExpectedRisk, Ids, Judge
from mtkit.training.setup import fresh_state, sources_of
from mtkit.training.step import train_step
from mtkit.training.train import train

both = pytest.mark.parametrize("name", ["transformer", "seq2seq-dot"])
SYMBOLS = (4, 5)
"""All words of a toy language, whose sentences have up to two."""
SENTENCES = [list(words) for length in range(3) for words in product(SYMBOLS, repeat=length)]


class CommonWords(Judge):
    """Per cent of the symbols of the longer sentence that stand in the same place in both."""

    def __init__(self) -> None:
        pass

    def __call__(self, metric: str, translations: Ids, references: Ids) -> list[float]:
        pairs = zip(translations, references, strict=True)
        return [self.of(*([i for i in ids if i > EOS] for ids in pair)) for pair in pairs]

    @staticmethod
    def of(ours: list[int], right: list[int]) -> float:
        same = sum(a == b for a, b in zip(ours, right, strict=False))
        return 100 * same / max(len(ours), len(right), 1)


def objective(name: str, **settings: object) -> ExpectedRisk:
    risk = MinimumRisk.model_validate(settings)
    return ExpectedRisk(make(name), risk, CommonWords())


def references(*sentences: list[int]) -> Tensor:
    """As target output: each with EOS, and padded."""
    width = max(map(len, sentences)) + 1
    return torch.tensor([[*ids, EOS, *[PAD] * (width - len(ids) - 1)] for ids in sentences])


def log_prob(model: EncoderDecoder, source: Tensor, sentence: list[int]) -> Tensor:
    """log P of one sentence of the toy language, with its end."""
    read, written = torch.tensor([[BOS, *sentence]]), torch.tensor([*sentence, EOS])
    source = source[source != PAD].unsqueeze(0)
    logits = model.project(model(source, source != PAD, read))[0]
    return logits.log_softmax(-1).gather(1, written.unsqueeze(1)).sum()


@pytest.mark.parametrize("with_reference", [True, False])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_loss_and_gradient_are_those_of_the_expected_risk_over_all_that_can_be_said(
    name: str, with_reference: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt = objective(name, alpha=0.7, reference=with_reference)
    source, right = sources([4, 2]), [[5, 4], [4]]
    every = references(*SENTENCES, [4], [5, 5])  # two of them twice
    target = references(*right)
    given = torch.stack([torch.cat([line.unsqueeze(0), every]) for line in target])
    monkeypatch.setattr(learnt, "candidates", lambda *_: given)
    loss = learnt(source, target, target)
    expected = []
    for row, reference in zip(source, right, strict=True):
        scores = torch.stack([log_prob(learnt.model, row, ids) for ids in SENTENCES])
        shares = (0.7 * scores).exp() / (0.7 * scores).exp().sum()
        costs = torch.tensor([1 - CommonWords.of(ids, reference) / 100 for ids in SENTENCES])
        expected.append((shares * costs).sum())
    torch.testing.assert_close(loss.smoothed_of, torch.stack(expected), check_dtype=False)
    parameters = list(learnt.model.parameters())
    ours = torch.autograd.grad(loss.smoothed, parameters)
    theirs = torch.autograd.grad(torch.stack(expected).sum(), parameters)
    for got, wanted in zip(ours, theirs, strict=True):  # texts of scores are in float32
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-7)
    nll = [-log_prob(learnt.model, *pair) for pair in zip(source, right, strict=True)]
    torch.testing.assert_close(loss.nll_of, torch.stack(nll).detach())


@both
def test_candidates_are_in_step_with_their_sources(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt = objective(name, samples=8)
    source, target = sources([6, 6, 6]), targets(3, 4)
    noise = torch.rand(1, 8, 8)  # the same for each source
    monkeypatch.setattr(torch, "rand", lambda rows, *_, **__: noise.repeat(rows, 1, 1))
    together = learnt.candidates(source, target)
    assert together.shape[:2] == (3, 9)
    for row in range(3):
        assert together[row, 0, :4].tolist() == target[row].tolist()
        for sample in together[row].tolist():
            end = sample.index(EOS) if EOS in sample else len(sample)
            assert set(sample[end + 1 :]) <= {PAD}
    turned = learnt.candidates(source.flip(0), target.flip(0))
    assert torch.equal(turned.flip(0), together)
    assert not torch.equal(together[0, 1:], together[1, 1:])


@both
def test_nobody_learns_to_stop_where_a_sample_was_cut_off(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(risk, "LONGEST", 1)
    learnt = objective(name, samples=50)
    source, target = sources([6, 6, 6]), targets(3, 4)
    finished = learnt._samples(source, target.shape[1]).finished
    assert finished.any() and not finished.all()
    torch.manual_seed(1)
    finished = learnt._samples(source, target.shape[1]).finished
    torch.manual_seed(1)
    samples = learnt.candidates(source, target)[:, 1:]
    assert torch.equal((samples == EOS).any(dim=2), finished)


@both
def test_samples_are_drawn_without_dropout_and_by_the_seed_alone(name: str) -> None:
    learnt = objective(name)
    source, target = sources([6, 4]), targets(2, 5)
    drawn = []
    for mode, seed in ((True, 1), (False, 1), (True, 2)):
        learnt.train(mode)
        torch.manual_seed(seed)
        drawn.append(learnt.candidates(source, target))
        assert learnt.model.training is mode
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


@both
def test_every_weight_learns_in_bfloat16_after_sampling_in_it(name: str) -> None:
    learnt = objective(name, alpha=1.0)
    learnt.model.float().train()
    with torch.autocast("cpu", torch.bfloat16):
        loss = learnt(sources([6, 4]), targets(2, 5), targets(2, 5))
    loss.smoothed.backward()
    for parameter in learnt.model.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


@both
def test_a_batch_of_nothing_adds_nothing(name: str) -> None:
    learnt = objective(name)
    loss = learnt(NOTHING.source, NOTHING.target_input, NOTHING.target_output)
    loss.smoothed.backward()
    assert (loss.smoothed.item(), loss.nll.item(), learnt.size(NOTHING)) == (0, 0, 0)
    for parameter in learnt.model.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()


def test_translations_are_judged_as_people_read_them(fresh: Callable[..., Config]) -> None:
    tokenizer = Tokenizer.load(Path(fresh("transformer").run) / "tokenizer")
    texts = ["ANT BEE CAT DOG", "BEE CAT DOG", "JAY"]
    ids = [[*line, EOS, PAD] for line in tokenizer.encode_target(texts)]
    for metric in ("bleu", "chrf"):
        score = sentence_scorer(metric, None)
        found = Judge(tokenizer, None)(metric, ids, ids[:1] * 3)
        assert found == [score(text, texts[0]) for text in texts]
        assert found[0] > found[1] > found[2]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["transformer", "seq2seq"])
def test_what_is_sampled_becomes_better_and_is_logged(
    kind: str, fresh: Callable[..., Config]
) -> None:
    train(fresh(kind, "start", training={"steps": 120}))
    settings = {"init_from": "start", "label_smoothing": 0.0, "steps": 4}
    config = fresh(
        kind, "risk", training=settings | {"objective": {"kind": "minimum_risk", "samples": 4}}
    )
    data, tokenizer, _ = sources_of(config)
    state = fresh_state(config, tokenizer, ALONE)
    batch = load_batch(data.train, np.arange(40))
    rewards: list[float] = []
    for _ in range(40):
        report = train_step(state, [batch], 0.003, seed=1, clip_norm=1.0)
        rewards += state.objective.told(report.smoothed / report.tokens).values()
    assert np.mean(rewards[-5:]) > np.mean(rewards[:5]) + 5
    train(config)
    (record,) = (it for it in MetricsLog(Path("risk")).read() if it["kind"] == "train")
    assert 0 < record["reward"] < 100
    assert "smoothed_loss" not in record
