"""One step of Adam in a single pass over memory, with everything that changes by step read from the device.

The clock is seven numbers: learning rate, beta1, beta2, eps, 1 − beta1^t, 1 − beta2^t, and 1 or 0: whether to step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

_BLOCK = 1024


def adam_reference(weight: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, clock: Float[Tensor, "7"]) -> None:
    """Update in torch's own operations."""
    rate, beta1, beta2, eps, correction1, correction2, go = clock.unbind()
    new_mean = mean * beta1 + gradient * (1 - beta1)
    new_square = square * beta2 + gradient * gradient * (1 - beta2)
    new_weight = weight - rate * (new_mean / correction1) / ((new_square / correction2).sqrt() + eps)
    for old, new in ((weight, new_weight), (mean, new_mean), (square, new_square)):
        old.copy_(torch.where(go > 0, new, old))


def adam_rows_reference(
    weight: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, clock: Float[Tensor, "7"]
) -> None:
    """Update lazily: a row whose gradient is all zero stays as it is, moments included."""
    touched = (gradient != 0).any(1, keepdim=True)
    before = [part.clone() for part in (weight, mean, square)]
    adam_reference(weight, gradient, mean, square, clock)
    for part, old in zip((weight, mean, square), before, strict=True):
        part.copy_(torch.where(touched, part, old))


def adam(weight: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, clock: Float[Tensor, "7"]) -> None:
    count = weight.numel()
    assert all(part.is_contiguous() for part in (weight, gradient, mean, square))
    _kernel()[(-(-count // _BLOCK),)](weight, gradient, mean, square, clock, count, BLOCK=_BLOCK, ROW=0)


def adam_rows(weight: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, clock: Float[Tensor, "7"]) -> None:
    rows, width = weight.shape
    assert all(part.is_contiguous() for part in (weight, gradient, mean, square))
    block = 1 << (width - 1).bit_length()
    _kernel()[(rows,)](weight, gradient, mean, square, clock, weight.numel(), BLOCK=block, ROW=width)


class Several:
    """Adam over many small tensors in one launch, since a launch takes longer than they do."""

    def __init__(self, weights: Sequence[Tensor]) -> None:
        blocks = torch.tensor([-(-weight.numel() // _BLOCK) for weight in weights])
        starts = blocks.cumsum(0) - blocks
        sizes = torch.tensor([weight.numel() for weight in weights])
        self.programs = int(blocks.sum())
        self.table = torch.stack([starts, sizes], dim=1).to(weights[0].device, torch.int64)

    def step(
        self,
        weights: Sequence[Tensor],
        gradients: Sequence[Tensor],
        means: Sequence[Tensor],
        squares: Sequence[Tensor],
        clock: Float[Tensor, "7"],
    ) -> None:
        parts = [tuple(tensors) for tensors in (weights, gradients, means, squares)]
        assert all(tensor.is_contiguous() and tensor.dtype == torch.float32 for part in parts for tensor in part)
        _several_kernel()[(self.programs,)](*parts, self.table, clock, BLOCK=_BLOCK)


@cache
def _several_kernel() -> Any:
    import triton
    from triton import language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def step_several(weights, gradients, means, squares, table, clock, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        # The addresses of the last tensor that begins at this program or before it.
        program = tl.program_id(0).to(tl.int64)
        start, count = tl.load(table), tl.load(table + 1)
        w_at, g_at = weights[0].to(tl.int64), gradients[0].to(tl.int64)
        m_at, v_at = means[0].to(tl.int64), squares[0].to(tl.int64)
        for each in tl.static_range(1, len(weights)):
            own, size = tl.load(table + 2 * each), tl.load(table + 2 * each + 1)
            here = program >= own
            start, count = tl.where(here, own, start), tl.where(here, size, count)
            w_at = tl.where(here, weights[each].to(tl.int64), w_at)
            g_at = tl.where(here, gradients[each].to(tl.int64), g_at)
            m_at = tl.where(here, means[each].to(tl.int64), m_at)
            v_at = tl.where(here, squares[each].to(tl.int64), v_at)
        at = (program - start) * BLOCK + tl.arange(0, BLOCK)
        there = at < count
        weight, mean = w_at.to(tl.pointer_type(tl.float32)) + at, m_at.to(tl.pointer_type(tl.float32)) + at
        square, gradient = v_at.to(tl.pointer_type(tl.float32)) + at, g_at.to(tl.pointer_type(tl.float32)) + at
        beta1, beta2 = tl.load(clock + 1), tl.load(clock + 2)
        there = there & (tl.load(clock + 6).to(tl.int32) > 0)
        g = tl.load(gradient, mask=there, other=0.0)
        m, v = tl.load(mean, mask=there, other=0.0), tl.load(square, mask=there, other=0.0)
        w = tl.load(weight, mask=there, other=0.0)
        new_m = m * beta1 + g * (1 - beta1)
        new_v = v * beta2 + g * g * (1 - beta2)
        divisor = tl.sqrt_rn(new_v / tl.load(clock + 5)) + tl.load(clock + 3)
        tl.store(mean, new_m, mask=there)
        tl.store(square, new_v, mask=there)
        tl.store(weight, w - tl.load(clock) * (new_m / tl.load(clock + 4)) / divisor, mask=there)

    return step_several


@cache
def _kernel() -> Any:
    import triton
    from triton import language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def step(weight, gradient, mean, square, clock, count, BLOCK: tl.constexpr, ROW: tl.constexpr):  # type: ignore[no-untyped-def]
        if ROW:  # a program for each row
            at = tl.program_id(0).to(tl.int64) * ROW + tl.arange(0, BLOCK)
            there = tl.arange(0, BLOCK) < ROW
        else:
            at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
            there = at < count
        beta1, beta2 = tl.load(clock + 1), tl.load(clock + 2)
        go = tl.load(clock + 6) > 0
        g = tl.load(gradient + at, mask=there, other=0.0)
        if ROW:
            touched = tl.max((g != 0).to(tl.int32), 0) > 0
            there = there & touched
        m = tl.load(mean + at, mask=there)
        v = tl.load(square + at, mask=there)
        w = tl.load(weight + at, mask=there)
        new_m = m * beta1 + g * (1 - beta1)
        new_v = v * beta2 + g * g * (1 - beta2)
        divisor = tl.sqrt_rn(new_v / tl.load(clock + 5)) + tl.load(clock + 3)
        new_w = w - tl.load(clock) * (new_m / tl.load(clock + 4)) / divisor
        tl.store(mean + at, tl.where(go, new_m, m), mask=there)
        tl.store(square + at, tl.where(go, new_v, v), mask=there)
        tl.store(weight + at, tl.where(go, new_w, w), mask=there)

    return step
