"""Kernels that all layers use: products of small matrices, GELU, and word vectors in float16 or in half a byte.

Sums may be added up in any order, so that each loop over numbers becomes vector instructions. A kernel looks at no
bounds: whoever calls it has checked what it gives.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial import chebyshev

from laconic.kernels.jit import compiled, compiled_in_any_order
from laconic.packed.engine.halves import number

_BLOCK = 4  # rows and columns of a product that are computed together: sixteen sums fit into registers
_FAR = np.float32(5.25)  # beyond it GELU is x, or 0, to within 4e-7
_DEGREE = 15
WORD_BLOCK = 32  # numbers of a word's vector that share a scale
_MIDDLE = np.float32(8)


def _tail() -> tuple[np.float32, ...]:
    """Fit Φ(-t) for t in 0.._FAR by a polynomial of u in -1..1, highest power first."""
    u = chebyshev.chebpts1(_DEGREE + 1)
    beyond = [math.erfc((one + 1) / 2 * float(_FAR) / math.sqrt(2)) / 2 for one in u]
    powers = chebyshev.cheb2poly(chebyshev.chebfit(u, beyond, _DEGREE))
    return tuple(np.float32(factor) for factor in reversed(powers))


_TAIL = _tail()
_TO_U = np.float32(2) / _FAR
_ONE, _ZERO = np.float32(1), np.float32(0)
_SHORTEST = np.float32(1e-12)  # length of a vector, so that none is divided by 0
_HALF_TO_SINGLE = np.float32(2.0**112)  # between the two kinds' exponents


@compiled_in_any_order
def readable(texts, num_ids):  # type: ignore[no-untyped-def]
    """Return whether every text lies within the ids, and every id is below `num_ids`."""
    before = np.int64(0)
    for i in range(len(texts.starts)):
        if texts.starts[i] < before:
            return False
        before = texts.starts[i]
    if before > len(texts.ids) or before > len(texts.weights):
        return False
    sound = True
    for i in range(len(texts.ids)):
        sound &= (texts.ids[i] >= 0) & (texts.ids[i] < num_ids)
    return sound


@compiled
def decode(bits, out):  # type: ignore[no-untyped-def]
    """Convert float16 bits to float32: shift the exponent, and correct it by one product, also for subnormals."""
    for i in range(len(out)):
        out[i] = single(bits[i])


@compiled
def word_vector(words, scales, word, out):  # type: ignore[no-untyped-def]
    """Write the vector of a word: float16 bits or, where there are scales, half a byte for each number.

    A block of WORD_BLOCK numbers has a scale in float16. Its byte i holds the numbers i and i + WORD_BLOCK / 2, plus 8.
    """
    if scales is None:
        decode(words[word], out)
    else:
        half = WORD_BLOCK // 2
        for block in range(scales.shape[1]):
            scale, first = single(scales[word, block]), block * WORD_BLOCK
            numbers = words[word, block * half : (block + 1) * half]
            low, high = out[first : first + half], out[first + half : first + WORD_BLOCK]
            for i in range(len(low)):
                low[i] = scale * (np.float32(numbers[i] & 15) - _MIDDLE)
            for i in range(len(high)):
                high[i] = scale * (np.float32(numbers[i] >> 4) - _MIDDLE)


@compiled
def single(half):  # type: ignore[no-untyped-def]
    """Convert float16 bits to float32 in kernels of strict order, where scaling by 2¹¹² first might overflow."""
    bits = np.uint32(half)
    shifted = ((bits & np.uint32(0x7FFF)) << np.uint32(13)) | ((bits & np.uint32(0x8000)) << np.uint32(16))
    return np.uint32(shifted).view(np.float32) * _HALF_TO_SINGLE


@compiled_in_any_order
def gelu(x):  # type: ignore[no-untyped-def]
    """Return x Φ(x) with an error below 1e-6, relative near 0: by Φ's tail, which needs no exponential."""
    far = min(abs(x), _FAR)
    u = far * _TO_U - _ONE
    tail = _TAIL[0]
    for power in range(1, _DEGREE + 1):
        tail = tail * u + _TAIL[power]
    return max(x, _ZERO) - far * tail


@compiled_in_any_order
def gelu_rows(rows, bias):  # type: ignore[no-untyped-def]
    """Apply GELU(row + bias) in place."""
    for i in range(len(rows)):
        row = rows[i]
        for j in range(len(bias)):
            row[j] = gelu(row[j] + bias[j])


