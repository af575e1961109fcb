"""Rankers optimised for a GPU: few kernels, fixed shapes, rows that are read once."""

from laconic.predict.gpu.optimise import optimise_ranker

__all__ = ["optimise_ranker"]
