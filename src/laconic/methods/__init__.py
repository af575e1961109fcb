"""Methods: one published method per file, their registry, and the way from data to a finished model and back."""
