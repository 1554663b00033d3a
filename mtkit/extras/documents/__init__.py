"""Documents in their own formats: translations are written into their places, the rest stays."""
