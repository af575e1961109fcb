"""Laconic inside other programs: as a backend of Annif."""
