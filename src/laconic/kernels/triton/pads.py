"""Rows with a few unused numbers behind each, so that all begin where a sector of memory does.

Rows of 300 bfloat16 numbers can be loaded 8 bytes at a time only; with 4 zeros behind them it is 16. Everyone sees rows
of 300. Kernels are given rows of 304, and vectors with as many zeros, so that padding has no gradient and stays 0.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

_SECTOR = 32  # bytes


def padded(rows: Float[Tensor, "n dim"]) -> Float[Tensor, "n dim"]:
    """Return rows with padding behind each, or the same rows where they need none."""
    each = _SECTOR // rows.element_size()
    missing = -rows.shape[1] % each
    return functional.pad(rows, (0, missing))[:, : rows.shape[1]] if missing else rows


def with_padding(rows: Float[Tensor, "n dim"]) -> Float[Tensor, "n wide"]:
    """Return rows together with their padding, without a copy."""
    return rows.as_strided((len(rows), rows.stride(0)), (rows.stride(0), 1)) if _is_padded(rows) else rows


def as_wide(vectors: Float[Tensor, "batch dim"], rows: Float[Tensor, "n wide"]) -> Float[Tensor, "batch wide"]:
    """Return vectors with zeros that make them as wide as padded rows."""
    missing = rows.shape[1] - vectors.shape[1]
    return functional.pad(vectors, (0, missing)) if missing else vectors


def zeros_like(tensor: Tensor) -> Tensor:
    """Return zeros that are padded as the tensor is."""
    return (
        torch.zeros_like(with_padding(tensor))[:, : tensor.shape[1]] if _is_padded(tensor) else torch.zeros_like(tensor)
    )


def _is_padded(tensor: Tensor) -> bool:
    if tensor.ndim != 2 or tensor.is_contiguous() or tensor.stride(1) != 1:
        return False
    return 0 < tensor.stride(0) - tensor.shape[1] < _SECTOR // tensor.element_size()
