"""Facts of a corpus, of a machine's speed and the minutes there are → what is to be done.

Pure: the same facts give the same plan, for fifty pairs or a thousand million. What holds for small
corpora was measured on Multi30k, on parts of it, and on Tatoeba's English and Chinese
(configs/RESULTS.md); what holds for millions of pairs is of Vaswani et al. 2017.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mtkit.study.init.facts import Facts, Lengths, Measured, Rates
from mtkit.study.init.forecast import Forecast, Work, forecast
from mtkit.study.init.sizes import NOMINAL_VOCABULARY, SIZES, Size, affordable

VALIDATIONS = 10
SAVING_SECONDS = 600
"""What a machine that fails may cost, about, where validations are seldom."""
VALIDATION_SHARE = 0.04
"""The part of a run that its validations may take."""
FEWEST_SENTENCES, MOST_SENTENCES = 50, 1000
"""Number of sentences that a validation translates."""
FEWEST_STEPS = 10 * VALIDATIONS
SHARED_LETTERS = 0.5
"""From this part of the letters on that are alike, one vocabulary serves both sides."""
FEWEST_TAKEN = 20_000
"""Number of pairs that are taken at least, if there are so many: they are soon made ready."""
SIDE = 0.625
"""The part of a vocabulary for both sides that either of them has use for."""
SPECIAL = 260
"""Number of subwords that are bytes, or signs such as the end of a sentence."""
SHORTEST_LIMIT = 64
"""Number of subwords up to which any translation may go on."""
LONGEST, LONGEST_EVER = 256, 1024
"""Number of subwords of a side, at most; of a corpus of long lines."""
FEWEST_TOKENS, MOST_TOKENS = 1024, 4096
"""Of an update, in models that Muon trains."""
UPDATES, UPDATES_PER_PASS = 1000, 40
"""Number of updates that such a model makes good use of, in all and in each pass."""
FEW_PASSES = 5
"""In fewer, nothing is learnt by heart, and time for more would make the model better."""
PUBLISHED_TOKENS = 25_000
"""Of an update of Vaswani et al. 2017."""
CPU_TOKENS = 4096
"""Number of tokens that a processor's memory holds of the largest models."""


@dataclass(frozen=True)
class Plan:
    """What is to be done in the time there is."""

    pairs: int
    """Number of pairs to learn from: not all where time ends before all were seen once."""
    size: Size
    vocabulary: int
    joint: bool
    longest: int
    """Number of subwords of a side, at most."""
    longest_output: int
    """Number of subwords of a translation, at most."""
    max_tokens: int
    accumulate: int
    steps: int
    passes: float
    """How often all of the pairs are seen."""
    sentences: int
    """Number of sentences that a validation translates."""
    forecast: Forecast

    @property
    def validate_every(self) -> int:
        return self.steps // VALIDATIONS

    @property
    def save_every(self) -> int:
        """As often as validated, and every ten minutes or so of a long run."""
        updates = round(self.steps * SAVING_SECONDS / max(self.forecast.training, 1.0))
        return max(1, min(self.validate_every, updates))

    @property
    def times(self) -> str:
        """`passes` in at most two digits, or whole: 0.96, 7.8, 27, 100."""
        return f"{self.passes:.2g}" if self.passes < 99.5 else f"{self.passes:.0f}"

    @property
    def is_full(self) -> bool:
        """Whether more passes over these pairs would not help."""
        return self.passes > 0.9 * most_passes(self.pairs)

    def is_like(self, other: Plan) -> bool:
        """Whether updates of the other take as long."""
        names = ("size", "vocabulary", "joint", "longest", "max_tokens", "accumulate")
        return all(getattr(self, name) == getattr(other, name) for name in names)


def most_passes(pairs: int) -> int:
    """How often all pairs are seen at most: more is not known to help.

    100 for the 29,000 pairs of Multi30k, 17 for the millions of Vaswani et al. 2017.
    """
    return round(min(100.0, max(17.0, 100 * math.pow(29_000 / pairs, 0.35))))


