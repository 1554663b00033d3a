"""`mtkit init`: write a config and the files of its corpus, and forecast the run.

Each corpus is read once, to rows in a temporary folder.
"""

from __future__ import annotations

import os
import shlex
import shutil
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.artifacts.manifest import kind_at
from mtkit.artifacts.output import check_output, is_stream, open_output
from mtkit.artifacts.replacement import create
from mtkit.artifacts.runs import CHECKPOINTS, checkpoint_steps
from mtkit.artifacts.storage import first_free
from mtkit.batching.encode import key_of_pair
from mtkit.config.corpora import MAX_WEIGHT, Corpus
from mtkit.config.language_codes import find_language, language_name
from mtkit.corpus.check import CorpusReport, check_all, check_rows
from mtkit.corpus.read import hash_of, paths_of
from mtkit.corpus.rules import held_out_keys
from mtkit.corpus.sets import check_files_exist
from mtkit.corpus.statistics import Languages
from mtkit.corpus.store import CorpusRows, find_repeated, temporary_rows
from mtkit.corpus.tag_words import TagWords
from mtkit.errors import UserError, blame_setting
from mtkit.init.config_text import Chosen, render
from mtkit.init.facts import CorpusFacts
from mtkit.init.from_scratch import Start
from mtkit.init.partition import LEFT_OUT
from mtkit.init.proposal import InitOptions, Proposal
from mtkit.init.survey import (
    TEMPERATURE,
    SurveyedCorpus,
    WrittenCorpus,
    balance,
    join_facts,
    languages_of,
    survey,
    with_counted_pairs,
    write_corpora,
)
from mtkit.machine import describe_load
from mtkit.plugins import load_plugin
from mtkit.report import data_lines, plural, printable, runnable, say, table, verbosity, warn, wrap

MIN_PART_PAIRS = {"train": 50, "valid": 5, "test": 5}
"""Fewest distinct pairs of each part."""

WHY_WEIGHTS = (
    "the weights balance the languages: an epoch has pairs of each in proportion to "
    f"pairs^(1/{TEMPERATURE:g}) (Arivazhagan et al. 2019)"
)
"""What the comment on training corpora of several languages says."""


def init(options: InitOptions) -> None:
    """Write a config and the files of its corpus, and forecast the run.

    Raises:
        UserError: the corpus cannot be used, or a file would be overwritten; nothing is written.
        OSError: the disk is full; nothing is written.
    """
    _check_paths(options)
    load = describe_load()  # before `init` itself adds to it
    start = _choose_start(options)
    with ExitStack() as stack:
        texts: list[CorpusRows] = []
        for corpus in start.options.corpora:
            texts.append(stack.enter_context(temporary_rows(corpus, allow_unequal=True)))
        existing: dict[str, CorpusRows] = {}
        for part, corpus in start.options.existing.items():
            with blame_setting((f"--{part}",)):
                existing[part] = stack.enter_context(temporary_rows(corpus))
        _write(start, load, texts, existing)