@compiled_in_any_order
def gelu_all(numbers):  # type: ignore[no-untyped-def]
    """Apply GELU in place."""
    for i in range(len(numbers)):
        numbers[i] = gelu(numbers[i])


@compiled_in_any_order
def relu_rows(rows, bias):  # type: ignore[no-untyped-def]
    """Apply ReLU(row + bias) in place."""
    for i in range(len(rows)):
        row = rows[i]
        for j in range(len(bias)):
            row[j] = max(row[j] + bias[j], _ZERO)


@compiled_in_any_order
def divide_by_lengths(rows, out):  # type: ignore[no-untyped-def]
    """Write rows divided by their lengths; zeros stay zeros."""
    for i in range(len(rows)):
        row, into, squares = rows[i], out[i], _ZERO
        for j in range(len(row)):
            squares += row[j] * row[j]
        length = max(np.sqrt(squares), _SHORTEST)
        for j in range(len(row)):
            into[j] = row[j] / length


@compiled_in_any_order
def product(windows, step, columns, out):  # type: ignore[no-untyped-def]
    """Compute out[i, j] = columns[j] · the window that begins at i × step; windows may overlap.

    Columns are as `for_products` gives them.
    """
    last = len(out) - 1
    for i in range(0, last, _BLOCK):
        _four(windows, step, columns, i, out)
    if last % _BLOCK == 0:
        _one(windows[last * step :], columns, out[last])


@compiled_in_any_order
def _four(windows, step, columns, i, out):  # type: ignore[no-untyped-def]
    """Multiply four windows by four columns at a time: eight reads for sixteen products; the last may repeat."""
    size, last_row, last_column = columns.shape[1], len(out) - 1, len(columns) - 1
    i2, i3, i4 = min(i + 1, last_row), min(i + 2, last_row), min(i + 3, last_row)
    a, b = windows[i * step : i * step + size], windows[i2 * step : i2 * step + size]
    c, d = windows[i3 * step : i3 * step + size], windows[i4 * step : i4 * step + size]
    for j in range(0, len(columns), _BLOCK):
        j2, j3, j4 = min(j + 1, last_column), min(j + 2, last_column), min(j + 3, last_column)
        e, f, g, h = columns[j], columns[j2], columns[j3], columns[j4]
        ae = af = ag = ah = be = bf = bg = bh = ce = cf = cg = ch = de = df = dg = dh = _ZERO
        for k in range(size):
            e_k, f_k, g_k, h_k = number(e[k]), number(f[k]), number(g[k]), number(h[k])
            ae, af, ag, ah = ae + a[k] * e_k, af + a[k] * f_k, ag + a[k] * g_k, ah + a[k] * h_k
            be, bf, bg, bh = be + b[k] * e_k, bf + b[k] * f_k, bg + b[k] * g_k, bh + b[k] * h_k
            ce, cf, cg, ch = ce + c[k] * e_k, cf + c[k] * f_k, cg + c[k] * g_k, ch + c[k] * h_k
            de, df, dg, dh = de + d[k] * e_k, df + d[k] * f_k, dg + d[k] * g_k, dh + d[k] * h_k
        out[i, j], out[i, j2], out[i, j3], out[i, j4] = ae, af, ag, ah
        out[i2, j], out[i2, j2], out[i2, j3], out[i2, j4] = be, bf, bg, bh
        out[i3, j], out[i3, j2], out[i3, j3], out[i3, j4] = ce, cf, cg, ch
        out[i4, j], out[i4, j2], out[i4, j3], out[i4, j4] = de, df, dg, dh


@compiled_in_any_order
def _one(window, columns, out):  # type: ignore[no-untyped-def]
    """Multiply one window by four columns at a time: one text is bound by the reading of columns."""
    last = len(columns) - 1
    for j in range(0, len(columns), _BLOCK):
        j2, j3, j4 = min(j + 1, last), min(j + 2, last), min(j + 3, last)
        e, f, g, h = columns[j], columns[j2], columns[j3], columns[j4]
        total_e = total_f = total_g = total_h = _ZERO
        for k in range(columns.shape[1]):
            total_e, total_f = total_e + window[k] * number(e[k]), total_f + window[k] * number(f[k])
            total_g, total_h = total_g + window[k] * number(g[k]), total_h + window[k] * number(h[k])
        out[j], out[j2], out[j3], out[j4] = total_e, total_f, total_g, total_h
