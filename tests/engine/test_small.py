"""Parts of a combined model in fewer bytes: what is computed with them, against the same parts in full."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from laconic.errors import ModelError
from laconic.export.small import in_half_bytes, smaller
from laconic.kernels.checks import for_kernels
from laconic.packed.engine.encoders import Summed
from laconic.packed.engine.layer_kernels import word_vector
from laconic.packed.engine.row_kernels import fine_dot
from laconic.packed.engine.rows import Rows
from laconic.packed.engine.texts import Texts
from laconic.packed.engine.transforms import Layer


@pytest.mark.parametrize("dim", [1, 16, 31, 32, 33, 48, 64, 100])
def test_half_bytes_are_within_half_a_step_of_the_numbers(dim: int) -> None:
    words = np.random.default_rng(dim).normal(size=(6, dim)).astype(np.float16)
    words[2] = 0
    table, scales = in_half_bytes(words)
    found = np.empty((6, dim), dtype=np.float32)
    for word in range(6):
        word_vector(for_kernels(table), for_kernels(scales.view(np.uint16)), word, found[word])
    steps = np.repeat(scales.astype(np.float32), 32, axis=1)[:, :dim]
    assert (np.abs(found - words) <= 0.51 * steps + 1e-7).all()
    assert not found[2].any()
    assert table.nbytes <= 6 * 16 * -(-dim // 32)


def test_an_encoder_sums_words_in_half_bytes() -> None:
    chance = np.random.default_rng(0)
    words = chance.normal(size=(20, 40)).astype(np.float16)
    whole = Summed(words=words, bias=chance.normal(size=40).astype(np.float32), length=9, relu=False)
    small = smaller(whole)
    table, scales = in_half_bytes(words)
    plain = np.empty((20, 40), dtype=np.float32)
    for word in range(20):
        word_vector(for_kernels(table), for_kernels(scales.view(np.uint16)), word, plain[word])
    texts = Texts(
        chance.integers(20, size=12).astype(np.int32),
        chance.random(12).astype(np.float32),
        np.array([0, 5, 5, 12], dtype=np.int64),
    )
    expected = [
        whole.bias + (texts.weights[first:last, None] * plain[texts.ids[first:last]]).sum(0)
        for first, last in zip(texts.starts[:-1], texts.starts[1:], strict=True)
    ]
    np.testing.assert_allclose(small.encode(texts), expected, rtol=1e-5, atol=1e-5)
    assert smaller(small).words is small.words


def test_words_in_half_bytes_that_do_not_fit_together_are_refused() -> None:
    small = smaller(Summed(words=np.ones((5, 40), np.float16), bias=np.zeros(40, np.float32), length=3, relu=True))
    assert small.word_scales is not None
    good = {"words": small.words, "bias": small.bias, "length": 3, "relu": True}
    for scales in (small.word_scales[:, :1], small.word_scales[:-1], small.word_scales.astype(np.float32)):
        with pytest.raises(ModelError, match="scales"):
            Summed(**good, word_scales=scales)
    with pytest.raises(ModelError, match="not all finite"):
        Summed(**good, word_scales=np.full_like(small.word_scales, np.inf))
    with pytest.raises(ModelError, match="word vectors must be uint8"):
        Summed(**good | {"words": small.words[:, :-1]}, word_scales=small.word_scales)


def test_rows_without_their_second_bytes_score_by_their_first() -> None:
    chance = np.random.default_rng(1)
    rows = Rows.of(chance.normal(size=(9, 30)).astype(np.float32), np.zeros(9))
    small, vector = smaller(rows), chance.normal(size=30).astype(np.float32)
    assert small.fine is None
    plain = (rows.coarse.astype(np.float32) * rows.scales[:, None]) @ vector
    found = [fine_dot(small.grid, small.second, row, vector) for row in range(9)]
    np.testing.assert_allclose(found, plain, rtol=1e-5)


def test_layers_are_in_half_precision_unless_a_number_is_too_large() -> None:
    chance = np.random.default_rng(2)
    weight, bias = chance.normal(size=(8, 6)).astype(np.float32), np.zeros(8, dtype=np.float32)
    layer = Layer.of(weight, bias, activation="gelu")
    small, vectors = smaller(layer), chance.normal(size=(5, 6)).astype(np.float32)
    assert small.weight.dtype == np.float16
    expected = replace(layer, weight=small.weight.astype(np.float32)).apply(vectors)
    np.testing.assert_allclose(small.apply(vectors), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(small.apply(vectors), layer.apply(vectors), atol=5e-3)
    assert smaller(small).weight is small.weight
    large = Layer.of(weight * 1e5, bias, activation="gelu")
    assert smaller(large).weight is large.weight