def _write(
    start: Start,
    load: str | None,
    texts: Sequence[CorpusRows],
    existing: Mapping[str, CorpusRows],
) -> None:
    """Do what `init` does with the rows of each corpus, and of the sets of the user.

    `load`: how busy the machine was, or None.
    """
    options = start.options
    reports: list[CorpusReport] = []
    for rows, corpus in zip(texts, options.corpora, strict=True):
        report = check_rows(rows, _declared_languages(options, corpus))
        _check_report(report, corpus)
        reports.append(report)
    counts = _check_existing(options, existing, languages_of(reports[0]))
    held_out = held_out_keys(chain.from_iterable(existing.values()))
    surveyed = survey(texts, reports, held_out, start.held_out, counts)
    for each in surveyed:
        _check_counts(options, each)

    facts, sample = join_facts(surveyed)
    if load is not None:
        say(f"init: the machine is busy ({load}): the forecast assumes that it stays busy")
    facts, proposal = start.propose(facts, sample, texts)

    options.output.parent.mkdir(parents=True, exist_ok=True)
    with (
        _keep_old(options.output) as old_config,
        open_output(options.output) as (config, _),
        create(options.folder, "corpus", {"pairs": facts.pairs}, {}, counts) as draft,
    ):
        tag_words = TagWords(list(options.corpora))
        written = [_write_pairs(each, draft, tag_words) for each in surveyed]
        for corpus_files in written:
            counts += corpus_files.counts
        old_text = write_corpora(proposal.old_text, draft, "keep", options.folder)
        facts = with_counted_pairs(facts, written, counts)
        sections = {
            "data": _data_settings(options, written, counts, proposal, old_text),
            **proposal.settings(facts),
        }
        text = render(printable(options.command), options.run_folder, sections)
        config.write(text.encode())

    if old_config is not None:
        say(f"init: the old config is now {old_config}")
    for message in tag_words.messages():
        say(message)
    is_quiet, _ = verbosity()
    if is_quiet:
        return
    for line in _summary(options, written, facts, proposal):
        data_lines(wrap(runnable(line)))
    data_lines(["", *_tabulate_pairs(options, written)])
    data_lines(["", *wrap(runnable(f"next: {_next_command(options)}"))])


def _choose_start(options: InitOptions) -> Start:
    """Return random weights, or the base model if there is one; check that it suits the run."""
    kind: type[Start] = Start if options.base is None else load_plugin("actions", "from")
    return kind(options)


@contextmanager
def _keep_old(config: Path) -> Iterator[Path | None]:
    """Give the config that the block replaces a second name, unless the block raises.

    Yield the second name; None if there is no config yet.
    """
    if not config.exists():
        yield None
        return
    old = first_free(config.with_name(f"{config.name}.old"))  # an earlier --force may have left one
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


def _declared_languages(options: InitOptions, corpus: Corpus) -> Languages:
    """Return the declared languages of a corpus; a target tag may be the code of a language."""
    if corpus.target_tag is None:
        return options.languages
    source, _ = options.languages
    return source, find_language(corpus.target_tag)


def _check_existing(
    options: InitOptions, existing: Mapping[str, CorpusRows], languages: Languages
) -> Counter[str]:
    """Check the validation and test sets of the user; return their numbers of pairs."""
    counts: Counter[str] = Counter()
    for part, report in check_all(existing, languages).items():
        _check_report(report, options.existing[part])
        counts[part] = report.distinct_pairs
    return counts


def _name_sides(languages: Languages) -> tuple[str, str]:
    """Return the suffixes of the files: the languages if they are known and differ."""
    source, target = languages[0] or "source", languages[1] or "target"
    return ("source", "target") if source == target else (source, target)


def _check_paths(options: InitOptions) -> None:
    """Check that all files of sets exist, and that no file of the user would be overwritten."""
    for part, corpus in options.existing.items():
        check_files_exist(corpus, (f"--{part}",))
    if options.keep is not None:
        check_files_exist(options.keep, ("--keep",))
    for path in (options.output, options.folder):
        problem = _find_problem(path, options)
        if problem is not None:
            raise UserError(f"{path} {problem}; choose another output with -o")
    check_output(options.output)
    if checkpoint_steps(Path(options.run_folder) / CHECKPOINTS):
        warn(
            f"{options.run} holds a run, which `mtkit run` resumes only with the settings of that "
            "run; leave out --run to start a new run"
        )


def _find_problem(path: Path, options: InitOptions) -> str | None:
    """Return why `path` cannot be written; None if it can."""
    if is_stream(options.output):
        return "is no file, but `mtkit init` writes a config and a folder next to it"
    corpora = [*options.corpora, *options.existing.values()]
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
            share = f"{finding.count:,} of {finding.checked:,} pairs: {finding.meaning}"
            warn(f"{path}: {finding.name}: {finding.note or share}; {finding.advice} {advice}")


