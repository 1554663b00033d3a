"""The metrics: each an entry of one table, each score with a signature that says how it came about.

"BLEU (lower-cased, Moses-tokenised)" is what many papers report: both sides lower-cased, then
Moses punctuation normalisation and tokenisation (sacremoses, no escaping), then sacreBLEU with
tokenize=none and no smoothing. It is another scale than sacreBLEU's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, cast

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest
from sacremoses import MosesPunctNormalizer, MosesTokenizer

TOKENIZERS = {"ja": ("ja-mecab", "MeCab"), "ko": ("ko-mecab", "mecab_ko"), "zh": ("zh", None)}
"""sacreBLEU's tokenizer for languages that 13a does not suit, and the package it needs."""
MOST_CHARACTERS = 10_000
"""Characters of a line up to which metrics that are made for sentences are done in seconds."""

Lines = Sequence[str]
Language = str | None
Scorer = BLEU | CHRF | TER


@dataclass(frozen=True)
class Score:
    name: str
    value: float
    signature: str
    """Equal signatures make scores comparable."""
    interval: tuple[float, float] | None = None
    """Bounds of 95 %, from a thousand samples of the sentences, with a fixed seed (Koehn 2004)."""
    digits: int = 2
    """Number of digits that are shown behind the point."""


@dataclass(frozen=True)
class Metric:
    """One of sacreBLEU's, on lines that may be prepared first."""

    scorer: Callable[[Language], Scorer]
    prepare: Callable[[Lines, Language], Lines] = lambda lines, language: lines
    sign: Callable[[str, Language], str] = lambda signature, language: signature
    name: str | None = None
    """The name that people see, where it is not sacreBLEU's."""
    needs_language: bool = False
    most_characters: int | float = math.inf
    """Characters of a line, above which the time would grow with their square."""

    def compute(
        self, hypotheses: Lines, references: Lines, language: Language, *, interval: bool = False
    ) -> Score:
        """The corpus-level score, with its interval or (which takes half the time) without."""
        score = _with_interval if interval else _without_interval
        found = score(
            self.scorer(language),
            self.prepare(hypotheses, language),
            self.prepare(references, language),
        )
        signature = self.sign(found.signature, language)
        return replace(found, name=self.name or found.name, signature=signature)


def _without_interval(scorer: Scorer, hypotheses: Lines, references: Lines) -> Score:
    found = scorer.corpus_score(hypotheses, [references])
    return Score(found.name, found.score, str(scorer.get_signature()))


def _with_interval(scorer: Scorer, hypotheses: Lines, references: Lines) -> Score:
    """By a paired test of one system: what `corpus_score` does by itself fails for some numbers."""
    signatures, columns = PairedTest([("", hypotheses)], {"": scorer}, [references], "bs")()
    ((name, signature),) = signatures.items()
    found = cast(Any, columns[name][0])
    bounds = (float(found.mean - found.ci), float(found.mean + found.ci))
    return Score(name, found.score, str(signature), bounds)


def _moses(lines: Lines, language: Language) -> Lines:
    code = language_code(language)
    normalizer, tokenizer = MosesPunctNormalizer(code), MosesTokenizer(code)
    return [
        tokenizer.tokenize(normalizer.normalize(line.lower()), return_str=True, escape=False)
        for line in lines
    ]


def _signed_by_moses(signature: str, language: Language) -> str:
    tokenizer = f"tok:moses-{language_code(language)}|norm:moses-punct"
    signed = signature.replace("case:mixed", "case:lc").replace("tok:none", tokenizer)
    return f"{signed}|sacremoses:{version('sacremoses')}"


METRICS: Mapping[str, Metric] = {
    # Cased, of detokenised text (Post 2018).
    "bleu": Metric(lambda language: BLEU(tokenize=bleu_tokenizer(language), force=True)),
    # Popović 2015.
    "chrf": Metric(lambda _: CHRF()),
    # Translation edit rate (Snover et al. 2006): the lower the better.
    "ter": Metric(lambda _: TER(), most_characters=MOST_CHARACTERS),
    "bleu_lc_moses": Metric(
        lambda _: BLEU(tokenize="none", smooth_method="none", force=True),
        prepare=_moses,
        sign=_signed_by_moses,
        name="BLEU (lower-cased, Moses-tokenised)",
        needs_language=True,
        most_characters=MOST_CHARACTERS,
    ),
}


def evaluate(
    hypotheses: Lines, references: Lines, language: Language, *, interval: bool = False
) -> dict[str, Score]:
    """Every metric there is for what is known of the language, and for lines as long as these."""
    longest = max(map(len, [*hypotheses, *references]), default=0)
    return {
        key: metric.compute(hypotheses, references, language, interval=interval)
        for key, metric in METRICS.items()
        if (language or not metric.needs_language) and longest <= metric.most_characters
    }


def length_ratio(hypotheses: Lines, references: Lines, language: Language) -> float:
    """Tokens of all hypotheses over those of all references, as BLEU counts them."""
    scorer = BLEU(tokenize=bleu_tokenizer(language), force=True)
    return float(scorer.corpus_score(hypotheses, [references]).ratio)


def bleu_tokenizer(language: Language) -> str:
    """13a, or what suits the language: characters where the package for words is not installed."""
    name, package = TOKENIZERS.get(language_code(language), ("13a", None))
    return name if package is None or find_spec(package) else "char"


def corpus_bleu(hypotheses: Lines, references: Lines, language: Language = None) -> float:
    """Cased sacreBLEU, 0 to 100."""
    return METRICS["bleu"].compute(hypotheses, references, language).value


def corpus_chrf(hypotheses: Lines, references: Lines) -> float:
    """chrF2, 0 to 100."""
    return METRICS["chrf"].compute(hypotheses, references, None).value


def language_code(language: Language) -> str:
    """The language alone, of codes such as pt-BR."""
    return (language or "").replace("_", "-").split("-")[0].lower()
