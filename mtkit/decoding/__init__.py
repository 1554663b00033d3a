"""Stage 4: search for the best translations, and the way from lines of text to lines of text."""
