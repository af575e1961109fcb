"""Settings that methods share: the bases of their configs, bounds of values, and the optional groups of wrappers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import torch

from laconic.config import Bounds, Choices, check_known, check_within
from laconic.data.encoder_folder import FILES
from laconic.data.label_texts import ExtraTexts
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import ConfigError
from laconic.models.encoders import ENCODERS
from laconic.training.optimizer import OPTIMISERS, Plan

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}
TRANSFORMER = "transformer"  # the encoder of a model that was trained from a pre-trained one
UNORDERED = ("bag", "mlp")  # encoders that do not depend on the order of words

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
    "permutation": (0, 1 << 40),
    "row_start": (0, 100),
}
NEURAL_CHOICES: Choices = {
    "precision": PRECISIONS,
    "optimiser": OPTIMISERS,
}


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


def check_encoder(encoder: str) -> None:
    """Refuse an encoder that is neither known by name nor a folder."""
    if encoder not in ENCODERS and encoder != TRANSFORMER and not Path(encoder).is_dir():
        raise ConfigError(
            f"encoder must be {' or '.join(ENCODERS)} or the folder of a pre-trained transformer ({', '.join(FILES)}), "
            f"but is {encoder!r}"
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

    bounds: ClassVar[Bounds] = {
        **NEURAL_BOUNDS,
        "size": (1, 1 << 20),
        "alpha": (-1, 1),
        "learning_rate": (0, 100),
        "seed": (-1, 1 << 40),
        "halve_after": (0.01, 1),
    }
    choices: ClassVar[Choices] = {**NEURAL_CHOICES, "encoder": ENCODERS}

    size: int = 200
    """Best labels of the base method that are scored again. Symbol: |S| (DeepXML)."""
    alpha: float = -1.0
    """Weight of the re-ranker's score against the base's. -1: the best on the validation split, or 0.6 without one.
    Symbol: α (DeepXML).
    """
    epochs: int = 0
    """Passes over the training texts. 0: from 10 for half a million texts and more to 30 for a few."""
    batch_size: int = 0
    """Texts per training step. 0: 256, fewer for small data."""
    learning_rate: float = 0.0
    """Learning rate of Adam. 0: from 0.002 for 25,000 steps and more to 0.02 for 2,500 and fewer."""
    halve_after: float = 0.7
    """Fraction of the epochs after which the learning rate is halved for the first time."""
    seed: int = -1
    """Seed of all random choices. -1: the base method's seed."""
    encoder: str = ""
    """Encoder of the re-ranker. Empty: bag, or dense for dense features."""
    attention: bool = True
    """Whether the encoder `inception` has its two attention layers."""
    length: int = 0
    """Words read per text. 0: the 99.5 % quantile of the data, at most 32 where the encoder reads words in order."""
    embedding: int = 300
    """Dimensions of a word vector."""
    permutation: int = 0
    """Seed that permutes the dimensions of the base's `vectors` (an ablation). 0: they are not permuted."""
    dropout: float = 0.5
    """Probability that a number inside the encoder is set to 0 in training."""

    def __post_init__(self) -> None:
        check_within(self, self.bounds)
        if self.encoder:
            check_known(self, self.choices)
        check_batch_norm(self.batch_size)


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """Settings of a pre-trained transformer as the encoder; its sizes are those of its folder."""

    bounds: ClassVar[Bounds] = {
        "learning_rate": (1e-9, 100),
        "rising": (0, 1),
        "layers": (0, 1 << 10),
        "heads": (0, 1 << 10),
        "inner": (0, 1 << 16),
    }

    learning_rate: float = 1e-4
    """Learning rate of the encoder's own weights at its peak; `learning_rate` is that of the label rows."""
    rising: float = 0.1
    """Fraction of the steps in which both learning rates rise to their peak."""
    frozen: bool = False
    """Whether the encoder keeps its weights while label rows are trained: its vectors are then computed once."""
    layers: int = 0
    """Layers of the encoder that are used, from the first on. 0: all layers of the folder's model."""
    heads: int = 0
    """Attention heads of a layer. 0: as the folder's config.json says, which a model that is trained keeps here."""
    inner: int = 0
    """Width inside a layer's perceptron. 0: as the folder's config.json says, which a trained model keeps here."""

    def __post_init__(self) -> None:
        check_within(self, self.bounds, "transformer.")


