"""Change a finished model: add labels, remove labels, learn from new texts."""
