"""How good translations are: every metric with its signature and its interval."""
