"""A proposal for a new model: what to train on a corpus, from random weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from mtkit.corpus.read import Pair
from mtkit.corpus.store import CorpusRows
from mtkit.init.config_text import Sections, choose_settings
from mtkit.init.facts import CorpusFacts
from mtkit.init.presets import MAX_OVERRUN, NOMINAL_VOCABULARY, PRESETS, Plan, Trial, choose_plan
from mtkit.init.proposal import InitOptions, Proposal
from mtkit.init.survey import WrittenCorpus
from mtkit.init.trial import run_trial
from mtkit.machine import count_cores
from mtkit.models.device import pick_device
from mtkit.report import say


@dataclass(frozen=True)
class NewModel(Proposal):
    """A plan to train a new model."""

    plan: Plan

    def __str__(self) -> str:
        return f"{self.plan.preset}, {self.plan.vocabulary:,} subwords"

    def settings(self, facts: CorpusFacts) -> Sections:
        """Return all sections except `data`; their comments name the counts of `facts`."""
        return choose_settings(facts, self.plan)

    def forecast(
        self, facts: CorpusFacts, written: Sequence[WrittenCorpus], minutes: float
    ) -> Iterator[str]:
        """Say how long a run will take."""
        plan = self.plan
        total = plan.seconds / 60
        training = plan.training_seconds / 60
        length = f"{plan.epochs:,.1f} epochs in {plan.steps:,} steps"
        yield f"forecast: {total:.1f} minutes, {training:.1f} to train {length}"
        if total > MAX_OVERRUN * minutes:
            yield f"the time is too short: the shortest run takes {total:.1f} minutes"
        if plan.has_spare_time:
            yield (
                f"{minutes:g} minutes are more than the run can use: after {plan.epochs:,.0f} "
                "epochs, the model would only learn the pairs by heart"
            )


class Start:
    """What training starts from: random weights.

    An extra adds `--from`, the start from a base model: its entry point names a subclass.
    """

    held_out: AbstractSet[int] = frozenset()
    """Keys of text that measures the base model: none of it may be trained on."""

    def __init__(self, options: InitOptions) -> None:
        self.options = options

    def propose(
        self, facts: CorpusFacts, sample: Sequence[Pair], texts: Sequence[CorpusRows]
    ) -> tuple[CorpusFacts, Proposal]:
        """Plan a run; return the proposal, and the facts with the largest vocabulary, if known.

        `texts`: the rows of each corpus.
        """
        facts, plan = find_plan(facts, sample, self.options.minutes)
        return facts, NewModel(plan)


def find_plan(
    facts: CorpusFacts, sample: Sequence[Pair], minutes: float
) -> tuple[CorpusFacts, Plan]:
    """Choose a plan by a trial; if the speed leads to another model or batch, by a second trial.

    Return the facts with the largest vocabulary for the text, if a trial has found it.
    """
    guess = choose_plan(facts, _guess_speed(), minutes)
    facts, trial = _try(facts, guess, sample)
    plan = choose_plan(facts, trial, minutes)
    if (plan.preset, plan.max_tokens) == (guess.preset, guess.max_tokens):
        return facts, plan
    facts, trial = _try(facts, plan, sample)
    # The second trial decides everything except the preset, so that there is no third.
    return facts, choose_plan(facts, trial, minutes, preset=plan.preset)


def _guess_speed() -> Trial:
    """Return a rough speed of this machine, from which the first trial is planned.

    The numbers were chosen by hand; the trials replace them by measured ones.
    """
    if pick_device("auto").type == "cuda":
        # On a GPU, a small model is no faster than a large one, so its speed would mislead.
        return Trial(1e5, preset=PRESETS[3], vocabulary=32_000, is_gpu=True)
    speed = 4000.0 * count_cores()
    return Trial(speed, preset=PRESETS[1], vocabulary=NOMINAL_VOCABULARY)


def _try(facts: CorpusFacts, plan: Plan, sample: Sequence[Pair]) -> tuple[CorpusFacts, Trial]:
    """Measure the speed of a plan; return the facts with the largest vocabulary, if it is found."""
    say(
        f"init: measuring the speed of {plan.preset} with {plan.vocabulary:,} subwords, in "
        f"batches of {plan.max_tokens:,} tokens"
    )
    trial = run_trial(facts, plan, sample)
    if trial.vocabulary < plan.vocabulary:
        facts = replace(facts, max_vocabulary=trial.vocabulary)
    return facts, trial
