"""`mtkit score`: translations against references, several systems side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mtkit.errors import UserError
from mtkit.report import data, warn
from mtkit.scoring.comet import check_comet, comet
from mtkit.scoring.files import read_texts
from mtkit.scoring.metrics import (
    METRICS,
    Test,
    bleu_tokenizer,
    can_resample,
    evaluate,
    language_code,
    length_ratio,
    p_values,
)
from mtkit.scoring.sentences import buckets_of, plot_buckets, score_buckets, worst_sentences
from mtkit.scoring.tables import Scored, to_json, to_text
from mtkit.study.plots.picture import check_picture


@dataclass(frozen=True)
class Extras:
    """What is wanted besides the metrics."""

    paired: Test | None = None
    """The test of every system against the first, if any."""
    worst: int = 0
    """Number of sentences of lowest chrF that are shown of each system."""
    by_length: bool = False
    """Whether each bucket of source lengths is scored."""
    plot: Path | None = None
    """The picture that the scores of the buckets are drawn into."""
    comet: bool = False
    """Whether COMET is asked, too."""

    def check(self, source: Path | None) -> None:
        """Raises UserError for what does not go together, with a file of sources or without."""
        for asked, option in ((self.by_length, "--by-length"), (self.comet, "--comet")):
            if asked and source is None:
                raise UserError(f"{option}: needs the source text: name it with --source")
        if source is not None and not (self.worst or self.by_length or self.comet):
            raise UserError("--source: only with --worst, --by-length or --comet")
        if self.plot is not None:
            if not self.by_length:
                raise UserError("--plot: only with --by-length")
            check_picture(self.plot)
        if self.comet:
            check_comet()


def score(
    references: Path,
    hypotheses: Sequence[Path] = (),
    *,
    language: str | None = None,
    source: Path | None = None,
    extras: Extras | None = None,
    as_json: bool = False,
) -> None:
    """Writes a table (or JSON) of every metric for every file of hypotheses, else for stdin.

    Metrics that are made for sentences are left out where a line is over MOST_CHARACTERS, with a
    warning. `language`, that of the text, chooses BLEU's tokenization, and adds the metrics that
    need it. Raises UserError for files that cannot be scored, and options that do not go together.
    """
    extras = extras or Extras()
    extras.check(source)
    texts = read_texts(references, hypotheses, source)
    if bleu_tokenizer(language) == "char":
        package = f"sacrebleu[{language_code(language)}]"
        warn(f"BLEU is counted on characters: for words, pip install '{package}'")
    scored = score_systems(texts.systems, texts.references, language, extras.paired)
    judged = comet(texts.systems, texts.references, texts.sources) if extras.comet else {}
    buckets = buckets_of(texts.sources) if extras.by_length else []
    systems = [
        replace(
            system,
            scores={**system.scores, **judged.get(system.name, {})},
            worst=worst_sentences(lines, texts.references, texts.sources, extras.worst),
            by_length=score_buckets(buckets, lines, texts.references, language),
        )
        for system, lines in zip(scored, texts.systems.values(), strict=True)
    ]
    if extras.plot is not None:
        plot_buckets({system.name: system.by_length for system in systems}, extras.plot)
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
