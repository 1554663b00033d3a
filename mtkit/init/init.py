"""`mtkit init`: write a config and the files of its corpus, and say what to expect.

The training corpus is read twice: to check it, and to divide and write it.
"""

from __future__ import annotations

import os
import shlex
import shutil
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mtkit.artifacts.manifest import kind_at
from mtkit.artifacts.replacement import create
from mtkit.artifacts.runs import CHECKPOINTS, checkpoint_steps, unused_run
from mtkit.config.corpora import Corpus, TextCorpus
from mtkit.config.language_codes import language_name
from mtkit.corpus.check import CorpusReport, check_corpus, check_part
from mtkit.corpus.findings import Finding
from mtkit.corpus.read import Pair, paths_of, read_pairs
from mtkit.corpus.readable import check_readable
from mtkit.corpus.rules import PairFilter, held_out_sources
from mtkit.corpus.statistics import Languages, hash_of
from mtkit.decoding.output import check_output, is_stream, open_output
from mtkit.errors import UserError
from mtkit.init.config_text import Sections, Setting, render
from mtkit.init.facts import CorpusFacts, describe_corpus
from mtkit.init.from_model import propose_adaptation
from mtkit.init.from_scratch import propose_new_model
from mtkit.init.given import GivenModel, open_given_model
from mtkit.init.partition import Partition
from mtkit.report import data_lines, plural, printable, say, table, verbosity, warn, wrap
from mtkit.scoring.overlap import find_overlap

MIN_PART_PAIRS = {"train": 50, "valid": 5, "test": 5}
"""Fewest distinct pairs of each part."""


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
    given: str | None = None
    """The model to adapt; None: train a new one."""
    keep: TextCorpus | None = None
    """Text that an adapted model must not translate worse."""
    force: bool = False

    @property
    def run_folder(self) -> str:
        """The run directory: by default one that has the name of the config and is not used yet."""
        return self.run or str(unused_run(self.default_run))

    @property
    def default_run(self) -> Path:
        """The run directory that has the name of the config."""
        return Path("runs") / self.output.stem

    @property
    def folder(self) -> Path:
        """The folder for the training, validation and test files."""
        return self.output.with_name(f"{self.output.stem}-data")


class Proposal(Protocol):
    """What `init` proposes for a corpus."""

    @property
    def old_text(self) -> Sequence[Pair]:
        """Text that the model must not translate worse; empty if there is none."""

    @property
    def replayed(self) -> Sequence[dict[str, Any]]:
        """Old corpora to train on beside the new one, as settings with weights."""

    def __str__(self) -> str:
        """Return which model is trained, in words."""

    def settings(self, facts: CorpusFacts) -> Sections:
        """Return all sections except `data`; their comments name the counts of `facts`."""

    def forecast(self, facts: CorpusFacts, minutes: float) -> Iterator[str]:
        """Say how long a run will take, and what to expect from it."""


def init(options: InitOptions) -> None:
    """Write a config and the files of its corpus, and say what to expect of a run.

    Raises:
        UserError: the corpus cannot be used, or a file would be overwritten; nothing is written.
        OSError: the disk is full; nothing is written.
    """
    _check_paths(options)
    given = None
    if options.given is not None:
        given = open_given_model(options.given, options.keep)
    report = check_corpus(options.corpus, options.languages)
    _check_report(report, options.corpus)
    languages = _choose_languages(options, report)
    counts = _check_existing(options, languages)
    partition = Partition(
        pairs=report.distinct_pairs,
        parts=frozenset({"valid", "test"} - options.existing.keys()),
        held_out=held_out_sources(options.existing.values()),
        pair_filter=PairFilter(report.drop, report.statistics),
    )
    facts, sample = describe_corpus(report, partition, languages, counts)
    _check_counts(options, facts)
    facts, proposal = _propose(options, given, facts, sample)
    sides = _name_sides(languages)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with (
        _keep_old(options.output) as old_config,
        open_output(options.output) as (config, _),
        create(options.folder, "corpus", {"pairs": facts.pairs}, {}, counts) as draft,
    ):
        written, repeated = _write_pairs(partition, options.corpus, draft, sides)
        counts |= written
        if proposal.old_text:
            _write_side_by_side(proposal.old_text, draft, "keep", sides)
        facts = facts.counted(distinct_pairs=counts["train"] - repeated)
        sections = {
            "data": _data_settings(options, sides, counts, languages[1], proposal),
            **proposal.settings(facts),
        }
        config.write(render(printable(options.command), options.run_folder, sections).encode())
    if old_config is not None:
        say(f"init: the old config is now {old_config}")
    is_quiet, _ = verbosity()
    if is_quiet:
        return
    summary = _summary(options, languages, facts, proposal)
    for line in chain(_describe_overlap(options, sides), summary):
        data_lines(wrap(line))
    data_lines(["", *_tabulate_pairs(options, report, counts, repeated, facts)])
    is_default = options.output == Path("mtkit.yaml")
    config_option = [] if is_default else ["-c", str(options.output)]
    data_lines(["", *wrap(f"next: {shlex.join(['mtkit', 'run', *config_option])}")])


