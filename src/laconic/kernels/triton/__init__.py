"""GPU kernels in Triton, which is imported when one first runs; the tests compare each with a reference in torch."""
