"""MACH: several small classifiers, each over random buckets of labels, averaged (Medini and others, 2019).

Every member hashes the labels into buckets of its own and learns which buckets a text's labels are in. A label's score
is the mean, over members, of the probability of its bucket: labels that share one bucket seldom share another.
What depends on the size of the data is 0 here and chosen by `with_sizes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from laconic.config import Bounds
from laconic.data.dataset import Dataset
from laconic.methods.common import restore_module, sizes_from, tensors_under, train_and_refit, usual_length
from laconic.methods.config import PRECISIONS, FlatConfig, check_batch_norm
from laconic.methods.costs import Machine, TrainingCosts, flat_costs, report_costs
from laconic.methods.flat import FlatTraining, build, fit_flat
from laconic.methods.flat import with_sizes as with_flat_sizes
from laconic.methods.result import Trained
from laconic.methods.transformer import encoder_plan
from laconic.models.classifiers import HashedClassifier, LinearClassifier
from laconic.models.clustering.groups import partition
from laconic.models.encoders import Encoder
from laconic.models.rankers import BucketsRanker, FlatRanker, Ranker
from laconic.training.loop import TrainState
from laconic.training.optimizer import Halving
from laconic.training.run import Run

Member: TypeAlias = tuple[Encoder, HashedClassifier]
_REMEDIES = ({"members": 4}, {"embedding": 64}, {"embedding": 64, "members": 4})


@dataclass(frozen=True, kw_only=True)
class Config(FlatConfig):
    """Settings of MACH; those of training are each member's."""

    bounds: ClassVar[Bounds] = {**FlatConfig.bounds, "members": (1, 1000), "buckets": (0, 1 << 20)}

    members: int = 16
    """Small classifiers that are averaged; the papers have 32. Cost grows with their number. Symbol: R (MACH)."""
    buckets: int = 0
    """Buckets of labels per classifier. 0: a power of two, about a sixteenth of the labels, from 64 to 16,384. Symbol:
    B (MACH).
    """
    epochs: int = 0
    """Passes of each classifier over the training texts. 0: from 6 for half a million texts and more to 50 for a few.
    """
    batch_size: int = 0
    """Texts per training step. 0: 128, fewer for small data."""
    learning_rate: float = 0.005
    """Learning rate of Adam."""
    halve_after: float = 0.7
    """Fraction of the epochs after which the learning rate is halved for the first time. 1: never."""
    prior: bool = False
    """Whether the buckets' biases start at their log-odds instead of 0. From 0, the encoder first gives all texts one
    vector that lowers every score, and takes long to tell texts apart again.
    """
    batch_norm: bool = False
    """Whether vectors are batch-normalised before the buckets' rows in training, without which little may be learnt
    where every label is rare. It is folded into the rows at last.
    """
    encoder: str = "mlp"
    """Encoder of texts: an MLP over a bag of words (mlp), or any other; dense is for dense features; or the folder of a
    pre-trained transformer.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_norm:
            check_batch_norm(self.batch_size)


def train(data: Dataset, config: Config, run: Run) -> Trained:
    """Train member by member; a resumed run loads the finished ones."""
    config = with_sizes(config, len(data), data.num_labels, usual_length(data, config, "mach"))
    _report_costs(config, data, run)
    members: list[Member] = []
    unrefitted: list[Member] = []
    histories: list[dict[str, Any]] = []
    for number in range(config.members):
        draw = draw_member(config, number, data.num_labels)
        # The config's seed cuts off the same validation split for all members: none has learnt from it.
        one = train_and_refit(partial(_fit_member, draw), data, config, run.member(number, of=config.members))
        members.append(_member(one.ranker, draw))
        unrefitted.extend([] if one.calibration_ranker is None else [_member(one.calibration_ranker, draw)])
        histories.append(one.facts["training"])
    before_refit = BucketsRanker(unrefitted).eval() if unrefitted else None
    return Trained(BucketsRanker(members).eval(), config, {"training": _joined(histories)}, before_refit)


def restore(config: Config, tensors: Mapping[str, Tensor]) -> BucketsRanker:
    """Restore the ranker from its state_dict, whose shapes give its sizes."""

    def make() -> BucketsRanker:
        members = [_empty_member(config, tensors, number) for number in range(config.members)]
        sizes = {(encoder.num_ids, classifier.num_labels) for encoder, classifier in members}
        if len(sizes) > 1:
            raise ValueError(f"members differ in their numbers of words and labels: {sorted(sizes)}")
        return BucketsRanker(members)

    return restore_module("mach", make, tensors)


class Draw(NamedTuple):
    """The random choices of a member."""

    seed: int
    bucket_of: Int[np.ndarray, "labels"]


def draw_member(config: Config, number: int, num_labels: int) -> Draw:
    """Draw from seed and number together: members of two MACHs with seeds one apart have nothing in common."""
    chance = np.random.default_rng((config.seed, number))
    return Draw(int(chance.integers(1 << 40)), chance.integers(config.buckets, size=num_labels))


def with_sizes(config: Config, texts: int, labels: int, usual: int) -> Config:
    """Return the config with a value wherever the data decides; `usual` is the 99.5 % quantile of words per text."""
    # The paper's 20,000 for 670,000 labels are a 33rd of them; with fewer labels, fewer can share a bucket.
    buckets = config.buckets or int(np.clip(1 << round(np.log2(max(labels / 16, 1))), 64, 16_384))
    return replace(with_flat_sizes(config, texts, usual, fraction=0.5), buckets=buckets)


def _training(config: Config, seed: int) -> FlatTraining:
    # Lazy, as a batch has few of the words and there are many members.
    plan = config.plan(**{"schedule": Halving(after=config.halve_after), **encoder_plan(config)}, lazy=True, seed=seed)
    return FlatTraining(
        plan=plan,
        dropout=0.0,  # the encoder's own is enough
        chunk=65_536,
        prior=config.prior,
        batch_norm=config.batch_norm,
        precision=PRECISIONS[config.precision],
        build=partial(build, config),
    )


def _fit_member(
    draw: Draw, stage: str, data: Dataset, held: Dataset, config: Config, run: Run, last_epoch: int = 0
) -> tuple[FlatRanker, TrainState]:
    """Train a member, whose labels are the buckets that labels are hashed into."""
    hashed, held = (part.relabelled(partition(draw.bucket_of, config.buckets)) for part in (data, held))
    return fit_flat(_training(config, draw.seed), stage, hashed, held, config, run, last_epoch)


def _report_costs(config: Config, data: Dataset, run: Run) -> None:
    sizes = {"words": data.inputs.shape[1], "texts": len(data)}

    def costs(one: Config, machine: Machine) -> TrainingCosts:
        own, parameters = flat_costs(_training(one, 0), one, labels=one.buckets, machine=machine, **sizes)
        finished = 4 * parameters * (one.members - 1) if run.device.type == "cpu" else 0  # kept on the host
        return TrainingCosts(own.memory + finished, own.seconds * one.members)

    report_costs(run, config, costs, _REMEDIES)


def _member(ranker: Ranker, draw: Draw) -> Member:
    """Return the parts of a trained member, on the CPU, so that the next one has the device for itself."""
    ranker = ranker.cpu()
    assert isinstance(ranker, FlatRanker)
    assert isinstance(ranker.classifier, LinearClassifier)
    return ranker.encoder, HashedClassifier(torch.from_numpy(draw.bucket_of), ranker.classifier)


def _joined(histories: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the members' histories as one, with epochs numbered consecutively."""
    stages = {}
    for name in ("epochs", "before_refit"):
        epochs = [epoch for history in histories for epoch in history.get(name, [])]
        if epochs:
            stages[name] = [epoch | {"epoch": number} for number, epoch in enumerate(epochs, 1)]
    return {"best_epochs": [history["best_epoch"] for history in histories], **stages}


def _empty_member(config: Config, tensors: Mapping[str, Tensor], number: int) -> tuple[Encoder, HashedClassifier]:
    """Build a member of its tensors' sizes, after checking that every label's bucket exists."""
    prefix = f"members.{number}."
    own = tensors_under(tensors, prefix)
    try:
        bucket_of, (num_buckets, _) = own["classifier.bucket_of"], own["classifier.buckets.weight"].shape
        encoder, buckets = build(*sizes_from(own, config), num_buckets)
    except KeyError as error:
        raise KeyError(prefix + error.args[0]) from None
    if bucket_of.ndim != 1 or not ((bucket_of >= 0) & (bucket_of < num_buckets)).all():
        raise ValueError(f"{prefix}classifier.bucket_of must give each label a bucket of 0 to {num_buckets - 1:,}")
    return encoder, HashedClassifier(torch.empty(len(bucket_of), dtype=torch.int32), buckets)