def _propose(
    options: InitOptions, given: GivenModel | None, facts: CorpusFacts, sample: Sequence[Pair]
) -> tuple[CorpusFacts, Proposal]:
    """Plan a new model, or the adaptation of the given one."""
    if given is None:
        return propose_new_model(facts, sample, options.minutes)
    return facts, propose_adaptation(given, facts, sample, options.minutes)


@contextmanager
def _keep_old(config: Path) -> Iterator[Path | None]:
    """Give the config that the block replaces a second name, unless the block raises.

    Yield the second name; None if there is no config yet.
    """
    if not config.exists():
        yield None
        return
    name = f"{config.name}.old"
    old = config.with_name(name)
    count = 2
    while os.path.lexists(old):  # of an earlier --force
        old = config.with_name(f"{name}-{count}")
        count += 1
    try:
        # A link needs no disk space, and what replaces the config is another file.
        os.link(config, old)
    except OSError:  # a file system without hard links
        shutil.copy2(config, old)
    try:
        yield old
    except BaseException:
        old.unlink()
        raise


def _choose_languages(options: InitOptions, report: CorpusReport) -> Languages:
    """Return the declared languages, and where none is declared, the identified one."""
    source, target = options.languages
    return (
        source or report.statistics[0].source.language,
        target or report.statistics[0].target.language,
    )


def _check_existing(options: InitOptions, languages: Languages) -> Counter[str]:
    """Check the validation and test sets of the user; return their numbers of pairs."""
    counts: Counter[str] = Counter()
    for part, corpus in options.existing.items():
        report = check_part(part, options.existing, languages)
        _check_report(report, corpus)
        counts[part] = report.distinct_pairs
    return counts


def _name_sides(languages: Languages) -> tuple[str, str]:
    """Return the suffixes of the files: the languages if they are known and differ."""
    source, target = languages[0] or "source", languages[1] or "target"
    return ("source", "target") if source == target else (source, target)


def _check_paths(options: InitOptions) -> None:
    """Check that all corpora can be read, and that no file of the user would be overwritten."""
    for part, corpus in options.existing.items():
        check_readable(corpus, (f"--{part}",))
    if options.keep is not None:
        check_readable(options.keep, ("--keep",))
    for path in (options.output, options.folder):
        problem = _find_problem(path, options)
        if problem is not None:
            raise UserError(f"{path} {problem}; choose another output with -o")
    check_output(options.output)
    if checkpoint_steps(Path(options.run_folder) / CHECKPOINTS):
        warn(
            f"{options.run} holds a run, which `mtkit run` resumes only with the settings of that "
            "run; leave out --run for a new one"
        )


