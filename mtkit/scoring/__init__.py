"""How good translations are: every metric with its signature and its interval."""

from __future__ import annotations

from mtkit.scoring.metrics import corpus_bleu, corpus_chrf
from mtkit.scoring.score import score, score_systems
from mtkit.scoring.tables import score_table

__all__ = ["corpus_bleu", "corpus_chrf", "score", "score_systems", "score_table"]
