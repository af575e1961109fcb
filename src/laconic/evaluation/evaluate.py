"""Rank a split and compute every metric; labels of data and model are matched by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array
from torch import Tensor, nn

from laconic.data.dataset import Dataset, Rows, renumbered
from laconic.data.sketch import Overlap
from laconic.data.tokenizer import inputs_of
from laconic.evaluation.calibration import Calibration
from laconic.evaluation.label_report import FIRST, LabelReport
from laconic.evaluation.label_sets import USUAL, AtThreshold, Curve, Scored
from laconic.evaluation.metrics import (
    KS,
    Judged,
    Propensity,
    Quantiles,
    TrainingCounts,
    bootstrap,
    equal_frequency_quantiles,
    equal_label_quantiles,
    expected_calibration_error,
    judge,
    per_text,
    report,
    without_pairs,
)
from laconic.evaluation.metrics.hierarchy import near_misses
from laconic.evaluation.metrics.pairs import holds
from laconic.evaluation.metrics.sets import macro_f1, micro_f1
from laconic.evaluation.thresholds import Found
from laconic.models.classifiers import shards_of
from laconic.models.fusion.ranker import FusedRanker
from laconic.models.rankers import CandidatesRanker, Ranker, Reranker
from laconic.system.machine import torch_within_cores
from laconic.types import NO_LABEL, Inputs, Ranking, Tokens

_BATCH = 1024
_AT_ONCE = 3  # batches that are ranked side by side with a GPU
_CALIBRATED = 5  # labels of a text by which scores are judged


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """The labels of a split in a model's numbering. Labels unknown to the model come after its own."""

    labels: csr_array
    leave_out: csr_array | None
    training: TrainingCounts | None
    names: Sequence[str] = ()  # of all labels; empty: they are not known
    broader: csr_array | None = None  # labels × labels as bool: the label hierarchy, if there is one


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """The metrics of one split, with intervals and quantiles."""

    texts: int
    metrics: dict[str, float]  # in percent
    intervals: dict[str, tuple[float, float]]  # 95 % of bootstrap resamples of the texts
    quantiles: dict[str, Quantiles]  # contributions to P@5 by label frequency, in both papers' definitions
    at_threshold: AtThreshold | None = None  # None: scores are no probabilities, and no threshold was chosen
    curve: Curve | None = None  # of precision and recall
    seen: Overlap | None = None  # texts that the model was trained on; None: unknown
    propensity: Propensity | None = None  # the constants of PSP; None: there is no PSP
    by_label: LabelReport | None = None  # None: the names of labels are not known

    def as_json(self) -> dict[str, Any]:
        quantiles = {name: _plain(asdict(quantile)) for name, quantile in self.quantiles.items()}
        return {
            "texts": self.texts,
            "seen_in_training": None if self.seen is None else self.seen.as_json(),
            "propensity": None if self.propensity is None else asdict(self.propensity),
            "metrics": self.metrics,
            "intervals": self.intervals,
            "at_threshold": None if self.at_threshold is None else self.at_threshold.as_json(),
            "precision_recall": None if self.curve is None else self.curve.as_json(),
            "quantiles": quantiles,
        }


@torch_within_cores()
def rank_all(ranker: Ranker, rows: Rows, k: int, on_batch: Callable[[int], None] = lambda done: None) -> Ranking:
    """Rank the best k labels of every row, batch by batch."""
    parts = []
    for part in _ranked(ranker, rows, k):
        parts.append(part)
        on_batch(len(part.labels))
    if not parts:
        return Ranking(torch.zeros((0, k), dtype=torch.int64), torch.zeros((0, k)))
    return Ranking(torch.cat([part.labels for part in parts]).cpu(), torch.cat([part.scores for part in parts]).cpu())


