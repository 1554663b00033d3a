"""Write a config for a corpus and a training time: held-out pairs, choices, a forecast."""