def _find_problem(path: Path, options: InitOptions) -> str | None:
    """Return why `path` cannot be written; None if it can."""
    if is_stream(options.output):
        return "is no file, but `mtkit init` writes a config and a folder next to it"
    corpora = [options.corpus, *options.existing.values()]
    inputs = [Path(os.path.realpath(file)) for corpus in corpora for file in paths_of(corpus)]
    folders_of_inputs = {folder for file in inputs for folder in file.parents}
    if options.output.is_dir() or any(parent.is_file() for parent in path.parents):
        return "cannot be a file"
    if Path(os.path.realpath(path)) in folders_of_inputs.union(inputs):
        return "is an input"
    if options.folder.exists() and kind_at(options.folder) != "corpus":
        return f"cannot be written, because {options.folder} is not from `mtkit init`"
    if os.path.lexists(path) and not options.force:
        kept = f", and keeps the old one as {path.name}.old" if path == options.output else ""
        return f"already exists (--force replaces it{kept})"
    return None


def _check_report(report: CorpusReport, corpus: Corpus) -> None:
    """Warn of frequent faults; raise UserError if the corpus should not be used as it is."""
    path = next(paths_of(corpus))
    advice = "(`mtkit check` shows examples)"
    if report.failed:
        failures = [
            f"{finding.name}: {finding.note or finding.meaning}; {finding.advice}"
            for finding in report.failed[:2]
        ]
        raise UserError(f"{path}: {'; '.join(failures)} {advice}")
    for finding in [*report.frequent, report.lost_letters, report.misalignment, report.languages]:
        if finding.status == "warned":
            warn(f"{path}: {finding.name}: {_describe(finding)}; {finding.advice} {advice}")


def _describe(finding: Finding) -> str:
    if finding.note:
        return finding.note
    return f"{finding.count:,} of {finding.checked:,} pairs: {finding.meaning}"


def _check_counts(options: InitOptions, facts: CorpusFacts) -> None:
    counts = {"train": facts.pairs, "valid": facts.valid, "test": facts.test}
    for part, pairs in counts.items():
        needed = MIN_PART_PAIRS[part]
        if pairs < needed:
            path = next(paths_of(options.existing.get(part, options.corpus)))
            raise UserError(
                f"{path}: '{part}' needs at least {needed} distinct pairs, not {pairs:,}; "
                "add pairs, or give other files with --valid and --test"
            )


def _write_pairs(
    partition: Partition, corpus: Corpus, folder: Path, sides: tuple[str, str]
) -> tuple[Counter[str], int]:
    """Write the source and target file of each part.

    Return the number of pairs of each part, and how many of the training pairs are repetitions.
    """
    counts: Counter[str] = Counter()
    hashes = array("Q")  # 8 bytes per pair
    with ExitStack() as stack:
        files = {}
        for part in ("train", *partition.parts):
            for side in sides:
                file = (folder / f"{part}.{side}").open("w", encoding="utf-8", newline="\n")
                files[part, side] = stack.enter_context(file)
        source, target = sides
        for part, pair in partition.divide(read_pairs(corpus)):
            counts[part] += 1
            if part == "train":
                hashes.append(hash_of(pair))
            files[part, source].write(f"{pair.source}\n")
            files[part, target].write(f"{pair.target}\n")
    distinct = len(np.unique(np.frombuffer(hashes, np.uint64))) if hashes else 0
    return counts, len(hashes) - distinct


def _write_side_by_side(
    pairs: Iterable[Pair], folder: Path, part: str, sides: tuple[str, str]
) -> None:
    """Write the source and target file of a part."""
    source, target = sides
    with (
        (folder / f"{part}.{source}").open("w", encoding="utf-8", newline="\n") as sources,
        (folder / f"{part}.{target}").open("w", encoding="utf-8", newline="\n") as targets,
    ):
        for pair in pairs:
            sources.write(f"{pair.source}\n")
            targets.write(f"{pair.target}\n")


