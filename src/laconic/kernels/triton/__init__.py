"""GPU kernels in Triton, each with a reference implementation in torch; Triton is imported when one first runs."""
