"""Export models to other formats, and import them."""
