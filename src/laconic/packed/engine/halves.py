"""Weights in half precision: half the bytes to fetch for a text. Processors convert them as they are fetched."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
from numba import types
from numba.core.cgutils import ir
from numba.extending import intrinsic

from laconic.kernels.checks import check_array, check_finite, for_kernels
from laconic.packed.engine.dot_products import features_of_processor

HAS_HALVES = "+f16c" in features_of_processor().split(",") or platform.machine() in ("aarch64", "arm64")
_LARGEST = float(np.finfo(np.float16).max)


def in_halves(weights: np.ndarray) -> np.ndarray:
    """Return weights in half precision, unless some are too large for it."""
    return weights if np.abs(weights).max(initial=0) > _LARGEST else weights.astype(np.float16, copy=False)


def check_weights(array: Any, name: str, shape: tuple[int | None, ...]) -> None:
    """Refuse anything but finite numbers in single or half precision, of that shape."""
    check_array(array, name, (np.float32, np.float16), shape)
    check_finite(array, name)


def for_products(array: np.ndarray) -> np.ndarray:
    """Return weights as kernels read them by `number`: in half precision, their bits."""
    if array.dtype != np.float16:
        return for_kernels(array)
    return for_kernels(array).view(np.uint16) if HAS_HALVES else for_kernels(array.astype(np.float32))


@intrinsic  # type: ignore[untyped-decorator]
def number(typing_context: Any, weight: Any) -> Any:
    """Return a weight in single precision."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return in_single(builder, arguments[0]) if weight == types.uint16 else arguments[0]

    return types.float32(weight), generate


def in_single(builder: Any, bits: Any) -> Any:
    """Convert bits of half precision, or a vector of them."""
    half, single = ir.HalfType(), ir.FloatType()
    if isinstance(bits.type, ir.VectorType):
        half, single = (ir.VectorType(kind, bits.type.count) for kind in (half, single))
    return builder.fpext(builder.bitcast(bits, half), single)
