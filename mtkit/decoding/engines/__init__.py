"""What searches with a model: a file for each engine that keeps the contract."""
