"""From a corpus and the time somebody has to a config: held-out pairs, choices, a forecast."""
