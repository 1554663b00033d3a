"""How good translations are: every metric with its signature."""

from __future__ import annotations

from mtkit.scoring.metrics import corpus_bleu, corpus_chrf
from mtkit.scoring.score import score

__all__ = ["corpus_bleu", "corpus_chrf", "score"]
