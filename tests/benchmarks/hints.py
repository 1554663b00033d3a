"""Does a model obey hints and copy placeholders, and what do they cost?

    python tests/benchmarks/hints.py RUN train.en train.de test.en test.de

In each test source, one word gets a hint: the word that is linked to it in the reference, or, in
another pass, a wrong one, drawn from other references. Frequent words (more than one in 50 lines)
get none. In a third pass, words are replaced by placeholders, or have two around them. Links are
learned from the training text. A term is obeyed if the translation has it as whole words, in the
same case. Placeholders are right if the translation has each exactly once, and no others.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit.batching.hints import Edit, apply_edits, hint
from mtkit.batching.word_alignment import PlacedWord, WordAligner, find_words
from mtkit.corpus.text import UNSPACED_LETTER
from mtkit.decoding.api import load
from mtkit.decoding.engines.engine import Sentence
from mtkit.report import data_lines, table
from mtkit.scoring.line_files import load_lines
from mtkit.scoring.metrics import score
from mtkit.symbols import EOS
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.hints import PLACEHOLDERS

MAX_SHARE = 0.02
"""Words in a larger share of the training sources are no terms."""
AROUND = 0.3
"""How often placeholders stand around a word."""


@dataclass(frozen=True)
class Case:
    """A test line with what is asked of its translation."""

    source: str
    reference: str
    right_term: str
    wrong_term: str
    with_right_term: str
    with_wrong_term: str
    with_placeholders: str


def words_of(text: str, words: Sequence[PlacedWord]) -> list[str]:
    return [text[word.start : word.end] for word in words]


def build_cases(
    tokenizer: Tokenizer, training: Sequence[tuple[str, str]], test: Sequence[tuple[str, str]]
) -> list[Case]:
    def find(source: str, target: str) -> tuple[list[PlacedWord], list[PlacedWord]]:
        return (
            find_words(source, tokenizer.source_boundaries),
            find_words(target, tokenizer.target_boundaries),
        )

    sides = [find(*pair) for pair in training]
    aligner = WordAligner(sides)
    counts = Counter(word.key for source, _ in sides for word in source)
    found = [find(*pair) for pair in test]
    wrong_terms: list[str] = []
    for (_, reference), (_, target) in zip(test, found, strict=True):
        wrong_terms += words_of(reference, target)
    draw = random.Random(1)
    cases: list[Case] = []
    for (source, reference), (source_words, target_words) in zip(test, found, strict=True):
        links = [
            (source_words[first], target_words[second])
            for first, second in aligner.align(source_words, target_words)
            if counts[source_words[first].key] <= MAX_SHARE * len(training)
        ]
        if not links:
            continue
        word, partner = draw.choice(links)
        term = source[word.start : word.end]
        right = reference[partner.start : partner.end]
        wrong = draw.choice(wrong_terms)
        replaced = draw.sample(links, min(len(links), draw.choice((1, 1, 2))))
        cases.append(
            Case(
                source,
                reference,
                right,
                wrong,
                apply_edits(source, [hint(source, word.start, word.end, term, right)]),
                apply_edits(source, [hint(source, word.start, word.end, term, wrong)]),
                with_placeholders(source, [word for word, _ in replaced], draw),
            )
        )
    return cases


def with_placeholders(source: str, words: Sequence[PlacedWord], draw: random.Random) -> str:
    symbols = iter(PLACEHOLDERS)
    edits: list[Edit] = []
    for word in sorted(words, key=lambda word: word.start):
        text = next(symbols)
        if draw.random() < AROUND:
            text = f"{text}{source[word.start : word.end]}{next(symbols)}"
        edits.append(Edit(word.start, word.end, text))
    return apply_edits(source, edits)


def has_term(text: str, term: str) -> bool:
    if UNSPACED_LETTER.search(term):
        return term in text
    return re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text) is not None


def placeholders_in(text: str) -> list[str]:
    return sorted(symbol for symbol in text if symbol in PLACEHOLDERS)


class Measurement:
    def __init__(self, run: str, language: str | None) -> None:
        self._translator = load(run)
        self.tokenizer = self._translator.tokenizer
        self._language = language

    def search(self, sources: list[str], beam: int) -> tuple[list[str], float]:
        """Return translations and seconds; the sources do not go through the steps of text."""
        request = self._translator.request.changed(beam=beam)
        ids = self.tokenizer.encode_source(sources)
        start = time.perf_counter()
        found = self._translator.engine.search([Sentence([*line, EOS]) for line in ids], request)
        best = [hypotheses[0].tokens for hypotheses in found.result()]
        return self.tokenizer.decode(best), time.perf_counter() - start

    def bleu(self, translations: list[str], references: list[str]) -> str:
        scores = score(translations, references, language=self._language, keys=["bleu"])
        return f"{scores['bleu'].value:.2f}"

    def measure(self, cases: Sequence[Case], beam: int) -> list[str]:
        references = [case.reference for case in cases]
        plain, plain_seconds = self.search([case.source for case in cases], beam)
        right, right_seconds = self.search([case.with_right_term for case in cases], beam)
        wrong, _ = self.search([case.with_wrong_term for case in cases], beam)
        kept, _ = self.search([case.with_placeholders for case in cases], beam)
        rows = list(zip(cases, plain, right, wrong, kept, strict=True))
        shares = (
            sum(has_term(text, case.right_term) for case, text, *_ in rows),
            sum(has_term(text, case.right_term) for case, _, text, *_ in rows),
            sum(has_term(text, case.wrong_term) for case, _, _, text, _ in rows),
            sum(
                placeholders_in(text) == placeholders_in(case.with_placeholders)
                for case, *_, text in rows
            ),
        )
        return [
            str(beam),
            *(f"{100 * share / len(cases):.1f} %" for share in shares),
            self.bleu(plain, references),
            self.bleu(right, references),
            f"{plain_seconds / right_seconds:.2f}",
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", help="model with hints")
    for name in ("train_source", "train_target", "test_source", "test_target"):
        parser.add_argument(name)
    parser.add_argument("--language", help="target language, for BLEU")
    parser.add_argument("--lines", type=int, default=1000, help="most test lines")
    options = parser.parse_args()
    measurement = Measurement(options.run, options.language)
    training, test = (
        list(zip(load_lines(Path(source)), load_lines(Path(target)), strict=True))
        for source, target in (
            (options.train_source, options.train_target),
            (options.test_source, options.test_target),
        )
    )
    cases = build_cases(measurement.tokenizer, training, test)[: options.lines]
    header = ["beam", "right terms without hints", "with hints", "wrong terms", "placeholders"]
    header += ["BLEU", "BLEU with hints", "speed with hints"]
    rows = [measurement.measure(cases, beam) for beam in (1, 5)]
    data_lines(table([header, *rows]))


if __name__ == "__main__":
    main()
