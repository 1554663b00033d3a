"""The search for translations: beam search, sampling and constraints, for every model."""
