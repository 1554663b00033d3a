"""A plan as settings, each with its reason, and the config in which that stands above it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from mtkit.config.errors import flow
from mtkit.report import printable
from mtkit.study.init.choice import FEW_PASSES, FEWEST_SENTENCES, LONGEST_EVER, VALIDATIONS, Plan
from mtkit.study.init.facts import Facts

MUON_PEAK, SHORT_PEAK, MUON_WIDTH = 6e-3, 8e-3, 128
"""Learning rates that suit a model of that width: in many passes, and in few."""
MUON_WARMUP, PUBLISHED_WARMUP = 300, 4000
"""Number of updates, at most."""
SOME_PASSES, MANY_PASSES = 24, 60
COLUMNS = 100
"""Width of a comment in the config."""


@dataclass(frozen=True)
class Chosen:
    """Settings of one section that have one reason."""

    section: str
    settings: Mapping[str, Any]
    reason: str


def chosen(corpus: Facts, plan: Plan) -> list[Chosen]:
    """All settings but `run` and `data`, section by section."""
    return [
        *_tokenizer(corpus, plan),
        *_batching(corpus, plan),
        *_model(plan),
        *_training(corpus, plan),
        *_decoding(corpus, plan),
    ]


def settings_of(choices: Iterable[Chosen]) -> dict[str, dict[str, Any]]:
    """The settings alone, by section."""
    sections: dict[str, dict[str, Any]] = {}
    for choice in choices:
        sections.setdefault(choice.section, {}).update(choice.settings)
    return sections


def _tokenizer(corpus: Facts, plan: Plan) -> Iterator[Chosen]:
    many = max(corpus.characters) > plan.vocabulary / 4
    because = f", and up to {max(corpus.characters):,} different characters" if many else ""
    size = f"suits {plan.pairs:,} pairs{because}: of more subwords each would be seen too seldom"
    sides = (
        "both sides are written with the same letters: one vocabulary for both"
        if plan.joint
        else "the sides are written with different letters: a vocabulary for each"
    )
    yield Chosen("tokenizer", {"vocab_size": plan.vocabulary}, size)
    yield Chosen("tokenizer", {"joint": plan.joint}, sides)


def _batching(corpus: Facts, plan: Plan) -> Iterator[Chosen]:
    tokens = plan.max_tokens * plan.accumulate
    reason = f"{plan.steps:,} updates of {tokens:,} tokens are what the time is best divided into"
    if plan.size.is_published:
        reason = f"an update is of {tokens:,} tokens, as in Vaswani et al. 2017"
    yield Chosen("batching", {"max_tokens": plan.max_tokens}, reason)
    lines = f"subwords; {plan.longest} hold ninety-nine of a hundred pairs, or more"
    if plan.longest == LONGEST_EVER:
        lines = "subwords; longer pairs would take too much of a processor's memory"
    yield Chosen("batching", {"max_length": plan.longest}, lines)
    if corpus.deduplicate:
        equal = "some pairs stand there twice, and would be learnt twice as much"
        yield Chosen("batching", {"deduplicate": True}, equal)
    if corpus.drop:
        found = ", ".join(f"{count:,} {rule}" for rule, count in corpus.drop.items())
        faults = f"pairs that `mtkit check` finds fault with: {found}"
        yield Chosen("batching", {"drop": list(corpus.drop)}, faults)


def _model(plan: Plan) -> Iterator[Chosen]:
    size, passes = plan.size, f"{plan.times} passes"
    shape = {
        "kind": "transformer",
        "layers": size.layers,
        "d_model": size.d_model,
        "ffn": size.ffn,
        "heads": size.heads,
    }
    reason = f"{plan.pairs:,} pairs and {passes} over them: a larger model would learn less in it"
    if size.is_published:
        reason = "the " + ("base" if size.d_model == 512 else "big") + " of Vaswani et al. 2017"
    if not plan.joint:
        shape["tie"] = "target"
        reason += "; two vocabularies, so that only the target's is shared with the output"
    yield Chosen("model", shape, reason)
    dropout, why = _dropout(plan)
    yield Chosen("model", dropout, why)


def _dropout(plan: Plan) -> tuple[dict[str, float], str]:
    if plan.size.is_published:
        big = plan.size.d_model > 512
        return {"dropout": 0.3 if big else 0.1}, "as in Vaswani et al. 2017, table 3"
    if plan.passes >= MANY_PASSES:
        most = {"dropout": 0.2, "attention_dropout": 0.1, "activation_dropout": 0.1}
        return most, f"{plan.pairs:,} pairs that are seen so often would be learnt by heart"
    if plan.passes >= SOME_PASSES:
        return {"dropout": 0.2}, "each pair is seen several times, and not to be learnt by heart"
    if plan.passes >= FEW_PASSES:
        return {"dropout": 0.1}, "in so few passes little is learnt by heart"
    return {"dropout": 0.0}, "no pair is seen often enough to be learnt by heart"


def _training(corpus: Facts, plan: Plan) -> Iterator[Chosen]:
    passes = f"{plan.times} passes over {plan.pairs:,} pairs"
    minutes = max(1, round(plan.forecast.training / 60))
    ends = "more would not help" if plan.is_full else f"in about {minutes} min"
    yield Chosen("training", {"steps": plan.steps}, f"{passes}: {ends}")
    width, most = plan.size.d_model, MUON_WARMUP
    if plan.size.is_published:
        most, peak = PUBLISHED_WARMUP, width**-0.5 * PUBLISHED_WARMUP**-0.5
        optimizer: dict[str, Any] = {"kind": "adam"}
        why = "as in Vaswani et al. 2017; Muon has not been tried on models so large"
    else:
        peak = MUON_PEAK if plan.passes >= SOME_PASSES else SHORT_PEAK
        peak *= (MUON_WIDTH / width) ** 0.5
        optimizer = {"kind": "muon", "weight_decay": 0.1}
        why = "half the updates that adam needs; weight decay is worth two points of BLEU more"
    yield Chosen("training", {"optimizer": optimizer}, why)
    schedule = {"kind": "cosine", "peak": float(f"{peak:.1e}")}
    down = "the learning rate falls to nothing at the end, where a model becomes good"
    yield Chosen(
        "training", {"warmup": min(most, max(1, plan.steps // 8)), "schedule": schedule}, down
    )
    if plan.accumulate > 1:
        parts = f"so many batches make an update: more than {plan.max_tokens:,} tokens fill memory"
        yield Chosen("training", {"accumulate": plan.accumulate}, parts)
    often = f"{VALIDATIONS} times, the first within a tenth of the run"
    yield Chosen("training", {"validate_every": plan.validate_every}, often)
    saved = "after a crash the run goes on from where it was saved last"
    yield Chosen("training", {"save_every": plan.save_every}, saved)
    if plan.sentences < 1000:
        few = {"validation_sentences": plan.sentences}
        is_all = plan.sentences == corpus.valid
        is_least = plan.sentences == FEWEST_SENTENCES
        more = "fewer would say nothing" if is_least else "more would take over 4 % of the time"
        why = "all that are held out" if is_all else more
        yield Chosen("training", few, why)
    last = (
        "the last weights are taken: they are the best where the learning rate ends at nothing, "
        "and the few sentences of a validation say less surely which are"
    )
    yield Chosen("training", {"best_by": "step", "average": 1}, last)


def _decoding(corpus: Facts, plan: Plan) -> Iterator[Chosen]:
    yield Chosen("decoding", {"beam": 5}, "4 to 6 are best; 1 is three times as fast")
    longer = "subwords: far longer ones are not in the corpus; longer input is split"
    yield Chosen("decoding", {"max_length": plan.longest_output}, longer)
    if corpus.sentences is not None:
        single = "the corpus has single sentences: several in a line are translated one by one"
        yield Chosen("decoding", {"sentences": corpus.sentences}, single)
    if corpus.truecase:
        known = "hardly a line is all in capitals, or in none: such are read as words are known"
        yield Chosen("decoding", {"truecase": True}, known)


def yaml_of(heading: str, run: str, choices: Iterable[Chosen]) -> str:
    """The text of a config; neighbouring choices of a section stand together."""
    lines = [*_comment(heading, ""), f"run: {flow(run)}"]
    for section, of_section in groupby(choices, key=lambda choice: choice.section):
        lines += ["", f"{section}:"]
        for choice in of_section:
            lines += _comment(choice.reason, "  ")
            lines += [f"  {name}: {flow(value)}" for name, value in choice.settings.items()]
    return "\n".join(lines) + "\n"


def _comment(text: str, indent: str) -> Iterator[str]:
    marked = f"{indent}# "
    yield from textwrap.wrap(
        printable(text),
        COLUMNS,
        initial_indent=marked,
        subsequent_indent=marked,
        break_long_words=False,
        break_on_hyphens=False,
    )
