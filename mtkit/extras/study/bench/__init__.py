"""Measure how fast this machine trains and translates."""
