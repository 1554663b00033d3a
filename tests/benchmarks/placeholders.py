"""Do placeholders survive? `python placeholders.py MODEL SOURCE TARGET [--lines FILE]` counts.

Inserts what software texts have into a test set: placeholders in place of words that translate each
other, pairs of tags around such words, URLs at the ends, and messages with two of its lines.
`--lines` adds sources that have such spans already. Prints in how many lines each span stands
exactly as often as in the source, and how many messages are well-formed, with the step that
protects them and without; for the inserted ones also BLEU.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

from mtkit.decoding.api import load
from mtkit.decoding.text import pipeline
from mtkit.decoding.text.placeholders import protect_placeholders
from mtkit.decoding.text.untranslatable import find_untranslatable
from mtkit.report import silently
from mtkit.scoring.line_files import load_lines
from mtkit.scoring.metrics import score

WORD = re.compile(r"[^\W\d_]{3,}|\d+")
NAMES = ["{name}", "{0}", "%s", "%1$s", "%(count)d", "${user}", "{{ item }}", "__NAME__", "%d"]
QUOTED = ["`git add`", "https://example.org/help", "/usr/share/doc", "user@example.org"]
TAGS = ["b", "i", "strong", "a"]
MIN_SHARE = 0.5
"""Two words translate each other if this share of their lines (Dice) have both."""

Pair = tuple[str, str]


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
        best[first] = max(best.get(first, (0.0, "")), (share, second))
    return {word: other for word, (share, other) in best.items() if share >= MIN_SHARE}


def insert_spans(pair: Pair, dictionary: dict[str, str], generator: random.Random) -> Pair | None:
    """Return the pair with spans on both sides; None if it has no words for them."""
    source, target = pair
    words = [
        (first, dictionary[first])
        for first in dict.fromkeys(WORD.findall(source))
        if source.count(first) == 1 and target.count(dictionary.get(first, "\n")) == 1
    ]
    if not words:
        return None
    chosen = generator.sample(words, min(len(words), generator.choice([1, 1, 2, 2, 3])))
    names = generator.sample([*NAMES, *QUOTED], len(chosen))
    for (first, second), name in zip(chosen, names, strict=True):
        form = generator.choice(["{0}", "{0}", "{0}", "<{2}>{1}</{2}>", "<{2}>{0}</{2}>", "“{0}”"])
        tag = generator.choice(TAGS)
        source = replace_word(source, first, form.format(name, first, tag))
        target = replace_word(target, second, form.format(name, second, tag))
    if generator.random() < 0.1:
        source, target = (f"{text} ({generator.choice(QUOTED)})" for text in (source, target))
    return source, target


def replace_word(text: str, word: str, new: str) -> str:
    return re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", lambda _: new, text, count=1)


def messages_of(pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Yield messages with two of the pairs each."""
    for (one, eins), (two, zwei) in zip(pairs[::2], pairs[1::2], strict=False):
        form = "{{count, plural, one {{{0}}} other {{# {1}}}}}"
        yield form.format(one, two), form.format(eins, zwei)
        form = "{{name}}: {{g, select, a {{{0}}} other {{{{n, plural, =0 {{{1}}} other {{#}}}}}}}}"
        yield form.format(one, two), form.format(eins, zwei)


def spans_are_kept(source: str, translation: str) -> bool:
    """Return whether the translation has the spans of the source, each as often."""
    spans = find_untranslatable(source)
    translated = Counter(find_untranslatable(translation))
    return all(source.count(span) == translation.count(span) for span in spans) or (
        Counter(spans) == translated
    )


def measure(name: str, pairs: Sequence[Pair], model: str, beam: int, *, has_targets: bool) -> None:
    steps = pipeline.STEPS
    sources = [source for source, _ in pairs]
    for is_protected in (True, False):
        if not is_protected:
            pipeline.STEPS = [step for step in steps if step is not protect_placeholders]
        with silently():
            translator = load(model, "cpu", beam=beam)
            begin = perf_counter()
            texts = [line.text for line in translator.results(sources)]
            seconds = perf_counter() - begin
        pipeline.STEPS = steps
        kept = [spans_are_kept(*pair) for pair in zip(sources, texts, strict=True)]
        bleu = ""
        if has_targets:
            references = [target for _, target in pairs]
            scores = score(texts, references, keys=["bleu", "chrf"])
            bleu = f", BLEU {scores['bleu'].value:.2f}, chrF {scores['chrf'].value:.2f}"
        label = "protected" if is_protected else "as text"
        share = f"{sum(kept)} of {len(kept)} ({sum(kept) / len(kept):.2%})"
        print(f"{name}, {label}: {share} kept{bleu}, {seconds:.0f} s", flush=True)
        if is_protected:
            for source, text, is_kept in zip(sources, texts, kept, strict=True):
                if not is_kept:
                    print(f"  {source}\n  {text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--lines", type=Path, action="append", default=[])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--beam", type=int, default=4)
    arguments = parser.parse_args()
    generator = random.Random(1)
    pairs = [*zip(load_lines(arguments.source), load_lines(arguments.target), strict=True)]
    dictionary = find_dictionary(pairs)
    inserted = [insert_spans(pair, dictionary, generator) for pair in pairs]
    changed = [pair for pair in inserted if pair is not None][: arguments.count]
    measure("inserted", changed, arguments.model, arguments.beam, has_targets=True)
    messages = [*messages_of(pairs)][: arguments.count // 4]
    measure("messages", messages, arguments.model, arguments.beam, has_targets=True)
    for path in arguments.lines:
        lines = [line for line in load_lines(path) if find_untranslatable(line)]
        own = [(line, "") for line in lines[: arguments.count]]
        measure(path.name, own, arguments.model, arguments.beam, has_targets=False)


if __name__ == "__main__":
    main()
