"""The exponential function without a branch or a call, so that loops over it become vector instructions."""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial import chebyshev

from laconic.kernels.jit import compiled

_DEGREE = 6
_TO_POWERS_OF_2 = np.float32(1 / math.log(2))
_SMALLEST = np.float32(-126)  # powers of 2 below it are no normal numbers
_MANTISSA, _BIAS = np.int32(23), np.int32(127)  # of float32: bits, and what is added to exponents


def _powers() -> tuple[np.float32, ...]:
    """Fit 2 to the power of u for u in -1/2..1/2 by a polynomial, highest power first."""
    u = chebyshev.chebpts1(_DEGREE + 1)
    powers = chebyshev.cheb2poly(chebyshev.chebfit(u, [2 ** (one / 2) for one in u], _DEGREE))
    return tuple(np.float32(factor * 2.0**power) for power, factor in reversed(list(enumerate(powers))))


_POWERS = _powers()


@compiled
def exp_below_zero(x):  # type: ignore[no-untyped-def]
    """Return e to the power of a number of at most 0, to within 4e-6 of it; below 2⁻¹²⁶ it stays there."""
    exponent = max(x * _TO_POWERS_OF_2, _SMALLEST)
    whole = np.rint(exponent)
    rest, found = exponent - whole, _POWERS[0]
    for power in range(1, _DEGREE + 1):
        found = found * rest + _POWERS[power]
    return found * np.int32((np.int32(whole) + _BIAS) << _MANTISSA).view(np.float32)
