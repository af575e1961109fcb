"""Fine-tune the label rows of a finished ranker on new texts, over a frozen encoder.

Each kind of ranker says which of its rows are trained; rows that the new texts do not touch stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn

from laconic.config import Bounds, check_within
from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.errors import ModelError
from laconic.evaluation.evaluate import batches, validation_figures
from laconic.evaluation.metrics.pairs import holds
from laconic.methods.config import plan_from
from laconic.models.classifiers import HashedClassifier, LinearClassifier
from laconic.models.clustering import LabelTree
from laconic.models.clustering.groups import of_tree, partition
from laconic.models.encoders import Encoder, Identity
from laconic.models.rankers import (
    BucketsRanker,
    CandidatesRanker,
    Ensemble,
    FlatRanker,
    Ranker,
    Reranker,
    ShortlistRanker,
)
from laconic.models.shortlisters.clusters import Clusters
from laconic.training.optimizer import Halving
from laconic.training.run import Run
from laconic.training.tasks import Shortlisted
from laconic.types import NO_LABEL, Inputs, Ranking
from laconic.update.rankers.rankers import linear
from laconic.update.rankers.rows import with_rows


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of fine-tuning."""

    epochs: int = 5
    """Most passes over the new texts; held-out texts choose how many, which may be none."""
    batch_size: int = 64
    """Texts per training step."""
    learning_rate: float = 0.001
    """Learning rate; low, so that rows keep what they have learnt."""
    hard: int = 50
    """Best wrong labels per text that are negatives."""
    random: int = 50
    """Random negative labels per text."""
    validation: float = 0.1
    """Fraction of the new texts that are held out."""
    seed: int = 29
    """Seed of all random choices."""

    bounds: ClassVar[Bounds] = {
        "epochs": (1, 10_000),
        "batch_size": (1, 1_000_000),
        "learning_rate": (1e-9, 100),
        "hard": (0, 10_000),
        "random": (0, 10_000),
        "validation": (0, 0.9),
        "seed": (0, 1 << 40),
    }

    def __post_init__(self) -> None:
        check_within(self, self.bounds)


@dataclass(frozen=True, kw_only=True, eq=False)
class NewTexts:
    """New texts to train on and held-out ones to choose the epoch, with labels in the ranker's numbers."""

    learn: Dataset
    held: Dataset
    config: Config


@singledispatch
def fine_tune_ranker(ranker: Ranker, texts: NewTexts, run: Run) -> Ranker:
    """Return the ranker with its rows trained on new texts; one that only stores texts is returned as it is."""
    raise ModelError(f"a {type(ranker).__name__} cannot be trained further")


@fine_tune_ranker.register
def _(ranker: FlatRanker, texts: NewTexts, run: Run) -> FlatRanker:
    def make(classifier: LinearClassifier) -> FlatRanker:
        return FlatRanker(ranker.encoder, classifier, chunk=ranker.chunk).eval()

    return make(_train_rows(_Rows("rows", ranker.encoder, linear(ranker.classifier), ranker.rank, make), texts, run))


@fine_tune_ranker.register
def _(ranker: CandidatesRanker, texts: NewTexts, run: Run) -> CandidatesRanker:
    def make(classifier: LinearClassifier) -> CandidatesRanker:
        return CandidatesRanker(ranker.encoder, ranker.shortlister, classifier, beta=float(ranker.beta)).eval()

    return make(_train_rows(_Rows("rows", ranker.encoder, linear(ranker.classifier), ranker.rank, make), texts, run))


@fine_tune_ranker.register
def _(ranker: Reranker, texts: NewTexts, run: Run) -> Reranker:
    base = fine_tune_ranker(ranker.base, texts, run)

    def make(classifier: LinearClassifier) -> Reranker:
        return Reranker(base, ranker.encoder, classifier, size=ranker.size, alpha=float(ranker.alpha)).eval()

    return make(_train_rows(_Rows("reranker", ranker.encoder, linear(ranker.classifier), base.rank, make), texts, run))


@fine_tune_ranker.register
def _(ranker: ShortlistRanker, texts: NewTexts, run: Run) -> ShortlistRanker:
    """Train rows of clusters first, then those of labels, which are in the order of the clusters."""
    tree = LabelTree(order=ranker.clusters.order, starts=ranker.clusters.starts)
    own, meta = linear(ranker.classifier), ranker.clusters.classifier

    def make(meta: LinearClassifier, classifier: LinearClassifier) -> ShortlistRanker:
        return ranker.over(ranker.encoder, Clusters(meta, tree), classifier).eval()

    rows = _Rows("clusters", ranker.encoder, meta, FlatRanker(ranker.encoder, meta).rank, lambda one: make(one, own))
    mapping = of_tree(LabelTree(order=tree.order.cpu(), starts=tree.starts.cpu()))
    meta = _train_rows(rows, replace(texts, learn=texts.learn.relabelled(mapping)), run)
    places = ranker.places(torch.arange(ranker.num_labels))

    def placed(inputs: Inputs, k: int) -> Ranking:
        labels, scores = make(meta, own).rank(inputs, k)
        return Ranking(torch.where(labels == NO_LABEL, labels, places[labels.clamp(min=0)]), scores)

    rows = _Rows("rows", ranker.encoder, own, placed, lambda one: make(meta, one))
    placed_texts = replace(texts, learn=texts.learn.renumbered(places.cpu().numpy()))
    return make(meta, _train_rows(rows, placed_texts, run))


