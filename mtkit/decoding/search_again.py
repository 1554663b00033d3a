"""Second searches: sentences whose translation has a fault are searched again, in another way.

`FAULTS` lists the faults in the order in which they are mended. Samples stay as they are, because
they are drawn at random, not searched for. A loop through several sentences of a line stays, too,
because each sentence would be translated as before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from mtkit.decoding.engines.engine import Hypothesis, NBestLists, Request, Sentence
from mtkit.decoding.estimation.flags import has_loop
from mtkit.decoding.text.line import Context, Translation
from mtkit.decoding.text.pipeline import Window
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


@dataclass(frozen=True)
class DraftTranslations:
    """The translations of a window, and the answers that they are made of.

    The place of a sentence is its index in the window.
    """

    window: Window
    sentences: list[Sentence]
    """What was searched for, by place: at first, the sentences of the window."""
    answers: NBestLists
    translations: list[Translation]

    def hypotheses(self) -> dict[int, Hypothesis]:
        """Return by place the hypotheses of which the translations consist."""
        return dict(enumerate(map(self.window.choose_best, self.answers)))

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


class Fault(ABC):
    """A fault of translations, and the second search that avoids it."""

    name: str
    """The flag of lines with the fault."""

    def choose_others(self, draft: DraftTranslations) -> dict[int, list[Hypothesis]]:
        """Return by place the same hypotheses in another order, if one of them lacks the fault."""
        return {}

    @abstractmethod
    def find(self, draft: DraftTranslations) -> dict[int, Sentence]:
        """Return the sentences whose translation has the fault, by place, for the second search."""

    @abstractmethod
    def change(self, request: Request) -> Request:
        """Return the request of the second search, given that of the first."""

    @abstractmethod
    def find_mended(
        self, draft: DraftTranslations, hypotheses: Mapping[int, Hypothesis]
    ) -> Container[int]:
        """Return the places at which the hypotheses of the second search are to be kept."""

    def mend(
        self, draft: DraftTranslations, sentences: Mapping[int, Sentence], answers: NBestLists
    ) -> None:
        """Replace translations by those of the second search, for these sentences, if it is better.

        From now on, the draft has these sentences: a search for another fault keeps their terms.
        """
        # There is no hypothesis if no translation obeys the second request.
        found = {place: ranked for place, ranked in zip(sentences, answers, strict=True) if ranked}
        best = {place: draft.window.choose_best(ranked) for place, ranked in found.items()}
        mended = self.find_mended(draft, best)
        kept = {place: ranked for place, ranked in found.items() if place in mended}
        for place in kept:
            draft.sentences[place] = sentences[place]
        draft.mend(self.name, kept)


class Loop(Fault):
    """A loop: the translation repeats something over and over.

    The translation of the second search is kept if it has no loop. Scores cannot decide, because
    those of loops are high (configs/RESULTS.md).
    """

    name = "loop"

    def find(self, draft: DraftTranslations) -> dict[int, Sentence]:
        context = draft.window.context
        is_usual = self.name in context.estimator.unreliable_flags
        # A user who forbids n-grams has chosen how long they are.
        if is_usual or context.request.settings.no_repeat_ngram:
            return {}
        looped = _find_loops(draft, draft.hypotheses())
        return {place: draft.sentences[place] for place in sorted(looped)}

    def change(self, request: Request) -> Request:
        update = {"no_repeat_ngram": NGRAM_IN_LOOP}
        return replace(request, settings=request.settings.model_copy(update=update))

    def find_mended(
        self, draft: DraftTranslations, hypotheses: Mapping[int, Hypothesis]
    ) -> Container[int]:
        return hypotheses.keys() - _find_loops(draft, hypotheses)


def _find_loops(draft: DraftTranslations, hypotheses: Mapping[int, Hypothesis]) -> set[int]:
    """Return the places at which a hypothesis has a loop that its source does not have."""
    suspects = [
        place for place, hypothesis in hypotheses.items() if _may_have_loop(hypothesis.tokens)
    ]
    tokenizer = draft.window.context.tokenizer
    leaves = [leaf for _, leaf in draft.window.leaves()]
    texts = tokenizer.decode([hypotheses[place].tokens for place in suspects])
    read = without_hints([leaves[place].ids for place in suspects], tokenizer)
    sources = tokenizer.decode_source(read)
    return {
        place
        for place, text, source in zip(suspects, texts, sources, strict=True)
        if has_loop(text, source)
    }


def _may_have_loop(tokens: Sequence[int]) -> bool:
    """Return False for most translations without a loop, so that their text is not needed."""
    return len(tokens) - len(set(tokens)) >= MIN_REPEATED


class MissingTerms(Fault):
    """A missing term: the translation lacks what a glossary demands.

    Every translation of the second search has all terms of its sentence, and is kept.
    """

    name = "term"

    def choose_others(self, draft: DraftTranslations) -> dict[int, list[Hypothesis]]:
        """Put the best hypothesis that has all terms first: that costs no second search."""
        chosen: dict[int, list[Hypothesis]] = {}
        for place, terms in _find_missing_terms(draft).items():
            ranked = draft.answers[place]
            texts = draft.window.context.tokenizer.decode([each.tokens for each in ranked])
            obeying = [
                hypothesis
                for hypothesis, text in zip(ranked, texts, strict=True)
                if not find_missing(terms, text)
            ]
            if obeying:
                others = [each for each in ranked if each is not obeying[0]]
                chosen[place] = [obeying[0], *others]
        return chosen

    def find(self, draft: DraftTranslations) -> dict[int, Sentence]:
        found: dict[int, Sentence] = {}
        for place, terms in _find_missing_terms(draft).items():
            if encoded := encode_terms(terms, draft.window.context):
                found[place] = replace(draft.sentences[place], terms=encoded)
        return found

    def change(self, request: Request) -> Request:
        return request

    def find_mended(
        self, draft: DraftTranslations, hypotheses: Mapping[int, Hypothesis]
    ) -> Container[int]:
        return hypotheses.keys()


def _find_missing_terms(draft: DraftTranslations) -> dict[int, list[str]]:
    """Return by place the terms of a sentence that the translation of its line lacks."""
    missing = [set(translation.missing_terms) for translation in draft.translations]
    if not any(missing):
        return {}
    wanted = [
        [term for term in terms if term in missing[number]]
        for number, line in enumerate(draft.window.lines)
        for terms in line.terms_of_parts
    ]
    return {place: terms for place, terms in enumerate(wanted) if terms}


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
    MissingTerms(),
    Loop(),  # last, because a search for a missing term often ends in a loop
)
"""The faults, in the order in which they are mended."""
