"""XML-CNN: a convolutional encoder with a bottleneck and one row per label, trained on all labels at once.

As published (Liu and others, 2017), except for sizes that suit titles (models/encoders/cnn.py): binary cross-entropy,
Adam, dropout of 0.25 on word vectors and 0.5 on the bottleneck, no layer between bottleneck and classifier.
What depends on the size of the data is 0 here and chosen by `with_sizes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.methods.common import train_and_refit, usual_length
from laconic.methods.config import ClassifierConfig, check_batch_norm
from laconic.methods.costs import Machine, TrainingCosts, flat_costs, report_costs
from laconic.methods.flat import FlatTraining, build, fit_flat, flat_training, restore_flat, with_sizes
from laconic.methods.result import Trained
from laconic.methods.transformer import encoder_plan
from laconic.models.rankers import FlatRanker
from laconic.system.ranks import ALONE, Ranks
from laconic.training.optimizer import Halving
from laconic.training.run import Run

_REMEDIES = ({"chunk": 8192}, {"batch_size": 32}, {"embedding": 64, "batch_size": 32})


@dataclass(frozen=True, kw_only=True)
class Config(ClassifierConfig):
    """Settings of XML-CNN."""

    epochs: int = 0
    """Passes over the training texts. 0: from 12 for half a million texts and more to 100 for a few."""
    batch_size: int = 0
    """Texts per training step. 0: 128, fewer for small data."""
    learning_rate: float = 0.001
    """Learning rate of Adam, constant as published."""
    # The published rate is constant. The validation split chooses the epoch, so a rate that falls only takes longer.
    halve_after: float = 1.0
    """Fraction of the epochs after which the learning rate is halved for the first time. 1: never."""
    encoder: str = "cnn"
    """Encoder of texts, which the classifier follows directly; dense is for dense features; or the folder of a
    pre-trained transformer.
    """
    lazy: bool = False
    """Whether Adam skips words without a gradient."""
    batch_norm: bool = False
    """Whether vectors are batch-normalised before the label rows in training, without which nothing may be learnt where
    every label is rare. It is folded into the rows at last: the trained model is as published.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_norm:
            check_batch_norm(self.batch_size)


def train(data: Dataset, config: Config, run: Run) -> Trained:
    config = with_sizes(config, len(data), usual_length(data, config, "xml-cnn"))
    words, labels = data.inputs.shape[1], data.num_labels

    def costs(one: Config, machine: Machine) -> TrainingCosts:
        return flat_costs(_training(one, run.ranks), one, words=words, labels=labels, texts=len(data), machine=machine)[
            0
        ]

    report_costs(run, config, costs, _REMEDIES)
    return train_and_refit(partial(fit_flat, _training(config, run.ranks)), data, config, run)


def restore(config: Config, tensors: Mapping[str, Tensor]) -> FlatRanker:
    return restore_flat("xml-cnn", build, config, tensors)


def _training(config: Config, ranks: Ranks = ALONE) -> FlatTraining:
    schedule = {"schedule": Halving(after=config.halve_after), **encoder_plan(config)}
    plan = config.plan(eps=config.eps, lazy=config.lazy, **schedule)
    return flat_training(config, plan, partial(build, config, ranks=ranks), batch_norm=config.batch_norm)
