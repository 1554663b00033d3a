"""Seeing attention: where the model looks, as a heat map, a picture or a page."""
