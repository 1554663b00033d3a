"""`mtkit init`: write a config and the files of its corpus, and say what to expect.

The training corpus is read three times: twice by the check, once to split and write it.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryFile

from mtkit.artifacts.manifest import create, kind_at
from mtkit.artifacts.runs import CHECKPOINTS, checkpoint_steps
from mtkit.artifacts.storage import open_atomically
from mtkit.config.corpora import Corpus, TextCorpus
from mtkit.corpus.check import CorpusReport, check_corpus, check_part
from mtkit.corpus.findings import Finding
from mtkit.corpus.read import Pair, paths_of, read_pairs
from mtkit.corpus.rules import PairFilter
from mtkit.corpus.statistics import Languages
from mtkit.corpus.validate import check_readable
from mtkit.errors import UserError
from mtkit.models.device import pick_device
from mtkit.report import data_lines, say, table, warn
from mtkit.study.init.facts import describe_corpus
from mtkit.study.init.plan import CorpusFacts, Plan, Trial, choose_plan
from mtkit.study.init.presets import FEW_EPOCHS, NOMINAL_VOCABULARY, PRESETS, max_epochs
from mtkit.study.init.split import Split, key_of
from mtkit.study.init.template import render_config
from mtkit.study.init.trial import run_trial
from mtkit.training.processors import cores

PARTS = "train", "valid", "test"
NEEDED_PAIRS = {"train": 50, "valid": 5, "test": 5}
EXPECTATIONS = (
    (2_000, "expect some right words in sentences much like these, and invented text elsewhere"),
    (10_000, "expect the gist of short sentences like these, and failure on the rest"),
    (50_000, "enough for text on one narrow subject; other text will be translated badly"),
    (300_000, "enough for one kind of text; other kinds will be translated badly"),
    (2_000_000, "enough for a usable translator of such text, given hours on many cores or a GPU"),
    (1 << 62, "enough for a good translator, given a GPU"),
)
"""What to say of a corpus with fewer pairs than this."""


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
    """Validation and test sets that are not to be held out."""
    force: bool = False


def init(options: InitOptions) -> None:
    """Write a config and the files of its corpus, and say what to expect of a run.

    Raises:
        UserError: the corpus cannot be used, or a file would be overwritten; nothing is written.
        OSError: the disk is full; nothing is written.
    """
    folder = options.output.with_name(f"{options.output.stem}-data")
    _check_outputs(options, folder)
    run = options.run or _free_run(options.output.stem)
    if not options.force and _has_checkpoints(run):
        raise UserError(f"--run {run}: holds another training run: choose another folder")
    report = check_corpus(options.corpus, options.languages)
    _check(report, options.corpus)
    languages = _languages(options, report)
    counts: dict[str, int] = {}
    for part, corpus in options.existing.items():
        own = check_part(part, options.existing, languages)
        _check(own, corpus)
        counts[part] = own.pairs - own.blank_pairs
    split = _make_split(options, report)
    facts, sample = describe_corpus(report, split, languages[0], counts)
    _check_counts(options, {"train": facts.pairs, "valid": facts.valid, "test": facts.test})
    facts, plan = find_plan(facts, sample, options.minutes)
    split = replace(split, train_share=min(1.0, plan.pairs / facts.pairs))
    source, target = languages[0] or "source", languages[1] or "target"
    suffixes = (source, target) if source != target else ("source", "target")
    names = {part: [f"{part}.{suffix}" for suffix in suffixes] for part in ("train", *split.parts)}
    data = {
        part: {"source": str(folder / sides[0]), "target": str(folder / sides[1])}
        for part, sides in names.items()
    } | {part: corpus.without_defaults() for part, corpus in options.existing.items()}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with (
        open_atomically(options.output) as config,
        create(folder, "corpus", {"pairs": plan.pairs}, {}, counts) as draft,
    ):
        counts |= _write_pairs(draft, names, split.split(read_pairs(options.corpus)))
        _check_counts(options, counts)
        config.write(render_config(facts, plan, data, run, languages[1], counts, options.command))
    data_lines(_summary(options, languages, folder, counts, facts, plan))


def find_plan(
    facts: CorpusFacts, sample: Sequence[Pair], minutes: float
) -> tuple[CorpusFacts, Plan]:
    """Choose a plan by a trial; if its speed speaks for another model or batch, by a trial of that.

    The facts get the largest vocabulary that the text can fill.
    """
    trial = Trial(PRESETS[1], NOMINAL_VOCABULARY, tokens_per_second=4000.0 * cores())
    if pick_device("auto").type == "cuda":
        # On a GPU, a small model is no faster than a large one, and says nothing about it.
        trial = Trial(PRESETS[3], 32_000, tokens_per_second=1e5, is_gpu=True)
    plan = choose_plan(facts, trial, minutes)
    for is_last in False, True:
        say(f"init: measuring {plan.preset} with {plan.vocabulary:,} subwords")
        tried, trial = plan, run_trial(facts, plan, sample)
        if trial.vocabulary < plan.vocabulary:
            share = 1.0 if facts.pairs <= len(sample) else 0.95  # other text may fill fewer
            facts = replace(facts, max_vocabulary=int(share * trial.vocabulary))
        plan = choose_plan(facts, trial, minutes, tried.preset if is_last else None)
        if (plan.preset, plan.max_tokens) == (tried.preset, tried.max_tokens):
            break
    return facts, plan


def _check_outputs(options: InitOptions, folder: Path) -> None:
    """Check that all corpora can be read, and the config and the folder written."""
    for part, corpus in options.existing.items():
        check_readable(corpus, (f"--{part}",))
    corpora = [options.corpus, *options.existing.values()]
    inputs = {path.resolve() for corpus in corpora for path in paths_of(corpus)}
    for path in options.output, folder:
        if options.output.is_dir() or any(parent.is_file() for parent in path.parents):
            problem = "cannot be a file"
        elif path.resolve() in inputs.union(*(one.parents for one in inputs)):
            problem = "is an input"
        elif folder.exists() and kind_at(folder) != "corpus":
            problem = f"{folder} was not written by `mtkit init`"
        elif os.path.lexists(path) and not options.force:
            problem = "exists, and --force is not given"
        else:
            problem = _write_error(path)
        if problem:
            raise UserError(f"{path}: {problem}: choose another output with -o")


def _write_error(path: Path) -> str:
    """Return why a path cannot be written, or nothing."""
    try:
        str(path).encode()
        with TemporaryFile(dir=next(folder for folder in path.parents if folder.exists())):
            return ""
    except UnicodeEncodeError:
        return "cannot be written (its name is not UTF-8)"
    except OSError as error:
        return f"cannot be written ({error.strerror})"


def _has_checkpoints(run: str) -> bool:
    return any(checkpoint_steps(Path(run) / CHECKPOINTS))


def _free_run(name: str) -> str:
    """Return the folder of this name in `runs`, or the next one without checkpoints."""
    names = chain([f"runs/{name}"], (f"runs/{name}-{number}" for number in count(2)))
    run = next(run for run in names if not _has_checkpoints(run))
    if run != f"runs/{name}":
        say(f"init: runs/{name} holds another training run: the config names {run}")
    return run


def _check(report: CorpusReport, corpus: Corpus) -> None:
    """Warn of frequent faults.

    Raises:
        UserError: no model should be trained on the corpus as it is.
    """
    # "no text" comes first: it explains the others.
    failed = sorted(report.failed, key=lambda finding: finding.name != "no text")[:2]
    if failed:
        faults = "; ".join(f"{it.name}: {_describe(it)}" for it in failed)
        raise UserError(f"{_name(corpus)}: {faults} (`mtkit check` shows more)")
    misalignment = report["misalignment"]
    for finding in [misalignment] * (misalignment.status == "warned") + report.frequent:
        action = "dropped" if finding.name in report.drop else "kept"
        warn(f"{_name(corpus)}: {finding.name}: {_describe(finding)}; {action}")


def _describe(finding: Finding) -> str:
    return finding.note or f"{finding.count:,} of {finding.checked:,} pairs: {finding.meaning}"


def _languages(options: InitOptions, report: CorpusReport) -> Languages:
    """Return the declared languages, or else those that were recognised with certainty."""
    source, target = (
        declared or (side.language if side.is_certain else None)
        for declared, side in zip(options.languages, (report.source, report.target), strict=True)
    )
    if target is None:
        warn("the target language is unknown: name both languages, such as --languages en ko")
    return source, target


def _make_split(options: InitOptions, report: CorpusReport) -> Split:
    existing = (pair for corpus in options.existing.values() for pair in read_pairs(corpus))
    return Split(
        report.distinct_pairs,
        frozenset({"valid", "test"} - options.existing.keys()),
        frozenset(key_of(pair.source) for pair in existing),
        PairFilter(report.drop, report.statistics),
    )


def _check_counts(options: InitOptions, counts: Mapping[str, int]) -> None:
    """Check that there are enough pairs in each part."""
    for part, needed in NEEDED_PAIRS.items():
        if counts[part] >= needed:
            continue
        corpus = options.existing.get(part, options.corpus)
        advice = "add pairs" if part == "train" else f"choose a file of other pairs with --{part}"
        raise UserError(
            f"{_name(corpus)}: {counts[part]:,} different pairs for {part}, at least {needed} are "
            f"needed: {advice}"
        )


def _write_pairs(
    folder: Path, names: Mapping[str, Sequence[str]], pairs: Iterable[tuple[str, Pair]]
) -> Counter[str]:
    """Write the files of both sides of each part; return the pairs of each part."""
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        opened = {
            part: [
                stack.enter_context((folder / name).open("w", encoding="utf-8", newline="\n"))
                for name in sides
            ]
            for part, sides in names.items()
        }
        for part, pair in pairs:
            counts[part] += 1
            for file, text in zip(opened[part], (pair.source, pair.target), strict=True):
                file.write(f"{text}\n")
    return counts


def _summary(
    options: InitOptions,
    languages: Languages,
    folder: Path,
    counts: Mapping[str, int],
    facts: CorpusFacts,
    plan: Plan,
) -> Iterator[str]:
    """Say what was written, how long a run takes, and what to expect of it."""
    yield f"wrote {options.output}: {plan.preset}, {plan.vocabulary:,} subwords"
    written = [f"{counts[part]:,} for {part}" for part in PARTS if part not in options.existing]
    yield f"wrote {folder}: pairs {', '.join(written)}; no source or target is in two of them"
    yield f"languages: {languages[0] or 'unknown'} to {languages[1] or 'unknown'}"
    yield ""
    total = plan.total_seconds / 60
    labels = {"training": f"training, {plan.epochs_text} epochs in {plan.steps:,} steps"}
    rows = [[labels.get(part, part), f"{it / 60:.1f}"] for part, it in plan.seconds.items()]
    yield from table([["forecast", "minutes"], *rows, ["total", f"{total:.1f}"]])
    yield ""
    yield from describe_outlook(plan, facts.pairs, options.minutes)
    config = [] if options.output == Path("mtkit.yaml") else ["-c", str(options.output)]
    yield f"next: {shlex.join(['mtkit', 'run', *config])}"


def describe_outlook(plan: Plan, pairs: int, minutes: float) -> Iterator[str]:
    """Say how good the model can become, and what would help; `pairs`: those to train on."""
    total = plan.total_seconds / 60
    yield f"{pairs:,} pairs: {next(text for fewer, text in EXPECTATIONS if pairs < fewer)}"
    if pairs < 10_000:
        yield "to improve: add sentence pairs; similar text helps most (see opus.nlpl.eu)"
    if total > 1.15 * minutes:
        yield f"{minutes:g} minutes are too few: the shortest run takes {total:.3g}"
    elif plan.pairs < pairs:
        yield f"{plan.pairs:,} of the {pairs:,} pairs are used: there is no time to see all once"
    elif plan.epochs < min(FEW_EPOCHS, max_epochs(pairs)):
        yield f"more --minutes would help: {plan.epochs_text} epochs are few"
    elif total < 0.85 * minutes:
        yield f"done in {total:.0f} of {minutes:g} minutes: more epochs are not known to help"


def _name(corpus: Corpus) -> str:
    """Return what messages call a corpus."""
    settings = corpus.model_dump()
    return str(settings.get("source") or settings.get("table") or settings.get("dataset"))
