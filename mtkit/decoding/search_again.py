"""Second searches: a sentence whose translation has a loop is searched again without repetitions.

A translation without a loop is better, whatever its length and its score: those of loops are high
(configs/RESULTS.md). Samples stay as they are, because they are drawn at random, not searched for.
A loop through several sentences of a line stays, too, because each sentence would be translated as
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mtkit.decoding.engines.engine import Hypothesis, NBestLists, Request
from mtkit.decoding.estimation.flags import has_loop
from mtkit.decoding.text.pipeline import Window

LOOP = "loop"
"""The flag of lines with a loop."""
NGRAM_IN_LOOP = 2
"""The second search repeats no n-gram of this many subwords."""
MIN_REPEATED = 2
"""A loop repeats at least this many subwords; many translations repeat fewer."""


def find_loops(window: Window, answers: NBestLists) -> list[int]:
    """Return the sentences of a window whose translation has a loop, by their numbers."""
    context = window.context
    request = context.request
    is_usual = LOOP in context.estimator.unreliable_flags
    # A user who forbids n-grams has chosen how long they are.
    has_own_limit = request.sampling is not None or request.settings.no_repeat_ngram > 0
    if is_usual or has_own_limit or not request.search_again:
        return []
    suspects: list[int] = []
    for number, hypotheses in enumerate(answers):
        tokens = window.choose(hypotheses)[0].tokens
        # Most translations repeat less, so that their text is not needed.
        if len(tokens) - len(set(tokens)) >= MIN_REPEATED:
            suspects.append(number)
    best = [window.choose(answers[number])[0].tokens for number in suspects]
    texts = context.tokenizer.decode(best)
    return [
        number
        for number, text in zip(suspects, texts, strict=True)
        if has_loop(text, window.source_text(number))
    ]


def without_repetitions(request: Request) -> Request:
    """Return the request of the second search, given that of the first."""
    update = {"no_repeat_ngram": NGRAM_IN_LOOP}
    return replace(request, settings=request.settings.model_copy(update=update))


def replace_loops(
    window: Window, answers: NBestLists, loops: Sequence[int], second_answers: NBestLists
) -> set[int]:
    """Replace each translation with a loop by the best one of the second search that has none.

    Change `answers`, and return the numbers of the lines that have changed.
    """
    lines = [line for line, _ in window.parts]
    changed: set[int] = set()
    for number, hypotheses in zip(loops, second_answers, strict=True):
        better = _find_without_loop(window, number, hypotheses)
        if better is not None:
            others = [hypothesis for hypothesis in hypotheses if hypothesis is not better]
            answers[number] = [better, *others]
            changed.add(lines[number])
    return changed


def _find_without_loop(
    window: Window, number: int, hypotheses: Sequence[Hypothesis]
) -> Hypothesis | None:
    """Return the best translation of a sentence that has no loop; None: all have one."""
    tokenizer = window.context.tokenizer
    # As `Window.choose`, leave out incomplete characters if there are other hypotheses.
    whole = [each for each in hypotheses if tokenizer.is_whole(each.tokens)] or hypotheses
    texts = tokenizer.decode([hypothesis.tokens for hypothesis in whole])
    for hypothesis, text in zip(whole, texts, strict=True):
        if not has_loop(text, window.source_text(number)):
            return hypothesis
    return None
