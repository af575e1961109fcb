"""The packed shortlister of a learnt space: the labels that a packed siamese finds, with their cosines."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from laconic.errors import ModelError
from laconic.kernels.checks import check_kind, check_real, check_whole
from laconic.packed.engine.search import Searched
from laconic.packed.engine.shortlists import Shortlist
from laconic.packed.engine.texts import Inputs, Ranked
from laconic.types import NO_LABEL

_LEAST = np.float32(1e-37)  # a probability whose logarithm there is


@dataclass(frozen=True, kw_only=True, eq=False)
class SpaceLabels(Shortlist):
    """The packed form of NearestInSpace. Cosines are read off the probabilities that siamese gives."""

    space: Searched
    temperature: float  # by which cosines were divided
    bias: float  # of all labels
    width: int  # of the vectors of the ranker that it serves, which it does not read

    def __post_init__(self) -> None:
        check_kind(self.space, "space of label texts", Searched)
        check_real(self.temperature, "temperature", 0.0, 1e6)
        check_real(self.bias, "bias of the space", -1e6, 1e6)
        check_whole(self.width, "width of vectors", 1)
        if self.space.num_labels != self.num_labels:
            raise ModelError("the packed model's space is not of the labels of its shortlist; pack it again")

    @property
    def dim(self) -> int:
        return self.width

    @property
    def cells(self) -> int:
        return self.space.clusters.size

    def listed(self, inputs: Inputs, vectors: Float[np.ndarray, "texts dim"], size: int) -> Ranked:
        found = self.space.rank(inputs, size)
        likely = np.clip(found.scores, _LEAST, np.float32(1 - 2**-24))
        logits = np.log(likely) - np.log1p(-likely)
        cosines = np.float32(self.temperature) * (logits - np.float32(self.bias))
        return Ranked(found.labels, np.where(found.labels == NO_LABEL, np.float32(0), cosines))

    def with_beam(self, beam: int) -> SpaceLabels:
        return replace(self, space=self.space.with_beam(beam))

    def exact(self) -> SpaceLabels:
        return replace(self, space=self.space.exact())
