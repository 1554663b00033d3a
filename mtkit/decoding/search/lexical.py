"""Beam search with lexical constraints: every hypothesis contains given terms.

Each sentence has a bank of K live hypotheses for each number of term symbols that they have, from
none to all (grid beam search: Hokamp and Liu 2017). Besides its best symbols, each hypothesis is
extended by the symbols of all terms. So a bank always gets hypotheses from the bank before it, and
the last bank, whose hypotheses may end, is reached whatever K is.

A term is complete if its symbols follow each other, and the next symbol does not continue the word.
How much of the terms a hypothesis has is computed from its symbols, so there is no state, which the
search would have to reorder.

Shapes: B sentences, G banks, R = G·K live hypotheses of each sentence (1 at the first step),
N = B·R, M symbols that may extend a hypothesis, C = R·M candidates of each sentence, P terms of up
to L symbols, T symbols so far, V symbols of the vocabulary, W of them within words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mtkit.decoding.search.beam import admit, take
from mtkit.decoding.search.search import NEG_INF, Hypotheses, Live, Stepper, begin
from mtkit.shapes import SourceIds
from mtkit.symbols import EOS, PAD


@dataclass(frozen=True)
class _Candidates:
    """Each live hypothesis with each of M next symbols; candidate c extends hypothesis c // M."""

    live: Live
    symbols: Int[Tensor, "B C"]
    """The next symbol."""
    scores: Float[Tensor, "B C"]
    """log P."""
    met: Int[Tensor, "B C"]
    """How many term symbols a candidate has."""

    def hypotheses(self, index: Int[Tensor, "B I"]) -> Int[Tensor, "B I"]:
        """Return which of the R hypotheses the selected candidates extend."""
        extensions = self.symbols.shape[1] // self.live.scores.shape[1]  # M
        return index // extensions

    def tokens(self, index: Int[Tensor, "B I"]) -> Int[Tensor, "B I T"]:
        """Return all symbols of the selected candidates, with BOS."""
        before = take(self.live.tokens, self.hypotheses(index))
        last = self.symbols.gather(1, index).unsqueeze(2)
        return torch.cat([before, last], dim=2)


