"""Write training pairs with hints and placeholders, from which a model learns to obey both.

A hint is a source word or phrase with its translation (Dinu et al. 2019). Most hints ask for
another target word, drawn from all words of the corpus, and the target has that word. Otherwise a
model need not read hints, because it knows the translation anyway. Some other hints have another
form of the target word, so that the model learns to inflect a term (Bergmanis and Pinnis 2021).

A placeholder replaces what both sides have, such as a name, or two linked words, or stands before
and after linked words, as tags do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from random import Random
from typing import NamedTuple

from mtkit.batching.word_alignment import PlacedWord, WordAligner, find_words, is_alignable
from mtkit.corpus.read import Pair, hash_of
from mtkit.corpus.text import UNSPACED_LETTER
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.hints import HINT_BEGIN, HINT_END, HINT_MEANS, PLACEHOLDERS

# Probabilities of what a written pair is like; configs/RESULTS.md has measurements.
HINTS_ONLY, PLACEHOLDERS_ONLY = 0.5, 0.3
"""A pair has hints only, or placeholders only, or else both."""
MORE_HINTS = 0.75
"""One hint more."""
LONGER_TERM = 0.4
"""One word more in a term, if the next words are linked, too."""
OTHER_TARGET = 0.7
"""Another target than that of the corpus."""
OTHER_SOURCE = 0.3
"""With another target: another term, too, as a glossary has terms that no corpus has."""
BASE_FORM = 0.2
"""With the target of the corpus: its base form, if it has another one."""
EQUAL_WORD = 0.7
"""A placeholder for a word that both sides have."""
MORE_PLACEHOLDERS = 0.6
"""A placeholder for other linked words, or two around them; then one more."""
AROUND = 0.3
"""Placeholders around words, and not in their place."""
AT_EDGE = 0.1
"""A placeholder before the first word of a line, and one after the last."""
FROM_FIRST = 0.5
"""Placeholders that are numbered from the first one; without others, late ones would be rare."""

MAX_TERM_WORDS = 4
MIN_STEM, MAX_ENDING = 4, 3
"""Forms of a word have at least so many letters in common, and differ in at most so many last."""


class Link(NamedTuple):
    """Linked words: offsets in the source and in the target of a pair."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int


class Edit(NamedTuple):
    """The replacement of a part of a text."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with parts replaced, which must not overlap."""
    parts: list[str] = []
    end = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        parts += [text[end : edit.start], edit.text]
        end = edit.end
    return "".join([*parts, text[end:]])


def hint(text: str, start: int, end: int, term: str, translation: str) -> Edit:
    """Return the edit that puts a term with a hint in the place of a part of the text.

    A space before it moves into the hint, so that SentencePiece splits the words as usual.
    """
    has_space = start > 0 and text[start - 1] == " "
    space = " " if has_space else ""
    hinted = f"{HINT_BEGIN}{space}{term}{HINT_MEANS}{space}{translation}{HINT_END}"
    return Edit(start - len(space), end, hinted)


