"""Draws pictures with matplotlib, and plots of characters for the terminal."""
