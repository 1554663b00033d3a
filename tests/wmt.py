"""Text of the shape of WMT's corpora, English to German, for tests of their recipe.

Files, numbers of pairs, lengths, the growth of the vocabulary and the kinds of faults are those of
the originals; the words are made up. The same share gives the same text.
"""

from __future__ import annotations

import math
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PAIRS = {
    "training/europarl-v7.de-en": 1_920_209,
    "commoncrawl.de-en": 2_399_123,
    "training/news-commentary-v12.de-en": 270_769,
}
"""Numbers of pairs of the three corpora of MLPerf's Transformer task, by the names of the files."""
ARCHIVES = {
    "training-parallel-europarl-v7.tgz": "training/europarl-v7.de-en",
    "training-parallel-commoncrawl.tgz": "commoncrawl.de-en",
    "training-parallel-nc-v12.tgz": "training/news-commentary-v12.de-en",
}
TEST_SENTENCES = {"wmt13": 30, "wmt14/full": 33}
"""Numbers of sentences for newstest2013 and newstest2014, by the names that sacreBLEU has for them;
the originals have 3,000 and 3,003."""
MEAN_WORDS, DEVIATION = 24.0, 0.6
"""Of the log-normal distribution of the words of an English sentence."""
VOCABULARY = 30_000
"""Number of words of each language. By Zipf's law, word r is drawn with a probability of 1/r."""
COMPOUNDS = 0.5
"""Share of the German sentences in which a hyphen joins two words."""
FAULT_EVERY = 100
"""One pair in so many has a fault."""
SYLLABLES = {
    "en": [consonant + vowel for consonant in "bcdfghjklmnprstvwy" for vowel in "aeiou"],
    "de": [consonant + vowel for vowel in "äeiöuü" for consonant in "bdfghklmnprstwz"],
}


class Pair(NamedTuple):
    en: str
    de: str


def write_archives(folder: Path, share: float) -> None:
    """Write `share` of the training pairs, packed with another language as by statmt.org."""
    generator = random.Random(1)
    for archive, corpus in ARCHIVES.items():
        pairs = list(draw_corpus(generator, round(PAIRS[corpus] * share)))
        with tarfile.open(folder / archive, "w:gz") as packed:
            for name in (corpus, corpus.replace("de-en", "fr-en")):
                for language in Pair._fields:
                    path = folder / "text"
                    write_lines(path, [getattr(pair, language) for pair in pairs])
                    packed.add(path, f"{name}.{language}")


def write_test_sets(folder: Path) -> None:
    """Write the test sets to a cache of sacreBLEU, which then needs no network."""
    generator = random.Random(2)
    for name, count in TEST_SENTENCES.items():
        pairs = [draw_pair(generator) for _ in range(count)]
        (folder / name).mkdir(parents=True)
        columns = {"src": [pair.en for pair in pairs], "ref": [pair.de for pair in pairs]}
        columns |= dict.fromkeys(("docid", "genre", "origlang"), ["-"] * len(pairs))
        for column, lines in columns.items():
            write_lines(folder / name / f"{name.replace('/', '_')}.en-de.{column}", lines)


def write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def draw_corpus(generator: random.Random, count: int) -> Iterator[Pair]:
    """Yield pairs, some of them with the faults of the originals."""
    for number in range(count):
        pair = draw_pair(generator)
        if number % FAULT_EVERY == 0:
            pair = spoil(pair, number // FAULT_EVERY)
        yield pair


def draw_pair(generator: random.Random) -> Pair:
    """Return a sentence and its translation, word by word, with the verb at the end."""
    mean_of_logarithm = math.log(MEAN_WORDS) - DEVIATION**2 / 2
    length = max(1, round(generator.lognormvariate(mean_of_logarithm, DEVIATION)))
    ranks = [int(VOCABULARY ** generator.random()) for _ in range(length)]
    english = " ".join(spell(rank, "en") for rank in ranks)
    subject, *others = ranks
    german = " ".join(spell(rank, "de") for rank in (subject, *others[1:], *others[:1]))
    words = german.split()
    if len(words) > 2 and generator.random() < COMPOUNDS:
        place = generator.randrange(len(words) - 1)
        words[place : place + 2] = ["-".join(words[place : place + 2])]
    return Pair(f"{english.capitalize()}.", f"{' '.join(words).capitalize()}.")


def spell(rank: int, language: str) -> str:
    """Return a word; frequent ones are short."""
    syllables = SYLLABLES[language]
    word = ""
    while rank:
        rank, syllable = divmod(rank, len(syllables))
        word += syllables[syllable]
    return word


def spoil(pair: Pair, kind: int) -> Pair:
    """Return the pair with one of the faults, which take turns."""
    faulty = [
        Pair(pair.en, ""),  # a side is blank
        Pair(pair.en, pair.en),  # English on both sides
        Pair(" ".join([pair.en] * 20), pair.de),  # far too long
        Pair(pair.en.replace(" ", "\u2028", 1), pair.de),  # ends a line for some programs
        Pair(pair.en.replace(" ", "\r", 1), pair.de),  # and for others
        Pair(pair.en, f"<p>{pair.de}&nbsp;</p>"),
    ]
    return faulty[kind % len(faulty)]