def _check_counts(options: InitOptions, surveyed: SurveyedCorpus) -> None:
    """Raise UserError if a part has fewer distinct pairs than MIN_PART_PAIRS."""
    facts = surveyed.facts
    counts = {"train": facts.pairs, "valid": facts.valid, "test": facts.test}
    for part, pairs in counts.items():
        needed = MIN_PART_PAIRS[part]
        if pairs < needed:
            # The user's own set, or the corpus from which it is held out.
            corpus = options.existing.get(part, surveyed.corpus)
            path = next(paths_of(corpus))
            other = ", or give other files with --valid and --test" if surveyed.tag is None else ""
            raise UserError(
                f"{path}: '{part}' needs at least {needed} distinct pairs, not {pairs:,}; add "
                f"pairs{other}"
            )


def _write_pairs(surveyed: SurveyedCorpus, folder: Path, tag_words: TagWords) -> WrittenCorpus:
    """Write the source and target file of each part, and count the pairs."""
    partition = surveyed.partition
    counts: Counter[str] = Counter()
    hashes = array("Q")  # 8 bytes per pair
    held_out: list[int] = []
    with ExitStack() as stack:
        files = {}
        for part in ("train", *partition.parts):
            for name in _name_files(surveyed, part):
                file = (folder / name).open("w", encoding="utf-8", newline="\n")
                files[name] = stack.enter_context(file)
        pairs = tag_words.watch(surveyed.rows)
        for part, pair in partition.divide(pairs):
            counts[part] += 1
            if part == LEFT_OUT:
                continue
            if part == "train":
                hashes.append(hash_of(pair))
            else:
                held_out.append(key_of_pair(pair))
            source, target = _name_files(surveyed, part)
            files[source].write(f"{pair.source}\n")
            files[target].write(f"{pair.target}\n")
    repeated = int(find_repeated(np.array(hashes, np.uint64)).sum())
    return WrittenCorpus(surveyed, counts, repeated=repeated, held_out=held_out)


def _name_files(surveyed: SurveyedCorpus, part: str) -> tuple[str, str]:
    """Return the names of the source and target file of a part: train.en, or train.yor.en."""
    source, target = _name_sides(surveyed.languages)
    name = part if surveyed.tag is None else f"{part}.{surveyed.tag}"
    return f"{name}.{source}", f"{name}.{target}"


def _data_settings(
    options: InitOptions,
    written: Sequence[WrittenCorpus],
    counts: Mapping[str, int],
    proposal: Proposal,
    old_text: Sequence[dict[str, str]],
) -> dict[str, Any]:
    """Return the section `data`; `old_text`: the corpora of text that must be kept."""
    settings: dict[str, Any] = {}
    for part in ("train", "valid", "test"):
        why = f"{counts[part]:,} pairs"
        corpora = _corpora_of(options, written, part)
        if part in options.existing:
            corpora = [options.existing[part].model_dump(exclude_defaults=True)]
        if part == "train":
            why += ", before training drops repeated and faulty ones"
            if len(written) > 1:
                why += f"; {WHY_WEIGHTS}"
            if proposal.replayed:
                corpora += proposal.replayed
                why += "; then old pairs, of which an epoch has as many as the weight says"
        settings[part] = Chosen(corpora if len(corpora) > 1 else corpora[0], why)
    if proposal.old_text:
        value = old_text if len(old_text) > 1 else old_text[0]
        settings["keep"] = Chosen(value, f"{len(proposal.old_text):,} pairs")
    targets = {each.surveyed.languages[1] for each in written}
    target_language = targets.pop() if len(targets) == 1 else None
    return settings | {"target_language": target_language}


def _corpora_of(
    options: InitOptions, written: Sequence[WrittenCorpus], part: str
) -> list[dict[str, Any]]:
    """Return the corpora of a part; with target tags, those for training have weights, too."""
    weights = balance([each.facts.pairs for each in written])
    corpora: list[dict[str, Any]] = []
    for each, weight in zip(written, weights, strict=True):
        source, target = (str(options.folder / name) for name in _name_files(each.surveyed, part))
        corpus: dict[str, Any] = {"source": source, "target": target}
        if each.tag is not None:
            if part == "train":
                corpus["weight"] = min(float(f"{weight:.3g}"), MAX_WEIGHT)
            corpus["target_tag"] = each.tag
        corpora.append(corpus)
    return corpora