def _data_settings(
    options: InitOptions,
    sides: tuple[str, str],
    counts: Mapping[str, int],
    target_language: str | None,
    proposal: Proposal,
) -> list[Setting]:
    """Return the section `data`."""
    comments = {
        "train": "to train on, before training drops repeated and faulty ones",
        "valid": "to measure quality during training",
        "test": "to measure the final model: use them once, at the end",
    }
    settings = []
    for part, comment in comments.items():
        if part in options.existing:
            corpus: dict[str, Any] = options.existing[part].model_dump(exclude_defaults=True)
        else:
            source_file, target_file = (f"{options.folder / part}.{side}" for side in sides)
            corpus = {"source": source_file, "target": target_file}
        comment = f"{counts[part]:,} pairs {comment}"
        replayed = proposal.replayed if part == "train" else ()
        if replayed:
            comment += "; then old pairs, of which an epoch repeats as many as the weight says"
        settings.append(Setting(part, [corpus, *replayed] if replayed else corpus, comment))
    if proposal.old_text:
        source_file, target_file = (f"{options.folder / 'keep'}.{side}" for side in sides)
        comment = f"{len(proposal.old_text):,} pairs that must not be translated worse"
        corpus = {"source": source_file, "target": target_file}
        settings.append(Setting("keep", corpus, comment))
    comment = "language of the target; it decides how BLEU divides text into words"
    return [*settings, Setting("target_language", target_language, comment)]


def _describe_overlap(options: InitOptions, sides: tuple[str, str]) -> Iterator[str]:
    """Say how much of the user's test set occurs in the training files."""
    test = options.existing.get("test")
    if test is not None:
        source, target = (str(options.folder / f"train.{side}") for side in sides)
        training = read_pairs(TextCorpus(source=source, target=target))
        overlap = find_overlap(list(read_pairs(test)), training)
        yield f"{overlap}, which has no pair with a test source"


def _summary(
    options: InitOptions, languages: Languages, facts: CorpusFacts, proposal: Proposal
) -> Iterator[str]:
    """Say what was written, how long a run will take, and what to expect from it."""
    yield f"wrote {options.output}: {proposal}"
    is_renamed = options.run is None and options.run_folder != str(options.default_run)
    if is_renamed:
        yield f"run directory: {options.run_folder}, because {options.default_run} holds a run"
    tags = " to ".join(tag or "unknown" for tag in languages)
    names = " to ".join(language_name(tag) if tag else "unknown" for tag in languages)
    is_declared = options.languages[1] is not None
    how = "" if is_declared else ", identified in the text; if this is wrong, use --languages"
    yield f"languages: {tags} ({names}){how}"
    yield from proposal.forecast(facts, options.minutes)


def _tabulate_pairs(
    options: InitOptions,
    report: CorpusReport,
    counts: Mapping[str, int],
    repeated: int,
    facts: CorpusFacts,
) -> Iterator[str]:
    """Yield a table of all pairs: those that were read, and what became of them."""
    blank = report.blank.count
    held_out = {
        "validation": 0 if "valid" in options.existing else counts["valid"],
        "testing": 0 if "test" in options.existing else counts["test"],
    }
    # What Partition wrote to no file is the rest.
    in_no_file = report.pairs - blank - sum(held_out.values()) - counts["train"]
    reasons: list[str] = []
    if options.existing:
        reasons.append("source in a given set")
    if len(options.existing) < len(held_out):
        reasons.append("held out, but repeated, faulty or trained on")
    rows = [("- blank on a side", blank)]
    rows += [(f"- held out for {purpose}", count) for purpose, count in held_out.items()]
    rows.append((f"- left out ({'; '.join(reasons)})", in_no_file))
    rows.append(("- repeated, so dropped in training", repeated))
    about = ", about" if facts.broken_rules else ""  # the rules are estimates from a sample
    rows += [
        (f"- dropped in training by the rule {rule}{about}", count)
        for rule, count in facts.broken_rules.items()
    ]
    shown = [(label, f"{count:,}") for label, count in rows if count]
    yield from table(
        [("pairs read", f"{report.pairs:,}"), *shown, (f"= trained on{about}", f"{facts.pairs:,}")]
    )
    files = f"{options.folder}/train.*"
    yield from wrap(f"{files}: {plural(counts['train'], 'pair')}, with those dropped in training")
    if facts.broken_rules:
        yield "`mtkit check` shows examples of the rules"
