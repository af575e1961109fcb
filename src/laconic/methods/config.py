"""Settings that methods share: the bases of their configs, bounds of values, and the optional groups of wrappers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeAlias

import torch

from laconic.data.label_texts import ExtraTexts
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import ConfigError
from laconic.models.encoders import ENCODERS
from laconic.training.optimizer import OPTIMISERS, Plan

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}
UNORDERED = ("bag", "mlp")  # encoders that do not depend on the order of words

Bounds = Mapping[str, tuple[int | float, int | float]]
NEURAL_BOUNDS: Bounds = {
    "epochs": (0, 100_000),
    "batch_size": (0, 1_000_000),
    "learning_rate": (1e-9, 100),
    "seed": (0, 1 << 40),
    "embedding": (8, 4096),
    "length": (0, 4096),
    "validation": (0, 0.9),
    "dropout": (0, 0.99),
    "classifier_dropout": (0, 0.99),
    "chunk": (1, 1 << 30),
    "eps": (1e-30, 1),
    "hidden": (0, 65_536),
    "halve_after": (0, 1),
}
NEURAL_CHOICES: Mapping[str, Collection[str]] = {
    "encoder": ENCODERS,
    "precision": PRECISIONS,
    "optimiser": OPTIMISERS,
}


def check_within(config: Any, bounds: Bounds) -> None:
    """Raise an error for the first setting that is outside its bounds."""
    for name, (low, high) in bounds.items():
        if not low <= getattr(config, name, low) <= high:
            raise ConfigError(f"{name} must be {low} to {high}, but is {getattr(config, name)}")


def check_known(config: Any, known: Mapping[str, Collection[str]]) -> None:
    """Raise an error for the first setting whose value is none of its known names."""
    for name, names in known.items():
        if hasattr(config, name) and getattr(config, name) not in names:
            raise ConfigError(f"{name} must be {' or '.join(names)}, but is {getattr(config, name)!r}")


def plan_from(config: Any, **more: Any) -> Plan:
    """Return a training plan with the settings of a config, and with `more` in addition or instead."""
    own = {name: getattr(config, name) for name in ("epochs", "batch_size", "learning_rate", "seed")}
    return Plan(**(own | more))


def check_subwords(encoder: str, vocabulary: VocabularyConfig) -> None:
    """Refuse sub-words for encoders that depend on word order: sub-words have none."""
    if vocabulary.subwords and encoder not in UNORDERED:
        raise ConfigError(
            f"vocabulary.subwords must be 0 for the encoder {encoder}, which reads words in their order, but is "
            f"{vocabulary.subwords}; --encoder {UNORDERED[0]} reads sub-words"
        )


def check_batch_norm(batch_size: int, encoder: str = "") -> None:
    """Refuse batches of one text, which BatchNorm cannot normalise."""
    if batch_size == 1:
        of = f" for the encoder {encoder}" if encoder else ""
        raise ConfigError(
            f"batch_size must be 0 (chosen by the data) or at least 2{of}, because of BatchNorm, but is 1"
        )


@dataclass(frozen=True, kw_only=True)
class RerankerConfig:
    """Settings of a re-ranker over another method."""

    size: int = 200  # best labels of the base that are scored again
    alpha: float = -1.0  # weight of the re-ranker's score; -1: the best on the validation split, or 0.6
    epochs: int = 0  # 0: from 10 for half a million texts and more to 30 for a few
    batch_size: int = 0  # 0: 256, less for small data
    learning_rate: float = 0.0  # 0: from 0.002 for 25,000 steps and more to 0.02 for 2,500 and fewer
    halve_after: float = 0.7  # fraction of the epochs until the learning rate is first halved
    seed: int = -1  # -1: the base's
    encoder: str = ""  # empty: bag or, for dense features, dense
    attention: bool = True  # inception's two attention layers
    length: int = 0  # words read per text; 0: the 99.5 % quantile of the data, at most 32 where order matters
    embedding: int = 300
    permutation: int = 0  # seed to permute the dimensions of the base's `vectors`; 0: not permuted
    dropout: float = 0.5

    def __post_init__(self) -> None:
        own = {"size": (1, 1 << 20), "alpha": (-1, 1), "learning_rate": (0, 100), "seed": (-1, 1 << 40)}
        check_within(self, {**NEURAL_BOUNDS, **own, "halve_after": (0.01, 1)})
        if self.encoder:
            check_known(self, NEURAL_CHOICES)
        check_batch_norm(self.batch_size)


@dataclass(frozen=True, kw_only=True)
class FusionConfig:
    """Settings of fusion: a method's scores combined with label trees, nearest texts and label texts."""

    width: int = 64  # candidate labels per channel
    neighbours: int = 100  # training texts to look up; 0: none, which is faster
    power: float = 3.0  # exponent of a neighbour's cosine
    label_texts: bool = True  # compare with the labels' own texts, where there are any
    trees: int = 3  # label trees over words, trained beside the method; 0: none
    hidden: int = 32  # width of the combining network's two layers
    epochs: int = 0  # over the held-out texts; 0: from 30 for a few thousand to 6 for many
    learning_rate: float = 0.005
    tail: float = 0.0  # tail bias: above 0, rare labels gain and frequent ones lose

    def __post_init__(self) -> None:
        integers = {"width": (1, 1 << 16), "neighbours": (0, 1 << 16), "hidden": (1, 1024), "epochs": (0, 10_000)}
        check_within(self, {**integers, "trees": (0, 64), "power": (0.01, 100)})
        check_within(self, {"learning_rate": (1e-9, 100), "tail": (-10, 10)})