@dataclass(frozen=True)
class LexicalBeam(Stepper):
    """Beam search for hypotheses that contain terms; it keeps the `width` best, best first.

    At `max_length` it returns the best hypotheses with all terms, finished or not. There are none
    if the terms do not fit.
    """

    width: int
    """K: number of live hypotheses in a bank."""
    length_penalty: float
    terms: Int[Tensor, "A P L"]
    """The terms of each sentence of the source, padded with PAD."""
    word_parts: Int[Tensor, " W"]
    """The symbols that continue a word, and so cannot follow a term."""

    def begin(self, source: SourceIds) -> tuple[Live, Hypotheses]:
        return begin(source, 1, self.width)

    def grow(
        self, live: Live, pool: Hypotheses, log_probs: Float[Tensor, "N V"], *, is_last: bool
    ) -> tuple[Live, Hypotheses]:
        terms = self.terms[live.sentences]  # (B, P, L)
        candidates = self._extend(live, terms, log_probs)
        pool = self._admit_complete(pool, candidates, terms, is_last=is_last)
        return self._fill_banks(candidates), pool

    def _extend(
        self, live: Live, terms: Int[Tensor, "B P L"], log_probs: Float[Tensor, "N V"]
    ) -> _Candidates:
        """Return all candidates: each hypothesis with each symbol that may extend it."""
        sentences, rows = live.scores.shape
        terms_of_rows = terms.repeat_interleave(rows, dim=0)  # (N, P, L)
        symbols = self._extensions(log_probs, terms_of_rows)  # (N, M)
        met = count_met(live.written, symbols, terms_of_rows, self.word_parts)  # (N, M)
        gained = log_probs.gather(1, symbols).view(sentences, rows, -1)
        scores = live.scores.unsqueeze(2) + gained  # (B, R, M)
        return _Candidates(
            live,
            symbols=symbols.view(sentences, -1),
            scores=scores.flatten(1),
            met=met.view(sentences, -1),
        )

    def _admit_complete(
        self,
        pool: Hypotheses,
        candidates: _Candidates,
        terms: Int[Tensor, "B P L"],
        *,
        is_last: bool,
    ) -> Hypotheses:
        """Return the pool after the best candidates with all terms may have entered it."""
        needed = (terms != PAD).sum(dim=(1, 2))  # (B,)
        is_incomplete = candidates.met != needed.unsqueeze(1)  # (B, C)
        complete = candidates.scores.masked_fill(is_incomplete, NEG_INF)
        best, index = complete.topk(min(self.width, complete.shape[1]))
        return admit(
            pool,
            candidates.tokens(index)[:, :, 1:],  # without BOS
            best,
            self.length_penalty,
            is_last=is_last,
        )

    def _fill_banks(self, candidates: _Candidates) -> Live:
        """Return the best unfinished candidates of each bank."""
        live = candidates.live
        device = candidates.scores.device
        sentences, rows = live.scores.shape
        banks = torch.arange(self._banks, device=device).view(1, -1, 1)  # (1, G, 1)
        is_in_other_bank = candidates.met.unsqueeze(1) != banks  # (B, G, C)
        is_finished = (candidates.symbols == EOS).unsqueeze(1)  # (B, 1, C)
        is_outside = is_in_other_bank | is_finished
        by_bank = candidates.scores.unsqueeze(1).masked_fill(is_outside, NEG_INF)  # (B, G, C)
        best, index = by_bank.topk(min(self.width, by_bank.shape[2]))  # (B, G, K)
        index = index.flatten(1)  # (B, G·K)
        # Sentence b has the decoder's rows from b·R on.
        first_rows = torch.arange(0, sentences * rows, rows, device=device)
        return Live(
            live.sentences,
            tokens=candidates.tokens(index),
            scores=best.flatten(1),
            parents=first_rows.unsqueeze(1) + candidates.hypotheses(index),
        )

    @property
    def _banks(self) -> int:
        """G: one more than the largest number of term symbols of a sentence."""
        return int((self.terms != PAD).sum(dim=(1, 2)).max()) + 1

    def _extensions(
        self, log_probs: Float[Tensor, "N V"], terms: Int[Tensor, "N P L"]
    ) -> Int[Tensor, "N M"]:
        """Return the symbols that may extend each hypothesis, all different.

        They are its best symbols, all symbols of its terms, and the best one that ends a word.
        """
        vocabulary = log_probs.shape[1]
        best = log_probs.topk(min(2 * self.width, vocabulary)).indices
        best_end = log_probs.index_fill(1, self.word_parts, NEG_INF).argmax(dim=1, keepdim=True)
        wanted = torch.cat([best, best_end, terms.flatten(1)], dim=1)
        # A topk over a mask, because a symbol can be wanted twice.
        is_wanted = torch.zeros_like(log_probs, dtype=torch.bool).scatter_(1, wanted, True)
        only_wanted = log_probs.masked_fill(~is_wanted, NEG_INF)
        return only_wanted.topk(min(wanted.shape[1], vocabulary)).indices

    def is_done(self, live: Live, pool: Hypotheses) -> Bool[Tensor, " B"]:
        """Return for each sentence whether K hypotheses have finished, and the best is the best.

        The first hypotheses that end can be poor: they began with the terms. So the search goes on
        while a live hypothesis has a higher score per symbol than the best finished one.
        """
        length = live.written.shape[1]
        best_live = live.scores.amax(dim=1)
        is_full = pool.scores[:, -1] > NEG_INF
        is_best = pool.scores[:, 0] >= best_live / float(length**self.length_penalty)
        is_dead = best_live == NEG_INF
        return (is_full & is_best) | is_dead