def _ranked(ranker: Ranker, rows: Rows, k: int) -> Iterator[Ranking]:
    """Yield the rankings of all batches in their order.

    Of a combined ranker on a GPU, some are made side by side: the host works at one while the GPU is at another. Where
    several processes share its labels, they must ask each other in one order.
    """
    device = device_of(ranker)
    # Of several batches, the next is prepared while the GPU ranks one; a single one is answered where it is.
    where = torch.device("cpu") if ranker.takes_host_inputs and rows.shape[0] <= _BATCH else device

    @torch.inference_mode()
    def rank(batch: tuple[slice, Inputs]) -> Ranking:
        return ranker.rank(on_device(batch[1], where), k)

    each = batches(rows, torch.device("cpu"))
    if device.type != "cuda" or not isinstance(ranker, FusedRanker) or shards_of(ranker):
        yield from map(rank, each)
        return
    yield from map(rank, islice(each, 1))  # what rankers prepare for their first batch, they prepare once
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        yield from pool.map(rank, each)
    finally:
        pool.shutdown(cancel_futures=True)


@torch.inference_mode()
def rank_all_by(
    ranker: CandidatesRanker | Reranker, rows: Rows, k: int, weights: Sequence[float], size: int = _BATCH
) -> list[Ranking]:
    """Rank every row for each weight of a ranker's blend, in one pass of `size` rows at a time."""
    parts = [ranker.rank_by(inputs, k, weights) for _, inputs in batches(rows, device_of(ranker), size)]
    if not parts:
        return [rank_all(ranker, rows, k)] * len(weights)
    return [
        Ranking(*(torch.cat(several).cpu() for several in zip(*one, strict=True))) for one in zip(*parts, strict=True)
    ]


def batches(rows: Rows, device: torch.device, size: int = _BATCH) -> Iterator[tuple[slice, Inputs]]:
    """Yield some rows at a time: their positions, and their inputs on the device."""
    for first in range(0, rows.shape[0], size):
        part = slice(first, first + size)
        yield part, on_device(inputs_of(rows[part]), device)


def device_of(module: nn.Module) -> torch.device:
    tensor: Tensor = next(iter(module.state_dict().values()))
    return tensor.device


def on_device(inputs: Inputs, device: torch.device) -> Inputs:
    return Tokens(*(part.to(device) for part in inputs)) if isinstance(inputs, Tokens) else inputs.to(device)


def places_needed(truth: Truth, ks: Sequence[int] = KS) -> int:
    """Return how many labels to rank so that max(ks) remain when pairs are left out."""
    pairs = 0 if truth.leave_out is None else int(np.diff(truth.leave_out.indptr).max(initial=0))
    return max(ks) + pairs


def evaluate(
    ranking: Ranking,
    truth: Truth,
    *,
    ks: Sequence[int] = KS,
    seed: int = 0,
    calibration: Calibration | None = None,
    limits: Found | None = None,
    seen: Overlap | None = None,
) -> Evaluation:
    """Compute every metric of a ranking, with intervals.

    A calibration affects the calibration errors and what reaches `limits`, the threshold that was chosen, if any.
    """
    scored = Scored.of(ranking, truth, calibration)
    judged, limits = scored.judged, limits or (None if calibration is None else USUAL)
    near = {} if truth.broader is None else near_misses(judged, truth.broader, ks=ks)
    sets = micro_f1(judged, ks) | near
    errors = _calibration_errors(scored_pairs(ranking, truth), calibration) if max(ks) >= _CALIBRATED else {}
    return Evaluation(
        texts=len(judged.labels),
        metrics=report(judged, truth.training, ks=ks)
        | {name: one.percent() for name, one in sets.items()}
        | macro_f1(judged, ks)
        | errors,
        intervals=bootstrap(per_text(judged, truth.training, ks=ks) | sets, seed=seed),
        quantiles=_quantiles(judged, truth.training) if max(ks) >= 5 else {},
        at_threshold=None if limits is None else scored.at(limits),
        curve=scored.curve(),
        seen=seen,
        propensity=None if truth.training is None else truth.training.propensity,
        by_label=label_report(scored, truth, limits) if truth.names else None,
    )


def label_report(scored: Scored, truth: Truth, limits: Found | None, k: int = FIRST) -> LabelReport:
    """Report on each label, if the labels that reach `limits` are kept or, without limits, the first k of each text."""
    return LabelReport.of(scored, limits, truth.names, None if truth.training is None else truth.training.per_label, k)


