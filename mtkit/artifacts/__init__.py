"""Artifacts on disk: what stages write, find again, and compare with what is asked for."""
