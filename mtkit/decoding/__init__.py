"""Stage 4: search for the best translations, and the way from lines of text to lines of text."""

from __future__ import annotations

from mtkit.decoding.translate import translate
from mtkit.decoding.translator import Translation, Translator

load = Translator.load

__all__ = ["Translation", "Translator", "load", "translate"]
