"""Lists of unlike texts: of hypotheses that spell the same text, the best.

A search compares sequences of subwords, and knows neither that two of them can spell one text, nor
that bytes can spell half a character. Where that leaves a list short of what was asked for, its
sentence is searched again, for more and more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from mtkit.decoding.engine import Engine, Found, Hypothesis, Key, Pending, Request, Sentence
from mtkit.tokenizer.codec import Tokenizer

Item = TypeVar("Item")
FACTORS = (1, 2, 4)
"""Times the beam, or the number of samples, that are looked at, until there are enough."""


def submit(
    engine: Engine, tokenizer: Tokenizer, sentences: Mapping[Key, Sentence], request: Request
) -> Pending:
    """As the engine's, but for each sentence up to `request.count` hypotheses of unlike text.

    They are in order: the best first, which is that of the plain search, and samples as drawn. One
    of half a character stands only where there is no other. Raises what the engine raises.
    """
    first, *further = dict.fromkeys(_requests(request))
    under_way = [engine.submit(sentences, first)]

    def wait() -> Found:
        found = dict(zip(sentences, map(_there, under_way[0].wait()), strict=True))
        kept = {key: _distinct(tokenizer, of_one, request.count) for key, of_one in found.items()}
        for wider in further:
            short = {key: sentences[key] for key, of_one in kept.items() if _is_short(of_one)}
            if not short:
                break
            under_way[0] = engine.submit(short, wider)
            for key, more in zip(short, under_way[0].wait(), strict=True):
                found[key] = _there(more if request.sampling else _merged(found[key], more))
                kept[key] = _distinct(tokenizer, found[key], request.count)
        return list(kept.values())

    def _is_short(of_one: Sequence[Hypothesis]) -> bool:
        return len(of_one) < request.count or not tokenizer.is_whole(of_one[0].tokens)

    return Pending(wait, lambda: under_way[0].cancel())


def _requests(request: Request) -> Iterator[Request]:
    """Each finds more than the one before."""
    if request.sampling is not None:
        yield from (replace(request, count=factor * request.count) for factor in FACTORS)
        return
    if request.attention:  # which takes time for each hypothesis
        yield request
    for factor in FACTORS if request.count > 1 else FACTORS[:1]:
        beam = factor * request.settings.beam
        room = max(1, request.settings.batch_tokens // factor)  # so that memory does not grow
        settings = request.settings.model_copy(update={"beam": beam, "batch_tokens": room})
        yield replace(request, settings=settings, count=beam)


def _there(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Those that are not merely room for one; the first, where weights overflow and all are."""
    there = [hypothesis for hypothesis in hypotheses if hypothesis.score > -math.inf]
    return there or list(hypotheses[:1])


def _merged(found: Sequence[Hypothesis], more: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Both, best first; the best of a list is what is translated without a list, and remains so."""
    best = max(hypothesis.score for hypothesis in found)
    under = [hypothesis for hypothesis in more if hypothesis.score <= best]
    return sorted([*found, *under], key=lambda hypothesis: -hypothesis.score)


def _distinct(
    tokenizer: Tokenizer, hypotheses: Sequence[Hypothesis], count: int
) -> list[Hypothesis]:
    """The first `count` of unlike text in whole characters, or else the first."""
    whole = [hypothesis for hypothesis in hypotheses if tokenizer.is_whole(hypothesis.tokens)]
    found: Iterator[Hypothesis] = iter(whole)
    if count > 1:
        found = unlike(whole, lambda hypothesis: tokenizer.decode([hypothesis.tokens])[0])
    return list(islice(found, count)) or list(hypotheses[:1])


def unlike(items: Iterable[Item], text_of: Callable[[Item], str]) -> Iterator[Item]:
    """The first of each text, spaces aside."""
    seen = set()
    for item in items:
        text = " ".join(text_of(item).split())
        if text not in seen:
            seen.add(text)
            yield item
