"""A finished ranker goes on learning: rows of labels move over an encoder that stays as it is.

Each kind of ranker says which of its rows learn; whatever new texts do not touch stays where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn

from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.data.tokenizer import inputs_of
from laconic.errors import ConfigError, ModelError
from laconic.evaluation.evaluate import on_device, validation_figures
from laconic.evaluation.metrics.pairs import holds
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
from laconic.training.optimizer import Halving, Plan
from laconic.training.run import Run
from laconic.training.tasks import Shortlisted
from laconic.types import NO_LABEL, Inputs, Ranking
from laconic.update.rankers.rankers import linear
from laconic.update.rankers.rows import with_rows

_AT_ONCE = 1024  # texts that are encoded and ranked at a time


@dataclass(frozen=True, kw_only=True)
class Config:
    epochs: int = 5  # at most: where texts are held out, they choose how many count, which may be none
    batch_size: int = 64
    learning_rate: float = 0.001  # low: what a row has learnt before is not to be forgotten
    hard: int = 50  # of a text's best wrong labels
    random: int = 50  # random negatives a text
    validation: float = 0.1  # share of the new texts that are held out
    seed: int = 29

    def __post_init__(self) -> None:
        for name, (low, high) in _BOUNDS.items():
            if not low <= getattr(self, name) <= high:
                raise ConfigError(f"{name} must be {low} to {high}, but is {getattr(self, name)}")


_BOUNDS: dict[str, tuple[float, float]] = {
    "epochs": (1, 10_000),
    "batch_size": (1, 1_000_000),
    "learning_rate": (1e-9, 100),
    "hard": (0, 10_000),
    "random": (0, 10_000),
    "validation": (0, 0.9),
    "seed": (0, 1 << 40),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Lesson:
    """New texts to learn from and to choose by, in the ranker's numbers."""

    learn: Dataset
    held: Dataset
    config: Config


@singledispatch
def taught(ranker: Ranker, lesson: Lesson, run: Run) -> Ranker:
    """The ranker once its rows have learnt from new texts; one that only remembers texts is as it was."""
    raise ModelError(f"a {type(ranker).__name__} cannot go on learning")


@taught.register
def _(ranker: FlatRanker, lesson: Lesson, run: Run) -> FlatRanker:
    def made(classifier: LinearClassifier) -> FlatRanker:
        return FlatRanker(ranker.encoder, classifier, chunk=ranker.chunk).eval()

    return made(_learnt(_Rows("rows", ranker.encoder, linear(ranker.classifier), ranker.rank, made), lesson, run))


@taught.register
def _(ranker: CandidatesRanker, lesson: Lesson, run: Run) -> CandidatesRanker:
    def made(classifier: LinearClassifier) -> CandidatesRanker:
        return CandidatesRanker(ranker.encoder, ranker.shortlister, classifier, beta=float(ranker.beta)).eval()

    return made(_learnt(_Rows("rows", ranker.encoder, linear(ranker.classifier), ranker.rank, made), lesson, run))


@taught.register
def _(ranker: Reranker, lesson: Lesson, run: Run) -> Reranker:
    base = taught(ranker.base, lesson, run)

    def made(classifier: LinearClassifier) -> Reranker:
        return Reranker(base, ranker.encoder, classifier, size=ranker.size, alpha=float(ranker.alpha)).eval()

    return made(_learnt(_Rows("reranker", ranker.encoder, linear(ranker.classifier), base.rank, made), lesson, run))


@taught.register
def _(ranker: ShortlistRanker, lesson: Lesson, run: Run) -> ShortlistRanker:
    """Rows of clusters first, then those of labels, which lie in the order of the clusters."""
    tree = LabelTree(order=ranker.clusters.order, starts=ranker.clusters.starts)
    own, meta = linear(ranker.classifier), ranker.clusters.classifier

    def made(meta: LinearClassifier, classifier: LinearClassifier) -> ShortlistRanker:
        return ranker.over(ranker.encoder, Clusters(meta, tree), classifier).eval()

    rows = _Rows("clusters", ranker.encoder, meta, FlatRanker(ranker.encoder, meta).rank, lambda one: made(one, own))
    mapping = of_tree(LabelTree(order=tree.order.cpu(), starts=tree.starts.cpu()))
    meta = _learnt(rows, replace(lesson, learn=lesson.learn.relabelled(mapping)), run)
    places = ranker.places(torch.arange(ranker.num_labels))

    def placed(inputs: Inputs, k: int) -> Ranking:
        labels, scores = made(meta, own).rank(inputs, k)
        return Ranking(torch.where(labels == NO_LABEL, labels, places[labels.clamp(min=0)]), scores)

    rows = _Rows("rows", ranker.encoder, own, placed, lambda one: made(meta, one))
    placed_lesson = replace(lesson, learn=lesson.learn.renumbered(places.cpu().numpy()))
    return made(meta, _learnt(rows, placed_lesson, run))


