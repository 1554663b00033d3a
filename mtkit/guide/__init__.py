"""The user guide: a page for each task, which `mtkit guide` shows."""
