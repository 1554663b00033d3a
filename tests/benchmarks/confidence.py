"""How good is confidence? `python confidence.py MODEL SOURCE REFERENCE` compares it with chrF.

Prints the correlation with sentence chrF, the area under the ROC curve for the worst tenth of the
lines, predicted and true chrF by tenths of confidence, and, for random files of 200 lines, how far
the predicted chrF is from the true one and how often the true one lies in the interval.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from mtkit.decoding.api import load
from mtkit.decoding.estimation.verdict import FileVerdict
from mtkit.scoring.line_files import load_lines
from mtkit.scoring.metrics import score, sentence_chrf

FILES, LINES = 100, 200


def area_under_curve(confidence: np.ndarray, is_bad: np.ndarray) -> float:
    """Return how often a bad line has less confidence than another; ties count half."""
    good, bad = confidence[~is_bad], confidence[is_bad]
    lower = bad[:, None] < good
    equal = bad[:, None] == good
    return float((lower + equal / 2).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("source", type=Path)
    parser.add_argument("reference", type=Path)
    arguments = parser.parse_args()
    translator = load(arguments.model, "cpu")
    sources, references = load_lines(arguments.source), load_lines(arguments.reference)
    pairs = zip(translator.results(sources), references, strict=True)
    lines = [(line, reference) for line, reference in pairs if line.confidence is not None]
    confidence = np.array([line.confidence for line, _ in lines])
    chrf = np.array([sentence_chrf(line.text, [reference]) for line, reference in lines]) / 100
    is_bad = np.zeros(len(lines), bool)
    is_bad[chrf.argsort()[: len(lines) // 10]] = True
    print(f"{len(lines)} lines, correlation {np.corrcoef(confidence, chrf)[0, 1]:.3f}")
    print(f"AUC for the worst tenth {area_under_curve(confidence, is_bad):.3f}")
    print("tenths: predicted and true chrF")
    for rows in np.array_split(confidence.argsort(), 10):
        print(f"  {100 * confidence[rows].mean():.1f}  {100 * chrf[rows].mean():.1f}")
    generator = np.random.default_rng(1)
    errors: list[float] = []
    hits = refused = 0
    for _ in range(FILES):
        drawn = [lines[row] for row in generator.choice(len(lines), LINES, replace=False)]
        verdict = FileVerdict(translator.estimator.calibration)
        verdict.add(line.estimate for line, _ in drawn)
        true = score([line.text for line, _ in drawn], [r for _, r in drawn], keys=["chrf"])
        if verdict.chrf is None:  # the lines are unlike the training text
            refused += 1
            continue
        predicted, low, high = verdict.chrf
        errors.append(predicted - true["chrf"].value)
        hits += low <= true["chrf"].value <= high
    print(f"{refused} of {FILES} files of {LINES} lines: unlike the training text")
    if not errors:
        return
    found = np.array(errors)
    print(
        f"{len(found)} others: error {found.mean():+.2f} ± {found.std():.2f}, at most "
        f"{abs(found).max():.2f}; {np.mean(abs(found) <= 3):.0%} within 3; "
        f"{hits / len(found):.0%} in the interval"
    )


if __name__ == "__main__":
    main()
