"""nearest: the labels of the most similar training texts, and labels whose own text is similar. Nothing is trained.

A text's score for a label is the sum, over the nearest training texts that have the label, of their cosine to the power
`power`, divided by the largest such sum; plus `label_text` times the cosine of the text and the label's own text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from laconic.config import Bounds
from laconic.data.dataset import Dataset
from laconic.data.vocabulary import VocabularyConfig, bags
from laconic.errors import ConfigError, ModelError
from laconic.kernels.csr import Lists
from laconic.methods.config import MethodConfig
from laconic.methods.result import Trained
from laconic.methods.validation import calibrates_apart, calibration_parts
from laconic.models.nearest_ranker import NearestRanker, votes_of
from laconic.models.shortlisters.nearest import NearestBags, NearestVectors, StoredLists, tensor_of
from laconic.training.run import Run


@dataclass(frozen=True, kw_only=True)
class Config(MethodConfig):
    """Settings of nearest texts."""

    bounds: ClassVar[Bounds] = {
        "neighbours": (1, math.inf),
        "power": (0, math.inf),
        "label_text": (0, math.inf),
        "calibration": (0, 0.9),
    }

    neighbours: int = 100
    """Nearest training texts that vote for their labels. Symbol: k (nearest neighbours)."""
    power: float = 3.0
    """Exponent of a neighbour's cosine in its vote."""
    label_text: float = 0.6
    """Weight of the cosine between the text and a label's own text. 0: label texts are not used."""
    calibration: float = 0.05
    """Fraction of the texts, at least 300 and at most 5,000 of them, by which scores are calibrated: they are ranked by
    an index without them. 0: scores are not calibrated.
    """
    vocabulary: VocabularyConfig = VocabularyConfig(sublinear=True)

    def __post_init__(self) -> None:
        if not 0 < self.power < math.inf:
            raise ConfigError(f"power must be a number above 0, but is {self.power}")
        if self.label_text == math.inf:
            raise ConfigError("label_text must be a number of 0 or more, but is inf")
        super().__post_init__()


def train(data: Dataset, config: Config, run: Run) -> Trained:
    apart = calibrates_apart(data, config)
    calibration_ranker = build(calibration_parts(data, config.calibration)[0], config) if apart else None
    return Trained(build(data, config), config, calibration_ranker=calibration_ranker)


def build(data: Dataset, config: Config) -> NearestRanker:
    """Index the data by word; all of it is kept."""
    sparse = isinstance(data.inputs, csr_array)
    texts = NearestBags.of(data.inputs) if sparse else NearestVectors.of(data.inputs)
    has_label_texts = sparse and data.label_inputs is not None and config.label_text > 0
    label_texts = bags(data.label_inputs) if has_label_texts else csr_array((data.num_labels, 0), dtype=np.float32)
    return NearestRanker(
        neighbours=config.neighbours,
        power=config.power,
        label_text=config.label_text,
        texts=texts,
        votes=StoredLists(Lists.of(votes_of(data))),
        label_texts=StoredLists(Lists.inverted(label_texts)),
        popular=torch.from_numpy(np.argsort(-data.label_counts, kind="stable")),
    )


def restore(config: Config, tensors: Mapping[str, Tensor]) -> NearestRanker:
    """Restore the ranker from its state_dict, after checking every number that compiled loops use as an index."""
    popular = tensor_of(tensors, "popular", torch.int64)
    if not torch.equal(popular.sort().values, torch.arange(popular.numel())):
        raise ModelError("the model's tensor 'popular' must name every label once; the file is damaged: fetch it again")
    votes = StoredLists.of_tensors(tensors, "votes", below=len(popular))
    return NearestRanker(
        neighbours=config.neighbours,
        power=config.power,
        label_text=config.label_text,
        texts=_restore_texts(tensors, num_texts=len(votes.starts) - 1),
        votes=votes,
        label_texts=StoredLists.of_tensors(tensors, "label_texts", below=len(popular)),
        popular=popular,
    )


def _restore_texts(tensors: Mapping[str, Tensor], num_texts: int) -> NearestBags | NearestVectors:
    if "texts.vectors" not in tensors:
        return NearestBags(StoredLists.of_tensors(tensors, "texts.index", below=num_texts), num_texts)
    vectors = tensor_of(tensors, "texts.vectors", torch.float32)
    if vectors.ndim != 2 or len(vectors) != num_texts or not vectors.isfinite().all():
        raise ModelError(
            f"the model's tensor 'texts.vectors' must be {num_texts:,} rows of finite numbers; the file is damaged: "
            "fetch it again"
        )
    return NearestVectors(vectors)
