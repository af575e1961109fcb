"""Trackers of experiments: report runs to MLflow and to Weights & Biases."""
