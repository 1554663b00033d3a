"""The corpus: distinct pairs from the grammar, divided so that no sentence of one part recurs."""

from pathlib import Path

from .chance import Chance
from .grammar import Pair, draw

SEED = 20240610
SIZES = {"valid": 500, "test": 500, "train": 20_000}
ALIGNED = ("valid", "test")


def distinct_pairs(count: int, seed: int) -> list[Pair]:
    """As many pairs, with no sentence of either language twice.

    English determines Korean: to meet one English sentence with two translations is an error.
    """
    chance = Chance(seed)
    pairs: dict[str, Pair] = {}
    targets: set[str] = set()
    translations: dict[str, str] = {}
    while len(pairs) < count:
        pair = draw(chance)
        if translations.setdefault(pair.english, pair.korean) != pair.korean:
            raise ValueError(f"two translations of {pair.english!r}")
        if pair.english not in pairs and pair.korean not in targets:
            pairs[pair.english] = pair
            targets.add(pair.korean)
    return list(pairs.values())


def split(pairs: list[Pair]) -> dict[str, list[Pair]]:
    """The parts of the corpus, in order of drawing."""
    parts, start = {}, 0
    for name, size in SIZES.items():
        parts[name] = pairs[start : start + size]
        start += size
    return parts


def pharaoh(pair: Pair) -> str:
    """The alignment in Pharaoh format: `i-j` for English word i and Korean word j."""
    return " ".join(f"{i}-{j}" for i, j in sorted(pair.alignment))


def texts() -> dict[str, str]:
    """The content of every file of the corpus, by file name."""
    files = {}
    for name, part in split(distinct_pairs(sum(SIZES.values()), SEED)).items():
        files[f"{name}.en"] = _lines([pair.english for pair in part])
        files[f"{name}.ko"] = _lines([pair.korean for pair in part])
        if name in ALIGNED:
            files[f"{name}.align"] = _lines([pharaoh(pair) for pair in part])
    return files


def _lines(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


def write(folder: Path) -> None:
    """Write the corpus into a folder."""
    for name, text in texts().items():
        (folder / name).write_bytes(text.encode("utf-8"))
