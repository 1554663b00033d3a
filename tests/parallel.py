"""Parallel text for the tests of this folder: lines of the demo corpus, and faulty ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path

from mtkit.config.corpora import Corpus, TextCorpus
from mtkit.corpus.check import CorpusReport, check_rows
from mtkit.corpus.statistics import Languages
from mtkit.corpus.store import temporary_rows
from mtkit.demo import __file__ as demo

Lines = list[tuple[str, str]]
"""Sources and targets."""


def demo_lines(count: int) -> Lines:
    """Return the first lines of the demo corpus, English and Korean."""
    folder = Path(str(demo)).parent
    sides = ((folder / f"train.{code}").read_text(encoding="utf-8") for code in ("en", "ko"))
    return list(zip(*(side.split("\n")[:count] for side in sides), strict=True))


LINES = demo_lines(2500)

FAULTS: Lines = [
    ("", "빈 줄"),
    ("The same words, not translated.", "The same words, not translated."),
    (
        "Sora bought apples today.",
        "소라는 오늘 사과를 소라는 오늘 사과를 소라는 오늘 사과를 샀습니다.",
    ),
    ("Bread &amp; butter are on the table.", "빵과 버터가 식탁 위에 있습니다."),
    ("Is Minsu at the library today?", "민수는 오늘 도서관에 있습니다 MÃ¤nner MÃ¼ller."),
    ("Minsu goes to school.", "Минсу идёт в школу сегодня утром."),
    ("Sora reads a book and Minsu writes a letter at the library every day.", "소라."),
    LINES[7],
    LINES[7],
]


def write_corpus(folder: Path, lines: Lines, name: str = "train") -> TextCorpus:
    """Write the lines to two files and return them as a corpus."""
    for place, code in enumerate(("en", "ko")):
        text = "".join(f"{line[place]}\n" for line in lines)
        (folder / f"{name}.{code}").write_text(text, encoding="utf-8", newline="")
    return TextCorpus(source=str(folder / f"{name}.en"), target=str(folder / f"{name}.ko"))


def check_corpus(
    corpora: Corpus | list[Corpus],
    languages: Languages = (None, None),
    held_out: AbstractSet[int] = frozenset(),
    *,
    is_training: bool = True,
) -> CorpusReport:
    """Read and check corpora; arguments are as in `check_rows`."""
    with temporary_rows(corpora, allow_unequal=True) as rows:
        return check_rows(rows, languages, held_out, is_training=is_training)


def random_words(seed: int) -> Callable[[], str]:
    """Return a function that draws words of four to nine letters."""
    draw = random.Random(seed)
    return lambda: "".join(draw.choices("abcdefghijklmnoprstuvz", k=draw.randrange(4, 10)))
