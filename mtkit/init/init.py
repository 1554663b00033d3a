"""`mtkit init`: write a config and the files of its corpus, and say what to expect.

The training corpus is read twice: to check it, and to split and write it.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain, product
from pathlib import Path

from mtkit.artifacts.manifest import kind_at
from mtkit.artifacts.replacement import create
from mtkit.config.corpora import Corpus, TextCorpus
from mtkit.config.locate import flow
from mtkit.corpus.check import CorpusReport, check_corpus, check_part
from mtkit.corpus.read import Pair, paths_of, read_pairs
from mtkit.corpus.readable import check_readable
from mtkit.corpus.rules import PairFilter, held_out_sources
from mtkit.corpus.statistics import Languages
from mtkit.decoding.output import check_output, open_output
from mtkit.errors import UserError
from mtkit.init.facts import Split, describe_corpus
from mtkit.init.presets import (
    NOMINAL_VOCABULARY,
    PRESETS,
    CorpusFacts,
    Plan,
    Trial,
    choose_plan,
    render_config,
)
from mtkit.init.trial import run_trial
from mtkit.machine import count_cores
from mtkit.models.device import pick_device
from mtkit.report import data_lines, plural, printable, say, warn, wrap
from mtkit.scoring.overlap import find_overlap

EXPECTATIONS = {
    10_000: "expect the gist of short sentences like these; more pairs would help most",
    300_000: "enough for one kind of text; other text will be translated badly",
    1 << 62: "enough for a usable translator, given hours on many cores or a GPU",
}
"""What to expect from a corpus with fewer pairs than the key."""


@dataclass(frozen=True)
class InitOptions:
    """What the user asks for."""

    corpus: Corpus
    minutes: float
    output: Path
    command: str
    """The command line, for the first line of the config."""
    languages: Languages = (None, None)
    run: str | None = None
    existing: Mapping[str, TextCorpus] = field(default_factory=dict)
    """Validation and test sets of the user, by part; these are not held out."""
    force: bool = False

    @property
    def folder(self) -> Path:
        """The folder for the training, validation and test files."""
        return self.output.with_name(f"{self.output.stem}-data")


def init(options: InitOptions) -> None:
    """Write a config and the files of its corpus, and say what to expect of a run.

    Raises:
        UserError: the corpus cannot be used, or a file would be overwritten; nothing is written.
        OSError: the disk is full; nothing is written.
    """
    _check_paths(options)
    report = check_corpus(options.corpus, options.languages)
    _check_report(report, options.corpus)
    recognised = report.statistics.source.language, report.statistics.target.language
    languages = options.languages[0] or recognised[0], options.languages[1] or recognised[1]
    counts: Counter[str] = Counter()
    for part, corpus in options.existing.items():
        own = check_part(part, options.existing, languages)
        _check_report(own, corpus)
        counts[part] = own.distinct_pairs
    parts = frozenset({"valid", "test"} - options.existing.keys())
    held_out = held_out_sources(options.existing.values())
    pair_filter = PairFilter(report.drop, report.statistics)
    split = Split(report.distinct_pairs, parts, held_out, pair_filter)
    facts, sample = describe_corpus(report, split, languages, counts)
    _check_counts(options, facts)
    facts, plan = find_plan(facts, sample, options.minutes)
    sides = languages[0] or "source", languages[1] or "target"
    if sides[0] == sides[1]:
        sides = "source", "target"
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with (
        open_output(options.output) as (config, _),
        create(options.folder, "corpus", {"pairs": facts.pairs}, {}, counts) as draft,
    ):
        counts |= _write_pairs(split, options.corpus, draft, sides)
        values = _data_values(options, sides, counts)
        text = render_config(facts, plan, target_language=languages[1], **values)
        config.write(text.encode())
    summary = _summary(options, languages, report, counts, facts, plan)
    lines = chain(_describe_overlap(options, sides), summary)
    data_lines(chain.from_iterable(map(wrap, lines)))


def find_plan(
    facts: CorpusFacts, sample: Sequence[Pair], minutes: float
) -> tuple[CorpusFacts, Plan]:
    """Choose a plan by a trial; if the speed leads to another model or batch, by a second trial.

    Return the facts with the largest vocabulary for the text, and without truecasing if it fails.
    """
    trial = Trial(PRESETS[1], NOMINAL_VOCABULARY, tokens_per_second=4000.0 * count_cores())
    if pick_device("auto").type == "cuda":
        # On a GPU, a small model is no faster than a large one, so its speed would mislead.
        trial = Trial(PRESETS[3], 32_000, tokens_per_second=1e5, is_gpu=True)
    plan = choose_plan(facts, trial, minutes)
    for is_last in False, True:
        say(f"init: measuring the speed of {plan.preset} with {plan.vocabulary:,} subwords")
        tried, trial = plan, run_trial(facts, plan, sample)
        if trial.vocabulary < plan.vocabulary:
            facts = replace(facts, max_vocabulary=trial.vocabulary)
        if not trial.restores_case:
            facts = replace(facts, settings={**facts.settings, "truecase": None, "dotless_i": None})
        plan = choose_plan(facts, trial, minutes, tried.preset if is_last else None)
        if (plan.preset, plan.max_tokens) == (tried.preset, tried.max_tokens):
            break
    return facts, plan


def _check_paths(options: InitOptions) -> None:
    """Check that all corpora can be read, and that no file of the user would be overwritten."""
    for part, corpus in options.existing.items():
        check_readable(corpus, (f"--{part}",))
    corpora = [options.corpus, *options.existing.values()]
    inputs = {Path(os.path.realpath(path)) for corpus in corpora for path in paths_of(corpus)}
    folder = options.folder
    for path in options.output, folder:
        problem = None
        if options.output.is_dir() or any(parent.is_file() for parent in path.parents):
            problem = "cannot be a file"
        elif Path(os.path.realpath(path)) in inputs.union(*(one.parents for one in inputs)):
            problem = "is an input"
        elif folder.exists() and kind_at(folder) != "corpus":
            problem = f"cannot be written, because {folder} is not from `mtkit init`"
        elif os.path.lexists(path) and not options.force:
            problem = "already exists (--force replaces it)"
        if problem:
            raise UserError(f"{path} {problem}; choose another output with -o")
    check_output(options.output)


def _check_report(report: CorpusReport, corpus: Corpus) -> None:
    """Warn of frequent faults; raise UserError if the corpus should not be used as it is."""
    if failed := "; ".join(f"{it.name}: {it.note or it.meaning}" for it in report.failed[:2]):
        raise UserError(f"{next(paths_of(corpus))}: {failed} (`mtkit check` shows examples)")
    for it in [*report.frequent, report.misalignment, report.languages]:
        if it.status == "warned":
            text = it.note or f"{it.count:,} of {it.checked:,} pairs: {it.meaning}"
            path = next(paths_of(corpus))
            warn(f"{path}: {it.name}: {text}; {it.advice} (`mtkit check` shows examples)")


def _check_counts(options: InitOptions, facts: CorpusFacts) -> None:
    counts = ("train", facts.pairs, 50), ("valid", facts.valid, 5), ("test", facts.test, 5)
    for part, pairs, needed in counts:
        if pairs < needed:
            name = next(paths_of(options.existing.get(part, options.corpus)))
            raise UserError(
                f"{name}: '{part}' needs at least {needed} distinct pairs, not {pairs:,}; "
                "add pairs, or give other files with --valid and --test"
            )


def _write_pairs(split: Split, corpus: Corpus, folder: Path, sides: Sequence[str]) -> Counter[str]:
    """Write the source and target file of each part; return the number of pairs of each part."""
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        files = {}
        for part, side in product(("train", *split.parts), sides):
            file = (folder / f"{part}.{side}").open("w", encoding="utf-8", newline="\n")
            files[part, side] = stack.enter_context(file)
        for part, pair in split.split(read_pairs(corpus)):
            counts[part] += 1
            files[part, sides[0]].write(f"{pair.source}\n")
            files[part, sides[1]].write(f"{pair.target}\n")
    return counts


def _data_values(
    options: InitOptions, sides: Sequence[str], counts: Mapping[str, int]
) -> dict[str, str | int]:
    """Return what the config says about the command, the run and the corpora."""
    values: dict[str, str | int] = {
        "command": printable(options.command),
        "run": flow(options.run or f"runs/{options.output.stem}"),
    }
    for part in "train", "valid", "test":
        names = (f"{options.folder / part}.{side}" for side in sides)
        corpus = dict(zip(("source", "target"), names, strict=True))
        if part in options.existing:
            corpus = options.existing[part].model_dump(exclude_defaults=True)
        values |= {part: flow(corpus), f"{part}_pairs": counts[part]}
    return values


def _describe_overlap(options: InitOptions, sides: Sequence[str]) -> Iterator[str]:
    """Say how much of the user's test set occurs in the training files."""
    if test := options.existing.get("test"):
        source, target = (str(options.folder / f"train.{side}") for side in sides)
        training = read_pairs(TextCorpus(source=source, target=target))
        overlap = find_overlap(list(read_pairs(test)), training)
        yield f"{overlap}, which has no pair with a test source"