@dataclass(frozen=True, kw_only=True)
class MethodConfig:
    """Settings of every method: how texts are read, and the groups of wrappers, None where a wrapper is not used."""

    bounds: ClassVar[Bounds] = {}
    choices: ClassVar[Mapping[str, Collection[str]]] = {}

    text: Splitter = Splitter()
    vocabulary: VocabularyConfig = VocabularyConfig()
    reranker: RerankerConfig | None = None
    fusion: FusionConfig | None = None
    extra_texts: ExtraTexts | None = None  # learn from the labels' own texts too

    # Values of methods that lack these settings. Without an annotation they are no settings themselves.
    batch_size = 0
    seed = 29
    validation = 0.0
    refit = False
    vectors = ""

    def __post_init__(self) -> None:
        check_within(self, self.bounds)
        check_known(self, self.choices)
        trains = self.reranker is not None or "epochs" in {field.name for field in fields(self)}
        if self.extra_texts is not None and not trains:
            raise ConfigError(
                "extra_texts are for methods that train; this one does not, and reads label texts without them"
            )


@dataclass(frozen=True, kw_only=True)
class NeuralConfig(MethodConfig):
    """Settings of every neural method. 0 stands for a value that the size of the data decides."""

    bounds: ClassVar[Bounds] = NEURAL_BOUNDS
    choices: ClassVar[Mapping[str, Collection[str]]] = NEURAL_CHOICES

    epochs: int = 0
    batch_size: int = 0
    learning_rate: float = 0.01
    seed: int = 29
    length: int = 0  # words read per text; 0: the 99.5 % quantile of the data, at most 32 where order matters
    embedding: int = 300
    permutation: int = 0  # seed to permute the dimensions of `vectors`; 0: not permuted
    validation: float = 0.05  # fraction of training texts held out to choose the epoch; 0: the last epoch is kept
    vectors: str = ""  # file of word vectors to start from

    def plan(self, **more: Any) -> Plan:
        """Return a training plan with these settings, and with `more` in addition or instead."""
        return plan_from(self, **more)


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(NeuralConfig):
    """Settings of a neural method whose encoder can be chosen."""

    encoder: str = "bag"  # or inception, cnn, mlp; dense for dense features
    attention: bool = True  # inception's two attention layers
    dropout: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_subwords(self.encoder, self.vocabulary)


@dataclass(frozen=True, kw_only=True)
class FlatConfig(EncoderConfig):
    """Settings of a neural method that trains its encoder and all rows in one stage."""

    precision: str = "fp32"  # or bf16, of matrix products
    refit: bool = False  # train again on all texts, for as many epochs as were best

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder in ("inception", "dense"):
            check_batch_norm(self.batch_size, self.encoder)
        if self.refit and not self.validation:
            raise ConfigError("refit needs a validation split to choose the epoch; validation is 0")


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(FlatConfig):
    """Settings of a flat method with a classifier of its own."""

    dropout: float = 0.25
    classifier_dropout: float = 0.5
    eps: float = 1e-8  # of Adam
    prior: bool = False  # start biases at log-odds, not at 0: rare labels take far fewer steps
    chunk: int = 65_536  # labels, or clusters, scored at a time


@dataclass(frozen=True, kw_only=True)
class InceptionConfig(ClassifierConfig):
    """Settings of InceptionXML and InceptionXML+."""

    encoder: str = "inception"  # or bag or cnn
    hidden: int = 0  # width of the layer before label rows; 0: the encoder's (the paper's 3M model: 300)
    optimiser: str = "adam"  # of label rows; adam-bf16 and adagrad-bf16 take less memory, on a GPU

    def __post_init__(self) -> None:
        super().__post_init__()
        check_batch_norm(self.batch_size)


WordStart: TypeAlias = NeuralConfig | RerankerConfig  # settings of word vectors to start from
Encoding: TypeAlias = EncoderConfig | RerankerConfig  # settings of an encoder
