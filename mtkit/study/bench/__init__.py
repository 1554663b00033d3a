"""How fast this machine trains and translates with a model, and how fast it could train it."""
