"""Second searches: a sentence whose translation has a loop is searched again without repetitions.

A translation without a loop is better, whatever its length and its score: those of loops are high
(configs/RESULTS.md). Samples stay as they are, because they are drawn at random, not searched for.
A loop through several sentences of a line stays, too, because each sentence would be translated as
before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mtkit.decoding.estimation.flags import has_loop
from mtkit.tokenizer.codec import Tokenizer

if TYPE_CHECKING:  # these modules import this one
    from mtkit.decoding.engines.batches import SentenceBatch
    from mtkit.decoding.engines.engine import Hypothesis, NBestLists
    from mtkit.decoding.text.line import Context

LOOP = "loop"
"""The flag of lines with a loop."""
NGRAM_IN_LOOP = 2
"""The second search repeats no n-gram of this many subwords."""
MIN_REPEATED = 2
"""A loop repeats at least this many subwords; many translations repeat fewer."""


@dataclass(frozen=True)
class LoopJudge:
    """Finds the translations of a sentence that have a loop, and its source has none."""

    tokenizer: Tokenizer
    source: list[int]
    """The subword ids of the sentence."""

    def has_loop(self, hypothesis: Hypothesis) -> bool:
        """Return whether a hypothesis has a loop."""
        tokens = hypothesis.tokens
        # Most translations repeat less, so that their text is not needed.
        if len(tokens) - len(set(tokens)) < MIN_REPEATED:
            return False
        (text,) = self.tokenizer.decode([tokens])
        (source,) = self.tokenizer.decode_source([self.source])
        return has_loop(text, source)


def find_whole(hypotheses: Sequence[Hypothesis], tokenizer: Tokenizer) -> Sequence[Hypothesis]:
    """Return the hypotheses without incomplete characters; all of them if there are none."""
    whole = [each for each in hypotheses if tokenizer.is_whole(each.tokens)]
    return whole or hypotheses


def open_judge(source: list[int], context: Context) -> LoopJudge | None:
    """Return the judge of the translations of a sentence; None if it is never searched again."""
    request = context.request
    is_usual = LOOP in context.estimator.unreliable_flags
    # A user who forbids n-grams has chosen how long they are.
    has_own_limit = request.settings.no_repeat_ngram > 0
    if is_usual or has_own_limit or request.sampling is not None or not request.search_again:
        return None
    return LoopJudge(context.tokenizer, source)


def search_without_loops(
    search: Callable[[SentenceBatch], NBestLists], batch: SentenceBatch
) -> NBestLists:
    """Search a batch, and those of its sentences again whose translation has a loop.

    The best hypothesis of the second search that has no loop becomes the translation.
    """
    answers = search(batch)
    loops: list[tuple[int, LoopJudge]] = []
    for number, (sentence, hypotheses) in enumerate(zip(batch.sentences, answers, strict=True)):
        judge = sentence.judge
        if judge is None or not hypotheses:
            continue
        best = find_whole(hypotheses, judge.tokenizer)[0]
        if judge.has_loop(best):
            loops.append((number, judge))
    if not loops:
        return answers
    settings = batch.request.settings.model_copy(update={"no_repeat_ngram": NGRAM_IN_LOOP})
    second = replace(
        batch,
        request=replace(batch.request, settings=settings),
        sentences=[batch.sentences[number] for number, _ in loops],
        places=[batch.places[number] for number, _ in loops],
    )
    for (number, judge), hypotheses in zip(loops, search(second), strict=True):
        whole = find_whole(hypotheses, judge.tokenizer)
        better = next((each for each in whole if not judge.has_loop(each)), None)
        if better is not None:
            others = [hypothesis for hypothesis in hypotheses if hypothesis is not better]
            answers[number] = [replace(better, replaces_loop=True), *others]
    return answers
