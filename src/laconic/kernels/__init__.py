"""Compiled loops for the CPU, checks of the arrays they walk, and Triton kernels for the GPU."""