@dataclass(frozen=True, kw_only=True)
class EncoderChannel(Transformer):
    """Settings of a pre-trained transformer that joins fusion as a channel of its own, with a row for each label."""

    bounds: ClassVar[Bounds] = {
        **Transformer.bounds,
        "epochs": (0, 100_000),
        "batch_size": (0, 1_000_000),
        "row_rate": (1e-9, 100),
        "warm_up": (0, 100_000),
        "row_start": (0, 100),
        "length": (0, 4096),
        "embedding": (0, 1 << 16),
    }

    folder: str = ""
    """Folder of a pre-trained transformer whose scores are combined with those of the other channels. Empty: there is
    none. A model that is trained keeps `transformer` here.
    """
    epochs: int = 0
    """Passes of the channel's training over the texts. 0: from 6 for half a million texts to 40 for a few."""
    learning_rate: float = 2e-4
    """Learning rate of the transformer's own weights at its peak; `row_rate` is that of the label rows."""
    batch_size: int = 0
    """Texts per step of the channel's training. 0: 128, or 512 for 200,000 texts and more; fewer for small data."""
    row_rate: float = 0.003
    """Learning rate of the channel's label rows at its peak."""
    warm_up: int = 4
    """Epochs in which the transformer first learns from texts and label texts alone, where labels have texts."""
    row_start: float = 8.0
    """How much a label scores above its bias at first for its own text, where labels have texts."""
    length: int = 0
    """Pieces of words read per text. 0: the 99.5 % quantile of the data, at most 128."""
    embedding: int = 0
    """Width of the transformer, as its folder says; a model that is trained keeps it here."""

    def __post_init__(self) -> None:
        check_within(self, self.bounds, "fusion.encoder.")


@dataclass(frozen=True, kw_only=True)
class FusionConfig:
    """Settings of fusion: a method's scores combined with label trees, nearest texts and label texts."""

    bounds: ClassVar[Bounds] = {
        "width": (1, 1 << 16),
        "neighbours": (0, 1 << 16),
        "power": (0.01, 100),
        "trees": (0, 64),
        "siamese": (0, 4096),
        "rounds": (0, 100),
        "hidden": (1, 1024),
        "epochs": (0, 10_000),
        "learning_rate": (1e-9, 100),
        "rare": (0, 2),
        "first": (0, 100),
        "ordered": (0, 1 << 10),
        "tail": (-10, 10),
    }

    width: int = 64
    """Candidate labels that each channel contributes."""
    neighbours: int = 100
    """Nearest training texts that are looked up. 0: none, which is faster."""
    power: float = 3.0
    """Exponent of a neighbour's cosine in its vote."""
    label_texts: bool = True
    """Whether texts are compared with the labels' own texts, where there are any."""
    trees: int = 3
    """Label trees over words that are trained beside the method. 0: none."""
    siamese: int = 0
    """Dimensions of the space in which texts are compared with label texts (method siamese). 0: there is none."""
    rounds: int = 3
    """Times that hard negatives are found while that space is learnt; each takes long where there are many labels."""
    encoder: EncoderChannel = EncoderChannel()
    """A pre-trained transformer as one more channel."""
    hidden: int = 32
    """Width of the combining network's two hidden layers."""
    epochs: int = 0
    """Passes over the held-out texts. 0: from 30 for a few thousand texts to 6 for many."""
    learning_rate: float = 0.005
    """Learning rate of the combining network."""
    rare: float = 0.0
    """How much more a rare true label weighs in the combining network's loss: a label of n training texts weighs
    (1 + n) to the power of minus this.
    """
    first: float = 0.5
    """Weight of a text's best-scored true label in the combining network's loss, beside the mean of all."""
    ordered: int = 7
    """Best labels by the network that boosted trees put into their final order. 0: the network's own order."""
    tail: float = 0.0
    """Tail bias: above 0, rare labels gain score and frequent ones lose it; below 0, the other way round."""

    def __post_init__(self) -> None:
        check_within(self, self.bounds)


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """Settings of a warm-up: the encoder first learns that a text is nearest to the texts of its own labels."""

    bounds: ClassVar[Bounds] = {**NEURAL_BOUNDS, "learning_rate": (0, 100), "temperature": (1e-3, 10)}

    epochs: int = 0
    """Epochs in which the encoder learns from texts and label texts alone, before its own training. 0: none."""
    batch_size: int = 0
    """Texts per step of the warm-up, whose labels are each other's negatives. 0: 1,024, fewer for small data."""
    learning_rate: float = 0.0
    """Learning rate of the warm-up. 0: the method's `learning_rate`."""
    temperature: float = 0.05
    """Divisor of cosines in the warm-up's softmax. Symbol: τ (NGAME)."""

    def __post_init__(self) -> None:
        check_within(self, self.bounds)
        if self.epochs:
            check_batch_norm(self.batch_size)


