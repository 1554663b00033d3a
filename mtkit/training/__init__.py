"""Stage 3: from batches to a model."""
