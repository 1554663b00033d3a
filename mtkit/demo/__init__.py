"""The demo: a configuration and a small English-Korean corpus, texts alone."""
