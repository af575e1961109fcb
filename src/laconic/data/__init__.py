"""Data: read texts and labels in any format, cut texts into words, and turn both into matrices."""
