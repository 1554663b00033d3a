"""`mtkit score` without references: estimate existing translations with a model.

The model translates the source again. A line that it writes itself gets the estimate that
`mtkit translate` gave it. Of any other line, teacher forcing gives the log probability. That of a
text need not be the same as that of the search: the search may have spelled the text with other
subwords, and knows which sentence translates which. Confidence is fitted to translations of the
model itself, so it is lower than the chrF of translations by people or other programs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import chain, count, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mtkit.artifacts.output import check_output, open_output
from mtkit.batching.plan import plan_block
from mtkit.corpus.text import normalise
from mtkit.decoding.api import Translator, load
from mtkit.decoding.estimation.estimator import Estimate
from mtkit.decoding.estimation.facts import TranslatedLine
from mtkit.decoding.estimation.flags import FLAGS
from mtkit.decoding.estimation.verdict import LOW_CONFIDENCE, FileVerdict
from mtkit.decoding.reading import Reader
from mtkit.decoding.search.forced import log_probabilities
from mtkit.decoding.text.demands import find_unmet
from mtkit.decoding.text.line import Copied, Line, Part
from mtkit.decoding.text.pipeline import open_window
from mtkit.decoding.text.sentences import SENTENCE_END
from mtkit.decoding.text.text import Text
from mtkit.errors import MtkitError, UserError
from mtkit.models.folder import Place
from mtkit.progress import progress
from mtkit.report import header, plural, printable, show, table, wrap
from mtkit.scoring.line_files import load_lines
from mtkit.symbols import EOS, PAD

WINDOW = 1024
"""Number of lines that are read and scored together."""


@dataclass(frozen=True)
class EstimatedLine:
    """A line and its translation, with what can be said of it."""

    number: int
    source: str
    text: str
    estimate: Estimate

    def record(self) -> dict[str, Any]:
        """Return the estimate as JSON, as `mtkit translate --flags` writes it."""
        return {"line": self.number, **self.estimate.record()}


@dataclass(frozen=True)
class EstimatedFile:
    """A file of translations with its verdict."""

    name: str
    verdict: FileVerdict
    lines: list[EstimatedLine] = field(default_factory=list)

    def worst(self, count: int) -> list[EstimatedLine]:
        """Return the lines with the least confidence, the least first."""
        known = [line for line in self.lines if line.estimate.confidence is not None]
        return nsmallest(count, known, key=_confidence)

    def record(self, worst: int = 0) -> dict[str, Any]:
        """Return the verdict as JSON, with so many lines with the least confidence."""
        record: dict[str, Any] = {"hypotheses": self.name, **self.verdict.record()}
        if worst:
            record["worst"] = [
                {**line.record(), "source": line.source, "hypothesis": line.text}
                for line in self.worst(worst)
            ]
        return record


def estimate(
    source: Path,
    hypotheses: Sequence[Path],
    model: Place | None,
    *,
    tag: str | None,
    glossary: Path | None,
    worst: int,
    flags: Path | None,
    fail_on: str | None,
    as_json: bool,
) -> None:
    """Print what a model says of translations without references.

    `flags`: where to write a JSON object for each line. `fail_on`: names of flags, with commas.

    Raises:
        UserError: as `estimate_files`, `flags` cannot be written, or a flag is unknown.
        MtkitError: a line has one of the flags of `fail_on`.
    """
    failing = [] if fail_on is None else _parse_flags(fail_on)
    if flags is not None:
        if len(hypotheses) > 1:
            raise UserError("--flags: give one file of translations")
        check_output(flags, [source, *hypotheses, glossary])
    files = estimate_files(source, hypotheses, model, tag=tag, glossary=glossary)
    if flags is not None:
        with open_output(flags) as (output, _):
            for line in files[0].lines:
                output.write(json.dumps(line.record()).encode() + b"\n")
    records = [file.record(worst) for file in files]
    show(records, lambda _: estimate_table(files, worst), as_json=as_json)
    for file in files:
        _fail_on(failing, file)


def _parse_flags(text: str) -> list[str]:
    """Return the names of flags between commas; raise UserError if there is no such flag."""
    names = [name.strip() for name in text.split(",")]
    known_names = [flag.name for flag in FLAGS]
    for name in names:
        if name not in known_names:
            raise UserError(f"--fail-on: no flag {name!r}; choose from {', '.join(known_names)}")
    return names


def _fail_on(names: Sequence[str], file: EstimatedFile) -> None:
    """Raise MtkitError if a line of the file has one of these flags."""
    for name in names:
        flagged_lines = [line for line in file.lines if name in line.estimate.flags]
        if flagged_lines:
            count = plural(len(flagged_lines), "line")
            raise MtkitError(f"{file.name}:{flagged_lines[0].number}: {count} flagged {name}")


def estimate_files(
    source: Path,
    hypotheses: Sequence[Path],
    model: Place | None = None,
    *,
    tag: str | None = None,
    glossary: Path | None = None,
) -> list[EstimatedFile]:
    """Estimate files of translations with a model.

    `tag`: the target tag of all lines, for a model of several languages. `glossary`: a file of
    terms (default: that of the model).

    Raises:
        UserError: a file cannot be read or has another length, the model has no calibration, or
            the tag is missing or unknown.
    """
    sources = load_lines(source)
    texts_by_file = {str(path): load_lines(path) for path in hypotheses}
    for name, texts in texts_by_file.items():
        if len(texts) != len(sources):
            raise UserError(
                f"{name} has {plural(len(texts), 'line')}, but {source} has {len(sources):,}; line "
                "n must belong to line n"
            )
    with closing(load(model, tag=tag, glossary=glossary)) as translator:
        if translator.estimator.calibration is None:
            raise UserError(
                f"{translator.models[0].name} cannot score without references, because it has no "
                "calibration; give references with -r, or train with this version of mtkit and at "
                "least 100 validation lines"
            )
        files = [
            EstimatedFile(name, FileVerdict(translator.estimator.calibration))
            for name in texts_by_file
        ]
        reader = Reader.of(translator.models[0], "auto")
        with progress("scoring", len(sources), "lines") as shown:
            for start in range(0, len(sources), WINDOW):
                window = sources[start : start + WINDOW]
                own = translator.submit(window).result()
                for file in files:
                    texts = texts_by_file[file.name][start : start + WINDOW]
                    forced = estimate_lines(reader, translator, window, texts)
                    # The search knows more than teacher forcing of a text that it wrote itself.
                    estimates = [
                        translation.estimate if normalise(translation.text) == text else estimate
                        for translation, text, estimate in zip(own, texts, forced, strict=True)
                    ]
                    file.verdict.add(estimates)
                    numbers = count(start + 1)
                    lines = map(EstimatedLine, numbers, window, texts, estimates)
                    file.lines.extend(lines)
                shown.advance(len(own))
    return files


def _confidence(line: EstimatedLine) -> float:
    """Return the confidence of a line that has one."""
    return line.estimate.confidence or 0.0


def estimate_lines(
    reader: Reader, translator: Translator, sources: Sequence[str], texts: Sequence[str]
) -> list[Estimate]:
    """Return the estimates of existing translations by teacher forcing; both have one model."""
    tokenizer = reader.tokenizer
    window = open_window([Line(source) for source in sources], tokenizer, translator.request)
    parts_by_line: list[list[tuple[list[int], list[int]]]] = []
    for line, text in zip(window.lines, texts, strict=True):
        source_parts = [part.ids for part in line.parts]
        translated_text = _without_copied(text, line.pieces)
        parts_by_line.append(_pair_parts(source_parts, translated_text, reader))
    # The parts of all lines are scored together, so that batches are full.
    all_parts = list(chain.from_iterable(parts_by_line))
    scores = iter(_score(reader, all_parts))
    estimates: list[Estimate] = []
    for line, text, parts in zip(window.lines, texts, parts_by_line, strict=True):
        scores_of_line = islice(scores, len(parts))
        unmet = find_unmet(line.demands, Text(text, ()))
        translated = TranslatedLine(
            line.text,
            text,
            line.letters,
            lost=[demand.text for demand in unmet if not demand.is_term],
            missing_terms=[demand.text for demand in unmet if demand.is_term],
            source_parts=[source for source, _ in parts],
            target_parts=[target for _, target in parts],
            log_probability=sum(scores_of_line),
        )
        estimates.append(translator.estimator.estimate(translated))
    return estimates


def _without_copied(text: str, pieces: Sequence[Copied | Part]) -> str:
    """Return a translation without the copied text at its start and end, such as outer tags."""
    for piece in pieces:
        if not isinstance(piece, Copied):
            break
        text = text.removeprefix(piece.text.string.strip()).lstrip()
    for piece in reversed(pieces):
        if not isinstance(piece, Copied):
            break
        text = text.removesuffix(piece.text.string.strip()).rstrip()
    return text


def _pair_parts(
    source_parts: Sequence[list[int]], text: str, reader: Reader
) -> list[tuple[list[int], list[int]]]:
    """Pair the parts of a line with the sentences of its translation, if there are as many.

    Otherwise the whole line is one part.
    """
    if not source_parts:
        return []
    sentences = [text]
    if len(source_parts) > 1:
        sentences = _split_at_ends(text)
    if len(sentences) != len(source_parts):
        # It is unknown which sentence translates which part.
        sentences = [text]
        source_parts = [list(chain.from_iterable(source_parts))]
    targets = reader.tokenizer.encode_target(sentences)
    # A joined source, or a translation from elsewhere, can be longer than the model reads. The
    # subwords after that are ignored.
    max_length = reader.settings.max_length
    return [
        (source[:max_length], target[:max_length])
        for source, target in zip(source_parts, targets, strict=True)
    ]


def _split_at_ends(text: str) -> list[str]:
    """Return the sentences of a text, without blank ones."""
    ends = [match.end() for match in SENTENCE_END.finditer(text)]
    pieces = [text[start:end].strip() for start, end in pairwise([0, *ends, len(text)])]
    return [piece for piece in pieces if piece]


def _score(reader: Reader, pairs: Sequence[tuple[list[int], list[int]]]) -> list[float]:
    """Return log P of each target given its source; batches have pairs of similar lengths."""
    if not pairs:
        return []
    settings = reader.settings
    device = reader.model.device
    before_source, before_target = reader.tokenizer.language_symbols(
        settings.tag, settings.source_tag
    )
    sources: list[list[int]] = []
    targets: list[list[int]] = []
    for source, target in pairs:
        sources.append([*before_source, *source])
        targets.append([*before_target, *target])
    source_lengths = list(map(len, sources))
    target_lengths = list(map(len, targets))
    lengths = np.column_stack([source_lengths, target_lengths])
    scores = np.zeros(len(pairs))
    for rows in plan_block(lengths, 0, max_tokens=settings.batch_tokens, seed=0, epoch=0):
        source_ids = _pad([sources[row] for row in rows])
        target_ids = _pad([targets[row] for row in rows])
        batch_scores = log_probabilities(
            reader.model,
            source_ids.to(device),
            target_ids.to(device),
        )
        scores[rows] = batch_scores.cpu()
    return list(scores.tolist())


def _pad(sides: Sequence[list[int]]) -> Tensor:
    """Return one side of some pairs, with EOS and padding."""
    rows = [torch.tensor([*ids, EOS]) for ids in sides]
    return pad_sequence(rows, batch_first=True, padding_value=PAD)


def _show_chrf(verdict: FileVerdict) -> str:
    """Return the predicted chrF of a file with its interval; a dash if there is none."""
    if verdict.chrf is None:
        return "unknown" if verdict.is_unlike else "-"
    value, low, high = verdict.chrf
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def estimate_table(files: Sequence[EstimatedFile], worst: int) -> Iterator[str]:
    """Yield the verdicts, a column for each file, then so many lines with the least confidence."""
    verdicts = [file.verdict for file in files]
    rows = header([""], [file.name for file in files])
    predictions = [_show_chrf(verdict) for verdict in verdicts]
    rows.append(["predicted chrF2", *predictions])
    low_counts = [f"{verdict.low:,} of {verdict.lines:,}" for verdict in verdicts]
    rows.append([f"lines below {100 * LOW_CONFIDENCE:.0f}", *low_counts])
    for flag in FLAGS:
        counts = [verdict.flags[flag.name] for verdict in verdicts]
        if any(counts):
            shown_counts = [f"{count:,}" for count in counts]
            rows.append([f"flag {flag.name}", *shown_counts])
    yield from table(rows)
    for file in files:
        if file.verdict.is_unlike:
            description = next(file.verdict.describe())
            yield ""
            yield from wrap(f"{file.name}: {description}")
        worst_lines = file.worst(worst)
        if worst_lines:
            yield ""
            yield f"{file.name}: the least confidence"
        for line in worst_lines:
            flags = ", ".join(line.estimate.flags)
            confidence = 100 * _confidence(line)
            yield f"line {line.number}  {confidence:.2f}  {flags}".rstrip()
            yield from wrap(printable(line.source), f"  {'source':12}")
            yield from wrap(printable(line.text), f"  {'hypothesis':12}")
