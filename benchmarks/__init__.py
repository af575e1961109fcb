"""Measurements, each a module of its own: `python -m benchmarks` runs all, `python -m benchmarks NAME` some of them."""
