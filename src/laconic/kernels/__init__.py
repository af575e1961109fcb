"""GPU kernels in Triton, each with its plain-torch twin. Triton is imported when a kernel first runs."""
