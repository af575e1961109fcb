"""Sparse linear classifiers in trees of labels: how they are grown, learnt and searched. Knows nothing of words."""
