"""Kernels of InceptionXML's encoder over packed weights, one text at a time at its own length.

Its attentions have no softmax, so all that happens before the projection's GELU is one matrix times the words' vectors
x, and the projection P goes into it too. The attention of words is h = M x with M = 1 + (x xᵀ) W, that of dimensions
h + (x W' hᵀ)ᵀ h = M (1 + Qᵀ M) x with Q = x W' xᵀ; each γ is in its W. Both cost no more than x W' and matrices of
words × words. Axis words: words; dim (embedding width); channels; places (steps along the embedding dimension).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Real, UInt8, UInt16

from laconic.kernels.jit import compiled_in_any_order
from laconic.packed.engine.layer_kernels import gelu_all, product, readable, word_vector
from laconic.packed.engine.outer_products import sum_of_rows
from laconic.packed.engine.texts import Texts

CHANNELS = 32
SIZES = (4, 8, 16)  # of the branches' windows
STRIDE = 4
SIDE = 6  # numbers that the widest window sees on either side of the narrowest

_ALL = len(SIZES) * CHANNELS
_ONE = np.float32(1)


class Weights(NamedTuple):
    """The weights of `Inception`; an attention that is absent has no rows."""

    width: int  # numbers of a word's vector
    words: UInt16[np.ndarray, "ids dim"] | UInt8[np.ndarray, "ids half"]
    word_attention: Float[np.ndarray, "length length"]
    dimension_attention: Real[np.ndarray, "dim padded"]  # this and all filters are in blocks (outer_products.py)
    projection: Float[np.ndarray, "channels length"]
    narrow: Real[np.ndarray, "size channels"]
    middle: Real[np.ndarray, "size channels"]
    wide: Real[np.ndarray, "size channels"]
    final: Real[np.ndarray, "size channels"]
    projection_bias: Float[np.ndarray, "channels"]
    branches_bias: Float[np.ndarray, "all"]
    final_bias: Float[np.ndarray, "channels"]
    gain: Float[np.ndarray, "channels"]
    shift: Float[np.ndarray, "channels"]


class _Scratch(NamedTuple):
    """Scratch arrays for one text."""

    x: Float[np.ndarray, "words dim"]
    turned: Float[np.ndarray, "words padded"]  # x W'
    squares: Float[np.ndarray, "3 pairs"]  # of words
    shares: Float[np.ndarray, "3 size"]  # of words in channels
    own: Float[np.ndarray, "words channels"]  # the same, by words
    none: Float[np.ndarray, "padded"]  # zeros
    ring: Float[np.ndarray, "around channels"]
    answers: Float[np.ndarray, "places all"]
    last: Float[np.ndarray, "steps channels"]


@compiled_in_any_order
def encode_inception(held, ids, of_words, starts, out):  # type: ignore[no-untyped-def]
    """Encode texts; return False, with nothing written, if they cannot be read. Held are the Weights and scales."""
    (weights, scales), texts = held.value, Texts(ids, of_words, starts)
    if not readable(texts, len(weights.words)):
        return False
    scratch = _scratch(weights, texts, out.shape[1] // CHANNELS)
    for text in range(len(out)):
        first = texts.starts[text]
        count = min(texts.starts[text + 1] - first, weights.projection.shape[1])
        for i in range(count):
            word_vector(weights.words, scales, texts.ids[first + i], scratch.x[i])
        _project(weights, scratch, _shares(weights, scratch, count), count)
        _convolve(weights, scratch)
        _finish(weights, scratch, out[text])
    return True


@compiled_in_any_order
def _scratch(weights, texts, steps):  # type: ignore[no-untyped-def]
    longest, dim = np.int64(0), weights.width
    for text in range(len(texts.starts) - 1):
        longest = max(longest, texts.starts[text + 1] - texts.starts[text])
    words = min(longest, weights.projection.shape[1])
    return _Scratch(
        np.empty((words, dim), dtype=np.float32),
        np.empty((words, weights.dimension_attention.shape[1]), dtype=np.float32),
        np.empty((3, words * words), dtype=np.float32),
        np.empty((3, CHANNELS * words), dtype=np.float32),
        np.empty((words, CHANNELS), dtype=np.float32),
        np.zeros(weights.dimension_attention.shape[1], dtype=np.float32),
        np.empty((dim + 2 * SIDE, CHANNELS), dtype=np.float32),
        np.empty((dim // STRIDE, _ALL), dtype=np.float32),
        np.empty((steps, CHANNELS), dtype=np.float32),
    )


@compiled_in_any_order
def _shares(weights, scratch, count):  # type: ignore[no-untyped-def]
    """Compute every channel's weight of each word: P M (1 + Qᵀ M)."""
    if len(weights.word_attention) == 0:
        return weights.projection
    x, turned, square, shape = scratch.x[:count], scratch.turned[:count], count * count, (count, count)
    alike, mixing, crossed = (
        scratch.squares[0, :square].reshape(shape),
        scratch.squares[1, :square].reshape(shape),
        scratch.squares[2, :square].reshape(shape),
    )
    product(x.reshape(-1), x.shape[1], x, alike)
    product(weights.word_attention.reshape(-1), len(weights.word_attention), alike, mixing)  # Mᵀ: x xᵀ is its own
    for i in range(count):
        mixing[i, i] += _ONE
    width = turned.shape[1]
    sum_of_rows(
        x.reshape(-1), x.shape[1], 1, count, weights.dimension_attention, scratch.none, turned.reshape(-1), width
    )
    product(turned.reshape(-1), width, x, crossed)
    first, second, third = scratch.shares[0], scratch.shares[1], scratch.shares[2]
    size, shape = CHANNELS * count, (CHANNELS, count)
    product(weights.projection.reshape(-1), weights.projection.shape[1], mixing, first[:size].reshape(shape))
    product(first, count, crossed, second[:size].reshape(shape))
    product(second, count, mixing, third[:size].reshape(shape))
    _add(_ONE, first[:size], third[:size])
    return third[:size].reshape(shape)


