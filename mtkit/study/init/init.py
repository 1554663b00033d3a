"""`mtkit init`: from a corpus and the minutes somebody has to a config, and what to expect of it.

The corpus is read by the doctor; then for what may be held out; then to count and to draw a sample;
then to write its parts.
Nothing is written before all is known, and then all of it together.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

from mtkit.artifacts.runs import CHECKPOINTS, checkpoint_steps
from mtkit.config.corpora import Corpus, TextCorpus
from mtkit.corpus.check import CorpusReport, check_corpus, check_part
from mtkit.corpus.read import paths_of, read_pairs
from mtkit.corpus.rules import PairFilter
from mtkit.corpus.statistics import Languages
from mtkit.corpus.validate import check_readable
from mtkit.errors import UserError
from mtkit.models.device import pick_device
from mtkit.report import data_lines, say, table, warn
from mtkit.study.init.choice import Plan, plan_of
from mtkit.study.init.expectation import expectation
from mtkit.study.init.facts import FIRST_GUESS, GPU_GUESS, UNKNOWN_LENGTHS, Facts, Measured
from mtkit.study.init.files import refuse_to_overwrite, written_together
from mtkit.study.init.measure import Trial, measure
from mtkit.study.init.reasons import Chosen, chosen, settings_of, yaml_of
from mtkit.study.init.scan import Sample, Scan, has_single_sentences, has_usual_case, scan
from mtkit.study.init.split import FEWEST_PAIRS, Part, Split, is_among, key_of

PARTS: tuple[Part, ...] = ("train", "valid", "test")
TRIALS = 3
"""Number of models that are tried, at most, until the one chosen is the one tried."""
FEWEST_HELD_OUT = 5
"""Number of sentences below which nothing could be told by them."""
OTHER_TEXT = 0.95
"""The part of the subwords that can be made of a sample which other text of the corpus has, too."""


@dataclass(frozen=True)
class Wish:
    """What somebody asks for."""

    corpus: Corpus
    minutes: float
    output: Path
    command: str
    """As it was typed: it stands at the top of the config."""
    languages: Languages = (None, None)
    """Codes that the sides are said to be in."""
    run: str | None = None
    valid: TextCorpus | None = None
    test: TextCorpus | None = None
    force: bool = False

    @property
    def given(self) -> dict[str, TextCorpus]:
        """What is held out already."""
        parts = {"valid": self.valid, "test": self.test}
        return {part: corpus for part, corpus in parts.items() if corpus is not None}


def init(wish: Wish) -> None:
    """Writes the config and the parts of the corpus; tells what to expect.

    Raises UserError where the corpus cannot be used, or something would be overwritten; OSError
    where the disk is full: nothing is written then.
    """
    for part, held_out in wish.given.items():
        check_readable(held_out, (f"--{part}",))
    corpora = [wish.corpus, *wish.given.values()]
    read = [path for corpus in corpora for path in paths_of(corpus)]
    refuse_to_overwrite([wish.output], read, force=wish.force)
    if wish.run and not wish.force and any(checkpoint_steps(Path(wish.run) / CHECKPOINTS)):
        raise UserError(f"--run {wish.run}: holds another training: name another folder")
    checked = _examined(wish)
    languages = _languages(wish, checked)
    if languages[1] is None:
        warn("the target's language cannot be told: name both by --languages, such as en ko")
    files = _files(wish, languages)
    made = [path for sides in files.values() for path in sides]
    refuse_to_overwrite(made, read, force=wish.force)
    split = _split(wish, checked)
    found = scan(read_pairs(wish.corpus), split, deduplicate=checked.deduplicate)
    if left_out := checked.pairs - checked.blank_pairs - found.counts.total():
        say(
            f"init: {left_out:,} pairs are left out, which would be held out for nothing: they are "
            "faulty, training has their targets, or their sources are held out already"
        )
    corpus = _facts(found, wish, checked, languages)
    plan, trial = _plan(corpus, found.sample, wish.minutes)
    share = plan.pairs / corpus.pairs
    with written_together([*made, wish.output]) as opened:
        for part, pair in split.place(read_pairs(wish.corpus)):
            if part == "train" and share < 1 and not is_among(share, key_of(pair.source)):
                continue
            for path, line in zip(files[part], (pair.source, pair.target), strict=True):
                opened[path].write(f"{line}\n")
        opened[wish.output].write(_config(wish, files, corpus, plan))
    data_lines(_told(wish, corpus, plan, trial))


def _languages(wish: Wish, checked: CorpusReport) -> Languages:
    """As they are named, or else as most lines are."""
    source, target = wish.languages
    return (
        source or (checked.source.language if checked.source.is_certain else None),
        target or (checked.target.language if checked.target.is_certain else None),
    )


def _files(wish: Wish, languages: Languages) -> dict[Part, tuple[Path, Path]]:
    """Where both sides go of what is made: in a folder beside the config, and called like it."""
    source, target = languages
    names = (source, target) if source and target and source != target else ("source", "target")
    folder = wish.output.with_name(f"{wish.output.stem}-data")
    return {
        part: (folder / f"{part}.{names[0]}", folder / f"{part}.{names[1]}")
        for part in PARTS
        if part not in wish.given
    }


def _split(wish: Wish, checked: CorpusReport) -> Split:
    wanted = frozenset[Part](part for part in ("valid", "test") if part not in wish.given)
    taken = (key_of(pair.source) for corpus in wish.given.values() for pair in read_pairs(corpus))
    pair_filter = PairFilter(checked.drop, checked.statistics) if checked.drop else None
    split = Split(checked.distinct_pairs, wanted, frozenset(taken), pair_filter)
    return split.without_learnt(partial(read_pairs, wish.corpus))


def _facts(found: Scan, wish: Wish, checked: CorpusReport, languages: Languages) -> Facts:
    """Raises UserError where there are too few pairs, or too few different ones."""
    counts = {**{str(part): found.counts[part] for part in PARTS}, "train": found.learnt}
    for part, corpus in wish.given.items():
        counts[part] = sum(not pair.blank for pair in read_pairs(corpus))
    if counts["train"] < FEWEST_PAIRS:
        raise UserError(
            f"{_name(wish.corpus)}: {counts['train']:,} pairs are left to learn from beside those "
            f"held out, and {FEWEST_PAIRS} are needed at the least: add more"
        )
    for part in ("valid", "test"):
        if (held_out := counts.get(part, 0)) >= FEWEST_HELD_OUT:
            continue
        few = f"{held_out} pairs, and {FEWEST_HELD_OUT} are needed at the least"
        if part in wish.given:
            raise UserError(f"{_name(wish.given[part])}: {few}: name a larger file with --{part}")
        raise UserError(
            f"{_name(wish.corpus)}: too few pairs unlike all others to hold any out for {part} "
            f"({few}): name a file of other pairs with --{part}"
        )
    source = languages[0]
    is_of_single = source is not None and has_single_sentences(found.sample, source)
    return Facts(
        counts["train"],
        counts["valid"],
        counts["test"],
        languages,
        found.characters,
        found.in_both,
        found.shared,
        checked.deduplicate,
        source if is_of_single else None,
        has_usual_case(found.sample),
        {rule: checked.estimate(rule) for rule in checked.drop},
    )


def _plan(corpus: Facts, sample: Sample, minutes: float) -> tuple[Plan, Trial]:
    """The best plan by the speed of a model that was tried, and what its own was like.

    Of two, each of which is the better by the speed of the other, the first.
    """
    guess = GPU_GUESS if pick_device("auto").type == "cuda" else FIRST_GUESS
    plan = plan_of(corpus, UNKNOWN_LENGTHS, guess, minutes)
    trials: list[tuple[Plan, Trial]] = []
    while len(trials) < TRIALS:
        say(f"init: trying {plan.size}, {plan.vocabulary:,} subwords")
        trial = measure(sample, settings_of(chosen(corpus, plan)))
        trials.append((plan, trial))
        if trial.vocabulary < plan.vocabulary:
            share = 1.0 if corpus.pairs <= len(sample) else OTHER_TEXT
            corpus = replace(corpus, most_subwords=int(share * trial.vocabulary))
        measured = Measured(plan.size, trial.vocabulary, trial.rates)
        plan = plan_of(corpus, trial.lengths, measured, minutes)
        for tried, own in trials:
            if plan.is_like(tried):
                return plan, own
    return plan, trial


def _config(wish: Wish, files: dict[Part, tuple[Path, Path]], corpus: Facts, plan: Plan) -> str:
    """The text of the config."""
    counts = {"train": plan.pairs, "valid": corpus.valid, "test": corpus.test}
    why = {
        "train": "what it learns from",
        "valid": "shows on the way how good it becomes",
        "test": "says in the end how good it is: to judge by, not to choose by",
    }
    data = []
    for part in PARTS:
        where = wish.given[part].without_defaults() if part in wish.given else _sides(files[part])
        held_out = ", held out by a hash of the source" if part in files and part != "train" else ""
        data.append(Chosen("data", {part: where}, f"{counts[part]:,} pairs{held_out}: {why[part]}"))
    target = corpus.languages[1]
    if target is not None:
        reason = "the language that scores are counted in, by the words of its own tokenizer"
        data.append(Chosen("data", {"target_language": target}, reason))
    run = wish.run or _free_run(wish.output.stem)
    return yaml_of(f"Written by `{wish.command}`.", run, [*data, *chosen(corpus, plan)])


def _free_run(name: str) -> str:
    """The folder in `runs` that is called so, or, where another training is in it, the next one."""
    names = chain([f"runs/{name}"], (f"runs/{name}-{number}" for number in count(2)))
    run = next(run for run in names if not any(checkpoint_steps(Path(run) / CHECKPOINTS)))
    if run != f"runs/{name}":
        say(f"init: runs/{name} holds another training: this one is to be in {run}")
    return run


def _sides(paths: tuple[Path, Path]) -> dict[str, Any]:
    return dict(zip(("source", "target"), map(str, paths), strict=True))


def _told(wish: Wish, corpus: Facts, plan: Plan, trial: Trial) -> Iterator[str]:
    """What to expect of the config."""
    forecast, minutes = plan.forecast, 1 / 60
    yield f"{wish.output}: {plan.size}, {trial.parameters:,} parameters"
    yield ""
    parts = {
        f"tokenizer and batches, {plan.pairs:,} pairs": forecast.preparing,
        f"training, {plan.times} passes in {plan.steps:,} updates": forecast.training,
        f"validations, {plan.steps // plan.validate_every}": forecast.validations,
        f"test, {corpus.test:,} sentences": forecast.test,
        "everything else": forecast.start,
        "in all": forecast.total,
    }
    yield from table(
        [["forecast", "minutes"], *([name, f"{s * minutes:.1f}"] for name, s in parts.items())]
    )
    yield ""
    yield from expectation(plan, corpus.pairs, wish.minutes)
    named = [] if wish.output == Path("mtkit.yaml") else ["-c", str(wish.output)]
    yield f"next: {shlex.join(['mtkit', 'run', *named])}"


def _name(corpus: Corpus) -> str:
    """As it is called in a message."""
    settings = corpus.model_dump()
    return str(settings.get("source") or settings.get("table") or settings.get("dataset"))


def _examined(wish: Wish) -> CorpusReport:
    """What the doctor says. UserError for what no model can be trained on."""
    found = check_corpus(wish.corpus, wish.languages)
    _refuse_failed(found, wish.corpus)
    languages = _languages(wish, found)
    for part, corpus in wish.given.items():
        _refuse_failed(check_part(part, wish.given, languages), corpus)
    if found["misalignment"].status == "warned":  # which no rule drops
        warn(f"{_name(wish.corpus)}: misalignment: {found['misalignment'].note}")
    for row in found.frequent:
        left = "dropped" if row.name in found.drop else "not dropped: `mtkit check` shows some"
        count = f"{row.count:,} of {row.checked:,}"
        warn(f"{_name(wish.corpus)}: {row.name}: {count}: {row.meaning}; {left}")
    return found


def _refuse_failed(found: CorpusReport, corpus: Corpus) -> None:
    failed = sorted(
        found.failed, key=lambda row: row.name != "invalid text"
    )  # it explains the others
    if failed:
        faults = "; ".join(
            f"{row.name}: {row.note or f'{row.count:,} of {row.checked:,}: {row.meaning}'}"
            for row in failed[:2]
        )
        raise UserError(f"{_name(corpus)}: {faults} (`mtkit check` tells more)")
