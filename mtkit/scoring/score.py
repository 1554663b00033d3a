"""`mtkit score`: systems side by side against references, as a table or as JSON."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from heapq import nsmallest
from itertools import repeat
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from mtkit.artifacts.manifest import kind_at
from mtkit.artifacts.runs import config_of
from mtkit.errors import MtkitError, UserError
from mtkit.report import header, printable, say, table, warn, wrap
from mtkit.scoring import metrics
from mtkit.scoring.files import read_texts
from mtkit.scoring.lengths import Bucket, bucket_by_length
from mtkit.scoring.metrics import AGREEMENT, MAIN_METRICS, ReferenceTexts, Score
from mtkit.scoring.writing import LANGUAGE_SCRIPTS, MIN_LONG_LINES, Writing

COMPARISONS = (
    ("difference", "difference", "{:+.2f}"),
    ("p-value", "p_value", "{:.4f}"),
    ("people agree", "agreement", "{:.0%}"),
)
"""Rows below a score that compare with the first system: label, field, format."""
COMET = "comet"
COMET_COMMAND = "comet-score"
COMET_MODEL = "Unbabel/wmt22-comet-da"


@dataclass(frozen=True)
class ScoredSentence:
    """A sentence with its sentence-level chrF2."""

    line: int
    chrf: float
    source: str | None
    references: Sequence[str]
    hypothesis: str


def worst_sentences(
    hypotheses: Sequence[str], references: ReferenceTexts, sources: Sequence[str], count: int
) -> list[ScoredSentence]:
    """Return the sentences of lowest chrF2, lowest first; `sources` may be empty."""
    chrf = CHRF()
    rows = zip(hypotheses, sources or repeat(None, len(hypotheses)), *references, strict=True)
    scored = (
        ScoredSentence(line, chrf.sentence_score(ours, right).score, source, right, ours)
        for line, (ours, source, *right) in enumerate(rows, start=1)
    )
    return nsmallest(count, scored, key=lambda sentence: sentence.chrf)


@dataclass(frozen=True)
class SystemScores:
    """The scores of one system."""

    name: str
    lines: int
    length_ratio: float
    """Tokens of the hypotheses over those of the references."""
    scores: Mapping[str, Score]
    worst: Sequence[ScoredSentence] = ()
    by_length: Sequence[Bucket] = ()

    def record(self) -> dict[str, Any]:
        """Return the scores as JSON."""
        record: dict[str, Any] = {
            "hypotheses": self.name,
            "lines": self.lines,
            "length_ratio": round(self.length_ratio, 4),
            **{key: score.record() for key, score in self.scores.items()},
        }
        if self.worst:
            record["worst"] = [asdict(sentence) for sentence in self.worst]
        if self.by_length:
            record["by_length"] = [bucket.record() for bucket in self.by_length]
        return record


def score_files(
    references: Sequence[Path],
    hypotheses: Sequence[Path] = (),
    *,
    language: str | None = None,
    source: Path | None = None,
    paired: bool = False,
    worst: int = 0,
    by_length: bool = False,
    comet: bool = False,
) -> list[SystemScores]:
    """Score every file of hypotheses, or stdin, by every metric that applies.

    `language`, that of the text, chooses BLEU's tokenizer, and adds metrics; files of a run have
    its target language. `paired` tests every system against the first. `worst` sentences of lowest
    chrF are kept of each system. `by_length` scores lines by the length of their source; like
    `comet` it needs that.

    Raises:
        UserError: a file cannot be scored, or COMET is not installed.
    """
    if comet and len(references) > 1:
        raise UserError("--comet: COMET compares with exactly one reference; give one with -r")
    if comet and which(COMET_COMMAND) is None:
        raise UserError(
            f"--comet: {COMET_COMMAND} is not on the PATH; run `pipx install unbabel-comet`"
        )
    right, texts, sources = read_texts(references, hypotheses, source)
    writing = Writing.of(language or _language_of_run(references[0]), right[0])
    systems = score_systems(texts, right, writing, paired)
    comets = score_with_comet(texts, right[0], sources) if comet else {}
    buckets = bucket_by_length(sources) if by_length else []
    return [
        replace(
            system,
            scores={**system.scores, **comets.get(system.name, {})},
            worst=worst_sentences(lines, right, sources, worst),
            by_length=[bucket.scored(lines, right, writing) for bucket in buckets],
        )
        for system, lines in zip(systems, texts.values(), strict=True)
    ]


def _language_of_run(reference: Path) -> str | None:
    """Return the target language that a run declares, if the file is in its test folder."""
    if kind_at(reference.parent) != "test":
        return None
    return config_of(reference.resolve().parents[1]).data.target_language


def score_systems(
    systems: Mapping[str, Sequence[str]],
    references: ReferenceTexts,
    writing: Writing,
    test: bool = False,
) -> list[SystemScores]:
    """Score every system with intervals, and test it against the first if requested."""
    _describe_writing(writing, references[0])
    obstacle = metrics.resampling_obstacle(len(references[0]))
    if obstacle and len(references[0]) > metrics.MAX_RESAMPLED:
        warn(obstacle)
    scores = metrics.compute_scores(systems, references, writing, intervals=not obstacle, test=test)
    scorer = BLEU(tokenize=writing.tokenizer)
    ratios = (float(scorer.corpus_score(lines, references).ratio) for lines in systems.values())
    return [
        SystemScores(name, len(lines), ratio, scores[name])
        for (name, lines), ratio in zip(systems.items(), ratios, strict=True)
    ]


def _describe_writing(writing: Writing, references: Sequence[str]) -> None:
    """Say how words are counted where that is not as usual, and warn where BLEU means little."""
    tokenizer = writing.tokenizer
    if tokenizer != "13a" and writing.language not in LANGUAGE_SCRIPTS:
        script = writing.script.capitalize()
        say(f"the references are written in {script}: BLEU uses sacreBLEU's tokenizer {tokenizer}")
    if tokenizer == "char":
        package = {"HANGUL": "ko", "KANA": "ja"}.get(writing.script)
        how = f"; for words, pip install 'sacrebleu[{package}]'" if package else ""
        warn(f"BLEU counts characters, so do not compare it with that of words{how}")
    if (share := writing.long_lines(references)) < MIN_LONG_LINES:
        effect = "so chrF says more than BLEU" if share else "so BLEU would be 0 and is left out"
        warn(f"{1 - share:.0%} of the references have fewer than four words, {effect}")


def score_with_comet(
    systems: Mapping[str, Sequence[str]], references: Sequence[str], sources: Sequence[str]
) -> dict[str, dict[str, Score]]:
    """Return each system's score under the key COMET (Rei et al. 2020, 2022), about 0 to 1.

    Its package needs older libraries than mtkit, so it is a command in an environment of its own.
    The first use downloads the model.

    Raises:
        MtkitError: the command fails, or a score is not a finite number.
    """
    with TemporaryDirectory(prefix="mtkit-comet-") as folder:
        texts = {"sources": sources, "references": references}
        texts |= {f"hypotheses.{i}": lines for i, lines in enumerate(systems.values())}
        for name, lines in texts.items():
            # The command would end a line at a carriage return.
            text = "".join(f"{line.replace(chr(13), ' ')}\n" for line in lines)
            Path(folder, name).write_text(text, encoding="utf-8", newline="\n")
        source, reference, *paths = (f"{folder}/{name}" for name in texts)
        command = [COMET_COMMAND, "--quiet", "--only_system", "--model", COMET_MODEL]
        say(f"COMET: {COMET_MODEL}")
        process = subprocess.run(
            [*command, "-s", source, "-r", reference, "-t", *paths], capture_output=True, text=True
        )
    values = dict(re.findall(r"^(.*)\tscore: (-?\d+(?:\.\d+)?)$", process.stdout, re.MULTILINE))
    if process.returncode or values.keys() != set(paths):
        output = process.stderr.strip() or process.stdout.strip() or "it printed nothing"
        raise MtkitError(f"--comet: {COMET_COMMAND} failed: {output.splitlines()[-1]}")
    return {
        system: {COMET: Score("COMET", float(values[path]), f"model:{COMET_MODEL}", decimals=4)}
        for system, path in zip(systems, paths, strict=True)
    }


def score_table(systems: Sequence[SystemScores]) -> Iterator[str]:
    """Yield a row per metric with a column per system, then the signatures."""
    shown = systems[0].scores
    rows = header([""], [system.name for system in systems])
    for key, score in shown.items():
        of_systems = [system.scores[key] for system in systems]
        rows.append([score.name, *map(str, of_systems)])
        for label, name, form in COMPARISONS:
            values = [getattr(it, name) for it in of_systems]
            if values[-1] is not None and (key in AGREEMENT or name == "p_value"):
                cells = ("" if value is None else form.format(value) for value in values)
                rows.append([f"  {label}", *cells])
    rows.append(["length ratio", *(f"{system.length_ratio:.3f}" for system in systems)])
    yield from table(rows)
    yield ""
    yield from (f"{score.name}  {score.signature}" for score in shown.values())


def score_lines(systems: Sequence[SystemScores]) -> Iterator[str]:
    """Yield the tables of scores and of scores by length, then the worst sentences."""
    yield from score_table(systems)
    buckets = systems[0].by_length
    for key in [it for it in MAIN_METRICS if buckets and it in systems[0].scores]:
        title = f"{systems[0].scores[key].name} by {buckets[0].unit} of the source"
        rows = header([title, "lines"], [system.name for system in systems])
        for place, bucket in enumerate(buckets):
            cells = (str(system.by_length[place].scores.get(key, "-")) for system in systems)
            rows.append([bucket.label, f"{len(bucket.rows):,}", *cells])
        yield ""
        yield from table(rows)
    for system in systems:
        if system.worst:
            yield ""
            yield f"{system.name}: the lowest sentence-level chrF2"
        for sentence in system.worst:
            yield f"line {sentence.line}  chrF2 {sentence.chrf:.2f}"
            texts = [("source", sentence.source)] if sentence.source is not None else []
            texts += [("reference", line) for line in sentence.references]
            for name, text in [*texts, ("hypothesis", sentence.hypothesis)]:
                yield from wrap(printable(text), f"  {name:12}")
