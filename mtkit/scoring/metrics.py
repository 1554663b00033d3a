"""The metrics: a table of sacreBLEU's metrics; the signature of a score makes it comparable.

"BLEU (lower-cased, Moses-tokenised)" is what many papers report: lower-case both sides, apply Moses
punctuation normalisation and tokenisation (sacremoses, no escaping), then sacreBLEU with
tokenize=none and no smoothing. Its scale differs from sacreBLEU's own BLEU.

A test set is a sample of sentences. A confidence interval says how much a score would change with
other sentences. A significance test says how often chance alone gives so large a difference; mtkit
uses approximate randomisation (Riezler and Maxwell 2005).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Annotated, Any, Literal, cast

from pydantic import Field, model_serializer, model_validator
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from mtkit.arguments import check_listed, list_texts
from mtkit.artifacts.records import NotStored
from mtkit.corpus.text import is_blank, normalise
from mtkit.errors import UserError
from mtkit.report import plural, table
from mtkit.scoring.writing import Writing

MAX_SENTENCE_CHARACTERS, MAX_IDEOGRAPHS = 10_000, 300
"""Longest line for slow metrics (time grows with the square), in words and in characters."""
MAIN_METRICS = ("bleu", "chrf")
"""The metrics of validations, and of parts of a test set."""
BLEU_KEYS = ("bleu", "bleu_lc_moses")
MIN_RESAMPLED, MAX_RESAMPLED = 10, 10_000
"""Test set sizes for intervals and tests: fewer lines mean nothing, more take gigabytes."""

ReferenceTexts = Sequence[Sequence[str]]
"""One or more reference translations, each a list of lines."""
Signature = Annotated[str, Field(pattern="^[A-Za-z0-9_.:|+-]*$", max_length=500)]
"""What makes scores comparable: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0."""
CountedReferences = Sequence[Sequence[str | None]]
"""The same, with None for a line that does not count, as sacreBLEU takes it."""


@dataclass(frozen=True)
class Score:
    """A corpus-level score; scores with equal signatures are comparable."""

    name: Annotated[str, Field(pattern="^[A-Za-z0-9 .,():_+-]*$", max_length=64)]
    value: Annotated[float, Field(alias="score")]
    signature: Signature
    interval: tuple[float, float] | None = None
    """Bounds of the 95 % confidence interval, from 1,000 samples with a fixed seed (Koehn 2004)."""
    p_value: Annotated[float | None, Field(alias="p")] = None
    """p-value of the difference from the first system, if tested."""
    difference: float | None = None
    """Difference from the score of the first system."""
    digits: NotStored[int] = 2
    """Number of decimals that are shown."""

    @property
    def counts_words(self) -> bool:
        """Whether the metric does not divide text into characters; its signature says so."""
        return "tok:char" not in self.signature.split("|")

    def __str__(self) -> str:
        value = f"{self.value:.{self.digits}f}"
        if self.interval is None:
            return value
        low, high = self.interval
        return f"{value} [{low:.{self.digits}f}, {high:.{self.digits}f}]"

    @model_serializer(mode="wrap")
    def _leave_out_unset(self, dump: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return {key: value for key, value in dump(self).items() if value is not None}


class ScoresByMetric:
    """Stores `scores` without a level of its own: {"lines": 40, "bleu": ..., "chrf": ...}."""

    @model_validator(mode="before")
    @classmethod
    def _collect(cls, record: Any) -> Any:
        if not isinstance(record, Mapping):
            return record
        return {**record, "scores": {key: record[key] for key in METRICS if key in record}}

    @model_serializer(mode="wrap")
    def _spread(self, dump: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        record = dump(self)
        scores = record.pop("scores")
        return {**record, **scores}


class MetricScores(dict[str, Score]):
    """The scores of one text by metric; `print` shows them as a table."""

    def __str__(self) -> str:
        return "\n".join(table([score.name, str(score)] for score in self.values()))

    def __repr__(self) -> str:
        values = ", ".join(f"{key}={score.value:.2f}" for key, score in self.items())
        return f"MetricScores({values})"


@dataclass(frozen=True)
class SacrebleuMetric:
    """A metric of sacreBLEU; `build` creates the scorer for a `Writing`."""

    name: str
    build: Callable[[Writing], BLEU | CHRF | TER | None]
    """Returns None if the metric is not suitable for the writing."""
    is_slow: bool = False
    """Whether the time grows with the square of the line length."""
    maximum: float = 100.0

    def compute(
        self,
        systems: Mapping[str, Sequence[str]],
        references: CountedReferences,
        writing: Writing,
        *,
        intervals: bool = False,
        test: bool = False,
    ) -> dict[str, Score]:
        """Score each system; intervals double the time. `test` compares each with the first."""
        scorer = self.build(writing)
        if scorer is None:
            return {}
        if intervals or test:
            return self._resample(scorer, systems, references, writing, test=test)
        scores = {}
        for name, lines in systems.items():
            value = scorer.corpus_score(lines, cast(ReferenceTexts, references)).score
            # The signature is complete only after scoring.
            signature = str(scorer.get_signature())
            scores[name] = Score(self.title(writing), value, signature)
        return scores

    def title(self, writing: Writing) -> str:
        """Return the name of the metric, with BLEU's tokenizer if it is not the usual one."""
        is_usual = self.name != "BLEU" or writing.tokenizer == "13a"
        return self.name if is_usual else f"BLEU ({writing.tokenizer})"

    def _resample(
        self,
        scorer: BLEU | CHRF | TER,
        systems: Mapping[str, Sequence[str]],
        references: CountedReferences,
        writing: Writing,
        *,
        test: bool,
    ) -> dict[str, Score]:
        """Score each system with intervals, by the bootstrap, and with p-values if `test`."""

        def run(kind: Literal["bs", "ar"]) -> tuple[str, list[Result]]:
            texts = cast(ReferenceTexts, references)
            paired_test = PairedTest([*systems.items()], {"": scorer}, texts, kind)
            signatures, columns = paired_test()
            ((name, signature),) = signatures.items()
            return str(signature), cast(list[Result], columns[name])

        # Also for intervals alone, because sacreBLEU's own function fails for some numbers.
        signature, results = run("bs")
        p_values: list[float | None] = [None] * len(results)
        if test:
            _, tested = run("ar")
            p_values = [result.p_value for result in tested]
        scores = {}
        for name, result, p_value in zip(systems, results, p_values, strict=True):
            mean = float(cast(float, result.mean))
            half_width = float(cast(float, result.ci))
            low = max(0.0, mean - half_width)
            high = min(mean + half_width, self.maximum)
            if p_value is not None and result.score == results[0].score:
                p_value = 1.0  # sacreBLEU would report a p-value near 0
            scores[name] = Score(
                name=self.title(writing),
                value=result.score,
                signature=signature,
                interval=(low, high),
                p_value=p_value,
            )
        return scores