@compiled_in_any_order
def _add(factor, row, out):  # type: ignore[no-untyped-def]
    for k in range(len(out)):
        out[k] += factor * row[k]


@compiled_in_any_order
def _project(weights, scratch, shares, count):  # type: ignore[no-untyped-def]
    """Compute the channels at every dimension, wrapped around at both ends."""
    dim, ring = scratch.x.shape[1], scratch.ring
    for i in range(count):
        for c in range(CHANNELS):
            scratch.own[i, c] = shares[c, i]
    middle = ring[SIDE : SIDE + dim]
    own, bias = scratch.own[:count], weights.projection_bias
    sum_of_rows(scratch.x.reshape(-1), 1, dim, dim, own, bias, middle.reshape(-1), CHANNELS)
    gelu_all(middle.reshape(-1))
    for i in range(SIDE):
        ring[i] = middle[(i - SIDE) % dim]
        ring[SIDE + dim + i] = middle[i % dim]


@compiled_in_any_order
def _convolve(weights, scratch):  # type: ignore[no-untyped-def]
    """Compute a branch as one matrix product, since windows are contiguous."""
    around, answers, places = scratch.ring.reshape(-1), scratch.answers.reshape(-1), len(scratch.answers)
    for branch, weight in enumerate((weights.narrow, weights.middle, weights.wide)):
        outside = SIDE - (weight.shape[0] // CHANNELS - STRIDE) // 2
        first = branch * CHANNELS
        bias, into = weights.branches_bias[first : first + CHANNELS], answers[first:]
        sum_of_rows(around[outside * CHANNELS :], STRIDE * CHANNELS, 1, places, weight, bias, into, _ALL)
    gelu_all(answers)


@compiled_in_any_order
def _finish(weights, scratch, out):  # type: ignore[no-untyped-def]
    steps, last = len(scratch.last), scratch.last.reshape(-1)
    around, bias = scratch.answers.reshape(-1), weights.final_bias
    sum_of_rows(around, STRIDE * _ALL, 1, steps, weights.final, bias, last, CHANNELS)
    gelu_all(last)
    for step in range(steps):
        for c in range(CHANNELS):
            out[c * steps + step] = scratch.last[step, c] * weights.gain[c] + weights.shift[c]
