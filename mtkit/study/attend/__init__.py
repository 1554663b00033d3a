"""Shows attention: as a heat map, a picture or a page, and how well it explains the output."""