def count_met(
    written: Int[Tensor, "N T"],
    symbols: Int[Tensor, "N M"],
    terms: Int[Tensor, "N P L"],
    word_parts: Int[Tensor, " W"],
) -> Int[Tensor, "N M"]:
    """Return how many term symbols each hypothesis has after each of M next symbols.

    It is the sum of two numbers: the symbols of all complete terms, and those of the longest
    beginning of another term that stands at the end. That beginning may be the whole term, which is
    not complete yet, because the symbol after it is unknown.
    """
    lengths = (terms != PAD).sum(dim=2)  # (N, P)
    begun = _begun(written, terms)  # (N, P, L + 1)
    # A term at the end is complete only if the next symbol does not continue its last word.
    is_at_end = begun.gather(2, lengths.unsqueeze(2))  # (N, P, 1)
    ends_word = ~torch.isin(symbols, word_parts)  # (N, M)
    completes = is_at_end & ends_word.unsqueeze(1)  # (N, P, M)
    is_complete = _is_inside(written, terms, lengths, word_parts).unsqueeze(2) | completes
    # If k symbols of a term stand at the end, and the next one is its symbol k (from 0), then k + 1
    # symbols stand there.
    fits = terms.unsqueeze(2) == symbols.unsqueeze(1).unsqueeze(3)  # (N, P, M, L)
    continued = fits & begun[:, :, :-1].unsqueeze(2)
    sizes = torch.arange(1, terms.shape[2] + 1, device=terms.device)
    begun_after = (continued * sizes).amax(dim=3)  # (N, P, M)
    of_complete = (is_complete * lengths.unsqueeze(2)).sum(dim=1)  # (N, M)
    # A complete term has been counted. Of the others, only the longest beginning counts.
    of_begun = begun_after.masked_fill(is_complete, 0).amax(dim=1)  # (N, M)
    return of_complete + of_begun


def _begun(written: Int[Tensor, "N T"], terms: Int[Tensor, "N P L"]) -> Bool[Tensor, "N P L+1"]:
    """Return for k = 0 … L whether a hypothesis ends with the first k symbols of a term."""
    length = written.shape[1]
    columns: list[Tensor] = []
    for size in range(terms.shape[2] + 1):
        if size > length:
            columns.append(torch.zeros_like(columns[0]))
            continue
        end = written[:, length - size :].unsqueeze(1)  # (N, 1, k)
        columns.append((end == terms[:, :, :size]).all(dim=2))
    return torch.stack(columns, dim=2)


def _is_inside(
    written: Int[Tensor, "N T"],
    terms: Int[Tensor, "N P L"],
    lengths: Int[Tensor, "N P"],
    word_parts: Int[Tensor, " W"],
) -> Bool[Tensor, "N P"]:
    """Return whether a term is complete before the last symbol."""
    length = written.shape[1]
    size = terms.shape[2]
    padded = F.pad(written, (0, size), value=PAD)  # (N, T + L)
    windows = padded.unfold(1, size, 1)[:, :length]  # L symbols from each place on: (N, T, L)
    is_same = windows.unsqueeze(1) == terms.unsqueeze(2)  # (N, P, T, L)
    is_there = (is_same | (terms == PAD).unsqueeze(2)).all(dim=3)  # (N, P, T)
    places = torch.arange(length, device=written.device)
    after = places + lengths.unsqueeze(2)  # the place after each possible term: (N, P, T)
    next_symbol = padded.unsqueeze(1).expand(-1, terms.shape[1], -1).gather(2, after)
    ends_word = (next_symbol != PAD) & ~torch.isin(
        next_symbol, word_parts
    )  # PAD: nothing follows yet
    return (is_there & ends_word).any(dim=2)


def pad_terms(terms: Sequence[Sequence[Sequence[int]]]) -> Int[Tensor, "A P L"]:
    """Return the terms of each sentence as one tensor."""
    size = max(len(ids) for of_sentence in terms for ids in of_sentence)
    rows: list[Tensor] = []
    for of_sentence in terms:
        row = torch.full((len(of_sentence), size), PAD)
        for place, ids in enumerate(of_sentence):
            row[place, : len(ids)] = torch.tensor(ids)
        rows.append(row)
    return pad_sequence(rows, batch_first=True, padding_value=PAD)
