"""Shortlisters: for each text, the labels that are worth scoring."""
