"""How weights move: optimizers and learning rates."""
