"""Describes a run, model or artifact in text, or plots it."""
