"""Quality estimation: what can be said of a translation without a reference."""
