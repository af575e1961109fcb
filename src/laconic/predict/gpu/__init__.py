"""Rankers optimised for a GPU: few kernels, fixed shapes, rows that are read once."""

from laconic.predict.gpu.optimise import optimise

__all__ = ["optimise"]
