"""Subword sampling: random segmentations of a text that depend only on the text and a seed.

SentencePiece's own sampling differs in every process, so a run could not be repeated or resumed.
Here each word is segmented separately, which is exact because subwords do not cross spaces.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, pairwise
from random import Random

from sentencepiece import SentencePieceProcessor

from mtkit.errors import UserError
from mtkit.symbols import SPACE

VARIANTS = 32
"""Number of segmentations that are drawn for each word, and then reused."""
MAX_WORD_PIECES = 12
"""Largest number of subwords of a word; longer words (in text without spaces) are cut."""
CACHED_WORDS = 1 << 18

Word = tuple[int, ...]


class SubwordSampler:
    """A sampler of segmentations for one SentencePiece model.

    BPE: skip each possible merge with probability `alpha` (BPE-dropout, Provilkov et al. 2020,
    algorithm 1). Unigram: draw from P(segmentation)^alpha (Kudo 2018), by forward filtering and
    backward sampling.
    """

    def __init__(self, processor: SentencePieceProcessor, alpha: float) -> None:
        """Read the subwords and scores of the model.

        Raises:
            UserError: all subwords are single characters, so a text has only one segmentation.
        """
        self.alpha = alpha
        self._pieces: list[str] = [processor.id_to_piece(i) for i in range(processor.vocab_size())]
        odd = (processor.is_control, processor.is_unknown, processor.is_byte, processor.is_unused)
        self._ids = {
            piece: i for i, piece in enumerate(self._pieces) if not any(kind(i) for kind in odd)
        }
        self._scores = {piece: processor.get_score(i) for piece, i in self._ids.items()}
        self._longest = max(map(len, self._ids), default=1)
        if self._longest == 1:
            raise UserError(
                "training.subword_sampling: a char tokenizer can split a text in only one way; use "
                "bpe or unigram, or no sampling"
            )
        # The score of a BPE subword is the rank of its merge; unigram scores are log probabilities.
        is_bpe = all(score == round(score) for score in self._scores.values())
        self._draw = self._draw_bpe if is_bpe else self._draw_unigram
        self._begins = [piece.startswith(SPACE) for piece in self._pieces]
        self.variant = lru_cache(CACHED_WORDS)(self._variant)

    def __call__(self, lines: list[list[int]], seed: int) -> list[list[int]]:
        """Draw a segmentation of each line; words with unknown characters or bytes stay as is."""
        random, drawn = Random(seed), []
        for line in lines:
            numbers = random.choices(range(VARIANTS), k=len(line))
            words = map(self.variant, self._words(line), numbers)
            drawn.append(list(chain.from_iterable(words)))
        return drawn

    def _words(self, line: list[int]) -> Iterator[Word]:
        begin = 0
        for place, i in enumerate(line):
            if place > begin and (self._begins[i] or place == begin + MAX_WORD_PIECES):
                yield tuple(line[begin:place])
                begin = place
        if begin < len(line):
            yield tuple(line[begin:])

    def _variant(self, word: Word, index: int) -> Word:
        pieces = [self._pieces[i] for i in word]
        if any(piece not in self._ids for piece in pieces):
            return word
        drawn = self._draw("".join(pieces), Random(f"{index} {word}"))
        return tuple(self._ids[piece] for piece in drawn) if drawn else word

    def _draw_bpe(self, text: str, random: Random) -> list[str]:
        """Merge characters, but skip some merges; return [] if a character is not a subword."""
        symbols = list(text)
        if any(symbol not in self._ids for symbol in symbols):
            return []
        while True:
            merges = [
                (-self._scores[a + b], place)
                for place, (a, b) in enumerate(pairwise(symbols))
                if a + b in self._scores and random.random() >= self.alpha
            ]
            if not merges:
                return symbols
            place = min(merges)[1]
            symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]

    def _draw_unigram(self, text: str, random: Random) -> list[str]:
        """Draw from the lattice of all segmentations, with sums over paths in log space."""
        ends: list[list[tuple[str, float]]] = [[] for _ in range(len(text) + 1)]
        reach = [0.0] + [-math.inf] * len(text)
        for end in range(1, len(text) + 1):
            for begin in range(max(0, end - self._longest), end):
                piece = text[begin:end]
                if piece in self._scores and reach[begin] > -math.inf:
                    ends[end].append((piece, reach[begin] + self.alpha * self._scores[piece]))
            if ends[end]:
                best = max(weight for _, weight in ends[end])
                total = sum(math.exp(weight - best) for _, weight in ends[end])
                reach[end] = best + math.log(total)
        drawn: list[str] = []
        end = len(text)
        while end:
            pieces, weights = zip(*ends[end], strict=True)
            probabilities = [math.exp(weight - reach[end]) for weight in weights]
            drawn.append(random.choices(pieces, probabilities)[0])
            end -= len(drawn[-1])
        return drawn[::-1]