@dataclass(frozen=True, kw_only=True)
class MethodConfig:
    """Settings of every method: how texts are read, and the groups of wrappers, None where a wrapper is not used."""

    bounds: ClassVar[Bounds] = {}
    choices: ClassVar[Choices] = {}

    text: Splitter = Splitter()
    """How texts are split into words."""
    vocabulary: VocabularyConfig = VocabularyConfig()
    """Which words are known and how they are weighted."""
    reranker: RerankerConfig | None = None
    """A second model that scores the method's best labels again; used with `--rerank`."""
    fusion: FusionConfig | None = None
    """The method's scores combined with label trees, nearest texts and label texts; used with `--fuse`."""
    extra_texts: ExtraTexts | None = None
    """The labels' own texts as training texts; used with `--label-texts`."""

    # Values of methods that lack these settings. Without an annotation they are no settings themselves.
    batch_size = 0
    encoder = ""
    seed = 29
    validation = 0.0
    calibration = 0.0
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
    choices: ClassVar[Choices] = NEURAL_CHOICES

    epochs: int = 0
    """Passes over the training texts. 0: chosen by the number of texts."""
    batch_size: int = 0
    """Texts per training step. 0: chosen by the number of texts."""
    learning_rate: float = 0.01
    """Learning rate of Adam."""
    seed: int = 29
    """Seed of all random choices: weights, order of texts, dropout, the validation split."""
    length: int = 0
    """Words read per text. 0: the 99.5 % quantile of the data, at most 32 where the encoder reads words in order."""
    embedding: int = 300
    """Dimensions of a word vector. Symbol: D (DeepXML, DECAF)."""
    permutation: int = 0
    """Seed that permutes the dimensions of `vectors` (an ablation). 0: they are not permuted."""
    validation: float = 0.05
    """Fraction of training texts held out to choose the best epoch. 0: the last epoch is kept."""
    vectors: str = ""
    """File of word vectors to start from (GloVe or fastText, as text), or folder of static vectors (model2vec). Empty:
    random vectors.
    """

    def plan(self, **more: Any) -> Plan:
        """Return a training plan with these settings, and with `more` in addition or instead."""
        return plan_from(self, **more)


@dataclass(frozen=True, kw_only=True)
class PretrainedConfig(NeuralConfig):
    """Settings of a neural method whose encoder can be a pre-trained transformer."""

    encoder: str = ""
    """Folder of a pre-trained transformer that encodes texts. Empty: the method's own encoder."""
    transformer: Transformer = Transformer()
    """Settings of a pre-trained encoder, where `encoder` is its folder."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder:
            check_encoder(self.encoder)


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(PretrainedConfig):
    """Settings of a neural method whose encoder can be chosen."""

    encoder: str = "bag"
    """Encoder of texts: a bag of words (bag), an MLP over it (mlp), a CNN (cnn) or InceptionXML's (inception); dense is
    for dense features; or the folder of a pre-trained transformer.
    """
    attention: bool = True
    """Whether the encoder `inception` has its two attention layers."""
    dropout: float = 0.5
    """Probability that a number inside the encoder is set to 0 in training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_encoder(self.encoder)
        check_subwords(self.encoder, self.vocabulary)


@dataclass(frozen=True, kw_only=True)
class FlatConfig(EncoderConfig):
    """Settings of a neural method that trains its encoder and all rows in one stage."""

    precision: str = "fp32"
    """Precision of matrix products in training: 32-bit floats or bfloat16."""
    refit: bool = False
    """Whether to train again on all texts, for as many epochs as were best on the validation split."""

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
    """Probability that a number inside the encoder, or the layer after it, is set to 0 in training."""
    classifier_dropout: float = 0.5
    """Probability that an input of the label rows is set to 0 in training."""
    eps: float = 1e-8
    """Adam's ε. Large values slow down labels with few texts, whose gradients are small. Symbol: ε (Adam)."""
    prior: bool = False
    """Whether label biases start at the labels' log-odds instead of 0, with which rare labels need far fewer steps."""
    chunk: int = 65_536
    """Labels, or clusters, scored at a time; fewer need less memory."""
    warm_up: WarmUp = WarmUp()
    """Training of the encoder by contrast of texts and label texts, before its own training."""
    row_start: float = 0.0
    """How much a label's score is above its bias at first, for a text whose vector is that of the label's own text. 0:
    rows start at random.
    """


@dataclass(frozen=True, kw_only=True)
class InceptionConfig(ClassifierConfig):
    """Settings of InceptionXML and InceptionXML+."""

    encoder: str = "inception"
    """Encoder of texts: InceptionXML's own (inception), a bag of words (bag), an MLP over it (mlp) or a CNN (cnn);
    dense is for dense features; or the folder of a pre-trained transformer.
    """
    hidden: int = 0
    """Width of the layer before the label rows. 0: the encoder's width. The paper's model for 3 million labels has 300.
    """
    optimiser: str = "adam"
    """Optimiser of the label rows; adam-bf16 and adagrad-bf16 need less memory and run on a GPU only."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_batch_norm(self.batch_size)


WordStart: TypeAlias = NeuralConfig | RerankerConfig  # settings of word vectors to start from
Encoding: TypeAlias = EncoderConfig | RerankerConfig  # settings of an encoder
