"""Glossaries: the translation has their terms in the place of the words that they translate."""
