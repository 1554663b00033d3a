"""`mtkit score`: translations against references, several systems side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mtkit.errors import UserError
from mtkit.report import data, warn
from mtkit.scoring.comet import COMET, check_comet, comet
from mtkit.scoring.files import Texts, read_texts
from mtkit.scoring.lengths import buckets_of, plot_buckets, score_buckets
from mtkit.scoring.metrics import METRICS, bleu_tokenizer, evaluate, language_code, length_ratio
from mtkit.scoring.sentences import worst_sentences
from mtkit.scoring.significance import Test, can_resample, p_values
from mtkit.scoring.tables import Scored, to_json, to_text
from mtkit.study.plots.picture import check_picture


def score(
    references: Path,
    hypotheses: Sequence[Path] = (),
    *,
    language: str | None = None,
    source: Path | None = None,
    paired: Test | None = None,
    worst: int = 0,
    by_length: bool = False,
    plot: Path | None = None,
    with_comet: bool = False,
    as_json: bool = False,
) -> None:
    """Writes a table (or JSON) of every metric for every file of hypotheses, else for stdin.

    Metrics that are made for sentences are left out where a line is over LONGEST, with a warning.
    `language`, that of the text, chooses BLEU's tokenization, and adds the metrics that need it.
    `paired` tests every system against the first; `worst` sentences of each are shown; `by_length`
    scores each bucket of source lengths, which `plot` draws into a file.
    Raises UserError for files that cannot be scored, and options that do not go together.
    """
    _check_options(source, worst, by_length, plot, with_comet)
    texts = read_texts(references, hypotheses, source)
    _warn_of_characters(language)
    systems = score_systems(texts.systems, texts.references, language, paired)
    if with_comet:
        systems = list(_with_comet(systems, texts))
    if worst:
        systems = [_with_worst(system, texts, worst) for system in systems]
    if by_length:
        systems = list(_by_length(systems, texts, language))
    if plot is not None:
        plot_buckets({system.name: system.by_length for system in systems}, plot)
    data(to_json(systems) if as_json else to_text(systems))


def score_systems(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str],
    language: str | None,
    paired: Test | None,
) -> list[Scored]:
    """Every metric of every system, with intervals; `paired`: tested against the first.

    Raises UserError where a test is asked for that cannot be made.
    """
    interval = can_resample(len(references))
    scored = {
        name: evaluate(lines, references, language, interval=interval)
        for name, lines in systems.items()
    }
    common = [key for key in METRICS if all(key in scores for scores in scored.values())]
    p = p_values(systems, references, language, paired, common) if paired else {}
    return [
        Scored(
            name,
            len(lines),
            length_ratio(lines, references, language),
            scored[name],
            p.get(name, {}),
            paired,
        )
        for name, lines in systems.items()
    ]


def _check_options(
    source: Path | None, worst: int, by_length: bool, plot: Path | None, with_comet: bool
) -> None:
    for asked, option in ((by_length, "--by-length"), (with_comet, "--comet")):
        if asked and source is None:
            raise UserError(f"{option}: needs the source text: name it with --source")
    if source is not None and not (worst or by_length or with_comet):
        raise UserError("--source: only with --worst, --by-length or --comet")
    if plot is not None:
        if not by_length:
            raise UserError("--plot: only with --by-length")
        check_picture(plot)
    if with_comet:
        check_comet()


def _with_comet(systems: Sequence[Scored], texts: Texts) -> Iterator[Scored]:
    found = comet(texts.systems, texts.references, texts.sources)
    for system in systems:
        yield replace(system, scores={**system.scores, COMET: found[system.name]})


def _with_worst(system: Scored, texts: Texts, count: int) -> Scored:
    hypotheses = texts.systems[system.name]
    found = worst_sentences(hypotheses, texts.references, texts.sources, count)
    return replace(system, worst=found)


def _by_length(systems: Sequence[Scored], texts: Texts, language: str | None) -> Iterator[Scored]:
    buckets = buckets_of(texts.sources)
    for system in systems:
        hypotheses = texts.systems[system.name]
        found = score_buckets(buckets, hypotheses, texts.references, language)
        yield replace(system, by_length=found)


def _warn_of_characters(language: str | None) -> None:
    if bleu_tokenizer(language) == "char":
        extra = f"sacrebleu[{language_code(language)}]"
        warn(f"BLEU is counted on characters: for words, pip install '{extra}'")
