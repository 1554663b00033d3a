"""What choices are made by: facts of a corpus, of its subwords, and of the speed of a machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace

from mtkit.config.batching import DropRule
from mtkit.study.init.sizes import NOMINAL_VOCABULARY, SIZES, Size


@dataclass(frozen=True)
class Facts:
    """What is known of a corpus."""

    pairs: int
    """Number of pairs that there are to learn from, about: what is dropped is left out."""
    valid: int
    test: int
    languages: tuple[str | None, str | None]
    characters: tuple[int, int]
    """Number of different characters of each side, very rare ones left out."""
    in_both: int
    """Number of different characters of both sides together."""
    shared: float
    """The part of the letters of a side that the other has as often."""
    deduplicate: bool
    """Whether pairs stand there twice."""
    sentences: str | None
    """The language of the sources, where each of them is a single sentence."""
    truecase: bool
    """Whether sources have capitals, and hardly one of them nothing else, or none."""
    drop: Mapping[DropRule, int]
    """Rules that find fault with pairs, and with how many."""
    most_subwords: int | None = None
    """Number of subwords that can be made of the text, where it is known."""


@dataclass(frozen=True)
class Lengths:
    """Of pairs in subwords, each side with its end of sentence."""

    source: float
    """Mean; so are the next two."""
    target: float
    padded: float
    """What a pair takes of `batching.max_tokens`."""
    longest: int
    """What all but one in a hundred pairs stay within."""


@dataclass(frozen=True)
class Rates:
    """How fast a machine does what a run consists of."""

    tokens: float
    """Target tokens per second that are learnt from."""
    sentence: float
    """Seconds to translate a sentence, greedily, as validation does."""
    line: float
    """Seconds for each pair that a tokenizer is trained on."""
    pair: float
    """Seconds to read, judge and encode a pair of the corpus."""
    on_gpu: bool = False

    def rounded(self) -> Rates:
        """As the next measurement will have it, too, most of the time."""
        tokens, sentence, line, pair = (float(f"{rate:.2g}") for rate in astuple(self)[:-1])
        return Rates(tokens, sentence, line, pair, self.on_gpu)


@dataclass(frozen=True)
class Measured:
    """Rates with a model that was tried."""

    size: Size
    vocabulary: int
    rates: Rates

    def at(self, size: Size, vocabulary: int) -> Rates:
        """The rates of another model, by what it costs."""
        ratio = size.cost(vocabulary) / self.size.cost(self.vocabulary)
        tokens, sentence = self.rates.tokens / ratio, self.rates.sentence * ratio
        return replace(self.rates, tokens=tokens, sentence=sentence)


UNKNOWN_LENGTHS = Lengths(16.0, 16.0, 20.0, 64)
FIRST_GUESS = Measured(SIZES[1], NOMINAL_VOCABULARY, Rates(8000.0, 2e-3, 5e-5, 5e-5))
"""Of two cores: what is tried first is chosen by it."""
GPU_GUESS = Measured(SIZES[3], 32_000, Rates(1e5, 2e-3, 5e-5, 1e-5, on_gpu=True))
"""Of a GPU, whose speed with a large model cannot be told from that with a small one."""
