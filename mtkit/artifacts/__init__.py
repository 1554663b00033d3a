"""Artifacts on disk: the results of stages, and checks whether they are up to date."""
