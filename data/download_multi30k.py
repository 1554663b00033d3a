"""Download Multi30k (Elliott et al. 2016) from the Hugging Face hub to data/multi30k."""

from __future__ import annotations

from pathlib import Path

import datasets

NAMES = {"train": "train", "validation": "val", "test": "test2016"}
"""The names of the files, by split."""


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split, name in NAMES.items():
        rows = datasets.load_dataset("bentrevett/multi30k", split=split)
        for language in ("en", "de"):
            # A line break within a sentence would shift the lines after it.
            lines = [" ".join(sentence.split()) for sentence in rows[language]]
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(__file__).parent / "multi30k")
