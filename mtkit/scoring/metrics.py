"""The metrics: each an entry of one table, each score with a signature that says how it came about.

"BLEU (lower-cased, Moses-tokenised)" is what many papers report: both sides lower-cased, then
Moses punctuation normalisation and tokenisation (sacremoses, no escaping), then sacreBLEU with
tokenize=none and no smoothing. It is another scale than sacreBLEU's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacremoses import MosesPunctNormalizer, MosesTokenizer

TOKENIZERS = {"ja": ("ja-mecab", "MeCab"), "ko": ("ko-mecab", "mecab_ko"), "zh": ("zh", None)}
"""sacreBLEU's tokenizer for languages that 13a does not suit, and the package it needs."""
LONGEST = 10_000
"""Characters of a line up to which metrics that are made for sentences are done in seconds."""


@dataclass(frozen=True)
class Score:
    name: str
    value: float
    signature: str
    """Equal signatures make scores comparable."""


@dataclass(frozen=True)
class Metric:
    compute: Callable[[Sequence[str], Sequence[str], str | None], Score]
    """(hypotheses, references, target language) → score."""
    needs_language: bool = False
    longest: int | float = math.inf
    """Characters of a line: above, the time would grow with their square."""


def bleu(hypotheses: Sequence[str], references: Sequence[str], language: str | None) -> Score:
    """Cased sacreBLEU (Post 2018) of detokenised text."""
    return _sacrebleu(BLEU(tokenize=bleu_tokenizer(language), force=True), hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str], language: str | None) -> Score:
    """chrF2 (Popović 2015)."""
    return _sacrebleu(CHRF(), hypotheses, references)


def ter(hypotheses: Sequence[str], references: Sequence[str], language: str | None) -> Score:
    """Translation edit rate (Snover et al. 2006): the lower the better."""
    return _sacrebleu(TER(), hypotheses, references)


def bleu_moses(hypotheses: Sequence[str], references: Sequence[str], language: str | None) -> Score:
    """Lower-cased, Moses-tokenised BLEU."""
    code = language_code(language)
    normalizer, tokenizer = MosesPunctNormalizer(code), MosesTokenizer(code)

    def tokenize(lines: Sequence[str]) -> list[str]:
        return [
            tokenizer.tokenize(normalizer.normalize(line.lower()), return_str=True, escape=False)
            for line in lines
        ]

    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    score = metric.corpus_score(tokenize(hypotheses), [tokenize(references)]).score
    signature = (
        f"nrefs:1|case:lc|eff:no|tok:moses-{code}|norm:moses-punct|smooth:none"
        f"|version:{version('sacrebleu')}|sacremoses:{version('sacremoses')}"
    )
    return Score("BLEU (lower-cased, Moses-tokenised)", score, signature)


METRICS: Mapping[str, Metric] = {
    "bleu": Metric(bleu),
    "chrf": Metric(chrf),
    "ter": Metric(ter, longest=LONGEST),
    "bleu_lc_moses": Metric(bleu_moses, needs_language=True, longest=LONGEST),
}


def evaluate(
    hypotheses: Sequence[str], references: Sequence[str], language: str | None
) -> dict[str, Score]:
    """Every metric there is for what is known of the language, and for lines as long as these."""
    longest = max(map(len, [*hypotheses, *references]), default=0)
    return {
        key: metric.compute(hypotheses, references, language)
        for key, metric in METRICS.items()
        if (language or not metric.needs_language) and longest <= metric.longest
    }


def bleu_tokenizer(language: str | None) -> str:
    """13a, or what suits the language: characters where the package for words is not installed."""
    name, package = TOKENIZERS.get(language_code(language), ("13a", None))
    return name if package is None or find_spec(package) else "char"


def corpus_bleu(
    hypotheses: Sequence[str], references: Sequence[str], language: str | None = None
) -> float:
    """Cased sacreBLEU, 0 to 100."""
    return bleu(hypotheses, references, language).value


def corpus_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """chrF2, 0 to 100."""
    return chrf(hypotheses, references, None).value


def _sacrebleu(
    metric: BLEU | CHRF | TER, hypotheses: Sequence[str], references: Sequence[str]
) -> Score:
    result = metric.corpus_score(hypotheses, [references])
    return Score(result.name, result.score, str(metric.get_signature()))


def language_code(language: str | None) -> str:
    """The language alone, of codes such as pt-BR."""
    return (language or "").replace("_", "-").split("-")[0].lower()