def _summary(
    options: InitOptions,
    languages: Languages,
    report: CorpusReport,
    counts: Mapping[str, int],
    facts: CorpusFacts,
    plan: Plan,
) -> Iterator[str]:
    """Say what was written, how long a run will take, and what to expect from it."""
    total = plan.seconds / 60
    yield f"wrote {options.output}: {plan.preset}, {plan.vocabulary:,} subwords"
    yield f"wrote {options.folder}/: {plural(counts['train'], 'pair')} to train on"
    held_out = {part: counts[part] for part in ("valid", "test") if part not in options.existing}
    if held_out:
        parts = " and ".join(f"{count:,} for {part}" for part, count in held_out.items())
        yield f"held out: {parts} (pairs, chosen by a hash of the source)"
    left_out = report.pairs - counts["train"] - sum(held_out.values())
    if left_out:
        yield (
            f"left out: {plural(left_out, 'pair')} (blank, with a text that another part has, "
            "or chosen to be held out, but repeated or faulty)"
        )
    if broken := facts.settings["broken_rules"]:
        yield f"training will drop pairs that break a rule: {broken}"
    found = ", identified in the text; if this is wrong, use --languages"
    named = " to ".join(language or "unknown" for language in languages)
    yield f"languages: {named}{'' if options.languages[1] else found}"
    training = f"{plan.epochs:,.1f} epochs in {plan.steps:,} steps"
    yield f"forecast: {total:.1f} minutes, {plan.training_seconds / 60:.1f} to train {training}"
    expectation = next(text for fewer, text in EXPECTATIONS.items() if facts.pairs < fewer)
    yield f"{plural(facts.pairs, 'pair')}: {expectation}"
    if total > 1.15 * options.minutes:
        yield f"the time is too short: the shortest run takes {total:.1f} minutes"
    config = [] if options.output == Path("mtkit.yaml") else ["-c", str(options.output)]
    yield f"next: {shlex.join(['mtkit', 'run', *config])}"
