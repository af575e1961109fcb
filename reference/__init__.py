"""Pages of the documentation site that are generated from the code at build time."""
