"""Which inserted faults does `mtkit check` find, and which right pairs does it flag?

    python tests/benchmarks/corpus_faults.py train.en train.de --faults 500

Faults of 10 kinds are inserted into random lines, as many of each kind. The pairs that the rules
flag are compared with those that they flagged before. A fault is found by the rule that is made for
it, or by any. False alarms are pairs without an inserted fault that were not flagged before. Pairs
that were flagged before are counted apart; `--show` prints them.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Callable, Sequence

from mtkit.cli.preparation import named_corpus
from mtkit.corpus.read import Pair, read_pairs
from mtkit.corpus.rules import RULES
from mtkit.corpus.statistics import compute_statistics
from mtkit.report import data_lines, table

Texts = tuple[str, str]
Fault = Callable[[Texts, random.Random, Sequence[Pair]], Texts]

OTHER_LANGUAGES = [
    "El comité decidió ayer que no habría más reuniones hasta el próximo año.",
    "Le train est arrivé en retard à cause de la neige qui tombait depuis la veille.",
    "Il bambino non voleva mangiare la minestra che sua nonna aveva preparato.",
    "De kinderen speelden de hele middag in de tuin achter het oude huis.",
    "Pociąg odjechał z peronu trzeciego kilka minut przed czasem.",
]
OTHER_SCRIPTS = [
    "Дети весь день играли в саду за старым домом.",
    "Τα παιδιά έπαιζαν όλη μέρα στον κήπο.",
    "الأطفال يلعبون طوال اليوم في الحديقة.",
    "बच्चे दिन भर बगीचे में खेलते रहे।",
]


def other_target(texts: Texts, draw: random.Random, pairs: Sequence[Pair]) -> Texts:
    return texts[0], draw.choice(pairs).target


def other_pair(texts: Texts, draw: random.Random, pairs: Sequence[Pair]) -> Texts:
    pair = draw.choice(pairs)
    return pair.source, pair.target


def mojibake(texts: Texts, draw: random.Random, _: Sequence[Pair]) -> Texts:
    accents = texts[1] if not texts[1].isascii() else f"{texts[1]} – déjà vu"
    return texts[0], accents.encode().decode("windows-1252", errors="replace")


def repeated(texts: Texts, draw: random.Random, _: Sequence[Pair]) -> Texts:
    end = texts[1].rstrip(".。!?！？ ")
    separator = " " if " " in end else ""
    return texts[0], separator.join([end] * 4)


def wrapped(texts: Texts, draw: random.Random, _: Sequence[Pair]) -> Texts:
    form = draw.choice(["<p>{}</p>", "{} &nbsp;", "{}<br/>", "{} &quot;x&quot;"])
    return texts[0], form.replace("{}", texts[1])


def cut(texts: Texts, draw: random.Random, _: Sequence[Pair]) -> Texts:
    return texts[0], texts[1][: max(1, len(texts[1]) // 3)]


FAULTS: dict[str, tuple[str, Fault]] = {
    "target is blank": ("blank", lambda texts, *_: (texts[0], " ")),
    "pair repeated": ("repeated", other_pair),
    "target of another line": ("uneven", other_target),
    "target cut to a third": ("uneven", cut),
    "tags, entities, paths": ("markup", wrapped),
    "wrong encoding": ("mojibake", mojibake),
    "other script": ("script", lambda texts, draw, _: (texts[0], draw.choice(OTHER_SCRIPTS))),
    "other language": ("language", lambda texts, draw, _: (texts[0], draw.choice(OTHER_LANGUAGES))),
    "not translated": ("copied", lambda texts, *_: (texts[0], texts[0])),
    "target in a loop": ("repetition", repeated),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source")
    parser.add_argument("target", nargs="?")
    parser.add_argument("--columns", nargs=2)
    parser.add_argument("--faults", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    columns = tuple(options.columns) if options.columns else None
    pairs = list(read_pairs(named_corpus(options.source, options.target, columns)))
    before = flagged_rows(pairs)
    if options.show:
        for rule, rows in before.items():
            lines = (f"{rule}\t{pairs[row].source}\t{pairs[row].target}" for row in sorted(rows))
            data_lines(lines)
    made, kinds = insert_faults(pairs, options.faults, random.Random(options.seed))
    data_lines(table(rows_of(before, flagged_rows(made), kinds)))


def insert_faults(
    pairs: list[Pair], count: int, draw: random.Random
) -> tuple[list[Pair], dict[str, list[int]]]:
    """Return the corpus with so many faults, and the rows of each kind."""
    rows = draw.sample(range(len(pairs)), count)
    made, kinds, taken = list(pairs), defaultdict(list), set(rows)
    clean = [pair for row, pair in enumerate(pairs) if row not in taken]
    for number, row in enumerate(rows):
        kind = list(FAULTS)[number % len(FAULTS)]
        source, target = FAULTS[kind][1]((pairs[row].source, pairs[row].target), draw, clean)
        made[row] = pairs[row]._replace(source=source, target=target)
        kinds[kind].append(row)
    return made, kinds


def flagged_rows(pairs: list[Pair]) -> dict[str, set[int]]:
    """Return the rows that each rule flags, as `mtkit check` does."""
    names = ("blank", "repeated", *(rule.name for rule in RULES))
    flagged: dict[str, set[int]] = {name: set() for name in names}
    met: dict[tuple[str, str], int] = {}
    for row, pair in enumerate(pairs):
        if pair.blank:
            flagged["blank"].add(row)
        elif met.setdefault((pair.source, pair.target), row) != row:
            flagged["repeated"] |= {row, met[pair.source, pair.target]}
    statistics = compute_statistics(pairs)
    for row, pair in enumerate(pairs):
        for rule in RULES:
            if not pair.blank and rule.check(pair, statistics):
                flagged[rule.name].add(row)
    return flagged


def rows_of(
    before: dict[str, set[int]], after: dict[str, set[int]], kinds: dict[str, list[int]]
) -> list[list[str]]:
    planted = {row for rows in kinds.values() for row in rows}
    table = [["fault", "rule", "planted", "found", "by any", "false alarms", "before"]]
    anything = set().union(*after.values())
    for kind, rows in kinds.items():
        rule = FAULTS[kind][0]
        new = after[rule] - before[rule] - planted
        if rule == "repeated":  # of which the first is where it always was
            new = set()
        counts = [len(rows), len(after[rule] & set(rows)), len(anything & set(rows))]
        table.append([kind, rule, *map(str, [*counts, len(new), len(before[rule])])])
    return table


if __name__ == "__main__":
    main()
