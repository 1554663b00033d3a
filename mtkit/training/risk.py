"""Minimum risk training: how bad the model's own translations are expected to be is minimised.

Shen et al. 2016, "Minimum Risk Training for Neural Machine Translation", section 3: with S(x) a few
translations of the source x, and Δ(y) what y lacks of the reference,

    loss = Σ over y in S(x) of Q(y) · Δ(y),   Q(y) = P(y | x)^α / Σ over y' in S(x) of P(y' | x)^α.

S(x) is drawn from the model as it is, without dropout and without gradients, and Δ is 1 less the
sentence's chrF or BLEU, of text as people read it; then P of all S(x) is computed as in any other
training, with dropout. Samples are drawn from P already: a small α weighs them nearly alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.config.decoding import DecodingSettings, SamplingSettings
from mtkit.config.objective import MinimumRisk
from mtkit.decoding.constraints import constraints_of
from mtkit.decoding.sampling import Sampler
from mtkit.decoding.search import Hypotheses, search
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.scoring.metrics import sentence_scorer
from mtkit.symbols import BOS, EOS, PAD
from mtkit.terms import Batch, SourceIds
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.loss import Loss, Objective

LONGEST = 2
"""How many times the longest reference of a batch a sample may be as long."""

Ids = Sequence[list[int]]


@dataclass(frozen=True)
class Judge:
    """Says how good translations are, reading them as people do."""

    tokenizer: Tokenizer
    language: str | None

    def __call__(
        self, metric: Literal["bleu", "chrf"], translations: Ids, references: Ids
    ) -> list[float]:
        """A score from 0 to 100 of each sequence of target ids, by the reference in its place."""
        score = _scorer(metric, self.language)
        texts = (self.tokenizer.decode(list(side)) for side in (translations, references))
        return [score(*pair) for pair in zip(*texts, strict=True)]


_scorer = cache(sentence_scorer)


class ExpectedRisk(Objective):
    """A mean over sentences, of risks between 0 and 1."""

    def __init__(self, model: EncoderDecoder, settings: MinimumRisk, judge: Judge) -> None:
        super().__init__(model, 0.0)
        self.settings, self.judge = settings, judge

    def forward(
        self, source: SourceIds, target_input: Int[Tensor, "B T"], target_output: Int[Tensor, "B T"]
    ) -> Loss:
        candidates = self.candidates(source, target_output)
        count, rows = candidates.shape[1], candidates.flatten(0, 1)  # rows: (B·C, U)
        read = F.pad(rows[:, :-1].masked_fill(rows[:, 1:] == PAD, PAD), (1, 0), value=BOS)
        loss = super().forward(source.repeat_interleave(count, dim=0), read, rows)
        weighed = self._weighed(candidates)
        log_probs = self.settings.alpha * -loss.smoothed_of.view(-1, count)
        shares = log_probs.masked_fill(~weighed, float("-inf")).softmax(dim=1)  # Q
        # A row of padding alone stands for no sentence.
        risk_of = (shares * self._risks(candidates, weighed)).sum(dim=1)
        risk_of = risk_of * (target_output != PAD).any(dim=1)
        nll_of = loss.nll_of.view(-1, count)[:, 0]
        return Loss(risk_of.sum(), nll_of.sum(), risk_of, nll_of)

    def size(self, batch: Batch) -> int:
        return int((batch.target_output != PAD).any(dim=1).sum())

    def told(self, mean: float) -> dict[str, float]:
        return {"reward": 100 * (1 - mean)}

    def candidates(
        self, source: SourceIds, target_output: Int[Tensor, "B T"]
    ) -> Int[Tensor, "B C U"]:
        """The reference of each source and then its samples, equal ones as well; each with EOS, but
        for samples that came to no end, which nobody is to learn to stop halfway from.
        """
        found = self._samples(source, LONGEST * target_output.shape[1])
        ends = torch.where(found.finished, EOS, PAD).unsqueeze(2)
        samples = F.pad(found.tokens, (0, 1), value=PAD).scatter(
            2, found.lengths.unsqueeze(2), ends
        )
        missing = samples.shape[2] - target_output.shape[1]
        reference = F.pad(target_output, (0, max(0, missing)), value=PAD)
        samples = F.pad(samples, (0, max(0, -missing)), value=PAD)
        return torch.cat([reference.unsqueeze(1), samples], dim=1)

    def _samples(self, source: SourceIds, longest: int) -> Hypotheses:
        """Drawn by numbers that dropout is drawn by as well: equal for equal places in a run."""
        most = self.model.settings.longest or longest + 1
        longest = min(longest, most - 1)  # EOS or BOS takes one more
        noise = torch.rand(len(source), self.settings.samples, longest, device=source.device)
        sampler = Sampler(SamplingSettings(), noise, length_penalty=0.0)
        constraints, kind = constraints_of(DecodingSettings()), source.device.type
        was_training = self.model.training
        self.model.eval()
        try:
            # Weights that are converted without gradients must not be kept for the forward pass.
            with torch.autocast(kind, enabled=torch.is_autocast_enabled(kind), cache_enabled=False):
                found = search(self.model, source, sampler, constraints, longest)
        finally:
            self.model.train(was_training)
        # Those of inference could not be part of what is differentiated.
        return Hypotheses(*(field.clone() for field in vars(found).values()))

    def _weighed(self, candidates: Int[Tensor, "B C U"]) -> Bool[Tensor, "B C"]:
        """The first of equal ones; of the reference, where it is to be among them."""
        same = (candidates.unsqueeze(2) == candidates.unsqueeze(1)).all(dim=3)  # (B, C, C)
        if not self.settings.reference:
            same[:, :, 0] = False
        weighed = ~same.tril(-1).any(dim=2)
        weighed[:, 0] = self.settings.reference
        return weighed

    def _risks(
        self, candidates: Int[Tensor, "B C U"], weighed: Bool[Tensor, "B C"]
    ) -> Float[Tensor, "B C"]:
        """Of those that are weighed."""
        references = candidates[:, :1].expand_as(candidates)
        ids = (candidates[weighed].tolist(), references[weighed].tolist())
        scores = self.judge(self.settings.metric, *ids)
        risks = torch.zeros(weighed.shape, device=weighed.device)
        risks[weighed] = 1 - torch.tensor(scores, device=weighed.device) / 100
        return risks