def _summary(
    options: InitOptions, written: Sequence[WrittenCorpus], facts: CorpusFacts, proposal: Proposal
) -> Iterator[str]:
    """Say what was written, and what the proposal forecasts."""
    yield f"wrote {options.output}: {proposal}"
    is_renamed = options.run is None and options.run_folder != str(options.default_run)
    if is_renamed:
        yield f"run directory: {options.run_folder}, because {options.default_run} holds a run"
    for each in written:
        yield _describe_languages(options, each.surveyed)
    yield from proposal.forecast(facts, written, options.minutes)
    left_out = sum(each.counts[LEFT_OUT] for each in written)
    if left_out:
        base = "" if options.base is None else f", also those of {options.base}"
        yield (
            f"left out of training: {plural(left_out, 'pair')} whose source or target occurs in a "
            f"validation or test set{base}"
        )


def _describe_languages(options: InitOptions, surveyed: SurveyedCorpus) -> str:
    """Name the languages of a corpus, and say how they are known."""
    languages = surveyed.languages
    tags = " to ".join(tag or "unknown" for tag in languages)
    names = " to ".join(language_name(tag) if tag else "unknown" for tag in languages)
    if surveyed.tag is not None:
        return f"{surveyed.tag}: {tags} ({names})"
    is_declared = options.languages[1] is not None
    how = "" if is_declared else ", identified in the text; if this is wrong, use --languages"
    return f"languages: {tags} ({names}){how}"


def _next_command(options: InitOptions) -> str:
    """Return the command that runs the config."""
    command = ["mtkit", "run"]
    if options.output != Path("mtkit.yaml"):  # the default of `mtkit run`
        command += ["-c", str(options.output)]
    return shlex.join(command)


def _tabulate_pairs(options: InitOptions, written: Sequence[WrittenCorpus]) -> Iterator[str]:
    """Yield a table of all pairs: those that were read, and what became of them.

    Several corpora have a column each.
    """
    are_estimated = any(each.facts.broken_rules for each in written)
    columns = [_count_pairs(options, each) for each in written]
    rows: list[list[str]] = []
    if written[0].tag is not None:
        rows.append(["", *(str(each.tag) for each in written)])
    # The corpora may have different labels, because they break different rules.
    labels = dict.fromkeys(label for column in columns for label in column)
    for label in labels:
        counts = [column.get(label, 0) for column in columns]
        if any(counts):
            rows.append([label, *(f"{count:,}" for count in counts)])
    trained_on = "= trained on, about" if are_estimated else "= trained on"
    rows.append([trained_on, *(f"{each.facts.pairs:,}" for each in written)])
    yield from table(rows)
    total = sum(each.counts["train"] for each in written)
    files = f"{options.folder}/train.*"
    yield from wrap(f"{files}: {plural(total, 'pair')}, including pairs that training drops")
    if are_estimated:
        yield "`mtkit check` shows examples of the rules"


def _count_pairs(options: InitOptions, written: WrittenCorpus) -> dict[str, int]:
    """Return how many pairs of a corpus were read, and why some are not trained on, by labels."""
    report, counts, facts = written.surveyed.report, written.counts, written.facts
    blank = report.blank.count
    # What Partition wrote to no file is the rest.
    in_no_file = report.pairs - blank - counts.total()
    rows = {
        "pairs read": report.pairs,
        "- blank on a side": blank,
        "- held out for validation": counts["valid"],
        "- held out for testing": counts["test"],
        "- left out (in valid, test or keep)": counts[LEFT_OUT],
        "- unfit for testing (faulty, not new)": in_no_file,
        "- repeated, so dropped in training": written.repeated,
    }
    for rule, count in facts.broken_rules.items():
        # An estimate from a sample.
        rows[f"- dropped in training: {rule}, about"] = count
    return rows
