"""The corpus doctor: whole corpora looked at, and what was found told."""
