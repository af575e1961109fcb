"""File formats that texts and labels are read from, one per file."""