@fine_tune_ranker.register
def _(ranker: BucketsRanker, texts: NewTexts, run: Run) -> BucketsRanker:
    parts = ranker.parts()
    for number, (encoder, classifier) in enumerate(parts):
        bucket_of, own = classifier.bucket_of, classifier.buckets

        def make(buckets: LinearClassifier, at: int = number) -> BucketsRanker:
            hashed = HashedClassifier(parts[at][1].bucket_of, buckets)
            return BucketsRanker([*parts[:at], (parts[at][0], hashed), *parts[at + 1 :]], at_once=ranker.at_once).eval()

        mapping = partition(bucket_of.cpu().numpy(), own.num_labels)
        rows = _Rows(f"buckets-{number}", encoder, own, FlatRanker(encoder, own).rank, make)
        learnt = _train_rows(rows, replace(texts, learn=texts.learn.relabelled(mapping)), run)
        parts[number] = (encoder, HashedClassifier(bucket_of, learnt))
    return BucketsRanker(parts, at_once=ranker.at_once).eval()


@fine_tune_ranker.register
def _(ranker: Ensemble, texts: NewTexts, run: Run) -> Ensemble:
    members = ranker.rankers()
    learnt = [
        fine_tune_ranker(member, texts, run.member(number, of=len(members))) for number, member in enumerate(members)
    ]
    return Ensemble(learnt, width=ranker.width, at_once=ranker.at_once).eval()


class _Rows(NamedTuple):
    """Rows that are trained."""

    stage: str
    encoder: Encoder
    classifier: LinearClassifier
    ranked: Callable[[Inputs, int], Ranking]  # the best rows of a text, its hard negatives, in their own numbers
    make: Callable[[LinearClassifier], Ranker]  # builds the ranker that they are a part of


def _train_rows(rows: _Rows, texts: NewTexts, run: Run) -> LinearClassifier:
    """Return the trained classifier, or the old one where that is better on held-out texts."""
    classifier, device = rows.classifier, rows.classifier.weight.device
    negatives = run.remember(f"{rows.stage}-negatives", lambda: {"labels": _hard_negatives(rows, texts)})["labels"]
    vectors = _map_texts(lambda inputs: classifier.transform(rows.encoder(inputs)), texts.learn, device)
    trained = _copy(classifier)
    bare = _copy(classifier)  # for vectors that are transformed already
    bare.transform, bare.weight, bare.bias = nn.Identity(), trained.weight, trained.bias
    task = Shortlisted(Identity(vectors.shape[1]), bare, random=texts.config.random).to(device)
    ranker = rows.make(trained)
    before = _score(ranker, texts)
    state = run.fit(
        rows.stage,
        task,
        Resident.of(replace(texts.learn, inputs=vectors.numpy()), 0, device, negatives),
        plan_from(texts.config, schedule=Halving(after=0.7), lazy=True),
        validate=(lambda: validation_figures(ranker, texts.held)) if len(texts.held) else None,
    )
    return trained if state.best_score > before or not len(texts.held) else classifier


def _copy(classifier: LinearClassifier) -> LinearClassifier:
    bias = None if classifier.bias is None else classifier.bias.detach().clone()
    return with_rows(classifier, classifier.weight.detach().clone(), bias)


def _score(ranker: Ranker, texts: NewTexts) -> float:
    return next(iter(validation_figures(ranker, texts.held).values())) if len(texts.held) else 0.0


def _hard_negatives(rows: _Rows, texts: NewTexts) -> Int[Tensor, "texts n"]:
    """Return the best rows of every text, its own among them; NO_LABEL for left-out pairs."""
    size, data = min(texts.config.hard, rows.classifier.num_labels), texts.learn
    if not size:
        return torch.full((len(data), 1), NO_LABEL, dtype=torch.int32)
    found = _map_texts(lambda inputs: rows.ranked(inputs, size).labels, data, rows.classifier.weight.device)
    labels = found.to(torch.int32)
    if data.leave_out is not None:
        labels[torch.from_numpy(holds(data.leave_out, labels.numpy()))] = NO_LABEL
    return labels


@torch.no_grad()
def _map_texts(function: Callable[[Inputs], Tensor], data: Dataset, device: torch.device) -> Tensor:
    return torch.cat([function(inputs).cpu() for _, inputs in batches(data.inputs, device)])
