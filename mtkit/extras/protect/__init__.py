"""Protect what no translation changes: URLs, placeholders, tags, code, messages of software."""
