"""Kernels of encoders that sum word vectors or convolve them, one text at a time at its own length."""

from __future__ import annotations

import numpy as np

from laconic.kernels.jit import compiled, compiled_in_any_order
from laconic.packed.engine.layer_kernels import decode, product, readable, single, word_vector
from laconic.packed.engine.texts import Texts

_ZERO = np.float32(0)


@compiled_in_any_order
def encode_sums(held, ids, weights, starts, out):  # type: ignore[no-untyped-def]
    """Write bias + the weighted sum of a text's word vectors; return False if the texts cannot be read.

    Held are the table of words, its scales, the bias, the most words that are read, and whether ReLU follows.
    """
    words, scales, bias, length, relu = held.value
    return _write_sums(words, scales, bias, Texts(ids, weights, starts), length, relu, out)


@compiled_in_any_order
def _write_sums(words, scales, bias, texts, length, relu, out):  # type: ignore[no-untyped-def]
    if not readable(texts, len(words)):
        return False
    vector = np.empty(out.shape[1], dtype=np.float32)
    for text in range(len(out)):
        first, row = texts.starts[text], out[text]
        last = min(texts.starts[text + 1], first + length)
        row[:] = bias
        for i in range(first, last):
            if scales is None:
                _add_word(words[texts.ids[i]], texts.weights[i], row)
            else:
                word_vector(words, scales, texts.ids[i], vector)
                _add_vector(vector, texts.weights[i], row)
        if relu:
            for k in range(len(row)):
                row[k] = max(row[k], _ZERO)
    return True


@compiled
def _add_word(bits, weight, row):  # type: ignore[no-untyped-def]
    for k in range(len(row)):
        row[k] += weight * single(bits[k])


@compiled
def _add_vector(vector, weight, row):  # type: ignore[no-untyped-def]
    for k in range(len(row)):
        row[k] += weight * vector[k]


@compiled_in_any_order
def encode_windows(words, branches, bias, texts, length, out):  # type: ignore[no-untyped-def]
    """Write ReLU(bias + the maximum of each filter in each chunk); return False if the texts cannot be read."""
    if not readable(texts, len(words)):
        return False
    dim, widest = words.shape[1], branches[2].shape[1] // words.shape[1]
    longest = np.int64(0)
    for text in range(len(out)):
        longest = max(longest, min(texts.starts[text + 1] - texts.starts[text], length))
    x = np.empty((longest + widest, dim), dtype=np.float32)
    answers = np.empty((longest, len(bias)), dtype=np.float32)
    for text in range(len(out)):
        first = texts.starts[text]
        count = min(texts.starts[text + 1] - first, length)
        for i in range(count):
            decode(words[texts.ids[first + i]], x[i])
        x[count : count + widest] = _ZERO  # windows see zeros where the text has ended
        done = 0
        for weight in branches:
            product(x.reshape(-1), dim, weight, answers[:count, done : done + len(weight)])
            done += len(weight)
        _pool(answers[:count], bias, length, out[text])
    return True


@compiled_in_any_order
def _pool(answers, bias, length, out):  # type: ignore[no-untyped-def]
    """Max-pool over chunks of `length` positions, which may overlap; beyond the text all outputs are zero."""
    count, chunks = len(answers), len(out)
    for chunk in range(chunks):
        start, end, row = chunk * length // chunks, -(-(chunk + 1) * length // chunks), out[chunk]
        row[:] = -np.inf if end <= count else _ZERO
        for place in range(start, min(end, count)):
            answer = answers[place]
            for k in range(len(row)):
                row[k] = max(row[k], answer[k])
        for k in range(len(row)):
            row[k] = max(row[k] + bias[k], _ZERO)
