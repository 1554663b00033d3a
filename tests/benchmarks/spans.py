"""What do tags, placeholders and terms cost? `python spans.py MODEL SOURCE TARGET`.

Words that translate each other (by Dice over the test set) become spans on both sides: a pair of
tags around one word, a lone tag before it, a placeholder in place of a word or of a number, two
placeholders, and a term in place of a word. Prints BLEU and TER against references that have the
span in its place, beside those of the lines without spans, and in how many lines each span stands
as often as in the source.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mtkit.decoding.api import Translator, load
from mtkit.report import silently
from mtkit.scoring.line_files import load_lines
from mtkit.scoring.metrics import score

WORD = re.compile(r"(?<![\w'-])[^\W\d_]{3,}(?![\w'-])")
SPAN = re.compile(r"\{\w+\}|%\w|</?\w+/?>|§\w+")
MIN_SHARE = 0.5
"""Two words translate each other if this share of their lines (Dice) have both."""
MIN_LINES = 3
"""In fewer lines, two words may occur together by chance."""

Pair = tuple[str, str]
Change = Callable[[Sequence[Pair], str, str], Pair | None]


class Case(NamedTuple):
    """A line without and with spans."""

    plain: Pair
    changed: Pair
    glossary: Mapping[str, str] = {}


def find_dictionary(pairs: Sequence[Pair]) -> dict[str, str]:
    """Return for each word of the sources the word of the targets that is nearest to it (Dice)."""
    sources: Counter[str] = Counter()
    targets: Counter[str] = Counter()
    both: Counter[Pair] = Counter()
    for source, target in pairs:
        source_words, target_words = set(WORD.findall(source)), set(WORD.findall(target))
        sources.update(source_words)
        targets.update(target_words)
        both.update((first, second) for first in source_words for second in target_words)
    best: dict[str, tuple[float, str]] = {}
    for (first, second), count in both.items():
        share = 2 * count / (sources[first] + targets[second])
        if count >= MIN_LINES:
            best[first] = max(best.get(first, (0.0, "")), (share, second))
    return {word: other for word, (share, other) in best.items() if share >= MIN_SHARE}


def replace_words(text: str, words: Mapping[str, str]) -> str:
    pattern = r"(?<!\w)({})(?!\w)".format("|".join(map(re.escape, words)))
    return re.sub(pattern, lambda match: words[match[1]], text)


KINDS: dict[str, tuple[int, Sequence[str]]] = {
    "pair of tags": (1, ["<b>{0}</b>"]),
    "two pairs of tags": (2, ["<b>{0}</b>", "<i>{0}</i>"]),
    "lone tag": (1, ["<br/> {0}"]),
    "placeholder": (1, ["{{name}}"]),
    "two placeholders": (2, ["{{name}}", "%s"]),
    "placeholder in tags": (1, ["<b>{{name}}</b>"]),
}


def insert(
    pair: Pair, dictionary: Mapping[str, str], kind: str, chance: random.Random
) -> Pair | None:
    """Return the pair with spans on both sides; None if it has too few words for them."""
    source, target = pair
    words = [
        (first, dictionary[first])
        for first in dict.fromkeys(WORD.findall(source))
        if first in dictionary
        and source.count(first) == 1
        and target.count(dictionary[first]) == 1
        and dictionary[first] in WORD.findall(target)
    ]
    count, forms = KINDS[kind]
    if len(words) < count:
        return None
    chosen = chance.sample(words, count)
    source_words = {
        first: form.format(first) for (first, _), form in zip(chosen, forms, strict=True)
    }
    target_words = {
        second: form.format(second) for (_, second), form in zip(chosen, forms, strict=True)
    }
    return replace_words(source, source_words), replace_words(target, target_words)


def subject(pair: Pair) -> Pair | None:
    """Return a caption whose subject is a placeholder."""
    for source, target in (("A man ", "Ein Mann "), ("A woman ", "Eine Frau ")):
        if pair[0].startswith(source) and pair[1].startswith(target):
            return "{name} " + pair[0][len(source) :], "{name} " + pair[1][len(target) :]
    return None


def measure(
    name: str, cases: Sequence[tuple[Pair, Pair]], translator: Translator, examples: int
) -> None:
    plain = [before for before, _ in cases]
    changed = [after for _, after in cases]
    lines: list[str] = []
    texts: list[list[str]] = []
    for pairs in (plain, changed):
        found = [line.text for line in translator.results([source for source, _ in pairs])]
        texts.append(found)
        scores = score(found, [target for _, target in pairs], language="de", keys=["bleu", "ter"])
        lines.append(f"{scores['bleu'].value:.1f} / {scores['ter'].value:.1f}")
    kept = sum(
        Counter(SPAN.findall(source)) == Counter(SPAN.findall(text))
        for (source, _), text in zip(changed, texts[1], strict=True)
    )
    print(
        f"{name}: {len(cases)} lines, BLEU / TER plain {lines[0]}, with spans {lines[1]}; "
        f"{kept / len(cases):.2%} of lines keep their spans",
        flush=True,
    )
    for (source, target), before, after in zip(
        changed[:examples], texts[0], texts[1], strict=False
    ):
        print(f"  S {source}\n  P {before}\n  W {after}\n  R {target}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--examples", type=int, default=0)
    parser.add_argument("--kinds", nargs="*")
    arguments = parser.parse_args()
    pairs = [*zip(load_lines(arguments.source), load_lines(arguments.target), strict=True)]
    dictionary = find_dictionary(pairs)
    with silently():
        translator = load(arguments.model, "cpu")
    for kind in arguments.kinds or [*KINDS, "subject"]:
        chance = random.Random(1)
        cases: list[tuple[Pair, Pair]] = []
        for pair in pairs:
            changed = subject(pair) if kind == "subject" else insert(pair, dictionary, kind, chance)
            if changed is not None:
                cases.append((pair, changed))
        if cases:
            measure(kind, cases, translator, arguments.examples)


if __name__ == "__main__":
    main()
