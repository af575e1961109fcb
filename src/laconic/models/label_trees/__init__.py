"""Sparse linear classifiers in trees of labels: growing, learning and searching them."""
