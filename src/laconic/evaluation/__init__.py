"""Evaluation: rank a split, compute every metric, calibrate scores."""
