"""Writes the demo corpus again, byte for byte: `python data/generate.py [FOLDER]`."""

import sys
from pathlib import Path

from grammar.draw import Chance, ImpossibleError, Meaning
from grammar.say import Pair, pair

SEED = 20240610
SIZES = {"valid": 500, "test": 500, "train": 20_000}
ALIGNED = ("valid", "test")
WORDS = range(3, 17)


def distinct_pairs(count: int, chance: Chance) -> list[Pair]:
    """As many pairs, with no sentence of either language twice: each has one translation."""
    pairs: dict[str, Pair] = {}
    targets: set[str] = set()
    while len(pairs) < count:
        try:
            drawn = pair(Meaning("text", chance))
        except ImpossibleError:
            continue
        new = drawn.english not in pairs and drawn.korean not in targets
        if new and len(drawn.english.split()) in WORDS:
            pairs[drawn.english] = drawn
            targets.add(drawn.korean)
    return list(pairs.values())


def texts() -> dict[str, str]:
    """The content of every file of the corpus, by its name."""
    pairs, files = distinct_pairs(sum(SIZES.values()), Chance(SEED)), {}
    for name, size in SIZES.items():
        part, pairs = pairs[:size], pairs[size:]
        files[f"{name}.en"] = [each.english for each in part]
        files[f"{name}.ko"] = [each.korean for each in part]
        if name in ALIGNED:
            files[f"{name}.align"] = [each.alignment for each in part]
    return {name: "".join(line + "\n" for line in lines) for name, lines in files.items()}


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "mtkit/demo"
    for name, text in texts().items():
        (folder / name).write_bytes(text.encode("utf-8"))
