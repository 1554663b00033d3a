"""Other segmentations of the same text, at random: a pure function of the text and a seed.

SentencePiece can draw them, but from random numbers that differ in every process, so that no run
could be repeated or resumed. Here words are drawn one by one: pieces do not cross spaces, so that
the draws of words are independent.
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
"""Number of draws of a word that a sampler knows: enough to vary, few enough to be made once."""
WORD_PIECES = 12
"""Number of subwords after which a word ends where a language writes no spaces."""
WORDS_KEPT = 1 << 18

Word = tuple[int, ...]


class Sampler:
    """Draws segmentations for one SentencePiece model.

    Of a bpe model each merge is left out with probability `alpha` whenever it could be made
    (BPE-dropout, Provilkov et al. 2020, algorithm 1); of a unigram model a segmentation is drawn
    from P(segmentation)^alpha (Kudo 2018) by filtering forwards and sampling backwards.
    """

    def __init__(self, processor: SentencePieceProcessor, alpha: float) -> None:
        """Raises UserError for a model that knows one segmentation of a text only."""
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
                "training.subword_sampling: a char tokenizer knows one segmentation of a text "
                "only: take bpe or unigram, or no sampling"
            )
        # The score of a bpe piece is the place of its merge; that of a unigram one a log-prob.
        merges = all(score == round(score) for score in self._scores.values())
        self._draw = self._merged if merges else self._filtered
        self._begins = [piece.startswith(SPACE) for piece in self._pieces]
        self.variant = lru_cache(WORDS_KEPT)(self._variant)

    def __call__(self, lines: list[list[int]], seed: int) -> list[list[int]]:
        """Another segmentation of each line; words with unknown characters or bytes stay."""
        random, drawn = Random(seed), []
        for line in lines:
            numbers = random.choices(range(VARIANTS), k=len(line))
            words = map(self.variant, self._words(line), numbers)
            drawn.append(list(chain.from_iterable(words)))
        return drawn

    def _words(self, line: list[int]) -> Iterator[Word]:
        begin = 0
        for place, i in enumerate(line):
            if place > begin and (self._begins[i] or place == begin + WORD_PIECES):
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

    def _merged(self, text: str, random: Random) -> list[str]:
        """A draw by merges, some of them left out; empty where a character is no piece."""
        symbols = list(text)
        if any(symbol not in self._ids for symbol in symbols):
            return []
        while True:
            left = [
                (-self._scores[a + b], place)
                for place, (a, b) in enumerate(pairwise(symbols))
                if a + b in self._scores and random.random() >= self.alpha
            ]
            if not left:
                return symbols
            place = min(left)[1]
            symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]

    def _filtered(self, text: str, random: Random) -> list[str]:
        """From the lattice of all segmentations; weights are sums over paths, in log space."""
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
            shares = [math.exp(weight - reach[end]) for weight in weights]
            drawn.append(random.choices(pieces, shares)[0])
            end -= len(drawn[-1])
        return drawn[::-1]
