"""Folds normalisations into the weights of the layer before or after them, in double precision."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from laconic.models.layers import DimensionAttention, FreeWeight, SpectralWeight, WordAttention


def attention_matrix(attention: WordAttention | DimensionAttention) -> Float[Tensor, "n n"]:
    """Return γ W."""
    return double(attention.gamma) * matrix(attention.weight)


def folded(
    convolution: nn.Module, norm: nn.BatchNorm1d
) -> tuple[Float[Tensor, "out channels places"], Float[Tensor, "out"]]:
    """Return weights and bias of a convolution over unnormalised inputs; exact, because nothing is padded."""
    assert isinstance(convolution, nn.Conv1d)
    assert convolution.bias is not None
    gain, shift = normalisation(norm)
    weight = double(convolution.weight)
    return weight * gain[:, None], double(convolution.bias) + weight.sum(2) @ shift


def normalisation(norm: nn.BatchNorm1d) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]:
    """Return the factor and the offset of a normalisation."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    gain = double(norm.weight) / (double(norm.running_var) + norm.eps).sqrt()
    return gain, double(norm.bias) - double(norm.running_mean) * gain


def by_place(weight: Float[Tensor, "out channels places"]) -> Float[Tensor, "out numbers"]:
    """Reorder a window's weights: all channels of one position, then those of the next."""
    return weight.mT.flatten(1)


def matrix(weight: SpectralWeight | FreeWeight) -> Float[Tensor, "out in"]:
    assert not weight.training, "while training, asking for the matrix changes it"
    return double(weight())


def double(tensor: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    return tensor.detach().cpu().double()
