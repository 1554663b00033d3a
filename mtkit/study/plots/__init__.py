"""Drawings: pictures in one style by matplotlib, and the same things as text for a terminal."""