def kept_figures(evaluation: Evaluation, split_name: str) -> dict[str, Any]:
    """Return what a model keeps of an evaluation, under "metrics" in model.json."""
    seen = None if evaluation.seen is None else evaluation.seen.as_json()
    return {
        "split": split_name,
        "texts": evaluation.texts,
        "seen_in_training": seen,
        "metrics": evaluation.metrics,
        "intervals": evaluation.intervals,
    }


def evaluation_of(kept: Mapping[str, Any]) -> Evaluation:
    """Restore an evaluation from its `kept_figures`, as far as they tell."""
    return Evaluation(texts=kept["texts"], metrics=kept["metrics"], intervals=kept["intervals"], quantiles={})


class Pairs(NamedTuple):
    """Ranked labels of all texts, concatenated."""

    scores: Float[np.ndarray, "pairs"]
    true: Bool[np.ndarray, "pairs"]


def scored_pairs(ranking: Ranking, truth: Truth) -> Pairs:
    """Return the scores of each text's first labels and whether they are true, without pairs to leave out."""
    kept = ranking if truth.leave_out is None else without_pairs(ranking, truth.leave_out)
    labels, scores = (part[:, :_CALIBRATED].cpu().numpy() for part in kept)
    there = labels != NO_LABEL
    return Pairs(scores[there], holds(truth.labels, labels)[there])


def truth_in_numbers_of(
    model_names: Sequence[str],
    names: Sequence[str],
    labels: csr_array,
    leave_out: csr_array | None = None,
    training: TrainingCounts | None = None,
    broader: csr_array | None = None,
) -> Truth:
    """Renumber the truth of data with `names` for a model with `model_names`; `training` is in the model's numbers."""
    number = {name: i for i, name in enumerate(model_names)}
    for name in names:
        number.setdefault(name, len(number))
    columns = np.array([number[name] for name in names], dtype=np.int64)
    unknown = len(number) - len(model_names)
    return Truth(
        labels=renumbered(labels, columns, len(number)),
        leave_out=None if leave_out is None else renumbered(leave_out, columns, len(number)),
        training=None if training is None else training.with_unseen(unknown),
        names=list(number),
        broader=None if broader is None else _renumbered_both(broader, columns, len(number)),
    )


def _renumbered_both(pairs: csr_array, numbers: Int[np.ndarray, "labels"], width: int) -> csr_array:
    """Return pairs of labels with label i as label numbers[i], of `width` labels."""
    rows, columns = pairs.nonzero()
    return csr_array((np.ones(len(rows), dtype=bool), (numbers[rows], numbers[columns])), shape=(width, width))


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}


def _calibration_errors(pairs: Pairs, calibration: Calibration | None) -> dict[str, float]:
    """Return the calibration error of the scores and, with a calibration, of the uncalibrated ones."""
    raw, name = expected_calibration_error(*pairs), f"ECE@{_CALIBRATED}"
    if calibration is None:
        return {name: raw}
    return {name: expected_calibration_error(calibration.apply(pairs.scores), pairs.true), f"raw {name}": raw}


def _quantiles(judged: Judged, training: TrainingCounts | None) -> dict[str, Quantiles]:
    if training is None:
        return {}
    return {
        "equal label count": equal_label_quantiles(judged, training.per_label),
        "equal total frequency": equal_frequency_quantiles(judged, training.per_label),
    }


def validation_figures(ranker: Ranker, data: Dataset) -> dict[str, float]:
    """Return an epoch's metrics on the validation data, in percent. The first, nDCG, chooses the epoch."""
    return figures_of(rank_all(ranker, data.inputs, places_to_validate(data)), data)


def places_to_validate(data: Dataset) -> int:
    return places_needed(truth_of(data), (min(5, data.num_labels),))


def truth_of(data: Dataset) -> Truth:
    """Return the labels of data that is in the model's numbering."""
    return Truth(labels=data.labels, leave_out=data.leave_out, training=None)


def figures_of(ranking: Ranking, data: Dataset) -> dict[str, float]:
    """Return nDCG@5 and P@1 of a ranking of that data."""
    ks = tuple(sorted({1, min(5, data.num_labels)}))
    figures = report(judge(ranking, data.labels, leave_out=data.leave_out), ks=ks)
    return {name: figures[name] for name in (f"nDCG@{ks[-1]}", "P@1")}
