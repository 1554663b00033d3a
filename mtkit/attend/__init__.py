"""Seeing attention: where the model looks, as a heat map, a picture or a page."""

from __future__ import annotations

from mtkit.attend.explain import explain
from mtkit.attend.show import View, attend
from mtkit.attend.weights import Kind

__all__ = ["Kind", "View", "attend", "explain"]
