"""What searches with a model: one contract, in `base`, and a file for each engine that keeps it."""
