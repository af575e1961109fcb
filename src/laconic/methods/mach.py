"""MACH: several small classifiers, each over random buckets of labels, merged (Medini and others, 2019).

Every member hashes the labels into buckets of its own and learns which buckets a text's labels are in. A label's score
is the mean, over members, of the probability of its bucket: labels that share a bucket here seldom share one there.
What depends on the size of the data is 0 here and chosen by `sized`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.methods.common import (
    BOUNDS,
    PRECISIONS,
    UNORDERED,
    check_known,
    check_subwords,
    check_within,
    filled,
    sized_batch,
    sized_epochs,
    sized_length,
    sizes_in,
    trained_by,
    usual_length,
)
from laconic.methods.flat import Training, build, check_training, fitted, needs
from laconic.methods.result import Trained
from laconic.models.classifiers import HashedClassifier, LinearClassifier
from laconic.models.clustering.groups import partition
from laconic.models.encoders import ENCODERS, Encoder
from laconic.models.rankers import BucketsRanker, FlatRanker
from laconic.training.loop import TrainState
from laconic.training.optimizer import Halving, Plan
from laconic.training.run import Run


@dataclass(frozen=True, kw_only=True)
class Config:
    members: int = 16  # 32 in the papers; every one costs as much again, and the first tell most labels apart
    buckets: int = 0  # of a member; 0: a power of two, about a sixteenth of the labels, 64 to 16,384
    epochs: int = 0  # of a member; 0: from 6 for half a million texts and more to 50 for a few
    batch_size: int = 0  # 0: 128, less for small data
    learning_rate: float = 0.005
    halve_after: float = 0.7  # share of the epochs until the learning rate is first halved; 1: never
    seed: int = 29
    encoder: str = "mlp"  # or any other
    attention: bool = True  # inception's two attention layers
    length: int = 0  # words of a text that are read; 0: as many as 99.5 % of texts have, at most 32 where order counts
    embedding: int = 300
    permutation: int = 0  # a seed that puts the dimensions of `vectors` in another order; 0: as they are
    dropout: float = 0.5
    precision: str = "fp32"  # or bf16, of products
    validation: float = 0.05  # share of training texts that choose a member's epoch; 0: the last epoch is kept
    refit: bool = False  # train every member once more on all texts, as many epochs as were best
    vectors: str = ""  # a file of word vectors to start from
    text: Splitter = Splitter()
    vocabulary: VocabularyConfig = VocabularyConfig()

    def __post_init__(self) -> None:
        bounds = {name: bound for name, bound in BOUNDS.items() if name != "classifier_dropout"}
        check_within(self, bounds | {"members": (1, 1000), "buckets": (0, 1 << 20), "halve_after": (0, 1)})
        check_known(self, {"encoder": ENCODERS, "precision": PRECISIONS})
        check_subwords(self.encoder, self.vocabulary)
        check_training(self.encoder, self.batch_size, self.validation, refit=self.refit)


def train(data: Dataset, config: Config, run: Run) -> Trained:
    """Member by member; a run that was stopped finds the finished ones."""
    config = sized(config, len(data), data.num_labels, usual_length(data, config, "mach"))
    _announce(config, data, run)
    members: list[tuple[Encoder, HashedClassifier]] = []
    histories: list[dict[str, Any]] = []
    for number in range(config.members):
        draw = drawn(config, number, data.num_labels)
        # The config's seed cuts off the same validation split for all: no member has learnt from it.
        one = trained_by(partial(_fitted, draw), data, config, run.member(number, of=config.members))
        ranker = one.ranker.cpu()  # so that the next one has the device for itself
        assert isinstance(ranker, FlatRanker)
        assert isinstance(ranker.classifier, LinearClassifier)
        members.append((ranker.encoder, HashedClassifier(torch.from_numpy(draw.bucket_of), ranker.classifier)))
        histories.append(one.facts["training"])
    return Trained(BucketsRanker(members).eval(), config, {"training": _told(histories)})


def restore(config: Config, tensors: Mapping[str, Tensor]) -> BucketsRanker:
    """The ranker from its state_dict, whose shapes say how large it is."""

    def make() -> BucketsRanker:
        members = [_empty_member(config, tensors, number) for number in range(config.members)]
        sizes = {(encoder.num_ids, classifier.num_labels) for encoder, classifier in members}
        if len(sizes) > 1:
            raise ValueError(f"members differ in their numbers of words and labels: {sorted(sizes)}")
        return BucketsRanker(members)

    return filled("mach", make, tensors)


class Draw(NamedTuple):
    """What chance gives a member."""

    seed: int
    bucket_of: Int[np.ndarray, "labels"]


def drawn(config: Config, number: int, num_labels: int) -> Draw:
    """From seed and number together: members of two MACHs with seeds one apart have nothing in common."""
    chance = np.random.default_rng((config.seed, number))
    return Draw(int(chance.integers(1 << 40)), chance.integers(config.buckets, size=num_labels))


def sized(config: Config, texts: int, labels: int, usual: int) -> Config:
    """The config with a number wherever the data decides; `usual` is how many words 99.5 % of texts do not exceed."""
    return replace(
        config,
        # The paper's 20,000 for 670,000 labels are a 33rd of them; fewer labels can afford to share less.
        buckets=config.buckets or int(np.clip(1 << round(np.log2(max(labels / 16, 1))), 64, 16_384)),
        epochs=sized_epochs(config.epochs, texts, share=0.5),
        batch_size=sized_batch(config.batch_size, texts, 128),
        length=sized_length(config.length, usual, bag=config.encoder in UNORDERED),
    )


def _training(config: Config, seed: int) -> Training:
    plan = Plan(
        epochs=config.epochs,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        schedule=Halving(after=config.halve_after),
        lazy=True,  # the words of a batch are few, and members many
        seed=seed,
    )
    # The encoder drops what it gives.
    return Training(plan=plan, dropout=0.0, chunk=65_536, prior=False, precision=PRECISIONS[config.precision])


def _fitted(
    draw: Draw, stage: str, data: Dataset, held: Dataset, config: Config, run: Run, last_epoch: int = 0
) -> tuple[FlatRanker, TrainState]:
    """A member, to which labels are the buckets that they are hashed into."""
    hashed, to_choose = (part.relabelled(partition(draw.bucket_of, config.buckets)) for part in (data, held))
    return fitted(_training(config, draw.seed), stage, hashed, to_choose, config, run, last_epoch)


def _announce(config: Config, data: Dataset, run: Run) -> None:
    """Finished members wait on the host."""

    def memory(**changes: int) -> int:
        smaller = replace(config, **{name: min(value, getattr(config, name)) for name, value in changes.items()})
        own = needs(_training(smaller, 0), smaller, data, smaller.buckets, run.device)
        waiting = 4 * own.parameters * (smaller.members - 1) if run.device.type == "cpu" else 0
        return own.memory + waiting

    own = needs(_training(config, 0), config, data, config.buckets, run.device)
    remedies = {
        "--set members=4": memory(members=4),
        "--set embedding=64": memory(embedding=64),
        "--set embedding=64 and --set members=4": memory(embedding=64, members=4),
    }
    run.announce(memory(), own.seconds * config.members * (1 + config.refit), remedies)


def _told(histories: list[dict[str, Any]]) -> dict[str, Any]:
    """The members' trainings as one, numbered through."""
    stages = {}
    for name in ("epochs", "before_refit"):
        epochs = [epoch for history in histories for epoch in history.get(name, [])]
        if epochs:
            stages[name] = [epoch | {"epoch": number} for number, epoch in enumerate(epochs, 1)]
    return {"best_epochs": [history["best_epoch"] for history in histories], **stages}


def _empty_member(config: Config, tensors: Mapping[str, Tensor], number: int) -> tuple[Encoder, HashedClassifier]:
    """A member of the sizes that its tensors have, once no label is hashed to a bucket that is not there."""
    prefix = f"members.{number}."
    own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    try:
        bucket_of, (num_buckets, _) = own["classifier.bucket_of"], own["classifier.buckets.weight"].shape
        encoder, buckets = build(*sizes_in(config, own), num_buckets)
    except KeyError as error:
        raise KeyError(prefix + error.args[0]) from None
    if bucket_of.ndim != 1 or not ((bucket_of >= 0) & (bucket_of < num_buckets)).all():
        raise ValueError(f"{prefix}classifier.bucket_of must give each label a bucket of 0 to {num_buckets - 1:,}")
    return encoder, HashedClassifier(torch.empty(len(bucket_of), dtype=torch.int32), buckets)
