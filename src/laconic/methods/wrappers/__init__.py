"""Wrappers around any method: re-ranker, fusion, label texts as training texts, ensembles, calibration."""
