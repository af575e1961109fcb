"""The packed encoders: from texts or dense features to one vector each.

A text is read at its own length and cut at the encoder's. Axis words: ids; words; dim (of a word's vector); channels;
filters; size (numbers in a window).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from laconic.errors import DataError, ModelError
from laconic.kernels.checks import check_array, check_floats, check_kind, check_whole, for_kernels
from laconic.kernels.held import Held, hold
from laconic.packed.engine.halves import check_weights
from laconic.packed.engine.inception_kernels import CHANNELS, SIDE, SIZES, STRIDE, Weights, encode_inception
from laconic.packed.engine.layer_kernels import WORD_BLOCK, divide_by_lengths
from laconic.packed.engine.outer_products import in_blocks
from laconic.packed.engine.parts import Part
from laconic.packed.engine.texts import Inputs, Texts, check_features
from laconic.packed.engine.transforms import Transform
from laconic.packed.engine.word_kernels import encode_sums, encode_windows

WIDTHS = (1, 2, 4)  # of the windows of a convolution over words

_MOST_OUTPUTS = 1 << 20  # of a convolution, for a text
_INFINITE, _MINUS_INFINITE = 0x7C00, 0xFC00  # the bits of the first numbers that are not finite, by sign


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoder(Part, ABC):
    """An encoder of the packed engine."""

    @property
    @abstractmethod
    def dim(self) -> int: ...

    @abstractmethod
    def encode(self, inputs: Inputs) -> Float[np.ndarray, "texts dim"]: ...


def check_fits(encoder: Any, transform: Any, width: int) -> None:
    """Refuse a transform that does not fit the encoder's output or the rows' width."""
    kinds = isinstance(encoder, Encoder) and isinstance(transform, Transform)
    if not kinds or (transform.inputs, transform.width) != (encoder.dim, width):
        raise ModelError("the packed model's encoder, transform and rows do not fit together; pack it again")


@dataclass(frozen=True, kw_only=True, eq=False)
class Inception(Encoder):
    """InceptionXML's encoder with normalisations folded into its weights; with both attentions or none."""

    words: np.ndarray  # float16, ids × dim; with scales, uint8: half a byte for each number (layer_kernels.py)
    word_attention: np.ndarray | None  # float32, length × length; this matrix and the next are transposed
    dimension_attention: np.ndarray | None  # float32 or float16, as all filters; dim × dim
    projection: np.ndarray  # float32, channels × length
    projection_bias: np.ndarray  # float32, as all that follow but the filters
    narrow: np.ndarray  # filters, channels × size; a window's numbers are of each place along dim its channels
    middle: np.ndarray
    wide: np.ndarray
    branches_bias: np.ndarray
    final: np.ndarray  # filters, channels × size
    final_bias: np.ndarray
    gain: np.ndarray  # this and the next are what is left of the last normalisation
    shift: np.ndarray
    word_scales: np.ndarray | None = None  # float16, ids × blocks of a word's numbers
    width: int | None = None  # of a word's vector, where there are scales

    def __post_init__(self) -> None:
        dim, every = self._width, len(SIZES) * CHANNELS
        _check_words(self.words, self.word_scales, dim)
        check_whole(dim, "word vectors' width", SIDE)
        self._check("projection", CHANNELS, None)
        length = self.projection.shape[1]
        if self.word_attention is not None or self.dimension_attention is not None:
            self._check("word_attention", length, length)
            check_weights(self.dimension_attention, "dimension attention", (dim, dim))
        for name, size in zip(("narrow", "middle", "wide"), SIZES, strict=True):
            check_weights(getattr(self, name), f"{name} filters", (CHANNELS, size * CHANNELS))
        check_weights(self.final, "final filters", (CHANNELS, self._final_size * every))
        self._check("branches_bias", every)
        for name in ("projection_bias", "final_bias", "gain", "shift"):
            self._check(name, CHANNELS)

    @property
    def dim(self) -> int:
        return CHANNELS * ((self._places - self._final_size) // STRIDE + 1)

    def encode(self, inputs: Inputs) -> Float[np.ndarray, "texts dim"]:
        texts = texts_of(inputs)
        out = np.empty((texts.size, self.dim), dtype=np.float32)
        if not encode_inception(self._held, *texts, out):
            refuse_texts(texts, len(self.words))
        return out

    @property
    def _width(self) -> int:
        return int(self.words.shape[1]) if self.width is None else self.width

    @property
    def _places(self) -> int:
        return self._width // STRIDE

    @property
    def _final_size(self) -> int:
        return min(SIZES[-1], self._places)

    @cached_property
    def _held(self) -> Held:
        none = np.zeros((0, 0), dtype=np.float32)
        word, dimension = self.word_attention, self.dimension_attention
        words, scales = _table(self.words, self.word_scales)
        arrays = (
            words,
            none if word is None else word,
            none if dimension is None else in_blocks(dimension.T),
            self.projection,
            *(in_blocks(filters.T) for filters in (self.narrow, self.middle, self.wide, self.final)),
            *(self.projection_bias, self.branches_bias, self.final_bias, self.gain, self.shift),
        )
        return hold((Weights(self._width, *map(for_kernels, arrays)), scales))

    def _check(self, name: str, *shape: int | None) -> None:
        array, said = getattr(self, name), name.replace("_", " ")
        check_floats(array, said, shape)


@dataclass(frozen=True, kw_only=True, eq=False)
class Summed(Encoder):
    """The weighted sum of a text's word vectors and a bias, followed by ReLU if `relu`."""

    words: np.ndarray  # float16, ids × dim; with scales, uint8: half a byte for each number (layer_kernels.py)
    bias: np.ndarray  # float32
    length: int
    relu: bool
    word_scales: np.ndarray | None = None  # float16, ids × blocks of a word's numbers

    def __post_init__(self) -> None:
        check_floats(self.bias, "bias of words", (None,))
        _check_words(self.words, self.word_scales, self.dim)
        check_whole(self.length, "length of texts", 1)

    @property
    def dim(self) -> int:
        return len(self.bias)

    def encode(self, inputs: Inputs) -> Float[np.ndarray, "texts dim"]:
        texts = texts_of(inputs)
        out = np.empty((texts.size, self.dim), dtype=np.float32)
        if not encode_sums(self._held, *texts, out):
            refuse_texts(texts, len(self.words))
        return out

    @cached_property
    def _held(self) -> Held:
        return hold((*_table(self.words, self.word_scales), for_kernels(self.bias), self.length, bool(self.relu)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Windows(Encoder):
    """XML-CNN's convolution: filters over windows of words, max-pooled over each chunk of a text."""

    words: np.ndarray  # float16, ids × dim
    narrow: np.ndarray  # float32, filters × size; a window's numbers are its words' vectors one after another
    middle: np.ndarray
    wide: np.ndarray
    bias: np.ndarray  # float32, of all filters
    length: int
    chunks: int

    def __post_init__(self) -> None:
        _check_words(self.words)
        for name, width in zip(("narrow", "middle", "wide"), WIDTHS, strict=True):
            check_floats(getattr(self, name), f"{name} filters", (None, width * self.words.shape[1]))
        filters = len(self.narrow) + len(self.middle) + len(self.wide)
        check_floats(self.bias, "bias of filters", (filters,))
        check_whole(self.chunks, "chunks of a text", 1)
        check_whole(self.length, "length of texts", self.chunks)
        if self.dim > _MOST_OUTPUTS:
            raise ModelError(
                f"the packed model's {filters:,} filters in {self.chunks:,} chunks give more than {_MOST_OUTPUTS:,} "
                "numbers; pack it again"
            )

    @property
    def dim(self) -> int:
        return len(self.bias) * self.chunks

    def encode(self, inputs: Inputs) -> Float[np.ndarray, "texts dim"]:
        texts = texts_of(inputs)
        out = np.empty((texts.size, self.chunks, len(self.bias)), dtype=np.float32)
        words, narrow, middle, wide, bias = self._arrays
        if not encode_windows(words, (narrow, middle, wide), bias, texts, self.length, out):
            refuse_texts(texts, len(self.words))
        return out.reshape(len(out), self.dim)

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        arrays = (self.words.view(np.uint16), self.narrow, self.middle, self.wide, self.bias)
        return tuple(map(for_kernels, arrays))


@dataclass(frozen=True, kw_only=True, eq=False)
class Given(Encoder):
    """Dense features, unchanged."""

    features: int

    def __post_init__(self) -> None:
        check_whole(self.features, "number of features", 1)

    @property
    def dim(self) -> int:
        return self.features

    def encode(self, inputs: Inputs) -> Float[np.ndarray, "texts dim"]:
        return np.ascontiguousarray(check_features(inputs, self.features), dtype=np.float32)


@dataclass(frozen=True, kw_only=True, eq=False)
class Layered(Encoder):
    """An encoder with one more layer."""

    encoder: Encoder
    layer: Transform

    def __post_init__(self) -> None:
        if not isinstance(self.encoder, Encoder) or not isinstance(self.layer, Transform):
            raise ModelError("the packed model's layered encoder must be an encoder and a layer; pack it again")
        if self.layer.inputs != self.encoder.dim:
            raise ModelError(
                f"the packed model's layer reads {self.layer.inputs:,} numbers, but its encoder gives"
                f" {self.encoder.dim:,}; pack it again"
            )

    @property
    def dim(self) -> int:
        return self.layer.width

    def encode(self, inputs: Inputs) -> Float[np.ndarray, "texts dim"]:
        return self.layer.apply(self.encoder.encode(inputs))


@dataclass(frozen=True, kw_only=True, eq=False)
class Unit(Encoder):
    """An encoder whose vectors are divided by their length; zeros stay zeros."""

    encoder: Encoder

    def __post_init__(self) -> None:
        check_kind(self.encoder, "encoder", Encoder)

    @property
    def dim(self) -> int:
        return self.encoder.dim

    def encode(self, inputs: Inputs) -> Float[np.ndarray, "texts dim"]:
        vectors = self.encoder.encode(inputs)
        units = np.empty(vectors.shape, dtype=np.float32)
        divide_by_lengths(vectors, units)
        return units


def _check_words(words: np.ndarray, scales: np.ndarray | None = None, width: int | None = None) -> None:
    """Refuse a table of word vectors that are not so wide, or not finite."""
    if scales is not None:
        check_whole(width, "word vectors' width", 1)
        assert width is not None
        blocks = -(-width // WORD_BLOCK)
        check_array(words, "word vectors", np.uint8, (None, blocks * WORD_BLOCK // 2))
        check_array(scales, "word vectors' scales", np.float16, (len(words), blocks))
    else:
        check_array(words, "word vectors", np.float16, (None, width))
        check_whole(words.shape[1], "word vectors' width", 1)
    # By their bits: a table is large, and the largest of integers is found without a copy.
    floats = words if scales is None else scales
    if floats.size and (floats.view(np.int16).max() >= _INFINITE or floats.view(np.uint16).max() >= _MINUS_INFINITE):
        raise ModelError("the packed model's word vectors are not all finite; pack it again")


def _table(words: np.ndarray, scales: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return word vectors as kernels read them."""
    if scales is None:
        return for_kernels(words.view(np.uint16)), None
    return for_kernels(words), for_kernels(scales.view(np.uint16))


def texts_of(inputs: Inputs) -> Texts:
    """Return inputs that are texts; refuse features."""
    if not isinstance(inputs, Texts):
        raise DataError("the model reads words, but is given dense features; give it texts")
    return inputs


def refuse_texts(texts: Texts, num_ids: int) -> None:
    """Report what is wrong with texts that a kernel rejected."""
    outside = texts.ids[(texts.ids < 0) | (texts.ids >= num_ids)]
    if len(outside):
        raise ModelError(
            f"token id {outside[0]} is outside of the packed model's {num_ids:,} word vectors: its vocabulary is that"
            " of another model; pack it again"
        )
    raise ModelError("the texts' bounds do not lie in order among their words and weights")