@taught.register
def _(ranker: BucketsRanker, lesson: Lesson, run: Run) -> BucketsRanker:
    parts = ranker.parts()
    for number, (encoder, classifier) in enumerate(parts):
        bucket_of, own = classifier.bucket_of, classifier.buckets

        def made(buckets: LinearClassifier, at: int = number) -> BucketsRanker:
            hashed = HashedClassifier(parts[at][1].bucket_of, buckets)
            return BucketsRanker([*parts[:at], (parts[at][0], hashed), *parts[at + 1 :]], at_once=ranker.at_once).eval()

        mapping = partition(bucket_of.cpu().numpy(), own.num_labels)
        rows = _Rows(f"buckets-{number}", encoder, own, FlatRanker(encoder, own).rank, made)
        learnt = _learnt(rows, replace(lesson, learn=lesson.learn.relabelled(mapping)), run)
        parts[number] = (encoder, HashedClassifier(bucket_of, learnt))
    return BucketsRanker(parts, at_once=ranker.at_once).eval()


@taught.register
def _(ranker: Ensemble, lesson: Lesson, run: Run) -> Ensemble:
    members = ranker.rankers()
    learnt = [taught(member, lesson, run.member(number, of=len(members))) for number, member in enumerate(members)]
    return Ensemble(learnt, width=ranker.width, at_once=ranker.at_once).eval()


class _Rows(NamedTuple):
    """Rows that learn."""

    stage: str
    encoder: Encoder
    classifier: LinearClassifier
    ranked: Callable[[Inputs, int], Ranking]  # the rows that a text is most easily mistaken for, in their own numbers
    made: Callable[[LinearClassifier], Ranker]  # the ranker that they are a part of


def _learnt(rows: _Rows, lesson: Lesson, run: Run) -> LinearClassifier:
    """The classifier after its stage; as it was, where held-out texts find that better."""
    classifier, device = rows.classifier, rows.classifier.weight.device
    negatives = run.remember(f"{rows.stage}-negatives", lambda: {"labels": _mistakes(rows, lesson)})["labels"]
    vectors = _turned(lambda inputs: classifier.transform(rows.encoder(inputs)), lesson.learn, device)
    moving = _copied(classifier)
    bare = _copied(classifier)  # over vectors that are transformed already
    bare.transform, bare.weight, bare.bias = nn.Identity(), moving.weight, moving.bias
    task = Shortlisted(Identity(vectors.shape[1]), bare, random=lesson.config.random).to(device)
    ranker = rows.made(moving)
    before = _score(ranker, lesson)
    state = run.fit(
        rows.stage,
        task,
        Resident.of(replace(lesson.learn, inputs=vectors.numpy()), 0, device, negatives),
        _plan(lesson.config),
        validate=(lambda: validation_figures(ranker, lesson.held)) if len(lesson.held) else None,
    )
    return moving if state.best_score > before or not len(lesson.held) else classifier


def _copied(classifier: LinearClassifier) -> LinearClassifier:
    bias = None if classifier.bias is None else classifier.bias.detach().clone()
    return with_rows(classifier, classifier.weight.detach().clone(), bias)


def _score(ranker: Ranker, lesson: Lesson) -> float:
    return next(iter(validation_figures(ranker, lesson.held).values())) if len(lesson.held) else 0.0


def _mistakes(rows: _Rows, lesson: Lesson) -> Int[Tensor, "texts n"]:
    """The best rows of every text, its own among them; NO_LABEL where a pair is to be left out."""
    size, data = min(lesson.config.hard, rows.classifier.num_labels), lesson.learn
    if not size:
        return torch.full((len(data), 1), NO_LABEL, dtype=torch.int32)
    found = _turned(lambda inputs: rows.ranked(inputs, size).labels, data, rows.classifier.weight.device)
    labels = found.to(torch.int32)
    if data.leave_out is not None:
        labels[torch.from_numpy(holds(data.leave_out, labels.numpy()))] = NO_LABEL
    return labels


@torch.no_grad()
def _turned(turn: Callable[[Inputs], Tensor], data: Dataset, device: torch.device) -> Tensor:
    starts = range(0, len(data), _AT_ONCE)
    return torch.cat([turn(on_device(inputs_of(data.inputs[at : at + _AT_ONCE]), device)).cpu() for at in starts])


def _plan(config: Config) -> Plan:
    return Plan(
        epochs=config.epochs,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        schedule=Halving(after=0.7),
        lazy=True,
        seed=config.seed,
    )
