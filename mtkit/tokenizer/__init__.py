"""Stage 1: text to subwords and back."""

from __future__ import annotations

from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.sampling import Sampler
from mtkit.tokenizer.train import train_tokenizer

__all__ = ["Sampler", "Tokenizer", "train_tokenizer"]
