"""Choose the stand-in of a model: the word that it reads in place of a placeholder.

A good stand-in is a frequent word with one usual translation, which the model translates alike in
every sentence, so that its alignment is clear. Which one serves best is tried on validation lines
in which a word has become a placeholder, and its translation in the reference, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from mtkit.corpus.characters import has_letters, is_capital
from mtkit.corpus.read import Pair
from mtkit.corpus.spread import spread
from mtkit.decoding.api import Translator
from mtkit.decoding.estimation.estimator import Estimator
from mtkit.decoding.estimation.facts import TrainingFacts
from mtkit.decoding.text.line import Line
from mtkit.decoding.text.words import UNSPACED, tokens_of
from mtkit.report import silently
from mtkit.scoring.metrics import score

HIDDEN_WORD = "{name}"
MAX_TRIAL_LINES = 400
"""Most lines of a trial; with 100, the second best word was often chosen (configs/RESULTS.md)."""
MIN_TRIAL_LINES = 20
"""In fewer lines a trial says too little."""
MAX_CANDIDATES = 4
"""Most words that are tried: few, so that each has enough lines within the same time."""
MIN_DICE = 0.6
"""Share of the sentences with one or the other word that have both (Dice coefficient)."""
MIN_SENTENCES = 5
MIN_WORD_LETTERS = 3
MAX_WORD_SHARE = 0.1
"""Words in more of the sentences are articles, prepositions and the like."""


class _WordPair(NamedTuple):
    """A source word and the target word that translates it."""

    source: str
    target: str
    sentences: int
    """Number of sentences that have both."""


def choose_stand_in(
    pairs: Sequence[Pair],
    translator: Translator,
    facts: TrainingFacts,
    lines: Sequence[Line],
    references: Sequence[str],
    max_translations: int,
) -> tuple[str, str]:
    """Return the stand-in with the best chrF on validation lines, and the word that translates it.

    Both are "" if none beats the default `X`, or if there is no candidate or too few lines.

    `pairs`: a sample of the training data. `max_translations`: how many lines may be translated in
    all trials together.
    """
    dictionary = find_word_pairs(pairs)
    default = _WordPair("", "", 0)
    candidates = [default, *_find_candidates(dictionary.values(), len(pairs))]
    count = min(MAX_TRIAL_LINES, max_translations // len(candidates))
    tested = _hide_words(lines, references, dictionary)
    if len(candidates) == 1 or min(count, len(tested)) < MIN_TRIAL_LINES:
        return "", ""
    tested = spread(tested, count)
    sources = [source for source, _ in tested]
    hidden_references = [reference for _, reference in tested]
    request = translator.request.changed(beam=1, scores=False)

    def measure(pair: _WordPair) -> float:
        """Return the chrF of the lines if the model reads the source word of a pair."""
        estimator = Estimator(replace(facts, stand_in=pair.source))
        trial = Translator(translator.engine, translator.tokenizer, request, (), estimator)
        texts = [translation.text for translation in trial.submit(sources).result()]
        return score(texts, hidden_references, keys=["chrf"])["chrf"].value

    with silently():
        best = max(candidates, key=measure)
    return best.source, best.target


def find_word_pairs(pairs: Sequence[Pair]) -> dict[str, _WordPair]:
    """Return words that nearly always translate each other, by the source word."""
    sources: Counter[str] = Counter()
    targets: Counter[str] = Counter()
    both: Counter[tuple[str, str]] = Counter()
    for pair in pairs:
        source_words = _words(pair.source)
        target_words = _words(pair.target)
        sources.update(source_words)
        targets.update(target_words)
        both.update(product(source_words, target_words))
    found: dict[str, _WordPair] = {}
    for (source, target), count in both.most_common():
        dice = 2 * count / (sources[source] + targets[target])
        if dice >= MIN_DICE and count >= MIN_SENTENCES:
            found.setdefault(source, _WordPair(source, target, count))
    return found


def _words(text: str) -> set[str]:
    """Return the words of a sentence; a single letter only in scripts without spaces."""
    words: set[str] = set()
    for start, end in tokens_of(text):
        word = text[start:end]
        is_long = len(word) >= MIN_WORD_LETTERS or UNSPACED.match(word)
        if is_long and has_letters(word):
            words.add(word)
    return words


def _find_candidates(pairs: Iterable[_WordPair], sentences: int) -> list[_WordPair]:
    """Return the most frequent words that may be nouns or the like."""
    rarer = [
        pair
        for pair in pairs
        if pair.sentences <= MAX_WORD_SHARE * sentences and not is_capital(pair.source[0])
    ]
    rarer.sort(key=lambda pair: pair.sentences, reverse=True)
    return rarer[:MAX_CANDIDATES]


def _hide_words(
    lines: Sequence[Line], references: Sequence[str], dictionary: Mapping[str, _WordPair]
) -> list[tuple[Line, str]]:
    """Return lines and references in which one word each has become a placeholder.

    Which of its words that is changes from line to line.
    """
    hidden: list[tuple[Line, str]] = []
    for number, (line, reference) in enumerate(zip(lines, references, strict=True)):
        targets = _words(reference)
        words = [
            dictionary[word]
            for word in sorted(_words(line.text))
            if word in dictionary and dictionary[word].target in targets
        ]
        if words:
            word = words[number % len(words)]
            source = _hide(line.text, word.source)
            hidden.append((replace(line, text=source), _hide(reference, word.target)))
    return hidden


def _hide(text: str, word: str) -> str:
    """Return the text with a placeholder in place of the first such word."""
    for start, end in tokens_of(text):
        if text[start:end] == word:
            return text[:start] + HIDDEN_WORD + text[end:]
    return text
