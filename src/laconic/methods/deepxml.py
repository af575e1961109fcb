"""DeepXML: training in four modules whose parts a method chooses (paper, section 3).

    1. surrogate    the encoder learns an easier task, over fewer and larger groups of labels
    2. shortlist    for every training text, the labels most easily mistaken for its own
    3. transfer     the encoder is frozen, so its vectors are computed once; a classifier's transform still learns
    4. extreme      one row per label, trained against its hard negatives

A new recipe is a Parts and two Plans; methods/astec.py is the best known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor, nn

from laconic.data.dataset import Dataset, Rows
from laconic.data.resident import Resident
from laconic.data.shards import Shard
from laconic.evaluation.evaluate import (
    batches,
    device_of,
    figures_of,
    places_to_validate,
    rank_all_by,
    validation_figures,
)
from laconic.evaluation.metrics.pairs import holds
from laconic.methods.common import frequencies, seeded
from laconic.methods.warm_up import start_rows
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import Encoder, Identity
from laconic.models.rankers import CandidatesRanker
from laconic.models.shortlisters.base import Shortlister
from laconic.training.loop import TrainState
from laconic.training.optimizer import Plan
from laconic.training.run import Run
from laconic.training.tasks import AllLabels, Shortlisted
from laconic.types import NO_LABEL

_AT_ONCE = 4096  # texts encoded or looked up at a time


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of a recipe."""

    encoder: Encoder
    surrogate: Callable[[Dataset], csr_array] | None  # labels × groups; None: the encoder is not trained
    shortlister: Callable[[Dataset, Float[Tensor, "texts dim"], Run], Shortlister]  # from texts and their vectors
    transform: Callable[[], nn.Module]  # a new one for each classifier
    random: int  # random negatives per text
    length: int  # words read per text
    seed: int
    beta: float = 0.6  # weight of the classifier's score
    hard: bool = True  # train against shortlists; if not, against random negatives alone
    likely: Float[Tensor, "labels"] | None = None  # how often each label is a random negative; None: all equally
    prior: bool = False  # start biases at the log-odds of groups and labels
    row_start: float = 0.0  # how much labels score above their bias at first, for their own text; 0: random rows
    fine_tuned: bool = False  # train the encoder in the last stage too, and rebuild the shortlist after it


class Plans(NamedTuple):
    """How both stages are trained."""

    surrogate: Plan
    extreme: Plan


class Learnt(NamedTuple):
    """A trained ranker, with the states of its stages."""

    ranker: CandidatesRanker
    surrogate: TrainState | None
    extreme: TrainState


def train(data: Dataset, held: Dataset, parts: Parts, plans: Plans, run: Run) -> Learnt:
    """Train all modules; `held` chooses the extreme classifier's epoch, and where it is empty the last is kept."""
    encoder = parts.encoder.to(run.device)

    # 1. Surrogate
    surrogate = None
    if parts.surrogate is not None:
        surrogate = _learn_surrogate(data, parts, plans.surrogate, run)

    # 2. Shortlist, on vectors that no longer change
    vectors = run.remember("vectors", lambda: {"vectors": encode_all(encoder, data.inputs, run.device)})["vectors"]
    shortlister = parts.shortlister(data, vectors, run)
    shortlists = None
    if parts.hard:
        make = partial(shortlists_of, shortlister, data, vectors, run.watcher.advanced)
        shortlists = run.remember("negatives", lambda: {"labels": make()})["labels"]

    # 3. and 4. Transfer and extreme
    classifier = _classifier(parts, data, Shard.even(run.ranks, data.num_labels)).to(run.device)
    start_rows(classifier, encoder, data, parts.row_start, run.device)

    def ranker() -> CandidatesRanker:
        near = shortlister
        if parts.fine_tuned:
            near = parts.shortlister(data, encode_all(encoder, data.inputs, run.device), run)
        return CandidatesRanker(encoder, near, classifier, beta=parts.beta).to(run.device)

    learner: Encoder = encoder if parts.fine_tuned else Identity(vectors.shape[1])
    seen = data if parts.fine_tuned else replace(data, inputs=vectors.numpy())
    task = Shortlisted(learner, classifier, random=parts.random, likely=parts.likely).to(run.device)
    own = None if shortlists is None else classifier.shard.own_lists(shortlists)
    resident = Resident.of(seen, parts.length, run.device, own, shard=classifier.shard)
    validate = (lambda: validation_figures(ranker().eval(), held)) if len(held) else None
    extreme = run.fit("extreme", task, resident, plans.extreme, validate=validate)
    return Learnt(ranker().eval(), surrogate, extreme)


