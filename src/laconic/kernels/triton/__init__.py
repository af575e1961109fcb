"""GPU kernels in Triton, which is imported when one first runs; the tests compare each with a reference in torch."""

from importlib.util import find_spec

HAS_KERNELS = find_spec("triton") is not None  # it comes with torch on Linux, not everywhere
