"""Text steps: each change of text between a line and the model, in both directions."""
