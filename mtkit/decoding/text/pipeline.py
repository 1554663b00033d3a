"""The text steps, in order: all changes of text between a line and the model, in both directions.

Each step splits the spans that the step before it has made. The last step encodes them. On the way
back, each step joins the answers to the parts of its spans. A blank line, or one without letters,
does not reach the steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from mtkit import plugins
from mtkit.corpus.characters import count_letters
from mtkit.corpus.text import in_one_line, is_blank
from mtkit.decoding.engines.engine import Hypothesis, NBestLists, Request, Sentence
from mtkit.decoding.estimation.estimator import NO_ESTIMATE, WITHOUT_FACTS, Estimate, Estimator
from mtkit.decoding.estimation.translated import TranslatedLine
from mtkit.decoding.text.case import restore_case
from mtkit.decoding.text.fit import encode_to_fit
from mtkit.decoding.text.line import (
    Answer,
    Context,
    Copied,
    Join,
    Line,
    Span,
    Subwords,
    TextStep,
    Translation,
    WantedTerm,
    join_answers,
    normalised_prefix,
    normalised_text,
    without_surrogates,
)
from mtkit.decoding.text.mending import drop_symbols
from mtkit.decoding.text.placeholders import protect_placeholders
from mtkit.decoding.text.prefix import keep_prefixes
from mtkit.decoding.text.sentences import split_into_sentences
from mtkit.decoding.text.tags import find_tag
from mtkit.decoding.text.terms import find_missing, hint_terms, without_hints
from mtkit.decoding.text.untranslatable import (
    copy_outer_tags,
    find_untranslatable,
    is_untranslatable,
    lost_spans,
    without_spans,
)
from mtkit.decoding.text.verbatim import copy_verbatim
from mtkit.decoding.text.words import Words
from mtkit.tokenizer.codec import Tokenizer

STEPS: Sequence[TextStep] = (
    keep_prefixes,  # before all steps that change nothing after a prefix
    copy_outer_tags,  # before the case, which the letters of tags would hide
    protect_placeholders,  # before all steps that would change spans, or split a line within them
    restore_case,  # before all steps that split: it looks at the whole line
    copy_verbatim,
    split_into_sentences,
    hint_terms,  # after all steps that look at the text or split it, which hints would mislead
    encode_to_fit,  # last: it encodes, and adds the target tag to each part
)
"""The steps on the way to the model; on the way back, they join in the opposite order."""


def list_steps() -> Sequence[TextStep]:
    """Return all steps; those of extras see the text after `keep_prefixes`."""
    first, *others = STEPS
    names = plugins.find_plugins("text_steps")
    added = [plugins.load_plugin("text_steps", name) for name in names]
    return (first, *added, *others)


Leaf = Copied | Subwords


@dataclass(frozen=True)
class _Tree:
    """The parts that the steps have made of a span, and the way back."""

    branches: Sequence[_Tree | Leaf]
    join: Join
    prefix: Sequence[int]
    terms: Sequence[WantedTerm]


@dataclass(frozen=True)
class SplitLine:
    """A line after all steps."""

    text: str
    """The normalised text."""
    tree: _Tree | Leaf
    leaves: Sequence[Leaf]
    """The leaves of the tree, in order."""
    words: Words | None
    """The words of the line, if alignments are requested."""
    spans: Sequence[str]
    """What a translation should have as it is, such as URLs and placeholders."""
    terms: Sequence[WantedTerm]
    """What a translation should have, because a glossary says so, in order."""
    letters: int
    """Number of letters outside of the spans."""
    unknown_letters: str
    """Those of them that the vocabulary can spell in no way."""

    @property
    def source_parts(self) -> list[list[int]]:
        """The subword ids of the leaves that the model reads, without EOS."""
        return [leaf.ids for leaf in self.leaves if isinstance(leaf, Subwords)]

    @property
    def terms_of_parts(self) -> list[Sequence[WantedTerm]]:
        """For each of the same leaves, what its translation should have by the glossary."""
        return [
            terms
            for leaf, terms in zip(self.leaves, _terms_of_leaves(self.tree), strict=True)
            if isinstance(leaf, Subwords)
        ]

    def without_hints(self, parts: list[list[int]], tokenizer: Tokenizer) -> list[list[int]]:
        """Return parts of the source without hints."""
        return without_hints(parts, tokenizer) if self.terms else parts


@dataclass(frozen=True)
class _Candidate:
    """A hypothesis for a leaf, and its text."""

    hypothesis: Hypothesis
    answer: Answer


@dataclass(frozen=True)
class Window:
    """Lines that pass through the steps together, and the sentences that the engine translates."""

    sentences: Sequence[Sentence]
    lines: Sequence[SplitLine]
    context: Context

    def join(self, n_best_lists: NBestLists) -> list[Translation]:
        """Return the translation of each line; `n_best_lists` holds the answer to each sentence."""
        ranked = [self.choose(hypotheses) for hypotheses in n_best_lists]
        tokens = [hypothesis.tokens for hypotheses in ranked for hypothesis in hypotheses]
        # In one call, which takes far less time than a call for each hypothesis.
        texts = iter(self.context.tokenizer.decode(tokens))
        # Both are in the order of the leaves that the model has read.
        hypotheses_by_leaf = iter(ranked)
        translations: list[Translation] = []
        for line in self.lines:
            candidates: list[list[_Candidate]] = []
            for leaf in line.leaves:
                if isinstance(leaf, Copied):
                    candidates.append([_Candidate(_COPIED, Answer(leaf.text))])
                    continue
                leaf_candidates: list[_Candidate] = []
                for hypothesis in next(hypotheses_by_leaf):
                    text = next(texts)
                    links = self._links(hypothesis, text, leaf, line)
                    leaf_candidates.append(_Candidate(hypothesis, Answer(text, links)))
                candidates.append(leaf_candidates)
            translations.append(self._translation(line, candidates))
        return translations

    def leaves(self) -> Iterator[tuple[int, Subwords]]:
        """Yield the leaf of each sentence, and the number of its line, from 0."""
        for number, line in enumerate(self.lines):
            for leaf in line.leaves:
                if isinstance(leaf, Subwords):
                    yield number, leaf

    def part(self, numbers: Sequence[int]) -> Window:
        """Return a window with only the lines that have these numbers, in this order."""
        sentences_of_lines: dict[int, list[Sentence]] = {number: [] for number in numbers}
        for sentence, (number, _) in zip(self.sentences, self.leaves(), strict=True):
            if number in sentences_of_lines:
                sentences_of_lines[number].append(sentence)
        sentences = list(chain.from_iterable(sentences_of_lines.values()))
        return Window(sentences, [self.lines[number] for number in numbers], self.context)

    def choose_best(self, hypotheses: Sequence[Hypothesis]) -> Hypothesis:
        """Return the hypothesis that becomes the translation of a sentence."""
        return self.choose(hypotheses)[0]

    def choose(self, hypotheses: Sequence[Hypothesis]) -> Sequence[Hypothesis]:
        """Return the hypotheses that can become translations: at least one, the best one first."""
        request = self.context.request
        if not hypotheses:  # all scores overflowed
            return [Hypothesis([], score=None, finished=False)]
        if request.sampling is not None:
            return hypotheses
        # Leave out hypotheses with incomplete characters, if any others exist.
        is_whole = self.context.tokenizer.is_whole
        whole = (hypothesis for hypothesis in hypotheses if is_whole(hypothesis.tokens))
        if request.n_best == 1:
            return [next(whole, hypotheses[0])]
        return list(whole) or hypotheses

    def _links(
        self, hypothesis: Hypothesis, text: str, leaf: Subwords, line: SplitLine
    ) -> list[tuple[int, int]]:
        """Return the links of a hypothesis, as in `Answer`."""
        if line.words is None or hypothesis.attention is None or not text.strip():
            return []
        # Few translations need numpy; importing it takes as long as all else.
        from mtkit.decoding.alignment import align

        words = Words(text)
        target_offsets = self.context.tokenizer.target_offsets(hypothesis.tokens)
        first_text = 0 if leaf.tag is None else 1  # a target tag is no word
        links = align(
            hypothesis.attention[:, first_text:],
            target_words=[words.at(offset) for offset in target_offsets],
            source_words=[line.words.at(offset) for offset in leaf.origin],
        )
        return [(source, words.last_character(target)) for source, target in links]

    def _translation(
        self, line: SplitLine, candidates: Sequence[Sequence[_Candidate]]
    ) -> Translation:
        """Join the best candidates of all leaves, then the second best ones, and so on.

        If a leaf has fewer candidates than others, its last one is repeated.
        """
        by_text: dict[str, Translation] = {}
        ranks = max(map(len, candidates), default=1)
        for rank in range(ranks):
            answers: list[Answer] = []
            hypotheses: list[Hypothesis] = []
            for ranked in candidates:
                candidate = ranked[min(rank, len(ranked) - 1)]
                answers.append(candidate.answer)
                hypotheses.append(candidate.hypothesis)
            answer = _join(line.tree, iter(answers))
            if self.context.tokenizer.has_hints:
                answer = drop_symbols(answer)
            # Texts that differ only in their spaces would look the same.
            visible = " ".join(answer.text.split())
            if visible not in by_text:
                by_text[visible] = self._finish(answer, hypotheses, line)
        best, *others = by_text.values()
        others = others[: self.context.request.n_best - 1]
        return replace(best, alternatives=others)

    def _finish(
        self, answer: Answer, hypotheses: Sequence[Hypothesis], line: SplitLine
    ) -> Translation:
        """Return the translation of a line: its text, and the hypotheses of all leaves."""
        alignment: set[tuple[int, int]] = set()
        if answer.links:
            words = Words(answer.text)
            alignment = {(source, words.at(offset)) for source, offset in answer.links}
        tokens: list[str] = []
        for hypothesis in hypotheses:
            tokens += self.context.tokenizer.target_pieces(hypothesis.tokens)
        lost = lost_spans(line.spans, answer.text)
        missing_terms = find_missing(line.terms, answer.text)
        return Translation(
            answer.text,
            _total_score(hypotheses, self.context.request.settings.length_penalty),
            tokens,
            truncated=not all(hypothesis.finished for hypothesis in hypotheses),
            estimate=self._estimate(answer, hypotheses, line, lost, missing_terms),
            lost=lost,
            missing_terms=missing_terms,
            letters=line.letters,
            unknown_letters=line.unknown_letters,
            alignment=alignment,
        )

    def _estimate(
        self,
        answer: Answer,
        hypotheses: Sequence[Hypothesis],
        line: SplitLine,
        lost: Sequence[str],
        missing_terms: Sequence[str],
    ) -> Estimate:
        """Return the estimate of a translation; an empty one if the request asks for no scores."""
        request = self.context.request
        if not request.scores:
            return NO_ESTIMATE
        translated = TranslatedLine(
            line.text,
            answer.text,
            line.letters,
            is_finished=all(hypothesis.finished for hypothesis in hypotheses),
            lost=lost,
            missing_terms=missing_terms,
            source_parts=line.without_hints(line.source_parts, self.context.tokenizer),
            target_parts=[
                hypothesis.tokens
                for leaf, hypothesis in zip(line.leaves, hypotheses, strict=True)
                if isinstance(leaf, Subwords)
            ],
            log_probability=_log_probability(hypotheses, request.settings.length_penalty),
        )
        return self.context.estimator.estimate(translated)


_COPIED = Hypothesis([], score=0.0, finished=True)
"""Stands for text that is copied."""


def open_window(
    lines: Sequence[Line],
    tokenizer: Tokenizer,
    request: Request,
    estimator: Estimator = WITHOUT_FACTS,
    *,
    cuts_at_spans: bool = False,
) -> Window:
    """Lead the lines through all steps to the model.

    `cuts_at_spans`: whether to split lines at spans that a model without placeholders may lose.

    Raises:
        UserError: a line has no target tag, or a wrong one.
    """
    context = Context(tokenizer, request, estimator, cuts_at_spans)
    for line in lines:
        find_tag(line, context)  # also of lines that no step changes
    begun = [_begin(line, tokenizer) for line in lines]
    spans = [part for part in begun if isinstance(part, Span)]
    trees = iter(_run(spans, list_steps(), context))
    sentences: list[Sentence] = []
    split: list[SplitLine] = []
    for line, part in zip(lines, begun, strict=True):
        tree = part if isinstance(part, Copied) else next(trees)
        leaves: list[Leaf] = []
        for leaf, begin in _leaves(tree):
            if isinstance(leaf, Subwords):
                key = (line.id or 0, len(leaves))
                sentences.append(Sentence(leaf.source, list(begin), key))
            leaves.append(leaf)
        is_copied = isinstance(part, Copied)
        text = part.text
        own_text = without_spans(text)
        split.append(
            SplitLine(
                text,
                tree,
                leaves,
                words=Words(text) if request.alignments and not is_copied else None,
                spans=[] if is_copied else find_untranslatable(text),
                terms=list(_terms(tree)),
                letters=count_letters(own_text),
                unknown_letters=tokenizer.source_spelling.unknown_letters(own_text),
            )
        )
    return Window(sentences, split, context)


def _begin(line: Line, tokenizer: Tokenizer) -> Span | Copied:
    """Return what the steps get of a line; or its translation, if there is nothing to translate."""
    text = normalised_text(line)
    if is_blank(text):
        return Copied("")
    if is_untranslatable(text, tokenizer) and not normalised_prefix(line):
        return Copied(in_one_line(without_surrogates(line.text)))
    return Span(text, range(len(text)), line)


def _run(spans: Sequence[Span], steps: Sequence[TextStep], context: Context) -> list[_Tree | Leaf]:
    """Apply a step to all spans, and the other steps to what becomes of them."""
    step, *others = steps
    splits = step(spans, context)
    further: list[Span] = []
    for split in splits:
        further += [part for part in split.parts if isinstance(part, Span)]
    # The spans of all lines go through the next step together, so that it encodes them in one call.
    grown = iter(_run(further, others, context) if further else [])
    trees: list[_Tree | Leaf] = []
    for split in splits:
        branches = [next(grown) if isinstance(part, Span) else part for part in split.parts]
        is_unchanged = split.join is join_answers and not (split.prefix or split.terms)
        if len(branches) == 1 and is_unchanged:
            trees.append(branches[0])  # as for nearly all spans: nothing is to be joined
        else:
            trees.append(_Tree(branches, split.join, split.prefix, split.terms))
    return trees


def _leaves(tree: _Tree | Leaf, prefix: Sequence[int] = ()) -> Iterator[tuple[Leaf, Sequence[int]]]:
    """Yield the leaves of a tree, each with the prefix of its translation."""
    if not isinstance(tree, _Tree):
        yield tree, prefix
        return
    prefix = tree.prefix or prefix
    for branch in tree.branches:
        yield from _leaves(branch, prefix)
        prefix = ()  # it belongs to the first branch alone


def _terms_of_leaves(
    tree: _Tree | Leaf, terms: Sequence[WantedTerm] = ()
) -> Iterator[Sequence[WantedTerm]]:
    """Yield what the steps expect of the translation of each leaf."""
    if not isinstance(tree, _Tree):
        yield terms
        return
    terms = tree.terms or terms
    if len(tree.branches) > 1:
        terms = ()  # a sentence that was too long: nobody knows which part has which term
    for branch in tree.branches:
        yield from _terms_of_leaves(branch, terms)


def _terms(tree: _Tree | Leaf) -> Iterator[WantedTerm]:
    """Yield what the steps expect of a translation, in order."""
    if isinstance(tree, _Tree):
        yield from tree.terms
        for branch in tree.branches:
            yield from _terms(branch)


def _join(tree: _Tree | Leaf, answers: Iterator[Answer]) -> Answer:
    """Return the answer to a tree from the answers to its leaves, in order."""
    if not isinstance(tree, _Tree):
        return next(answers)
    return tree.join([_join(branch, answers) for branch in tree.branches])


def _total_score(hypotheses: Sequence[Hypothesis], length_penalty: float) -> float | None:
    """Return log P / |y|^alpha of all hypotheses together; None if one has no score."""
    if len(hypotheses) == 1:
        return hypotheses[0].score
    log_probability = _log_probability(hypotheses, length_penalty)
    if log_probability is None:
        return None
    total_length = sum(len(hypothesis.tokens) for hypothesis in hypotheses)
    return log_probability / float(max(total_length, 1) ** length_penalty)


def _log_probability(hypotheses: Sequence[Hypothesis], length_penalty: float) -> float | None:
    """Return log P of all hypotheses together; None if one has no score."""
    log_probabilities: list[float] = []
    for hypothesis in hypotheses:
        if hypothesis.score is None:
            return None
        length = max(len(hypothesis.tokens), 1)
        log_probabilities.append(hypothesis.score * length**length_penalty)
    return sum(log_probabilities)
