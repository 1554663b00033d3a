"""Write two synthetic target corpora from the n-best lists of teachers, for `make student`.

    python configs/write_synthetic.py FOLDER REFERENCES

FOLDER/n-best.jsonl holds the output of `mtkit translate --n-best K --jsonl`; line n of REFERENCES
belongs to its line n. Writes FOLDER/best.de, the best translations, and FOLDER/close.de, of each
n-best list the translation that is closest to the reference by chrF. A translation that reached
max_length becomes a blank line, which training drops.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sacrebleu.metrics.chrf import CHRF


def main(folder: Path, references: Path) -> None:
    chrf = CHRF()
    best = []
    close = []
    with (
        (folder / "n-best.jsonl").open(encoding="utf-8") as lists,
        references.open(encoding="utf-8") as lines,
    ):
        for row, reference in zip(lists, lines, strict=True):
            record = json.loads(row)
            best.append("" if record["truncated"] else record["text"])
            close.append(find_closest(record["n_best"], reference.strip(), chrf))
    write(folder / "best.de", best)
    write(folder / "close.de", close)


def find_closest(translations: list[dict[str, Any]], reference: str, chrf: CHRF) -> str:
    """Return the complete translation with the highest chrF; of equal ones, the more probable."""
    closest = ""
    highest = (-1.0, 0.0)
    for translation in translations:
        is_complete = translation["score"] is not None and not translation["truncated"]
        if is_complete:
            similarity = chrf.sentence_score(translation["text"], [reference]).score
            rank = (similarity, translation["score"])
            if rank > highest:
                closest, highest = translation["text"], rank
    return closest


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
