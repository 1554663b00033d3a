"""Second searches: sentences whose translation has a fault are searched again, in another way.

`FAULTS` lists the faults in the order in which they are mended. Samples stay as they are, because
they are drawn at random, not searched for. A loop through several sentences of a line stays, too,
because each sentence would be translated as before.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from mtkit.corpus.characters import is_sign
from mtkit.decoding.engines.engine import Hypothesis, NBestLists, Request, Sentence
from mtkit.decoding.estimation.flags import has_loop
from mtkit.decoding.text.line import Context, Subwords, Translation, WantedTerm
from mtkit.decoding.text.pipeline import Window
from mtkit.decoding.text.term_index import word_ranges
from mtkit.decoding.text.term_subwords import encode_term
from mtkit.decoding.text.terms import find_missing, without_hints

NGRAM_IN_LOOP = 2
"""The second search for a translation with a loop repeats no n-gram of this many subwords."""
MIN_REPEATED = 2
"""A loop repeats at least this many subwords; many translations repeat fewer."""
LOST_SPAN = "placeholder"
"""The flag of lines that lack a span; `Translator` splits them at all spans to search again."""
MAX_TERM_SUBWORDS = 64
"""Most subwords of terms that a sentence is searched for; time and memory grow with them."""
MAX_DROP = 1.0
"""How much less log P per subword a translation with its terms may have, in nats."""
MAX_GROWTH = 1.1
"""How many times as many characters it may have, besides those of the terms."""
WORDS_PER_TERM = 2
"""How many words of the first translation a term may replace: its noun and the article, say."""
_STOPS = re.compile(r"[.!?…؟。！？｡।॥۔።፧។៕։]+")


@dataclass(frozen=True)
class DraftTranslations:
    """The translations of a window, and the answers that they are made of.

    The place of a sentence is its index in the window.
    """

    window: Window
    answers: NBestLists
    translations: list[Translation]

    @cached_property
    def leaves(self) -> list[Subwords]:
        """What the model reads, by place."""
        return [leaf for _, leaf in self.window.leaves()]

    @cached_property
    def terms(self) -> list[Sequence[WantedTerm]]:
        """What the translation of each sentence should have, by place."""
        return list(chain.from_iterable(line.terms_of_parts for line in self.window.lines))

    def hypothesis(self, place: int) -> Hypothesis:
        """Return the hypothesis that is the translation of a sentence."""
        return self.window.choose_best(self.answers[place])

    def sources(self, places: Sequence[int]) -> list[str]:
        """Return the texts of sentences, as the model reads them without hints."""
        tokenizer = self.window.context.tokenizer
        parts = without_hints([self.leaves[place].ids for place in places], tokenizer)
        return tokenizer.decode_source(parts)

    def mend(self, fault: str, answers: Mapping[int, list[Hypothesis]]) -> None:
        """Replace the answers of some places, and translate their lines by them."""
        if not answers:
            return
        numbers = [number for number, _ in self.window.leaves()]
        changed = {numbers[place] for place in answers}
        for place, hypotheses in answers.items():
            self.answers[place] = hypotheses
        changed_answers = [
            hypotheses
            for number, hypotheses in zip(numbers, self.answers, strict=True)
            if number in changed
        ]
        mended = self.window.part(sorted(changed)).join(changed_answers)
        for number, translation in zip(sorted(changed), mended, strict=True):
            faults = (*self.translations[number].mended, fault)
            self.translations[number] = replace(translation, mended=faults)


@dataclass(frozen=True)
class OtherAnswer:
    """A hypothesis that may replace the translation of a sentence."""

    place: int
    hypothesis: Hypothesis
    text: str
    source: str
    """The text of the sentence."""


class Fault(ABC):
    """A fault of translations, and the second search that avoids it."""

    name: str
    """The flag of lines with the fault."""

    def find_known(self, draft: DraftTranslations) -> dict[int, list[Hypothesis]]:
        """Return by place hypotheses of the first search that may lack the fault."""
        return {}

    @abstractmethod
    def find(self, draft: DraftTranslations) -> dict[int, Sentence]:
        """Return the sentences whose translation has the fault, by place, for the second search."""

    @abstractmethod
    def change(self, request: Request) -> Request:
        """Return the request of the second search, given that of the first."""

    @abstractmethod
    def is_mended(self, draft: DraftTranslations, other: OtherAnswer) -> bool:
        """Return whether another answer lacks the fault, and is not worse than the translation."""

    def mend(self, draft: DraftTranslations, answers: Mapping[int, list[Hypothesis]]) -> None:
        """Replace each translation by the best answer that mends it; without one, it stays."""
        tokenizer = draft.window.context.tokenizer
        kept: dict[int, list[Hypothesis]] = {}
        for (place, ranked), source in zip(answers.items(), draft.sources([*answers]), strict=True):
            # As `Window.choose`, leave out incomplete characters if there are other hypotheses.
            whole = [each for each in ranked if tokenizer.is_whole(each.tokens)] or ranked
            texts = tokenizer.decode([hypothesis.tokens for hypothesis in whole])
            for hypothesis, text in zip(whole, texts, strict=True):
                if self.is_mended(draft, OtherAnswer(place, hypothesis, text, source)):
                    kept[place] = [hypothesis, *(each for each in ranked if each is not hypothesis)]
                    break
        draft.mend(self.name, kept)


class Loop(Fault):
    """A loop: the translation repeats something over and over.

    A translation without a loop is better, whatever its length and its score: those of loops are
    high (configs/RESULTS.md).
    """

    name = "loop"

    def find(self, draft: DraftTranslations) -> dict[int, Sentence]:
        context = draft.window.context
        is_usual = self.name in context.estimator.unreliable_flags
        # A user who forbids n-grams has chosen how long they are.
        if is_usual or context.request.settings.no_repeat_ngram:
            return {}
        suspects: dict[int, list[int]] = {}
        for place in range(len(draft.answers)):
            tokens = draft.hypothesis(place).tokens
            # Most translations repeat less, so that their text is not needed.
            if len(tokens) - len(set(tokens)) >= MIN_REPEATED:
                suspects[place] = tokens
        texts = context.tokenizer.decode([*suspects.values()])
        sources = draft.sources([*suspects])
        return {
            place: draft.window.sentences[place]
            for place, text, source in zip(suspects, texts, sources, strict=True)
            if has_loop(text, source)
        }

    def change(self, request: Request) -> Request:
        update = {"no_repeat_ngram": NGRAM_IN_LOOP}
        return replace(request, settings=request.settings.model_copy(update=update))

    def is_mended(self, draft: DraftTranslations, other: OtherAnswer) -> bool:
        return not has_loop(other.text, other.source)


class MissingTerms(Fault):
    """A missing term: the translation lacks what a glossary demands.

    Many translations with a term that the model would not choose are worse than the plain one: the
    term hangs behind the full stop, or the sentence is said twice. So a translation with terms is
    kept only if it is no longer, and not much less probable (limits: configs/RESULTS.md).
    """

    name = "term"

    def find_known(self, draft: DraftTranslations) -> dict[int, list[Hypothesis]]:
        return {place: draft.answers[place] for place in _find_missing_terms(draft)}

    def find(self, draft: DraftTranslations) -> dict[int, Sentence]:
        found: dict[int, Sentence] = {}
        for place, terms in _find_missing_terms(draft).items():
            if encoded := encode_terms(terms, draft.window.context):
                found[place] = replace(draft.window.sentences[place], terms=encoded)
        return found

    def change(self, request: Request) -> Request:
        return request

    def is_mended(self, draft: DraftTranslations, other: OtherAnswer) -> bool:
        first = draft.hypothesis(other.place)
        (first_text,) = draft.window.context.tokenizer.decode([first.tokens])
        terms = draft.terms[other.place]
        missing = set(find_missing(terms, first_text))
        still_missing = set(find_missing(terms, other.text))
        if not still_missing < missing:
            return False
        alpha = draft.window.context.request.settings.length_penalty
        drop = _mean_log_prob(first, alpha) - _mean_log_prob(other.hypothesis, alpha)
        return not is_worse(other, first_text, missing - still_missing, drop)


def is_worse(other: OtherAnswer, first_text: str, terms: Collection[str], drop: float) -> bool:
    """Return whether a translation with new terms has a loop, or is longer or far less probable.

    It is also worse if it lacks more words of the first translation than the terms may replace, as
    if a term stands in the place of a phrase. Each of the terms may take the place of one word,
    whatever its own length. `drop`: how much less log P per subword the other answer has than the
    first translation.
    """
    first_words = _find_words(first_text)
    other_words = _find_words(other.text)
    lost = Counter(first_words) - Counter(other_words)
    words = len(first_words) + sum(len(_find_words(term)) - 1 for term in terms)
    stops = _count_stops(first_text) + sum(map(_count_stops, terms))
    characters = MAX_GROWTH * len(first_text) + sum(map(len, terms))
    return (
        drop > MAX_DROP
        or len(other.text) > characters  # one word may be a loop: 3000000000000
        or len(other_words) > words
        or lost.total() > WORDS_PER_TERM * len(terms)
        or _count_stops(other.text) > stops
        or has_loop(other.text, other.source)
    )


def _find_missing_terms(draft: DraftTranslations) -> dict[int, list[str]]:
    """Return by place the terms of a sentence that the translation of its line lacks."""
    missing = [set(translation.missing_terms) for translation in draft.translations]
    if not any(missing):
        return {}
    wanted = [
        [term.text for term in terms if term.text in missing[number]]
        for (number, _), terms in zip(draft.window.leaves(), draft.terms, strict=True)
    ]
    return {place: terms for place, terms in enumerate(wanted) if terms}


def _find_words(text: str) -> list[str]:
    """Return the words of a text in small letters, without punctuation."""
    ranges = word_ranges(text)
    return [text[start:end].lower() for start, end in ranges if not is_sign(text[start])]


def _count_stops(text: str) -> int:
    return len(_STOPS.findall(text))


def _mean_log_prob(hypothesis: Hypothesis, length_penalty: float) -> float:
    """Return log P per subword."""
    if hypothesis.score is None:
        raise ValueError("a search for terms needs scores")
    length = max(len(hypothesis.tokens), 1)
    return float(hypothesis.score * length ** (length_penalty - 1))


def encode_terms(terms: Sequence[str], context: Context) -> list[list[int]]:
    """Return the subwords of the terms that a sentence is searched for, each term once.

    Terms that the vocabulary cannot spell are left out, and those for which there is no room.
    """
    room = min(MAX_TERM_SUBWORDS, context.request.settings.max_length)
    encoded: list[list[int]] = []
    for term in dict.fromkeys(terms):
        ids = encode_term(context.tokenizer, term)
        if 0 < len(ids) <= room:
            encoded.append(ids)
            room -= len(ids)
    return encoded


FAULTS: Sequence[Fault] = (
    Loop(),
    MissingTerms(),  # last, because the other second search may lose terms
)
"""The faults, in the order in which they are mended."""
