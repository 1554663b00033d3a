"""Measures how fast this machine trains and translates."""
