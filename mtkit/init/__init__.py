"""From a corpus and a time to a config."""
