"""How weights move: optimizers, learning rates, number formats."""
