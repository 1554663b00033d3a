"""Quality estimation: fit confidence to a model, and score translations without references."""
