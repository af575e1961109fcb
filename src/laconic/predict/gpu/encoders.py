"""Encoders and transforms with fewer kernel launches, which dominate the time of one text on a GPU.

Axis words: batch; words; dim (embedding width); channels; places (steps along the embedding dimension).
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional

from laconic.export.fold import attention_matrix, by_place, folded, normalisation
from laconic.kernels.triton import HAS_KERNELS
from laconic.kernels.triton.windows import Windows, convolved
from laconic.models.encoders import Encoder, InceptionEncoder
from laconic.models.encoders.inception import STRIDE
from laconic.models.layers import FreeWeight, SpectralWeight
from laconic.types import Inputs

Part = TypeVar("Part", bound=nn.Module)


def optimise_encoder(encoder: Encoder) -> Encoder:
    """Return the fastest equivalent of an encoder in evaluation mode; large tensors are shared."""
    return FoldedInception(encoder) if isinstance(encoder, InceptionEncoder) else with_fixed_norms(encoder)


def with_fixed_norms(module: Part) -> Part:
    """Copy a module, sharing its tensors, with spectral norms computed once instead of in every call."""
    shared: dict[int, Any] = {id(tensor): tensor for tensor in chain(module.parameters(), module.buffers())}
    copy = deepcopy(module, shared)
    for part in list(copy.modules()):
        for name, child in part.named_children():
            if isinstance(child, SpectralWeight):
                assert not child.training, "while training, asking for the matrix changes it"
                setattr(part, name, FreeWeight(child().detach()))
    return copy


class FoldedInception(Encoder):
    """InceptionXML's encoder with normalisations and factors folded into the weights, and its branches merged.

    A branch's window is the middle of the widest one's, so that zeros around its weights make all of them equally wide,
    and they are one convolution. What a word asks of the others, a product of its vector, is looked up like the vector.
    """

    def __init__(self, encoder: InceptionEncoder) -> None:
        super().__init__()
        self.embedding, self.length = encoder.embedding, encoder.length
        self.num_ids, self.dim = encoder.num_ids, encoder.dim
        branches, branches_bias = _joined([folded(branch, encoder.projection_norm) for branch in encoder.branches])
        final, final_bias = folded(encoder.final, encoder.branches_norm)
        gain, shift = normalisation(encoder.final_norm)
        width = self.embedding.embedding_dim
        places = (width - STRIDE) // STRIDE + 1
        place = partial(_placed, device=self.embedding.weight.device)
        attentions = encoder.word_attention, encoder.dimension_attention
        matrices = [place(attention_matrix(one)) for one in attentions if one is not None]  # both or none
        self.of_words = matrices[0] if matrices else None
        self.asking = self.embedding.weight.detach() @ matrices[1] if matrices else None
        self.projection, self.projection_bias = place(encoder.projection.weight.T), place(encoder.projection.bias)
        ring = Windows(places, branches.shape[2], STRIDE, first=(STRIDE - branches.shape[2]) // 2)
        last = Windows((places - final.shape[2]) // STRIDE + 1, final.shape[2], STRIDE)
        self.branches = _Convolution(ring, width, place(by_place(branches)), place(branches_bias))
        self.final = _Convolution(last, places, place(by_place(final)), place(final_bias))
        self.gain, self.shift = place(gain), place(shift)

    def forward(self, inputs: Inputs) -> Float[Tensor, "batch width"]:
        assert isinstance(inputs, tuple)
        h = self._attended(inputs.ids[:, : self.length])
        projection = self.projection[: h.shape[1]].expand(len(h), -1, -1)
        h = functional.gelu(torch.baddbmm(self.projection_bias, h.mT, projection))
        return torch.addcmul(self.shift, self.final(self.branches(h)), self.gain).mT.flatten(1)

    def _attended(self, ids: Int[Tensor, "batch words"]) -> Float[Tensor, "batch words dim"]:
        x: Tensor = self.embedding(ids)
        if self.of_words is None or self.asking is None:
            return x
        h = torch.baddbmm(x, x @ x.mT, self.of_words[: x.shape[1], : x.shape[1]] @ x)
        scores = functional.embedding(ids, self.asking) @ h.mT
        return torch.baddbmm(h, scores.mT, h)


class _Convolution:
    """A convolution and its GELU: by a kernel of its own on a GPU, else by torch's operations."""

    def __init__(
        self, windows: Windows, before: int, weight: Float[Tensor, "out numbers"], bias: Float[Tensor, "out"]
    ) -> None:
        self.windows, self.weight, self.bias = windows, weight, bias
        self.places = windows.places(before).flatten().to(weight.device)

    def __call__(self, h: Float[Tensor, "batch before channels"]) -> Float[Tensor, "batch places out"]:
        if h.is_cuda and HAS_KERNELS:
            return convolved(h, self.windows, self.weight, self.bias)
        seen = h.index_select(1, self.places).view(-1, self.weight.shape[1])
        return functional.gelu(torch.addmm(self.bias, seen, self.weight.T)).view(len(h), self.windows.count, -1)


def _joined(
    branches: list[tuple[Float[Tensor, "out channels _"], Float[Tensor, "out"]]],
) -> tuple[Float[Tensor, "all channels size"], Float[Tensor, "all"]]:
    """Merge the branches into one convolution of the widest branch's size."""
    size = max(weight.shape[2] for weight, _ in branches)
    sides = [(size - weight.shape[2]) // 2 for weight, _ in branches]
    padded = [functional.pad(weight, (side, side)) for (weight, _), side in zip(branches, sides, strict=True)]
    return torch.cat(padded), torch.cat([bias for _, bias in branches])


def _placed(tensor: Shaped[Tensor, "*shape"], device: torch.device) -> Shaped[Tensor, "*shape"]:
    kind = torch.float32 if tensor.is_floating_point() else tensor.dtype
    return tensor.detach().to(device, kind).contiguous()
