"""Measure what packing costs: how far a packed model's answers agree with the model's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from laconic.data.corpus import Corpus
from laconic.data.evaluation_texts import evaluation_texts, is_of_training
from laconic.evaluation.dataset_view import DatasetView
from laconic.evaluation.evaluate import Truth, places_needed, rank_all
from laconic.evaluation.metrics import judge, report
from laconic.export.pack import _first_split
from laconic.methods.restore import restore_ranker
from laconic.packed.folder import PackedModel
from laconic.predict.packed_predictor import PackedPredictor
from laconic.storage.model_folder import SavedModel
from laconic.system.machine import usable_cores
from laconic.training.run import device_named
from laconic.types import NO_LABEL
from laconic.units import counted

_JUDGED = 5000  # texts on which the cost is measured
_BEST = 5
_PRECISIONS = ("P@5 before", "P@5 after")
TRAINING = "training texts"


class Precision(NamedTuple):
    """P@5 of a model and of its packed version."""

    before: float
    after: float


class Cost(NamedTuple):
    """How far the answers of a packed model agree with those of its model."""

    split: str  # or TRAINING
    texts: int
    found: float  # of the model's best five labels, in percent
    precision: Precision | None  # None: on training texts, it would say more of memory than of what was learnt

    @property
    def words(self) -> str:
        """Describe the texts that the cost was measured on."""
        kind = {TRAINING: "training ", "held-out": "held-out "}.get(self.split, "")
        return counted(self.texts, f"{kind}text") + ("" if kind else f" of {self.split}")

    def facts(self) -> dict[str, Any]:
        figures = {} if self.precision is None else dict(zip(_PRECISIONS, self.precision, strict=True))
        return {"split": self.split, "texts": self.texts, "found": self.found, **figures}

    @staticmethod
    def of_facts(facts: Any) -> Cost | None:
        """Read what `facts` wrote; None if it is missing."""
        match facts:
            case {"split": str(split), "texts": int(texts), "found": float(found), **others}:
                match others:
                    case {"P@5 before": float(before), "P@5 after": float(after)}:
                        return Cost(split, texts, found, Precision(before, after))
                return Cost(split, texts, found, None)
        return None


def measured(
    packed_model: PackedModel,
    model: SavedModel,
    corpus: Corpus,
    split: str,
    device: str = "cpu",
    on_batch: Callable[[int, int], None] = lambda done, texts: None,
) -> tuple[PackedModel, Cost]:
    """Measure the cost of packing on texts of a split, and return the packed model with it among its facts.

    The model itself ranks on the device. `on_batch` hears how many texts were ranked, and of how many; both models rank
    each of them.
    """
    view, some = DatasetView.of(model), corpus.sampled(split, _JUDGED)
    rows, truth = view.rows_and_truth(some, split)
    places = places_needed(truth, (_BEST,))

    def count(done: int) -> None:
        on_batch(done, 2 * rows.shape[0])

    wanted = rank_all(restore_ranker(model, device_named(device)), rows, places, count).labels.numpy()
    found = PackedPredictor(packed_model, usable_cores()).rank_rows(rows, places, count).labels
    best = wanted[:, :_BEST]
    shared = (best[:, :, None] == found[:, None, :_BEST]).any(2)[best != NO_LABEL]
    agreement = 100 * float(shared.mean())
    if is_of_training(view.trained_on, some.split(split), split):
        cost = Cost(TRAINING, len(best), agreement, None)
    else:
        name = evaluation_texts(corpus, split).name
        cost = Cost(name, len(best), agreement, Precision(*(_precision(labels, truth) for labels in (wanted, found))))
    return replace(packed_model, facts={**packed_model.facts, "packing": cost.facts()}), cost


def split_to_measure(corpus: Corpus) -> str:
    """Return the split to measure on, the one that training has seen least of; empty if there are no texts."""
    return _first_split(corpus, "test", "valid", "train", "all")


def _precision(labels: Int[np.ndarray, "texts k"], truth: Truth) -> float:
    """Return P@5 in percent."""
    return report(judge(labels, truth.labels, leave_out=truth.leave_out), ks=(_BEST,))[f"P@{_BEST}"]
