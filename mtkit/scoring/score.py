"""`mtkit score`: systems side by side against references, as a table or as JSON."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from heapq import nsmallest
from itertools import repeat
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from sacrebleu.metrics.chrf import CHRF

from mtkit.config.languages import language_code
from mtkit.errors import MtkitError, UserError
from mtkit.report import printable, say, table, warn
from mtkit.scoring import metrics
from mtkit.scoring.files import read_texts
from mtkit.scoring.metrics import ReferenceTexts, Score, SignificanceTest

BUCKET_LIMITS = (5, 10, 15, 20, 25, 30, 40, 60)
"""Most source words in each bucket; a last bucket holds all longer sources."""
BUCKET_METRICS = ("bleu", "chrf")
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
class Bucket:
    """The lines, from 0, whose source has `shortest` to `longest` (None: any number of) words."""

    shortest: int
    longest: int | None
    rows: Sequence[int]
    scores: Mapping[str, Score] = field(default_factory=dict)

    @property
    def label(self) -> str:
        is_last = self.longest is None
        return f"over {self.shortest - 1}" if is_last else f"{self.shortest}-{self.longest}"

    def scored(
        self, hypotheses: Sequence[str], references: ReferenceTexts, language: str | None
    ) -> Bucket:
        """Return the bucket with the scores of its lines alone."""
        ours, *right = ([lines[row] for row in self.rows] for lines in (hypotheses, *references))
        intervals = metrics.resampling_obstacle(len(self.rows)) is None
        scores = {
            key: metrics.METRICS[key].compute({"": ours}, right, language, intervals=intervals)[""]
            for key in BUCKET_METRICS
        }
        return replace(self, scores=scores)

    def record(self) -> dict[str, Any]:
        """Return the scores as JSON."""
        scores = {key: score.record() for key, score in self.scores.items()}
        return {"words": [self.shortest, self.longest], "lines": len(self.rows), **scores}


def bucket_by_length(sources: Sequence[str]) -> list[Bucket]:
    """Group lines by the number of space-separated source words; empty buckets are left out."""
    words = [len(line.split()) for line in sources]
    if sum(map(len, sources)) > 20 * max(1, sum(words)):
        warn("--by-length counts words between spaces, but the source seems to have few spaces")
    rows: dict[int, list[int]] = defaultdict(list)
    for row, count in enumerate(words):
        rows[bisect_left(BUCKET_LIMITS, count)].append(row)
    limits = (-1, *BUCKET_LIMITS, None)
    return [Bucket((limits[i] or 0) + 1, limits[i + 1], rows[i]) for i in sorted(rows)]


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
    paired: SignificanceTest | None = None,
    worst: int = 0,
    by_length: bool = False,
    comet: bool = False,
) -> list[SystemScores]:
    """Score every file of hypotheses, or stdin, by every metric that applies.

    `language`, that of the text, chooses BLEU's tokenizer, and adds metrics. `paired` tests every
    system against the first. `worst` sentences of lowest chrF are kept of each system. `by_length`
    scores lines by the length of their source; like `comet` it needs that.

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
    if metrics.bleu_tokenizer(language) == "char":
        code = language_code(language)
        has_words = bool(metrics.TOKENIZERS[code][1])
        how = f": for words, pip install 'sacrebleu[{code}]'" if has_words else ""
        warn(f"BLEU is computed on characters{how}")
    systems = score_systems(texts, right, language, paired)
    comets = score_with_comet(texts, right[0], sources) if comet else {}
    buckets = bucket_by_length(sources) if by_length else []
    return [
        replace(
            system,
            scores={**system.scores, **comets.get(system.name, {})},
            worst=worst_sentences(lines, right, sources, worst),
            by_length=[bucket.scored(lines, right, language) for bucket in buckets],
        )
        for system, lines in zip(systems, texts.values(), strict=True)
    ]


def score_systems(
    systems: Mapping[str, Sequence[str]],
    references: ReferenceTexts,
    language: str | None,
    test: SignificanceTest | None = None,
) -> list[SystemScores]:
    """Score every system with intervals, and test it against the first if requested."""
    obstacle = metrics.resampling_obstacle(len(references[0]))
    if obstacle and len(references[0]) > metrics.MAX_RESAMPLED:
        warn(obstacle)
    scores = metrics.compute_scores(
        systems, references, language, intervals=not obstacle, test=test
    )
    scorer = metrics.METRICS["bleu"].build(language)
    ratios = (float(scorer.corpus_score(lines, references).ratio) for lines in systems.values())
    return [
        SystemScores(name, len(lines), ratio, scores[name])
        for (name, lines), ratio in zip(systems.items(), ratios, strict=True)
    ]


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
    scores = {key: score for system in systems for key, score in system.scores.items()}
    shown = {key: scores[key] for key in (*metrics.METRICS, COMET) if key in scores}
    rows = [["", *(system.name for system in systems)]]
    for key, score in shown.items():
        of_systems = [system.scores.get(key) for system in systems]
        rows.append([score.name, *("-" if it is None else str(it) for it in of_systems)])
        ps = [it and it.p_value for it in of_systems]
        if any(p is not None for p in ps):
            rows.append(["  p-value", *("" if p is None else f"{p:.4f}" for p in ps)])
    rows.append(["length ratio", *(f"{system.length_ratio:.3f}" for system in systems)])
    yield from table(rows)
    yield ""
    yield from (f"{score.name}  {score.signature}" for score in shown.values())


def score_lines(systems: Sequence[SystemScores]) -> Iterator[str]:
    """Yield the tables of scores and of scores by length, then the worst sentences."""
    yield from score_table(systems)
    for key in BUCKET_METRICS if systems[0].by_length else ():
        title = f"{systems[0].scores[key].name} by words of the source"
        rows = [[title, "lines", *(system.name for system in systems)]]
        for buckets in zip(*(system.by_length for system in systems), strict=True):
            cells = (str(bucket.scores[key]) for bucket in buckets)
            rows.append([buckets[0].label, f"{len(buckets[0].rows):,}", *cells])
        yield ""
        yield from table(rows)
    for system in systems:
        if system.worst:
            yield ""
            yield f"{system.name}: the lowest sentence-level chrF2"
        for sentence in system.worst:
            yield f"line {sentence.line}  chrF2 {sentence.chrf:.2f}"
            if sentence.source is not None:
                yield f"  source      {printable(sentence.source)}"
            yield from (f"  reference   {printable(line)}" for line in sentence.references)
            yield f"  hypothesis  {printable(sentence.hypothesis)}"
