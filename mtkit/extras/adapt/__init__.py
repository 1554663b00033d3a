"""What adapts a given model to new text: `init --from`, replay, interpolation, new subwords."""