class _MosesTokenizer:
    """Punctuation normalisation and tokenisation of sacremoses as a tokenizer of sacreBLEU."""

    def __init__(self, code: str) -> None:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer  # takes 0.3 s

        self._normalizer = MosesPunctNormalizer(code)
        self._tokenizer = MosesTokenizer(code)

    def __call__(self, line: str) -> str:
        normalised = self._normalizer.normalize(line)
        return cast(str, self._tokenizer.tokenize(normalised, return_str=True, escape=False))


def _bleu(writing: Writing) -> BLEU:
    return BLEU(tokenize=writing.tokenizer, force=True)  # no warning about tokenised text


def _ter(writing: Writing) -> TER | None:
    if writing.has_words:
        return TER()
    has_ideographs = writing.script in ("HAN", "KANA")
    return TER(normalized=True, asian_support=True) if has_ideographs else None


def _moses_bleu(writing: Writing) -> BLEU | None:
    code = writing.language
    if not (code and writing.has_words):
        return None
    bleu: Any = BLEU(lowercase=True, tokenize="none", smooth_method="none", force=True)
    bleu.tokenizer = _MosesTokenizer(code)
    bleu.tokenizer_signature = f"moses-{code}|norm:moses-punct|sacremoses:{version('sacremoses')}"
    return cast(BLEU, bleu)


