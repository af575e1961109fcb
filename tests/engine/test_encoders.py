"""The packed encoders: their loops against plain numpy, and what they refuse. That they are torch's encoders is
tests/predict/test_packing_encoders.py's to say."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laconic.errors import DataError, ModelError
from laconic.kernels.jit import compiled
from laconic.packed.engine import halves
from laconic.packed.engine.encoders import WIDTHS, Encoder, Given, Inception, Layered, Summed, Windows
from laconic.packed.engine.inception_kernels import CHANNELS, SIZES, encode_inception
from laconic.packed.engine.layer_kernels import decode, gelu_all, gelu_rows, product
from laconic.packed.engine.outer_products import COLUMNS, WINDOWS, in_blocks, sum_of_rows
from laconic.packed.engine.parts import flattened, restored
from laconic.packed.engine.texts import Texts
from laconic.packed.engine.transforms import Layer, Unchanged
from laconic.packed.engine.word_kernels import encode_sums, encode_windows

NUM_IDS, DIM, LENGTH = 20, 24, 5
KINDS = {kind.__name__: kind for kind in (Inception, Summed, Windows, Given, Layered, Layer, Unchanged)}
KERNELS: tuple[Any, ...] = (encode_inception, encode_sums, encode_windows)
ROWS = [[3, 4, 5], [], [7], [2, 9, 19, 4, 3, 8, 1], [6, 6]]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32) / 4


def words(dim: int = DIM) -> np.ndarray:
    return numbers(NUM_IDS, dim).astype(np.float16)


def inception(*, attention: bool = True) -> Inception:
    every = len(SIZES) * CHANNELS
    narrow, middle, wide = (numbers(CHANNELS, size * CHANNELS) for size in SIZES)
    return Inception(
        words=words(),
        word_attention=numbers(LENGTH, LENGTH) if attention else None,
        dimension_attention=numbers(DIM, DIM) if attention else None,
        projection=numbers(CHANNELS, LENGTH),
        projection_bias=numbers(CHANNELS),
        narrow=narrow,
        middle=middle,
        wide=wide,
        branches_bias=numbers(every),
        final=numbers(CHANNELS, DIM // 4 * every),
        final_bias=numbers(CHANNELS, seed=1),
        gain=numbers(CHANNELS, seed=2),
        shift=numbers(CHANNELS, seed=3),
    )


def summed(*, relu: bool = True) -> Summed:
    return Summed(words=words(), bias=numbers(DIM), length=LENGTH, relu=relu)


def windows() -> Windows:
    narrow, middle, wide = (numbers(count, width * DIM) for count, width in zip((3, 6, 5), WIDTHS, strict=True))
    return Windows(words=words(), narrow=narrow, middle=middle, wide=wide, bias=numbers(14), length=LENGTH, chunks=2)


def layer(inputs: int) -> Layer:
    vectors = {name: numbers(6, seed=seed) for seed, name in enumerate(("bias", "gain", "shift", "skip"))}
    return Layer(
        weight=numbers(6, inputs),
        **vectors,
        activation="gelu",
        inputs=inputs,
        first=0,
        relu_before=False,
        relu_after=False,
    )


WORD_ENCODERS = {
    "inception": inception(),
    "inception without attention": inception(attention=False),
    "summed": summed(),
    "windows": windows(),
    "layered": Layered(encoder=windows(), layer=layer(28)),
}


def texts(rows: list[list[int]]) -> Texts:
    """Every word weighs as much as its id, so that a weight that went with another word would be seen."""
    ids = np.array([one for row in rows for one in row], dtype=np.int32)
    return Texts(ids, ids.astype(np.float32) / 10, np.cumsum([0, *map(len, rows)]))


@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_every_text_has_a_vector_of_the_encoder_s_width(name: str) -> None:
    encoder = WORD_ENCODERS[name]
    vectors = encoder.encode(texts(ROWS))
    assert (vectors.shape, vectors.dtype) == ((len(ROWS), encoder.dim), np.float32)
    assert np.isfinite(vectors).all()
    assert encoder.encode(texts([])).shape == (0, encoder.dim)


@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_a_text_s_vector_does_not_depend_on_its_neighbours(name: str) -> None:
    encoder = WORD_ENCODERS[name]
    alone = np.concatenate([encoder.encode(texts([row])) for row in ROWS])
    np.testing.assert_allclose(encoder.encode(texts(ROWS)), alone, rtol=1e-5, atol=1e-6)
    part = texts([[2, 2], *ROWS, [8]]).part(1, 1 + len(ROWS))
    np.testing.assert_allclose(encoder.encode(part), alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_words_beyond_the_length_are_not_read(name: str) -> None:
    encoder, row = WORD_ENCODERS[name], [3, 4, 5, 6, 7]
    assert np.array_equal(encoder.encode(texts([row])), encoder.encode(texts([[*row, 8, 9]])))


@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_an_encoder_comes_back_from_its_structure_and_mapped_arrays(name: str, folder: Path) -> None:
    encoder = WORD_ENCODERS[name]
    facts, arrays = flattened(encoder)
    for number, (path, array) in enumerate(arrays.items()):
        np.save(folder / f"{number}.npy", array)
        arrays[path] = np.load(folder / f"{number}.npy", mmap_mode="r")
    back = restored(facts, arrays, KINDS)
    assert isinstance(back, Encoder)
    expected = encoder.encode(texts(ROWS))
    compilations = [len(kernel.signatures) for kernel in KERNELS]
    assert np.array_equal(back.encode(texts(ROWS)), expected)
    assert [len(kernel.signatures) for kernel in KERNELS] == compilations  # which take seconds


@pytest.mark.parametrize("attention", [True, False])
def test_filters_in_half_precision_give_what_they_round_to(attention: bool) -> None:
    encoder = inception(attention=attention)
    names = ["narrow", "middle", "wide", "final", *(["dimension_attention"] if attention else [])]
    rounded: dict[str, Any] = {name: getattr(encoder, name).astype(np.float16) for name in names}
    single: dict[str, Any] = {name: array.astype(np.float32) for name, array in rounded.items()}
    expected = replace(encoder, **single).encode(texts(ROWS))
    np.testing.assert_allclose(replace(encoder, **rounded).encode(texts(ROWS)), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ModelError, match="not all finite"):
        replace(encoder, wide=np.full_like(rounded["wide"], np.inf))


@pytest.mark.parametrize("name", WORD_ENCODERS)
@pytest.mark.parametrize("outside", [NUM_IDS, -1, 2**31 - 1])
def test_an_id_without_a_vector_is_refused(name: str, outside: int) -> None:
    with pytest.raises(ModelError, match=f"token id {outside} is outside of the packed model's 20 word vectors"):
        WORD_ENCODERS[name].encode(texts([[3, 4], [5, outside]]))


@pytest.mark.parametrize("name", WORD_ENCODERS)
@pytest.mark.parametrize("starts", [[0, 3], [-1, 2], [2, 1], [0, 2, 1]])
def test_bounds_outside_of_the_words_are_refused(name: str, starts: list[int]) -> None:
    sound = texts([[3, 4]])
    with pytest.raises(ModelError, match="bounds do not lie in order"):
        WORD_ENCODERS[name].encode(sound._replace(starts=np.array(starts)))


@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_words_without_weights_are_refused(name: str) -> None:
    with pytest.raises(ModelError, match="words and weights"):
        WORD_ENCODERS[name].encode(texts([[3, 4]])._replace(weights=np.ones(1, dtype=np.float32)))


def test_each_encoder_wants_its_own_kind_of_inputs() -> None:
    features = numbers(2, 7)
    assert np.array_equal(Given(features=7).encode(features), features)
    with pytest.raises(DataError, match="reads 6 features, but is given 7"):
        Given(features=6).encode(features)
    with pytest.raises(DataError, match="reads 6 features, but is given words"):
        Given(features=6).encode(texts([[3]]))
    for encoder in WORD_ENCODERS.values():
        with pytest.raises(DataError, match="reads words"):
            encoder.encode(features)


ARRAYS = [
    (name, field)
    for name, encoder in WORD_ENCODERS.items()
    for field, value in vars(encoder).items()
    if isinstance(value, np.ndarray)
]


@pytest.mark.parametrize(("name", "field"), ARRAYS)
def test_arrays_that_do_not_fit_are_refused(name: str, field: str) -> None:
    encoder: Any = WORD_ENCODERS[name]
    array = getattr(encoder, field)
    for unfit in (array[:0], array[..., None], array.astype(np.float64)):
        if field == "words" and len(unfit) == 0:
            continue  # then every id is outside
        with pytest.raises(ModelError, match="must be float"):
            replace(encoder, **{field: unfit})


@pytest.mark.parametrize("name", ["inception", "windows"])
def test_word_vectors_of_another_width_are_refused(name: str) -> None:
    encoder: Any = WORD_ENCODERS[name]
    with pytest.raises(ModelError, match="must be float32"):
        replace(encoder, words=encoder.words[:, :-1])


@pytest.mark.parametrize(("name", "field"), ARRAYS)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(name: str, field: str, wrong: float) -> None:
    encoder: Any = WORD_ENCODERS[name]
    array = getattr(encoder, field).copy()
    array.flat[-1] = wrong
    with pytest.raises(ModelError, match="are not all finite"):
        replace(encoder, **{field: array})


@pytest.mark.parametrize("wrong", [0, -3, 1 << 31, 2.0, True, "5", None, [5]])
def test_sizes_that_are_none_are_refused(wrong: Any) -> None:
    for encoder, field in (
        (summed(), "length"),
        (windows(), "length"),
        (windows(), "chunks"),
        (Given(features=5), "features"),
    ):
        object.__setattr__(encoder, field, wrong)  # as a file may have it: it knows of no annotations
        with pytest.raises(ModelError, match=r"must be . or more, but is"):
            encoder.__post_init__()


def test_a_text_has_no_more_chunks_than_words() -> None:
    with pytest.raises(ModelError, match="length of texts must be 6 or more, but is 5"):
        replace(windows(), chunks=6)


def test_one_attention_alone_is_refused() -> None:
    for field in ("word_attention", "dimension_attention"):
        with pytest.raises(ModelError, match="attention must be float32"):
            replace(inception(), **{field: None})


def test_word_vectors_too_narrow_for_the_ring_are_refused() -> None:
    with pytest.raises(ModelError, match="width must be 6 or more, but is 5"):
        replace(inception(), words=words(5))


def test_a_layer_reads_what_its_encoder_gives() -> None:
    with pytest.raises(ModelError, match="reads 9 numbers, but its encoder gives 24"):
        Layered(encoder=summed(), layer=layer(9))
    layered = Layered(encoder=summed(), layer=layer(DIM))
    object.__setattr__(layered, "layer", summed())
    with pytest.raises(ModelError, match="must be an encoder and a layer"):
        layered.__post_init__()


@pytest.mark.parametrize("relu", [False, True])
def test_a_sum_is_the_product_of_weights_and_vectors(relu: bool) -> None:
    encoder = summed(relu=relu)
    expected = encoder.bias + np.stack(
        [sum((one / 10 * encoder.words[one].astype(np.float64) for one in row[:LENGTH]), np.zeros(DIM)) for row in ROWS]
    )
    assert (expected < 0).any()
    expected = np.maximum(expected, 0) if relu else expected
    np.testing.assert_allclose(encoder.encode(texts(ROWS)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("weight", [1e-30, 1e-5, 1e5, 1e30])
def test_weights_may_be_large_or_small(weight: float) -> None:
    encoder, inputs = replace(summed(relu=False), bias=np.zeros(DIM, dtype=np.float32)), texts([[3, 4]])
    found = encoder.encode(inputs._replace(weights=np.full(2, weight, dtype=np.float32)))
    np.testing.assert_allclose(found[0], weight * encoder.words[3:5].astype(np.float64).sum(0), rtol=1e-5)


def test_windows_are_filters_slid_by_hand() -> None:
    encoder = windows()
    for row, vector in zip(ROWS, encoder.encode(texts(ROWS)), strict=True):
        x = np.zeros((LENGTH + max(WIDTHS), DIM))
        x[: min(len(row), LENGTH)] = encoder.words[row[:LENGTH]]
        filters = zip((encoder.narrow, encoder.middle, encoder.wide), WIDTHS, strict=True)
        slid = [[weight @ x[place : place + width].ravel() for place in range(LENGTH)] for weight, width in filters]
        answers = np.concatenate(slid, axis=1)
        # Two chunks of five places share the middle one.
        pooled = np.concatenate([answers[:3].max(0) + encoder.bias, answers[2:].max(0) + encoder.bias])
        np.testing.assert_allclose(vector, np.maximum(pooled, 0), rtol=1e-5, atol=1e-6)


def test_gelu_is_exact_to_a_millionth() -> None:
    near = np.geomspace(1e-6, 1, 2000)
    x = np.concatenate([np.linspace(-12, 12, 20_000), near, -near]).astype(np.float32)
    exact = np.array([one / 2 * math.erfc(-one / math.sqrt(2)) for one in x.astype(np.float64)])
    found, bias = x[:, None].copy(), np.full(1, 0.25, dtype=np.float32)
    gelu_rows(found, 0 * bias)
    assert np.abs(found[:, 0] - exact).max() < 1e-6
    assert np.abs(found[-4000:, 0] / exact[-4000:] - 1).max() < 2e-6  # a normalisation may blow up what is small
    shifted = x[:, None] - bias
    gelu_rows(shifted, bias)
    np.testing.assert_allclose(shifted, found, atol=2e-6)
    gelu_all(x)
    np.testing.assert_allclose(x, found[:, 0], atol=2e-6)


def test_every_number_of_half_precision_is_decoded_exactly() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    halves = bits.view(np.float16)
    found = np.empty(len(bits), dtype=np.float32)
    decode(bits, found)
    finite = np.isfinite(halves)
    assert np.array_equal(found[finite].view(np.uint32), halves[finite].astype(np.float32).view(np.uint32))


@compiled
def in_single(bits: Any, out: Any) -> None:
    for i in range(len(bits)):
        out[i] = halves.number(bits[i])


@pytest.mark.skipif(not halves.HAS_HALVES, reason="needs a processor that converts half precision")
def test_a_weight_in_half_precision_is_read_exactly() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    found = np.empty(len(finite), dtype=np.float32)
    in_single(halves.for_products(finite), found)
    assert np.array_equal(found.view(np.uint32), finite.astype(np.float32).view(np.uint32))


def test_weights_in_half_precision_are_converted_when_a_processor_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halves, "HAS_HALVES", False)
    weights = numbers(3, 4).astype(np.float16)
    found = halves.for_products(weights)
    assert found.dtype == np.float32
    assert np.array_equal(found, weights)


KINDS_OF_WEIGHTS = st.sampled_from([np.float32, np.float16])


@given(st.integers(0, 13), st.integers(1, 13), st.integers(1, 40), st.integers(0, 45), KINDS_OF_WEIGHTS)
def test_a_product_is_numpy_s(rows: int, width: int, size: int, step: int, kind: type[Any]) -> None:
    numbers_in_all = max(rows - 1, 0) * step + size
    windows, columns = numbers(numbers_in_all), numbers(width, size).astype(kind)
    found = np.full((rows, width), np.nan, dtype=np.float32)
    product(windows, step, halves.for_products(columns), found)
    columns = columns.astype(np.float32)
    for i in range(rows):
        np.testing.assert_allclose(found[i], columns @ windows[i * step : i * step + size], rtol=1e-4, atol=1e-5)


@given(
    *(st.integers(1, 2 * WINDOWS + 1), st.integers(1, 70), st.integers(1, 40), st.integers(0, 45), st.integers(1, 5)),
    KINDS_OF_WEIGHTS,
)
def test_a_sum_of_rows_is_numpy_s(count: int, width: int, size: int, step: int, stride: int, kind: type[Any]) -> None:
    windows, bias = numbers((count - 1) * step + (size - 1) * stride + 1), numbers(width)
    matrix = numbers(size, width).astype(kind)
    blocks = in_blocks(matrix)
    assert blocks.shape[1] % COLUMNS == 0
    assert np.array_equal(blocks[:, :width], halves.for_products(matrix))
    assert not blocks[:, width:].any()
    padded = in_blocks(bias[None])[0]
    across = len(padded) + 3
    found = np.full(count * across, np.nan, dtype=np.float32)
    sum_of_rows(windows, step, stride, count, blocks, padded, found, across)
    rows = found.reshape(count, across)
    for i in range(count):
        expected = bias + windows[i * step :: stride][:size] @ matrix.astype(np.float32)
        np.testing.assert_allclose(rows[i, :width], expected, rtol=1e-4, atol=1e-5)
    assert np.isnan(rows[:, len(padded) :]).all()  # nothing is written beside the products