def _learn_surrogate(data: Dataset, parts: Parts, plan: Plan, run: Run) -> TrainState:
    """Train encoder and surrogate classifier, whose groups several ranks share; only the encoder is kept."""
    make = parts.surrogate
    assert make is not None
    mapping = _matrix(run.remember("surrogate-groups", lambda: _tensors(make(data))))
    grouped = data.relabelled(mapping)
    shard = Shard.even(run.ranks, grouped.num_labels, "group")
    task = AllLabels(parts.encoder, _classifier(parts, grouped, shard), dropout=0.0, chunk=65_536).to(run.device)
    return run.fit("surrogate", task, Resident.of(grouped, parts.length, run.device, shard=shard), plan)


def _classifier(parts: Parts, data: Dataset, shard: Shard) -> LinearClassifier:
    with seeded(parts.seed):
        classifier = LinearClassifier(parts.encoder.dim, data.num_labels, transform=parts.transform(), shard=shard)
        classifier.spread(parts.encoder.dim**-0.5)
    if parts.prior:
        classifier.start_from(frequencies(data))
    return classifier


@torch.no_grad()
def encode_all(encoder: Encoder, rows: Rows, device: torch.device) -> Float[Tensor, "texts dim"]:
    """Return the vectors of all texts, without dropout."""
    encoder.eval()
    return torch.cat([encoder(inputs).float().cpu() for _, inputs in batches(rows, device, _AT_ONCE)])


@torch.no_grad()
def shortlists_of(
    shortlister: Shortlister,
    data: Dataset,
    vectors: Float[Tensor, "texts dim"],
    advance: Callable[[float], None] = lambda fraction: None,
) -> Int[Tensor, "texts n"]:
    """Return every text's shortlist, without pairs that are left out: they are neither true nor false."""
    size, device = min(shortlister.size, shortlister.num_labels), device_of(shortlister)
    found = torch.empty((len(data), size), dtype=torch.int32)
    for part, inputs in batches(data.inputs, device, _AT_ONCE):
        found[part] = shortlister(inputs, vectors[part].to(device), size).labels.to(torch.int32).cpu()
        advance(min(1.0, part.stop / len(data)))
    if data.leave_out is not None:
        found[torch.from_numpy(holds(data.leave_out, found.numpy()))] = NO_LABEL
    return found


def _tensors(mapping: csr_array) -> dict[str, Tensor]:
    parts = {"starts": mapping.indptr, "groups": mapping.indices, "shape": np.array(mapping.shape)}
    return {name: torch.from_numpy(part.astype(np.int64)) for name, part in parts.items()}


def _matrix(tensors: Mapping[str, Tensor]) -> csr_array:
    starts, groups, shape = (tensors[name].numpy() for name in ("starts", "groups", "shape"))
    return csr_array((np.ones(len(groups), dtype=np.float32), groups, starts), shape=tuple(shape))


def scores_by_beta(ranker: CandidatesRanker, held: Dataset, betas: Sequence[float]) -> dict[float, float]:
    """Return nDCG@5 on held-out texts for each weight of the classifier's score, the best first."""
    rankings = rank_all_by(ranker, held.inputs, places_to_validate(held), betas, _AT_ONCE)
    found = {beta: next(iter(figures_of(one, held).values())) for beta, one in zip(betas, rankings, strict=True)}
    return dict(sorted(found.items(), key=lambda item: -item[1]))