METRICS: Mapping[str, SacrebleuMetric] = {  # Post 2018, Popović 2015, Snover et al. 2006
    "bleu": SacrebleuMetric("BLEU", _bleu),
    "chrf": SacrebleuMetric("chrF2", lambda _: CHRF()),
    "ter": SacrebleuMetric("TER (lower is better)", _ter, is_slow=True, maximum=math.inf),
    "bleu_lc_moses": SacrebleuMetric(
        "BLEU (lower-cased, Moses-tokenised)", _moses_bleu, is_slow=True
    ),
}


def score(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    language: str | None = None,
    intervals: bool = False,
    keys: Iterable[str] = tuple(METRICS),
) -> MetricScores:
    """Return the scores of translations by metric, for each of `keys` that suits the text.

    `print` shows them as a table. `references`: one line for each hypothesis, or a list of several
    such lists, in which a blank line does not count. `language`: language of the text; it chooses
    BLEU's tokenizer, and "bleu_lc_moses" needs it.

    Raises:
        TypeError: the hypotheses or references are not lists of lines.
        UserError: the numbers of lines differ, there are no lines, or a name is unknown.
    """
    hypotheses = list_texts(hypotheses, "hypotheses")
    several = _list_references(references)
    keys = _check_keys(keys)
    if not hypotheses or any(len(lines) != len(hypotheses) for lines in several):
        raise UserError(_describe_counts(hypotheses, several))
    writing = Writing.of(language, several[0])
    scores = compute_scores({"": hypotheses}, several, writing, intervals=intervals, keys=keys)
    return MetricScores(scores[""])


def _list_references(references: Any) -> list[list[str]]:
    """Return the references as lists of lines, whether there is one list or there are several."""
    listed = list(check_listed(references, "references"))
    is_several = bool(listed) and not isinstance(listed[0], str)
    if not is_several:
        return [list_texts(listed, "references")]
    return [list_texts(lines, f"references[{index}]") for index, lines in enumerate(listed)]


def _check_keys(keys: Any) -> list[str]:
    """Return the names of metrics as a list.

    Raises:
        TypeError: the names are no list.
        UserError: a name is unknown.
    """
    listed = list(check_listed(keys, "keys", "metric"))
    for key in listed:
        if key not in METRICS:
            raise UserError(f"keys: unknown metric {key!r}; choose from {', '.join(METRICS)}")
    return listed


def _describe_counts(hypotheses: Sequence[str], references: ReferenceTexts) -> str:
    """Return an error about unequal numbers of lines."""
    count = plural(len(hypotheses), "line")
    counts = " and ".join(plural(len(lines), "line") for lines in references)
    message = f"{count} of hypotheses, but {counts} of references"
    is_by_line = len(references) == len(hypotheses) > 1
    if is_by_line:
        message += "; give a list for each reference translation, not for each line"
    return message


def _normalise_all(lines: Sequence[str]) -> list[str]:
    return [normalise(line) for line in lines]