def plan_of(corpus: Facts, lengths: Lengths, measured: Measured, minutes: float) -> Plan:
    """A run that is as good as it can be when its learning rate ends with the minutes."""
    seconds = 60 * minutes
    nominal = {s: seconds * measured.at(s, NOMINAL_VOCABULARY).tokens for s in SIZES}
    size = affordable(corpus.pairs, nominal)
    seen = min(corpus.pairs, round(nominal[size] / lengths.target))
    vocabulary, joint = _vocabulary(corpus, seen)
    rates = measured.at(size, vocabulary)

    idle = Work(test_sentences=corpus.test)
    left = max(0.0, seconds - forecast(idle, rates).total)
    pairs = min(corpus.pairs, max(FEWEST_TAKEN, _once(left, lengths, rates)))
    idle = replace(idle, pairs=pairs)
    left = max(0.0, seconds - forecast(idle, rates).total)
    looks = _validations(corpus, lengths, rates, left)
    left = max(0.0, left - forecast(looks, rates).validations)
    tokens = min(left * rates.tokens, most_passes(pairs) * pairs * lengths.target)

    longest = min(LONGEST_EVER, max(LONGEST, lengths.longest))
    max_tokens, accumulate = _batches(
        size, tokens * lengths.padded / lengths.target, pairs * lengths.padded, rates
    )
    max_tokens = max(max_tokens, 2 * longest)
    per_step = max_tokens * accumulate * lengths.target / lengths.padded
    steps = max(FEWEST_STEPS, round(tokens / per_step) // VALIDATIONS * VALIDATIONS)
    work = replace(looks, pairs=pairs, tokens=steps * per_step, test_sentences=corpus.test)
    return Plan(
        pairs,
        size,
        vocabulary,
        joint,
        longest,
        min(longest, max(SHORTEST_LIMIT, 3 * lengths.longest)),
        max_tokens,
        accumulate,
        steps,
        steps * per_step / (pairs * lengths.target),
        looks.valid_sentences,
        forecast(work, rates),
    )


def _vocabulary(corpus: Facts, seen: int) -> tuple[int, bool]:
    """Number of subwords, and whether both sides share them."""
    joint = corpus.shared >= SHARED_LETTERS
    characters = max(*corpus.characters, corpus.in_both if joint else 0)
    for_characters = SPECIAL + characters + characters // 2
    wanted = vocabulary_size(seen) if joint else round(SIDE * vocabulary_size(seen))
    size = max(wanted, -(-for_characters // 100) * 100)
    return min(size, corpus.most_subwords or size), joint


def vocabulary_size(pairs: int) -> int:
    """Number of subwords that suit a corpus of so many pairs."""
    for fewer, size in (5_000, 2000), (15_000, 4000), (500_000, 8000), (2_000_000, 16_000):
        if pairs < fewer:
            return size
    return 32_000


def _once(seconds: float, lengths: Lengths, rates: Rates) -> int:
    """Number of pairs that can be made ready and seen once in the time."""
    return max(1, int(seconds / (rates.line + rates.pair + lengths.target / rates.tokens)))


def _validations(corpus: Facts, lengths: Lengths, rates: Rates, seconds: float) -> Work:
    """The validations of a run that takes so long: as many sentences as their share allows."""
    looks = Work(validations=VALIDATIONS, valid_tokens=corpus.valid * lengths.target)
    allowed = VALIDATION_SHARE * seconds - forecast(looks, rates).validations
    sentences = max(FEWEST_SENTENCES, int(allowed / VALIDATIONS / rates.sentence))
    return replace(looks, valid_sentences=min(sentences, corpus.valid, MOST_SENTENCES))


def _batches(size: Size, in_all: float, in_pass: float, rates: Rates) -> tuple[int, int]:
    """Tokens of a batch, and batches of an update, for so many padded tokens."""
    if size.is_published:
        if rates.on_gpu:
            return PUBLISHED_TOKENS, 1
        return CPU_TOKENS, round(PUBLISHED_TOKENS / CPU_TOKENS)
    tokens = FEWEST_TOKENS
    most = min(MOST_TOKENS, in_all / UPDATES, in_pass / UPDATES_PER_PASS)
    while 2 * tokens <= most:
        tokens *= 2
    return tokens, 1
