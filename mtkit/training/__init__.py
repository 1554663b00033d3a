"""Stage 3: from batches to a model."""

from mtkit.training.train import train

__all__ = ["train"]