def compute_scores(
    systems: Mapping[str, Sequence[str]],
    references: ReferenceTexts,
    writing: Writing,
    *,
    intervals: bool = False,
    test: bool = False,
    keys: Iterable[str] = METRICS,
) -> dict[str, dict[str, Score]]:
    """Return system → metric → score, for each of the metrics `keys` that suits the text.

    All texts are normalised first. `test`: test the difference between every system and the first.

    Raises:
        UserError: a test needs a second system, or another number of lines.
    """
    if test:
        check_test(len(systems), len(references[0]))
    systems = {name: _normalise_all(lines) for name, lines in systems.items()}
    references = [_normalise_all(lines) for lines in references]
    counted = without_blanks(references)
    first, *_ = systems
    scores: dict[str, dict[str, Score]] = {name: {} for name in systems}
    for key in _suitable_metrics(keys, [*systems.values(), *references], references, writing):
        computed = METRICS[key].compute(systems, counted, writing, intervals=intervals, test=test)
        for name, score in computed.items():
            scores[name][key] = _compare(score, scores[first].get(key))
    return scores


def without_blanks(references: ReferenceTexts) -> CountedReferences:
    """Return the references without the blank lines that have text in another reference.

    sacreBLEU would count a blank line as a translation without words.
    """
    has_text = [not all(map(is_blank, lines)) for lines in zip(*references, strict=True)]
    return [
        [None if has_text[row] and is_blank(line) else line for row, line in enumerate(lines)]
        for lines in references
    ]


def _suitable_metrics(
    keys: Iterable[str],
    texts: Sequence[Sequence[str]],
    references: ReferenceTexts,
    writing: Writing,
) -> Iterator[str]:
    """Yield the metrics `keys` that are fast enough for `texts`, and do not need longer lines."""
    longest = max(len(line) for lines in texts for line in lines)
    is_long = longest > (MAX_SENTENCE_CHARACTERS if writing.has_words else MAX_IDEOGRAPHS)
    has_ngrams = any(writing.long_lines(lines) > 0 for lines in references)  # else BLEU would be 0
    for key in keys:
        is_too_slow = METRICS[key].is_slow and is_long
        lacks_ngrams = key in BLEU_KEYS and not has_ngrams
        if not (is_too_slow or lacks_ngrams):
            yield key


def score_rows(
    rows: Sequence[int],
    hypotheses: Sequence[str],
    references: ReferenceTexts,
    writing: Writing,
) -> dict[str, Score]:
    """Score the lines `rows`, numbered from 0, as a separate corpus by MAIN_METRICS."""
    chosen_hypotheses = [hypotheses[row] for row in rows]
    chosen_references = [[lines[row] for row in rows] for lines in references]
    scores = compute_scores({"": chosen_hypotheses}, chosen_references, writing, keys=MAIN_METRICS)
    return scores[""]


def _compare(score: Score, first: Score | None) -> Score:
    """Return the score with its difference from the first system's score."""
    return score if first is None else replace(score, difference=score.value - first.value)


def check_test(systems: int, lines: int) -> None:
    """Raise UserError if so many systems of so many lines cannot be tested against the first."""
    if systems < 2:
        raise UserError("--paired: give at least two systems to compare, the baseline first")
    obstacle = resampling_obstacle(lines)
    if obstacle:
        raise UserError(f"--paired: {obstacle}")


def resampling_obstacle(lines: int) -> str | None:
    """Return why there are no intervals and tests for so many lines; None if there are."""
    if MIN_RESAMPLED <= lines <= MAX_RESAMPLED:
        return None
    return f"intervals and tests need {MIN_RESAMPLED} to {MAX_RESAMPLED:,} lines, not {lines:,}"


def sentence_chrf(hypothesis: str, references: Sequence[str]) -> float:
    """Return the sentence-level chrF2, from 0 to 100."""
    return float(_SENTENCE_CHRF.sentence_score(hypothesis, references).score)


_SENTENCE_CHRF = CHRF()


def get_signatures(language: str | None, references: Sequence[str]) -> dict[str, str]:
    """Return the signatures of BLEU and chrF for these references."""
    writing = Writing.of(language, references)
    return {
        key: METRICS[key].compute({"": [""]}, [[""]], writing)[""].signature for key in MAIN_METRICS
    }
