"""Stage 1: text to subwords and back."""
