"""The heads of InceptionXML+ that its paper's ablation varies."""

from __future__ import annotations

from torch import nn

from laconic.models.layers import SpectralResidual

HEADS = ("synchronised", "lightxml")  # the first is InceptionXML+'s own


def head_layer(kind: str, dim: int, width: int, dropout: float, *, for_clusters: bool) -> nn.Module:
    """Build a head: one kind for both or, as in LightXML, none for clusters and a plain layer for labels."""
    if kind == "synchronised":
        return SpectralResidual(dim, width, dropout=dropout)
    return nn.Identity() if for_clusters else nn.Linear(dim, dim)
