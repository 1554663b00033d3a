"""What adapts a base model to new text: `init --from`, replay, interpolation, new subwords."""
