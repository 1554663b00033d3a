"""Are terms obeyed? `python terms.py MODEL SOURCE REFERENCE TRAIN_SOURCE TRAIN_TARGET`.

Draws a term for each line: a word of the source, and the word of the reference that it occurs with
most often in the training text, and the other way round (Dice coefficient). Each line has a
glossary of its own. Prints how many terms the translations have without and with the glossary, by
hints alone and with the second search, with and without inflection; how many wrong terms are
obeyed, whose translations are random words; BLEU and chrF of all; and the throughput with a
glossary of all terms, in turn with the throughput without.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from mtkit.corpus.characters import is_letter
from mtkit.decoding.api import Translator, load
from mtkit.decoding.text.line import Line, WantedTerm
from mtkit.decoding.text.sentences import UNSPACED
from mtkit.decoding.text.term_index import word_ranges
from mtkit.decoding.text.terms import find_missing
from mtkit.scoring.line_files import load_lines
from mtkit.scoring.metrics import score

LINES = 1000
MIN_DICE = 0.3
MIN_LETTERS = 3
MAX_LINE = 60
"""Longer lines of the training text are left out, because all pairs of their words are counted."""
ROUNDS = 3


def words_of(line: str) -> list[str]:
    """Return the words of a line; of text without spaces, all pairs of neighbouring characters."""
    ranges = word_ranges(line)
    words = [line[start:end] for start, end in ranges]
    if UNSPACED.search(line):
        pairs = [first + second for first, second in pairwise(words)]
        return [pair for pair in pairs if pair in line and all(map(is_letter, pair))]
    return [word for word in words if len(word) >= MIN_LETTERS and all(map(is_letter, word))]


def associate(sources: Sequence[str], targets: Sequence[str]) -> dict[str, str]:
    """Return the target word of each source word, if each is the other's best by Dice."""
    source_counts: Counter[str] = Counter()
    target_counts: Counter[str] = Counter()
    together: Counter[tuple[str, str]] = Counter()
    for source, target in zip(sources, targets, strict=True):
        source_words, target_words = set(words_of(source)), set(words_of(target))
        if max(len(source_words), len(target_words)) > MAX_LINE:
            continue
        source_counts.update(source_words)
        target_counts.update(target_words)
        together.update((first, second) for first in source_words for second in target_words)
    best_targets: dict[str, tuple[float, str]] = {}
    best_sources: dict[str, tuple[float, str]] = {}
    for (first, second), count in sorted(together.items()):
        dice = 2 * count / (source_counts[first] + target_counts[second])
        if dice >= MIN_DICE and count >= 2:
            best_targets[first] = max(best_targets.get(first, (0.0, "")), (dice, second))
            best_sources[second] = max(best_sources.get(second, (0.0, "")), (dice, first))
    return {
        first: second
        for first, (_, second) in best_targets.items()
        if best_sources[second][1] == first
    }


def draw_terms(
    sources: Sequence[str], references: Sequence[str], pairs: dict[str, str]
) -> dict[int, tuple[str, str]]:
    """Return a term for up to LINES lines, at random, by the number of the line."""
    generator = random.Random(1)
    terms: dict[int, tuple[str, str]] = {}
    for row in generator.sample(range(len(sources)), len(sources)):
        in_reference = set(words_of(references[row]))
        choices = [
            (source, pairs[source])
            for source in sorted(set(words_of(sources[row])))
            if pairs.get(source) in in_reference
        ]
        if choices and len(terms) < LINES:
            terms[row] = generator.choice(choices)
    return terms


def translate_each(
    translator: Translator, lines: Sequence[str], glossaries: Sequence[dict[str, str]]
) -> list[str]:
    """Translate each line with a glossary of its own."""
    request = translator.request
    futures = [
        translator.submit([Line(line)], request.changed(glossary=glossary))
        for line, glossary in zip(lines, glossaries, strict=True)
    ]
    return [future.result()[0].text for future in futures]


def count_terms(terms: Sequence[tuple[str, str]], translations: Sequence[str]) -> str:
    """Return the share of terms that the translations have, and the share as they are."""
    pairs = list(zip(terms, translations, strict=True))
    lenient = sum(not find_missing([WantedTerm(target)], text) for (_, target), text in pairs)
    strict = sum(target in text for (_, target), text in pairs)
    return f"{lenient / len(pairs):.1%} (as they are: {strict / len(pairs):.1%})"


def measure_throughput(
    translator: Translator, lines: Sequence[str], glossary: dict[str, str]
) -> float:
    """Return the ratio of the throughputs with and without a glossary."""
    seconds = [0.0, 0.0]
    requests = [translator.request.changed(glossary=given) for given in ({}, glossary)]
    for _ in range(ROUNDS):
        for number, request in enumerate(requests):
            started = time.perf_counter()
            list(translator.stream(lines, request))
            seconds[number] += time.perf_counter() - started
    return seconds[0] / seconds[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("files", type=Path, nargs=4)
    parser.add_argument("--language", help="target language, for BLEU")
    parser.add_argument("--engine", default="auto")
    arguments = parser.parse_args()
    sources, references, train_sources, train_targets = map(load_lines, arguments.files)
    translator = load(arguments.model, "cpu", engine=arguments.engine)
    pairs = associate(train_sources, train_targets)
    drawn = draw_terms(sources, references, pairs)
    rows = sorted(drawn)
    lines = [sources[row] for row in rows]
    right = [drawn[row] for row in rows]
    generator = random.Random(2)
    vocabulary = sorted(pairs.values())
    wrong = [(source, generator.choice(vocabulary)) for source, _ in right]
    print(f"{len(rows)} lines with a term, such as {right[:5]}")
    by_hints = replace(translator, request=replace(translator.request, search_again=False))
    gold = [references[row] for row in rows]
    print("glossary, second search: terms (as they are); BLEU, chrF")
    for name, terms, glossary, chosen in (
        ("none, no", right, False, by_hints),
        ("right, no", right, True, by_hints),
        ("right, yes", right, True, translator),
        ("wrong, no", wrong, True, by_hints),
        ("wrong, yes", wrong, True, translator),
    ):
        glossaries = [dict([term]) if glossary else {} for term in terms]
        texts = translate_each(chosen, lines, glossaries)
        scores = score(texts, gold, language=arguments.language, keys=["bleu", "chrf"])
        bleu, chrf = scores["bleu"].value, scores["chrf"].value
        print(f"{name}: {count_terms(terms, texts)}; {bleu:.2f}, {chrf:.2f}")
    if translator.tokenizer.has_hints:
        for name, chosen in (("hints", by_hints), ("hints and second searches", translator)):
            ratio = measure_throughput(chosen, lines, dict(right))
            print(f"throughput with {name} / without: {ratio:.2f}")


if __name__ == "__main__":
    main()
