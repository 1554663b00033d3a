"""The text steps, in order: all changes of text between a line and the model, in both directions.

Each step divides or changes the segments that the step before it has made. Then all segments are
encoded. On the way back, the changes that the steps ask for are made to the translation of each
part, and the parts are joined. A blank line does not reach the steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from mtkit import plugins
from mtkit.corpus.characters import count_letters, has_letters
from mtkit.corpus.text import in_one_line, is_blank
from mtkit.decoding.engines.engine import Hypothesis, NBestLists, Request, Sentence, find_whole
from mtkit.decoding.estimation.estimator import WITHOUT_FACTS, Estimate, Estimator
from mtkit.decoding.estimation.facts import TranslatedLine
from mtkit.decoding.loops import LOOP, LoopJudge
from mtkit.decoding.text.case import restore_case
from mtkit.decoding.text.demands import MARK, Demand, find_unmet
from mtkit.decoding.text.fit import encode_to_fit
from mtkit.decoding.text.line import (
    Context,
    Copied,
    Line,
    Part,
    Segment,
    TextStep,
    Translation,
    normalised_prefix,
    normalised_text,
    without_surrogates,
)
from mtkit.decoding.text.placing import align_tokens, place_demands
from mtkit.decoding.text.prefix import find_symbols, keep_prefix
from mtkit.decoding.text.sentences import split_into_sentences
from mtkit.decoding.text.text import Text, concatenate, join_texts
from mtkit.decoding.text.verbatim import copy_verbatim
from mtkit.decoding.text.words import Words, spaced_words
from mtkit.tokenizer.codec import Tokenizer

STEPS: Sequence[TextStep] = (
    restore_case,  # before all steps that split: it looks at the whole line
    copy_verbatim,
    split_into_sentences,
)
"""The steps of the core, in order."""


def list_first_steps() -> Sequence[TextStep]:
    """Return the steps before those of the core: the prefix, and the steps of extras."""
    added = [plugins.load_plugin("text_steps", name) for name in plugins.find_plugins("text_steps")]
    return (keep_prefix, *added)


@dataclass(frozen=True)
class SplitLine:
    """A line after all steps."""

    text: str
    """The normalised text."""
    pieces: Sequence[Copied | Part]
    """What the translation is joined from."""
    demands: Sequence[Demand]
    """What the translation must have."""
    letters: int
    """Number of letters outside of what stays as it is."""
    unknown_letters: str
    """Those of them that the vocabulary can spell in no way."""

    @property
    def parts(self) -> list[Part]:
        """What the model reads of the line."""
        return [piece for piece in self.pieces if isinstance(piece, Part)]

    @cached_property
    def words(self) -> Words:
        """The words that alignments count."""
        return spaced_words(self.text)


@dataclass(frozen=True)
class _Candidate:
    """A hypothesis for a part, and the text that it becomes."""

    hypothesis: Hypothesis
    text: Text
    links: Mapping[int, set[int]]
    """For characters that the model has written, by origin: the words of the line."""


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
        # Both are in the order of the parts that the model has read.
        hypotheses_by_part = iter(ranked)
        translations: list[Translation] = []
        for line in self.lines:
            candidates: list[list[_Candidate]] = []
            written = len(line.text)  # origins from here on are characters of hypotheses
            for part in line.parts:
                candidates_of_part: list[_Candidate] = []
                for hypothesis in next(hypotheses_by_part):
                    text = Text.of_line(next(texts), written)
                    candidates_of_part.append(self._candidate(hypothesis, text, part, line))
                    written += len(text)
                candidates.append(candidates_of_part)
            translations.append(self._translation(line, candidates))
        return translations

    def choose(self, hypotheses: Sequence[Hypothesis]) -> Sequence[Hypothesis]:
        """Return the hypotheses that can become translations: at least one, the best one first."""
        request = self.context.request
        if not hypotheses:  # all scores overflowed
            return [Hypothesis([], score=None, finished=False)]
        if request.sampling is not None:
            return hypotheses
        whole = find_whole(hypotheses, self.context.tokenizer)
        return whole[:1] if request.n_best == 1 else whole

    def _candidate(
        self, hypothesis: Hypothesis, text: Text, part: Part, line: SplitLine
    ) -> _Candidate:
        """Place what a part demands in its translation, then make the changes of the steps."""
        attention = hypothesis.attention
        if not (part.demands or self.context.request.alignments):
            return _Candidate(hypothesis, self._change(text, part), {})
        tokenizer = self.context.tokenizer
        source_offsets = tokenizer.source_offsets(part.text.string)[: len(part.ids)]
        target_offsets = tokenizer.target_offsets(hypothesis.tokens)
        if attention is not None:
            attention = attention[:, len(part.symbols) :]  # a language symbol is no word
        links: dict[int, set[int]] = defaultdict(set)
        has_words = bool(source_offsets and text.string.strip())
        if self.context.request.alignments and attention is not None and has_words:
            # Few translations need numpy; importing it takes as long as all else.
            from mtkit.decoding.alignment import align

            words = spaced_words(text.string)
            aligned = align(
                attention,
                target_words=[words.at(offset) for offset in target_offsets],
                source_words=[line.words.at(part.text.origin[offset]) for offset in source_offsets],
            )
            for source, target in aligned:
                for origin in text.origin[slice(*words.ranges[target])]:
                    links[origin].add(source)
        demands = _find_unplaced(part.demands, text.string)
        if demands:
            tokens = align_tokens(
                part.text.string, text.string, attention, source_offsets, target_offsets
            )
            begin = len(tokenizer.decode([list(part.prefix)])[0]) if part.prefix else 0
            text = place_demands(
                text, line=line.text, read=part.text, demands=demands, tokens=tokens, begin=begin
            )
        return _Candidate(hypothesis, self._change(text, part), links)

    def _change(self, text: Text, part: Part) -> Text:
        """Make the changes of the steps to the translation of a part."""
        for change in part.changes:
            text = change(text)
        return text

    def _translation(
        self, line: SplitLine, candidates: Sequence[Sequence[_Candidate]]
    ) -> Translation:
        """Join the best candidates of all parts, then the second best ones, and so on.

        If a part has fewer candidates than others, its last one is repeated.
        """
        by_text: dict[str, Translation] = {}
        ranks = max(map(len, candidates), default=1)
        for rank in range(ranks):
            chosen = [ranked[min(rank, len(ranked) - 1)] for ranked in candidates]
            text = _join(line, [candidate.text for candidate in chosen])
            # Texts that differ only in their spaces would look the same.
            visible = " ".join(text.string.split())
            if visible not in by_text:
                by_text[visible] = self._finish(text, chosen, line)
        best, *others = by_text.values()
        others = others[: self.context.request.n_best - 1]
        return replace(best, alternatives=others)

    def _finish(self, text: Text, chosen: Sequence[_Candidate], line: SplitLine) -> Translation:
        """Return the translation of a line: its text, and the hypotheses of all parts."""
        hypotheses = [candidate.hypothesis for candidate in chosen]
        tokens: list[str] = []
        for hypothesis in hypotheses:
            tokens += self.context.tokenizer.target_pieces(hypothesis.tokens)
        unmet = find_unmet(line.demands, text) if line.demands else []
        lost = [demand.text for demand in unmet if not demand.is_term]
        missing_terms = [demand.text for demand in unmet if demand.is_term]
        alignment: set[tuple[int, int]] = set()
        if self.context.request.alignments and line.parts:
            alignment = _align_words(text, chosen, line)
        translation = Translation(
            text.string,
            _total_score(hypotheses, self.context.request.settings.length_penalty),
            tokens,
            truncated=not all(hypothesis.finished for hypothesis in hypotheses),
            lost=lost,
            terms=sum(demand.is_term for demand in line.demands),
            missing_terms=missing_terms,
            mended=(LOOP,) if any(hypothesis.replaces_loop for hypothesis in hypotheses) else (),
            letters=line.letters,
            unknown_letters=line.unknown_letters,
            alignment=alignment,
        )
        if not self.context.request.scores:
            return translation
        return replace(translation, estimate=self._estimate(translation, hypotheses, line))

    def _estimate(
        self, translation: Translation, hypotheses: Sequence[Hypothesis], line: SplitLine
    ) -> Estimate:
        """Return the flags and the confidence of a translation."""
        length_penalty = self.context.request.settings.length_penalty
        translated = TranslatedLine(
            line.text,
            translation.text,
            line.letters,
            is_finished=not translation.truncated,
            lost=translation.lost,
            missing_terms=translation.missing_terms,
            has_placeholder=any(demand.stand_in for demand in line.demands),
            source_parts=[part.ids for part in line.parts],
            target_parts=[hypothesis.tokens for hypothesis in hypotheses],
            log_probability=_log_probability(hypotheses, length_penalty),
        )
        return self.context.estimator.estimate(translated)


def open_window(
    lines: Sequence[Line],
    tokenizer: Tokenizer,
    request: Request,
    estimator: Estimator = WITHOUT_FACTS,
) -> Window:
    """Lead the lines through all steps to the model.

    Raises:
        UserError: a line has no target tag, or a wrong one.
    """
    context = Context(tokenizer, request, estimator)
    for line in lines:
        find_symbols(line, context)  # also of lines that no step changes
    first_steps = list_first_steps()
    begun = [begin_line(line, context, first_steps) for line in lines]
    for_core = [_apply(STEPS, pieces, context) for pieces in begun]
    segments = [piece for pieces in for_core for piece in pieces if isinstance(piece, Segment)]
    # The segments of all lines are encoded in one call.
    encoded = iter(encode_to_fit(segments, context) if segments else [])
    sentences: list[Sentence] = []
    split: list[SplitLine] = []
    for line, first_pieces, last_pieces in zip(lines, begun, for_core, strict=True):
        pieces: list[Copied | Part] = []
        for piece in last_pieces:
            pieces += [piece] if isinstance(piece, Copied) else next(encoded)
        own_text = own_text_of(first_pieces)
        split_line = SplitLine(
            normalised_text(line),
            pieces,
            demands=demands_of(last_pieces),
            letters=count_letters(own_text),
            unknown_letters=tokenizer.source_spelling.unknown_letters(own_text),
        )
        split.append(split_line)
        for number, part in enumerate(split_line.parts):
            key = (line.id or 0, number)
            sentence = Sentence(
                part.source,
                list(part.prefix),
                key,
                needs_attention=bool(part.demands),
                judge=_open_judge(part.ids, context),
            )
            sentences.append(sentence)
    return Window(sentences, split, context)


def _open_judge(source: list[int], context: Context) -> LoopJudge | None:
    """Return the judge of the translations of a sentence; None if it is never searched again."""
    request = context.request
    is_usual = LOOP in context.estimator.unreliable_flags
    # A user who forbids n-grams has chosen how long they are.
    has_own_limit = request.settings.no_repeat_ngram > 0
    if is_usual or has_own_limit or request.sampling is not None or not request.search_again:
        return None
    return LoopJudge(context.tokenizer, source)


Pieces = Sequence[Segment | Copied]


def begin_line(line: Line, context: Context, steps: Sequence[TextStep]) -> Pieces:
    """Lead a line through the first steps; copy it if there is nothing to translate in it."""
    string = normalised_text(line)
    if is_blank(string):
        return []
    pieces = _apply(steps, [Segment(Text.of_line(string), line, len(string))], context)
    own_text = own_text_of(pieces)
    is_foreign = context.tokenizer.source_spelling.lacks_script_of(own_text)
    if (not has_letters(own_text) or is_foreign) and not normalised_prefix(line):
        copied = in_one_line(without_surrogates(line.text))
        return [Copied(Text.from_one(copied, 0), is_exact=True)]
    return pieces


def _apply(steps: Sequence[TextStep], pieces: Pieces, context: Context) -> Pieces:
    """Apply steps to the segments among the pieces."""
    for step in steps:
        further: list[Segment | Copied] = []
        for piece in pieces:
            if isinstance(piece, Segment):
                further += step(piece, context)
            else:
                further.append(piece)
        pieces = further
    return pieces


def own_text_of(pieces: Pieces) -> str:
    """Return what is to be translated: without what stays as it is."""
    strings = [piece.string for piece in pieces if isinstance(piece, Segment)]
    return " ".join(strings).replace(MARK, " ")


def demands_of(pieces: Pieces) -> Sequence[Demand]:
    """Return the demands of all segments, each once."""
    # Segments that were one before have the same list.
    lists = {id(piece.demands): piece.demands for piece in pieces if isinstance(piece, Segment)}
    return list(chain.from_iterable(lists.values()))


def _join(line: SplitLine, texts: Sequence[Text]) -> Text:
    """Join the translations of all parts, and what is copied between them."""
    translated = iter(texts)
    joined: list[Text] = []
    run: list[Text] = []  # pieces between which spaces may be missing
    for piece in line.pieces:
        if isinstance(piece, Part):
            run.append(next(translated))
        elif not piece.is_exact:
            run.append(piece.text)
        else:
            joined += (join_texts(run), piece.text)
            run = []
    return concatenate([*joined, join_texts(run)])


def _find_unplaced(demands: Sequence[Demand], translation: str) -> list[Demand]:
    """Return the demands that have to be placed: all spans, and the terms that are too rare."""
    missing = {demand.text for demand in find_unmet(demands, Text(translation, ()))}
    return [demand for demand in demands if not demand.is_term or demand.text in missing]


def _align_words(text: Text, chosen: Sequence[_Candidate], line: SplitLine) -> set[tuple[int, int]]:
    """Return the links between the words of a line and of its translation, by their origins."""
    links: dict[int, set[int]] = {}
    for candidate in chosen:
        links |= candidate.links
    alignment: set[tuple[int, int]] = set()
    for number, (start, end) in enumerate(spaced_words(text.string).ranges):
        for origin in text.origin[start:end]:
            if origin < len(line.text):
                alignment.add((line.words.at(origin), number))
            else:
                alignment.update((source, number) for source in links.get(origin, ()))
    return alignment


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
    return sum(log_probabilities, 0.0)
