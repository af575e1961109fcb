"""XML-CNN: a convolutional encoder with a bottleneck and one row per label, trained on all labels at once.

As published (Liu and others, 2017), but for the sizes that titles want (models/encoders/cnn.py): binary cross-entropy,
Adam, dropout of 0.25 on word vectors and 0.5 on the bottleneck, no layer between bottleneck and classifier.
What depends on the size of the data is 0 here and chosen by `sized`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

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
from laconic.models.encoders import ENCODERS
from laconic.models.rankers import FlatRanker
from laconic.training.optimizer import Halving, Plan
from laconic.training.run import Run


@dataclass(frozen=True, kw_only=True)
class Config:
    epochs: int = 0  # 0: from 12 for half a million texts and more to 100 for a few
    batch_size: int = 0  # 0: 128, less for small data
    learning_rate: float = 0.001
    # The published rate is constant. The validation split chooses the epoch, so a rate that falls only takes longer.
    halve_after: float = 1.0  # share of the epochs until the learning rate is first halved; 1: never
    seed: int = 29
    encoder: str = "cnn"  # or any other, then without what it has between itself and the classifier elsewhere
    attention: bool = True  # inception's two attention layers
    length: int = 0  # words of a text that are read; 0: as many as 99.5 % of texts have, at most 32 where order counts
    embedding: int = 300
    permutation: int = 0  # a seed that puts the dimensions of `vectors` in another order; 0: as they are
    dropout: float = 0.25
    classifier_dropout: float = 0.5
    eps: float = 1e-8  # of Adam
    prior: bool = False  # start biases at the labels' log-odds, not at 0: far fewer steps until rare labels are quiet
    lazy: bool = False  # rows of words without a gradient rest
    precision: str = "fp32"  # or bf16, of products
    chunk: int = 65_536  # labels that are scored at a time
    validation: float = 0.05  # share of training texts that choose the epoch; 0: the last epoch is kept
    refit: bool = False  # train once more on all texts, as many epochs as were best
    vectors: str = ""  # a file of word vectors to start from
    text: Splitter = Splitter()
    vocabulary: VocabularyConfig = VocabularyConfig()

    def __post_init__(self) -> None:
        check_within(self, BOUNDS | {"chunk": (1, 1 << 30), "eps": (1e-30, 1), "halve_after": (0, 1)})
        check_known(self, {"encoder": ENCODERS, "precision": PRECISIONS})
        check_subwords(self.encoder, self.vocabulary)
        check_training(self.encoder, self.batch_size, self.validation, refit=self.refit)


def train(data: Dataset, config: Config, run: Run) -> Trained:
    config = sized(config, len(data), usual_length(data, config, "xml-cnn"))
    _announce(config, data, run)
    return trained_by(partial(fitted, _training(config)), data, config, run)


def restore(config: Config, tensors: Mapping[str, Tensor]) -> FlatRanker:
    """The ranker from its state_dict, whose shapes say how large it is."""

    def make() -> FlatRanker:
        num_labels, _ = tensors["classifier.weight"].shape
        return FlatRanker(*build(*sizes_in(config, tensors), num_labels))

    return filled("xml-cnn", make, tensors)


def sized(config: Config, texts: int, usual: int) -> Config:
    """The config with a number wherever the data decides; `usual` is how many words 99.5 % of texts do not exceed."""
    return replace(
        config,
        epochs=sized_epochs(config.epochs, texts),
        batch_size=sized_batch(config.batch_size, texts, 128),
        length=sized_length(config.length, usual, bag=config.encoder in UNORDERED),
    )


def _training(config: Config) -> Training:
    plan = Plan(
        epochs=config.epochs,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        schedule=Halving(after=config.halve_after),
        eps=config.eps,
        lazy=config.lazy,
        seed=config.seed,
    )
    return Training(
        plan=plan,
        dropout=config.classifier_dropout,
        chunk=config.chunk,
        prior=config.prior,
        precision=PRECISIONS[config.precision],
    )


def _announce(config: Config, data: Dataset, run: Run) -> None:
    def memory(**changes: int) -> int:
        smaller = replace(config, **{name: min(value, getattr(config, name)) for name, value in changes.items()})
        return needs(_training(smaller), smaller, data, data.num_labels, run.device).memory

    remedies = {
        "--set chunk=8192": memory(chunk=8192),
        "--set batch_size=32": memory(batch_size=32),
        "--set embedding=64 and --set batch_size=32": memory(embedding=64, batch_size=32),
    }
    own = needs(_training(config), config, data, data.num_labels, run.device)
    run.announce(own.memory, own.seconds * (1 + config.refit), remedies)