class HintWriter:
    """Writes pairs with hints and placeholders; it has learned from a sample of the corpus."""

    def __init__(
        self, sample: Iterable[tuple[str, str]], tokenizer: Tokenizer, share: float, seed: int
    ) -> None:
        """Learn words and links from pairs; `share`: the share of pairs that are written."""
        self._tokenizer = tokenizer
        self._share = share
        self._seed = seed
        self._counts = (Counter[str](), Counter[str]())
        """How often each word occurs in the sample, for each side."""
        self._aligner = WordAligner(self._count_words(sample))
        self._pools = [_Pool(counts) for counts in self._counts]
        self._base_forms = _BaseForms(self._counts[1])

    def _count_words(
        self, sample: Iterable[tuple[str, str]]
    ) -> Iterator[tuple[list[PlacedWord], list[PlacedWord]]]:
        """Yield the words of each pair, and count them."""
        for source, target in sample:
            source_words, target_words = self._find_words(source, target)
            if is_alignable(source_words, target_words):
                self._counts[0].update(source[word.start : word.end] for word in source_words)
                self._counts[1].update(target[word.start : word.end] for word in target_words)
            yield source_words, target_words

    def _find_words(self, source: str, target: str) -> tuple[list[PlacedWord], list[PlacedWord]]:
        source_words = find_words(source, self._tokenizer.source_boundaries)
        target_words = find_words(target, self._tokenizer.target_boundaries)
        return source_words, target_words

    def write(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Return a share of the pairs with hints or placeholders, where their words are linked.

        What is random depends on the seed and on the pair only.
        """
        written: list[Pair] = []
        for pair in pairs:
            random = Random(f"{self._seed} {hash_of(pair)}")
            if random.random() < self._share:
                words = self._find_words(pair.source, pair.target)
                links = self._aligner.align(*words)
                if links:
                    written.append(self._write(_Draft(pair, words, links, random)))
        return written

    def _write(self, draft: _Draft) -> Pair:
        kind = draft.random.random()
        if kind >= HINTS_ONLY:
            draft.add_placeholders()
        if not HINTS_ONLY <= kind < HINTS_ONLY + PLACEHOLDERS_ONLY:
            self._add_hints(draft)
        return draft.finish()

    def _add_hints(self, draft: _Draft) -> None:
        random = draft.random
        while draft.has_links:
            link = draft.take_phrase()
            term = draft.pair.source[link.source_start : link.source_end]
            translation = draft.pair.target[link.target_start : link.target_end]
            if random.random() < OTHER_TARGET:
                translation = self._draw_words(random, side=1)
                draft.target_edits.append(Edit(link.target_start, link.target_end, translation))
                if random.random() < OTHER_SOURCE:
                    term = self._draw_words(random, side=0)
            elif random.random() < BASE_FORM:
                translation = self._base_forms.find(translation)
            place = (link.source_start, link.source_end)
            draft.source_edits.append(hint(draft.pair.source, *place, term, translation))
            if random.random() >= MORE_HINTS:
                break

    def _draw_words(self, random: Random, side: int) -> str:
        """Return a word of a side, or two."""
        words = self._pools[side].draw(random)
        if random.random() < LONGER_TERM:
            second = self._pools[side].draw(random)
            is_unspaced = UNSPACED_LETTER.match(words[-1]) and UNSPACED_LETTER.match(second)
            words += second if is_unspaced else f" {second}"
        return words


class _Pool:
    """Words to draw from, by the square roots of their counts: rare ones often, but not only."""

    def __init__(self, counts: Counter[str]) -> None:
        self._words = sorted(counts)
        self._weights = list(accumulate(math.sqrt(counts[word]) for word in self._words))

    def draw(self, random: Random) -> str:
        return random.choices(self._words, cum_weights=self._weights)[0]


class _BaseForms:
    """The most frequent forms of words, which stand for the forms that a dictionary has."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._by_stem: dict[str, str] = {}
        """For each beginning of words, the most frequent word with it and a short ending."""
        for form in sorted(counts, key=lambda form: (-counts[form], form)):
            for stem in _stems_of(form):
                self._by_stem.setdefault(stem, form)

    def find(self, form: str) -> str:
        """Return the most frequent form with nearly the same beginning, often the same form."""
        forms = [self._by_stem.get(stem, form) for stem in _stems_of(form)]
        return max(forms, key=lambda other: self._counts[other], default=form)


def _stems_of(form: str) -> list[str]:
    """Return the beginnings of a word that its other forms may have, too; case does not count."""
    shortest = max(MIN_STEM, len(form) - MAX_ENDING)
    return [form[:length].lower() for length in range(shortest, len(form) + 1)]


class _Draft:
    """A pair on the way to its form with hints: what is linked, and the edits of both sides."""

    def __init__(
        self,
        pair: Pair,
        words: tuple[Sequence[PlacedWord], Sequence[PlacedWord]],
        links: Sequence[tuple[int, int]],
        random: Random,
    ) -> None:
        self.pair = pair
        self.random = random
        self.source_edits: list[Edit] = []
        self.target_edits: list[Edit] = []
        self._source_words, self._target_words = words
        self._links = dict(links)
        """The place of the linked target word for each source word that is not taken yet."""

    @property
    def has_links(self) -> bool:
        """Whether any linked words are left."""
        return bool(self._links)

    def take_phrase(self) -> Link:
        """Take linked words, at random: one word, or several that follow each other on both sides.

        They are not taken again.
        """
        first = self.random.choice(list(self._links))
        last = first
        while last - first + 1 < MAX_TERM_WORDS:
            is_followed = self._links.get(last + 1) == self._links[last] + 1
            if not (is_followed and self.random.random() < LONGER_TERM):
                break
            last += 1
        return self._take(first, last)

    def _take(self, first: int, last: int) -> Link:
        """Take the source words from `first` to `last`, with the target words of their links."""
        link = Link(
            self._source_words[first].start,
            self._source_words[last].end,
            self._target_words[self._links[first]].start,
            self._target_words[self._links[last]].end,
        )
        for place in range(first, last + 1):
            del self._links[place]
        return link

    def add_placeholders(self) -> None:
        """Replace words by placeholders, or put placeholders around them."""
        random = self.random
        replaced = [self._take(place, place) for place in self._draw_equal_words()]
        surrounded: list[Link] = []
        while self.has_links:
            links = surrounded if random.random() < AROUND else replaced
            links.append(self.take_phrase())
            if random.random() >= MORE_PLACEHOLDERS:
                break
        parts = [*((link, False) for link in replaced), *((link, True) for link in surrounded)]
        # An empty part before the first word, and one after the last.
        source, target = self.pair.source, self.pair.target
        if random.random() < AT_EDGE:
            parts.append((Link(0, 0, 0, 0), False))
        if random.random() < AT_EDGE:
            parts.append((Link(len(source), len(source), len(target), len(target)), False))
        self._place(parts[: len(PLACEHOLDERS) // 2])

    def _draw_equal_words(self) -> list[int]:
        """Return the places of some linked source words that are equal on both sides."""
        source, target = self.pair.source, self.pair.target
        drawn: list[int] = []
        for place, target_place in self._links.items():
            word = self._source_words[place]
            partner = self._target_words[target_place]
            is_equal = source[word.start : word.end] == target[partner.start : partner.end]
            if is_equal and self.random.random() < EQUAL_WORD:
                drawn.append(place)
        return drawn

    def _place(self, parts: Sequence[tuple[Link, bool]]) -> None:
        """Add the placeholders of some parts; each has one in its place, or two around it."""
        count = sum(2 if is_surrounded else 1 for _, is_surrounded in parts)
        first = 0
        if self.random.random() >= FROM_FIRST:
            first = self.random.randint(0, len(PLACEHOLDERS) - count)
        symbols = iter(PLACEHOLDERS[first:])
        for link, is_surrounded in sorted(parts):
            before = next(symbols)
            after = next(symbols) if is_surrounded else ""
            for text, edits, start, end in (
                (self.pair.source, self.source_edits, link.source_start, link.source_end),
                (self.pair.target, self.target_edits, link.target_start, link.target_end),
            ):
                inside = text[start:end] if is_surrounded else ""
                edits.append(Edit(start, end, f"{before}{inside}{after}"))

    def finish(self) -> Pair:
        """Return the pair with all edits."""
        return self.pair._replace(
            source=apply_edits(self.pair.source, self.source_edits),
            target=apply_edits(self.pair.target, self.target_edits),
        )
