"""The end of an adaptation: how far to move from the base weights to the trained weights.

Training on new text makes a model worse at what it could translate before. The weights between,

    w(α) = w_base + α · (w_trained - w_base),

often keep most of both abilities (Wortsman et al. 2022, "Robust fine-tuning of zero-shot models").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from mtkit.artifacts.runs import WEIGHTS
from mtkit.corpus.sets import open_set
from mtkit.corpus.spread import spread
from mtkit.decoding.text.line import Line
from mtkit.extras.adapt.adaptation import (
    MAX_TRIALS,
    Adaptation,
    describe_adaptation,
    is_significantly_better,
)
from mtkit.models.device import pick_device
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.folder import read_model_config
from mtkit.models.weights import assign_weights, get_weights, load_model
from mtkit.progress import progress
from mtkit.report import say, table
from mtkit.scoring.comparison import BeforeAndAfter
from mtkit.scoring.metrics import MAX_RESAMPLED, score
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.candidates import Candidate
from mtkit.training.setup import TrainingRun
from mtkit.training.state import TrainState, Validation
from mtkit.training.validation import (
    score_validation,
    scored_lines,
    translate_greedily,
    validation_lines,
    validation_loss,
)

SHARES = (0.25, 0.5, 0.75, 1.0)
"""The values of α that are tried in any case, beside 0, which is the base model."""
assert len(SHARES) + 1 <= MAX_TRIALS


@dataclass(frozen=True)
class ScoredText:
    """Lines to translate, with their references."""

    lines: list[Line]
    references: list[str]


@dataclass(frozen=True)
class ComparedTexts:
    """The texts on which weights are compared."""

    new: ScoredText
    """Lines of the validation set."""
    old: ScoredText | None
    """Lines of data.keep; None if it is not set."""


@dataclass(frozen=True)
class Outcome:
    """The translations of both texts with the weights of one α, and their scores."""

    share: float
    new: list[str]
    """The translations of the new text."""
    old: list[str]
    new_chrf: float
    old_chrf: float
    """0 if there is no old text."""


def limit_harm(
    run: TrainingRun, state: TrainState, trained: Candidate
) -> tuple[Candidate, Adaptation]:
    """Return the weights that gain most on new text while old text loses at most `max_harm`.

    They are the base weights if the gain may be chance. The processes share the work.
    """
    config = run.config
    max_harm = config.training.max_harm
    assert max_harm is not None
    texts = ComparedTexts(new=_read_new_text(run), old=_read_old_text(run))
    # The weights of the base model, with rows for the new subwords of this run.
    initial_weights = get_weights(run.inputs.initial_model())
    outcomes = _try_all(run, state, initial_weights, trained, texts, max_harm)
    base = outcomes[0]
    best = choose_outcome(outcomes, max_harm)
    adaptation = compare_outcomes(base, best, texts, max_harm, config.data.target_language)
    if run.group.is_main:
        _say_outcomes(outcomes)
        say(f"train: {describe_adaptation(adaptation)}")
    final = base if adaptation.is_refused else best
    references = texts.new.references
    candidate = _make_candidate(run, state, initial_weights, trained, final, references)
    return candidate, adaptation


def _try_all(
    run: TrainingRun,
    state: TrainState,
    initial_weights: Mapping[str, Tensor],
    trained: Candidate,
    texts: ComparedTexts,
    max_harm: float,
) -> list[Outcome]:
    """Return the outcomes of the base model, of each of SHARES, and of a finer share, if any."""
    with progress("comparing base and trained weights", 1 + MAX_TRIALS, "trials") as bar:

        def try_share(share: float) -> Outcome:
            assign_weights(state.model, interpolate(initial_weights, trained.weights, share))
            outcome = _try_weights(run, state.model, run.inputs.tokenizer, share, texts)
            bar.advance()
            return outcome

        # Not `initial_weights`: the base model may have fewer subwords, and is judged as it is.
        outcomes = [_try_base_model(run, texts)]
        bar.advance()
        outcomes += [try_share(share) for share in SHARES]
        finer_share = choose_finer_share(outcomes, max_harm)
        if finer_share is not None:
            outcomes.append(try_share(finer_share))
    return outcomes


def compare_outcomes(
    base: Outcome,
    best: Outcome,
    texts: ComparedTexts,
    max_harm: float,
    language: str | None,
) -> Adaptation:
    """Return what the best weights change, and their share: 0 if the gain may be chance.

    With share 0, the scores are still those of the best weights, to say what was tried.
    `language`: language of the target, if known.
    """
    new = _measure_change(base.new, best.new, texts.new.references, language)
    old = None
    if texts.old is not None:
        old = _measure_change(base.old, best.old, texts.old.references, language)
    share = best.share if is_significantly_better(new) else 0.0
    return Adaptation(share=share, max_harm=max_harm, new=new, old=old)


def _measure_change(
    base: Sequence[str], best: Sequence[str], references: Sequence[str], language: str | None
) -> BeforeAndAfter:
    """Compare translations of a text, on no more lines than a significance test takes."""
    return BeforeAndAfter.of(
        spread(base, MAX_RESAMPLED),
        spread(best, MAX_RESAMPLED),
        spread(references, MAX_RESAMPLED),
        language,
    )


def interpolate(
    base: Mapping[str, Tensor], trained: Mapping[str, Tensor], share: float
) -> dict[str, Tensor]:
    """Return w_base + α · (w_trained - w_base) for every weight; α is `share`."""
    return {name: weight.lerp(trained[name], share) for name, weight in base.items()}


def choose_outcome(outcomes: Sequence[Outcome], max_harm: float) -> Outcome:
    """Return the best outcome on new text whose chrF on old text falls by at most `max_harm`.

    The first outcome is that of the base model. Of equally good outcomes, return the first.
    """
    harmless = [outcome for outcome in outcomes if _is_harmless(outcome, outcomes[0], max_harm)]
    return max(harmless, key=lambda outcome: outcome.new_chrf)


def choose_finer_share(outcomes: Sequence[Outcome], max_harm: float) -> float | None:
    """Return the α half-way from the best outcome to the next one, if that does too much harm.

    Return None if the best outcome is the last, or if the limit of harm is not what stops it.
    `outcomes`: in ascending order of α, from the base model.
    """
    best = choose_outcome(outcomes, max_harm)
    later = [outcome for outcome in outcomes if outcome.share > best.share]
    if not later or _is_harmless(later[0], outcomes[0], max_harm):
        return None
    return (best.share + later[0].share) / 2


def _is_harmless(outcome: Outcome, base: Outcome, max_harm: float) -> bool:
    """Return whether the old text loses at most `max_harm`."""
    return outcome.old_chrf >= base.old_chrf - max_harm


def _read_new_text(run: TrainingRun) -> ScoredText:
    """Return the lines of the validation set that are translated."""
    return ScoredText(
        lines=validation_lines(run.inputs),
        references=scored_lines(run.inputs, run.inputs.data.valid_target),
    )


def _read_old_text(run: TrainingRun) -> ScoredText | None:
    """Return the lines of data.keep that are translated; None if it is not set."""
    if run.config.data.keep is None:
        return None
    with open_set(run.config, "keep") as rows:
        pairs = [pair for pair in rows if not pair.blank]
    chosen = scored_lines(run.inputs, pairs)
    return ScoredText(
        lines=[Line(pair.source, tag=pair.target_tag) for pair in chosen],
        references=[pair.target for pair in chosen],
    )


def _try_base_model(run: TrainingRun, texts: ComparedTexts) -> Outcome:
    """Translate both texts with the base model and its own tokenizer."""
    origin = run.inputs.origin
    assert origin is not None  # the config has training.init_from
    config = read_model_config(origin)
    model = load_model(config, origin.file(WEIGHTS)).to(pick_device(run.config.training.device))
    return _try_weights(run, model, Tokenizer.load(origin), 0.0, texts)


def _try_weights(
    run: TrainingRun,
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    share: float,
    texts: ComparedTexts,
) -> Outcome:
    """Translate both texts with a model, and score the translations against the references.

    The references also limit the lengths of the translations; see `limit_lengths`.
    """
    new = texts.new
    old = texts.old
    new_lines = translate_greedily(run, model, tokenizer, new.lines, new.references)
    old_lines: list[str] = []
    old_chrf = 0.0
    if old is not None:
        old_lines = translate_greedily(run, model, tokenizer, old.lines, old.references)
        old_chrf = score(old_lines, old.references, keys=["chrf"])["chrf"].value
    return Outcome(
        share=share,
        new=new_lines,
        old=old_lines,
        new_chrf=score(new_lines, new.references, keys=["chrf"])["chrf"].value,
        old_chrf=old_chrf,
    )


def _say_outcomes(outcomes: Sequence[Outcome]) -> None:
    """Say how chrF of both texts changes from the base model to the trained weights."""
    outcomes = sorted(outcomes, key=lambda outcome: outcome.share)
    rows = [
        ["share of the trained weights", *(f"{outcome.share:g}" for outcome in outcomes)],
        ["chrF2 of the new text", *(f"{outcome.new_chrf:.2f}" for outcome in outcomes)],
    ]
    if outcomes[0].old:
        rows.append(["chrF2 of the old text", *(f"{outcome.old_chrf:.2f}" for outcome in outcomes)])
    for line in table(rows):
        say(f"  {line}")


def _make_candidate(
    run: TrainingRun,
    state: TrainState,
    initial_weights: dict[str, Tensor],
    trained: Candidate,
    final: Outcome,
    references: Sequence[str],
) -> Candidate:
    """Return the weights of the final α as a candidate, with their validation.

    The loss of α = 0 is that of the initial weights, which may have rows for new subwords.
    """
    if final.share == 1.0:  # these weights have been validated already
        return trained
    weights = interpolate(initial_weights, trained.weights, final.share)
    assign_weights(state.model, weights)
    # These weights are as old as the checkpoint that they come from.
    validation = Validation.of(
        trained.validation.step,
        validation_loss(run, state),
        *score_validation(run.config, final.new, references),
    )
    if final.share == 0.0:  # no checkpoint is part of these weights
        return Candidate("base model", weights, validation, steps=[])
    name = f"{100 * final.share:g}% of the way from the base model to the {trained.name}"
    return Candidate(name, weights, validation, trained.steps)
