"""Distillation: train a small model on a large one's predictions, besides the texts' own labels.

The teacher's predictions become labels with a weight below 1, which every method that trains can read. Validation texts
keep their true labels alone. A teacher that stores training texts ignores the text that it predicts for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from laconic.config import check_within
from laconic.data.corpus import Corpus, Split
from laconic.data.dataset import drawn
from laconic.data.prepare import input_rows
from laconic.data.sketch import TextSketch
from laconic.errors import ConfigError
from laconic.evaluation.dataset_view import DatasetView
from laconic.evaluation.evaluate import rank_all
from laconic.methods.restore import restore_ranker
from laconic.models.fusion import Channels
from laconic.models.fusion.ranker import FusedRanker, Neighbourhood
from laconic.models.rankers import Ranker
from laconic.storage.model_folder import SavedModel
from laconic.types import NO_LABEL, Inputs, Ranking

_ITSELF = 0.97  # a neighbour's weight above which it counts as the text itself


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of distillation."""

    answers: int = 10
    """Labels that the teacher predicts per text."""
    trust: float = 0.5
    """Factor of the teacher's scores: the weight of a label that the teacher is certain of."""
    least: float = 0.02
    """Smallest weight that is kept."""
    validation: float = 0.05
    """Fraction of texts held out to choose the epoch, where the data have no split for it."""
    seed: int = 0
    """Seed of the held-out texts."""

    def __post_init__(self) -> None:
        check_within(self, {"answers": (1, 1000), "trust": (0, 1), "least": (0, 1), "validation": (0, 0.9)})


def with_teacher_labels(teacher: SavedModel, corpus: Corpus, device: torch.device, config: Config) -> Corpus:
    """Return the corpus with the teacher's predictions among the labels of its training texts."""
    if list(teacher.labels.names) != list(corpus.labels.names):
        raise ConfigError(
            f"the teacher's {len(teacher.labels):,} labels are not the data's {len(corpus.labels):,}, in their order; "
            "train it on this data"
        )
    corpus = _with_validation(corpus, config)
    split = corpus.split("train")
    ranker = _ignoring_the_text(restore_ranker(teacher, device).eval())
    ranking = rank_all(ranker, input_rows(split, DatasetView.of(teacher).tokenizer), config.answers)
    train = replace(split, labels=_soft_labels(split, ranking, config))
    return replace(corpus, splits={**corpus.splits, "train": train})


def with_teacher_facts(student: SavedModel, teacher: SavedModel) -> SavedModel:
    """Return the student with the teacher's label counts (soft labels do not make a label frequent) and training texts.

    Texts that the teacher was trained on count as seen by the student too.
    """
    sketches = [sketch for sketch in (student.sketch, teacher.sketch) if sketch is not None]
    return replace(
        student,
        label_counts=teacher.label_counts,
        facts={**student.facts, "teacher": teacher.facts["method"]},
        sketch=reduce(TextSketch.merged, sketches) if sketches else None,
    )


def _with_validation(corpus: Corpus, config: Config) -> Corpus:
    split, others = corpus.split("train"), {name: one for name, one in corpus.splits.items() if name != "all"}
    if "valid" in others or not config.validation:
        return replace(corpus, splits={**others, "train": split})
    held = min(round(config.validation * len(split)), 10_000)
    order, held = drawn(len(split), held, config.seed, split.group_numbers())
    learn, valid = (split.rows(np.sort(part)) for part in (order[held:], order[:held]))
    return replace(corpus, splits={**others, "train": learn, "valid": valid})


def _soft_labels(split: Split, ranking: Ranking, config: Config) -> csr_array:
    """Return true labels with their own weights, others with the teacher's; left-out pairs stay left out."""
    scores = (config.trust * ranking.scores).clamp(0, 1).numpy()
    text, place = np.nonzero((ranking.labels.numpy() != NO_LABEL) & (scores >= max(config.least, 1e-6)))
    pairs = text, ranking.labels.numpy()[text, place]
    answers = csr_array((scores[text, place], pairs), shape=split.labels.shape, dtype=np.float32)
    if split.leave_out is not None:
        answers = csr_array(answers - answers.multiply(split.leave_out))
        answers.eliminate_zeros()
    return csr_array(split.labels.maximum(answers), dtype=np.float32)


def _ignoring_the_text(ranker: Ranker) -> Ranker:
    if not isinstance(ranker, FusedRanker):
        return ranker
    further = ranker.trees, ranker.siamese, ranker.transformer
    return ranker.of(ranker.base, _WithoutItself(ranker.nearest), ranker.frequency, *further).eval()


class _WithoutItself(Ranker):
    """Nearest texts except the text itself."""

    def __init__(self, nearest: Ranker) -> None:
        super().__init__()
        self.nearest, self.num_labels = nearest, nearest.num_labels

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        return self.nearest.rank(inputs, k)

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        return self.nearest.score(inputs, labels)

    def channels(self, inputs: Inputs) -> Channels:
        nearest: Neighbourhood = self.nearest  # type: ignore[assignment] # as in the fused ranker
        return nearest.channels(inputs).without(_ITSELF)
