"""Drawings: pictures in one style by matplotlib, and the same things as text for a terminal."""

from mtkit.plots.picture import check_picture, figure, font_for, save

__all__ = ["check_picture", "figure", "font_for", "save"]
