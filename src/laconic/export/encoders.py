"""Converts torch encoders and transforms to those of the packed engine.

What need not be computed for every text is folded into the weights. Word vectors are kept in float16.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from laconic.errors import ModelError
from laconic.export.fold import attention_matrix, by_place, double, folded, matrix, normalisation
from laconic.models.encoders import (
    BagEncoder,
    CnnEncoder,
    DenseEncoder,
    Encoder,
    Identity,
    InceptionEncoder,
    MlpEncoder,
    SumEncoder,
    UnitEncoder,
    UnitVectors,
    WordEncoder,
)
from laconic.models.layers import (
    DimensionAttention,
    DocumentBlock,
    EmbeddingBlock,
    Residual,
    SpectralResidual,
    Transfer,
    WordAttention,
)
from laconic.packed.engine.encoders import Encoder as PackedEncoder
from laconic.packed.engine.encoders import Given, Inception, Layered, Summed, Unit, Windows
from laconic.packed.engine.transforms import Layer, Transform, Unchanged
from laconic.types import PAD

_LARGEST = float(np.finfo(np.float16).max)


@singledispatch
def pack_encoder(encoder: Encoder) -> PackedEncoder:
    """Convert an encoder in evaluation mode."""
    raise ModelError(f"an encoder of the kind {type(encoder).__name__} cannot be packed")


@pack_encoder.register
def _(encoder: InceptionEncoder) -> Inception:
    branches = [_folded(branch, encoder.projection_norm) for branch in encoder.branches]
    final, final_bias = _folded(encoder.final, encoder.branches_norm)
    gain, shift = normalisation(encoder.final_norm)
    return Inception(
        words=_words(encoder),
        word_attention=_attention(encoder.word_attention),
        dimension_attention=_attention(encoder.dimension_attention),
        projection=_single(encoder.projection.weight),
        projection_bias=_single(encoder.projection.bias),
        narrow=branches[0][0],
        middle=branches[1][0],
        wide=branches[2][0],
        branches_bias=np.concatenate([bias for _, bias in branches]),
        final=final,
        final_bias=final_bias,
        gain=_single(gain),
        shift=_single(shift),
    )


@pack_encoder.register
def _(encoder: BagEncoder) -> Summed:
    return _summed(encoder)


@pack_encoder.register
def _(encoder: SumEncoder) -> Summed:
    return replace(_summed(encoder), relu=False)


@pack_encoder.register
def _(encoder: MlpEncoder) -> Layered:
    first = replace(_summed(encoder), bias=_single(encoder.bias))
    return Layered(encoder=first, layer=_layer(encoder.second.weight, encoder.second.bias, activation="relu"))


@pack_encoder.register
def _(encoder: UnitEncoder) -> Unit:
    layer = _layer(encoder.linear.weight, encoder.linear.bias, activation="gelu", skip=1.0)
    return Unit(encoder=Layered(encoder=replace(_summed(encoder), relu=False), layer=layer))


@pack_encoder.register
def _(encoder: UnitVectors) -> Unit:
    return Unit(encoder=pack_encoder(encoder.encoder))


@pack_encoder.register
def _(encoder: CnnEncoder) -> Layered:
    narrow, middle, wide = (_single(by_place(filters)) for filters in encoder.branches.parameters())
    windows = Windows(
        words=_words(encoder),
        narrow=narrow,
        middle=middle,
        wide=wide,
        bias=_single(encoder.bias),
        length=encoder.length,
        chunks=encoder.chunks,
    )
    weight = encoder.bottleneck.weight
    by_chunk = by_place(weight.view(len(weight), -1, encoder.chunks))
    bottleneck = _layer(by_chunk, encoder.bottleneck.bias, activation="relu")
    return Layered(encoder=windows, layer=bottleneck)


@pack_encoder.register
def _(encoder: DenseEncoder) -> Layered:
    gain, shift = normalisation(encoder.norm)
    weight, bias = double(encoder.linear.weight), double(encoder.linear.bias)
    layer = _layer(weight * gain, bias + weight @ shift, activation="relu")
    return Layered(encoder=Given(features=weight.shape[1]), layer=layer)


@pack_encoder.register
def _(encoder: Identity) -> Given:
    return Given(features=encoder.dim)


@singledispatch
def pack_transform(module: nn.Module, dim: int) -> Transform:
    """Convert a transform of `dim` inputs in evaluation mode."""
    raise ModelError(f"a transform of the kind {type(module).__name__} cannot be packed")


@pack_transform.register
def _(module: nn.Identity, dim: int) -> Unchanged:
    return Unchanged(inputs=dim)


@pack_transform.register
def _(module: nn.Linear, dim: int) -> Layer:
    bias = module.weight.new_zeros(len(module.weight)) if module.bias is None else module.bias
    return _layer(module.weight, bias, activation="none")


@pack_transform.register
def _(module: Residual, dim: int) -> Layer:
    gain, shift = normalisation(module.norm)
    layer = _layer(module.linear.weight, module.linear.bias, activation="gelu", skip=1.0)
    return replace(layer, gain=_single(gain), shift=_single(shift))


@pack_transform.register
def _(module: SpectralResidual, dim: int) -> Layer:
    return _layer(matrix(module.weight), module.bias, activation="gelu", skip=1.0)


@pack_transform.register
def _(module: Transfer, dim: int) -> Layer:
    return _layer(matrix(module.weight), module.bias, activation="relu", skip=float(module.skip))


@pack_transform.register
def _(module: EmbeddingBlock, dim: int) -> Layer:
    share, rest = double(module.combination.alpha).sigmoid(), double(module.combination.beta).sigmoid()
    layer = _layer(share[:, None] * matrix(module.weight), share * double(module.bias), activation="none")
    return replace(layer, inputs=dim, relu_before=True, skip=_single(rest))


@pack_transform.register
def _(module: DocumentBlock, dim: int) -> Layer:
    block = pack_transform(module.block, module.dim)
    assert isinstance(block, Layer)
    return replace(block, inputs=dim, first=module.first, relu_after=True)


def _summed(encoder: WordEncoder) -> Summed:
    words = _words(encoder)
    return Summed(words=words, bias=np.zeros(words.shape[1], dtype=np.float32), length=encoder.length, relu=True)


def _layer(
    weight: Float[Tensor, "width dim"], bias: Float[Tensor, "width"], *, activation: str, skip: float = 0.0
) -> Layer:
    return Layer.of(_single(weight), _single(bias), activation=activation, skip=skip)


def _words(encoder: WordEncoder) -> Float[np.ndarray, "ids dim"]:
    table = encoder.embedding.weight.detach().cpu()
    if not table.abs().max() <= _LARGEST:
        raise ModelError(
            f"the model's word vectors reach {float(table.abs().max()):g}, but float16 ends at {_LARGEST:,.0f}:"
            " it cannot be packed"
        )
    words = table.numpy().astype(np.float16)
    words[PAD] = 0
    return words


def _attention(attention: WordAttention | DimensionAttention | None) -> Float[np.ndarray, "n n"] | None:
    """Return γ W, transposed."""
    return None if attention is None else _single(attention_matrix(attention).T)


def _folded(
    convolution: nn.Module, norm: nn.BatchNorm1d
) -> tuple[Float[np.ndarray, "out size"], Float[np.ndarray, "out"]]:
    """Return folded weights in the order of the engine's windows."""
    weight, bias = folded(convolution, norm)
    return _single(by_place(weight)), _single(bias)


def _single(tensor: Float[Tensor, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Copy to float32, so that further training of the model does not change it."""
    return tensor.detach().cpu().float().numpy().copy()
