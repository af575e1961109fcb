"""Labels and examples to add to a ranker, in its own numbers, and their vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array, diags_array, hstack
from torch import Tensor
from torch.nn import functional

from laconic.data.dataset import Dataset
from laconic.data.label_texts import with_known_words
from laconic.methods.common import encoded
from laconic.models.encoders import Encoder

_NEAREST = 5  # known labels from which a new one borrows
_POWER = 3  # of their cosines
_AT_ONCE = 4096  # new labels at a time
_COSINES = 1 << 26  # cosines held at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class Additions:
    """New labels, numbered after the known ones, and example texts with labels of either kind."""

    label_texts: csr_array  # token rows: the text of each new label
    known_texts: csr_array  # token rows: the text of each known label; empty where there is none
    examples: Dataset  # texts with known and new labels; may be empty

    @property
    def num_new(self) -> int:
        return int(self.label_texts.shape[0])

    @property
    def num_known(self) -> int:
        return int(self.known_texts.shape[0])

    @property
    def num_labels(self) -> int:
        return self.num_known + self.num_new

    def texts_of_new(self) -> csr_array:
        """Return a matrix of new labels × texts: each label's own text, if it has known words, and its examples."""
        own = diags_array(with_known_words(self.label_texts).astype(np.float32))
        examples = csr_array((self.examples.labels != 0).T, dtype=np.float32)[self.num_known :]
        return hstack([own, examples], format="csr", dtype=np.float32)


class Borrowed(NamedTuple):
    """The nearest known labels of each new label, with their weights: smaller, the more texts the new label has."""

    labels: Int[Tensor, "new n"]
    weights: Float[Tensor, "new n"]

    def mean(self, rows: Float[Tensor, "known dim"]) -> Float[Tensor, "new dim"]:
        parts = zip(torch.split(self.labels, _AT_ONCE), torch.split(self.weights, _AT_ONCE), strict=True)
        return torch.cat([(weights[:, None] @ rows[labels])[:, 0] for labels, weights in parts])


class Seen(NamedTuple):
    """Vectors of additions, by an encoder."""

    known: Float[Tensor, "known dim"]  # labels by their own texts; zeros where nothing is known
    new: Float[Tensor, "new dim"]  # labels by the mean of their own texts and their examples
    examples: Float[Tensor, "examples dim"]
    near: Borrowed

    @staticmethod
    def by(encoder: Encoder, additions: Additions, device: torch.device) -> Seen:
        rows = additions.known_texts, additions.label_texts, additions.examples.inputs
        known, own, examples = (encoded(encoder, part, device) for part in rows)
        known[torch.from_numpy(~with_known_words(additions.known_texts)).to(device)] = 0
        texts_of = additions.texts_of_new()
        counts = np.maximum(texts_of.sum(axis=1), 1)[:, None]
        new = torch.from_numpy(texts_of @ torch.cat([own, examples]).cpu().numpy() / counts).to(device)
        near = _nearest(known, new)
        return Seen(known, new, examples, near._replace(weights=near.weights / torch.from_numpy(counts).to(device)))


def _nearest(known: Float[Tensor, "known dim"], new: Float[Tensor, "new dim"]) -> Borrowed:
    """Return the nearest known labels by cosine; the weights of a label without any similar one are 0."""
    known, new = functional.normalize(known, dim=1), functional.normalize(new, dim=1)
    parts = torch.split(new, max(1, _COSINES // max(len(known), 1)))
    best = [(part @ known.T).topk(min(_NEAREST, len(known))) for part in parts]
    weights = torch.cat([part.values for part in best]).clamp(min=0) ** _POWER
    normalised = weights / weights.sum(1, keepdim=True).clamp(min=1e-12)
    return Borrowed(torch.cat([part.indices for part in best]), normalised)
