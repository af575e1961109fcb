"""InceptionXML: a light convolutional encoder and one row per label, trained on all labels at once.

Defaults are those of the paper's Table 7 and of the code behind its figures (docs/methods.md has the differences); what
depends on the size of the data is 0 here and chosen by `_sized`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import ConfigError
from laconic.evaluation.evaluate import validation_figures
from laconic.methods.common import (
    BOUNDS,
    PRECISIONS,
    UNORDERED,
    build_encoder,
    check_known,
    check_subwords,
    check_within,
    filled,
    sized_batch,
    sized_epochs,
    sized_length,
    sizes_in,
    start_encoder,
    trained_by,
    usual_length,
)
from laconic.methods.costs import Shape, training_memory
from laconic.methods.requirements import announce
from laconic.methods.result import Trained
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import ENCODERS, Encoder
from laconic.models.layers import Residual
from laconic.models.rankers import FlatRanker
from laconic.training.loop import TrainState
from laconic.training.optimizer import OPTIMISERS, Plan
from laconic.training.run import Run
from laconic.training.tasks import AllLabels

_SMALLEST_CHUNK = 1024  # labels; below it products are too small to be quick


@dataclass(frozen=True, kw_only=True)
class Config:
    epochs: int = 0  # 0: from 12 for half a million texts and more to 100 for a few
    batch_size: int = 0  # 0: 128, less for small data
    learning_rate: float = 0.005  # at the peak of the cycle
    seed: int = 29
    encoder: str = "inception"  # or bag or cnn
    attention: bool = True  # inception's two attention layers
    length: int = 0  # words of a text that are read; 0: as many as 99.5 % of texts have, at most 32 where order counts
    embedding: int = 300
    hidden: int = 0  # width of label rows; 0: the encoder's
    permutation: int = 0  # a seed that puts the dimensions of `vectors` in another order; 0: as they are
    dropout: float = 0.25
    classifier_dropout: float = 0.5
    eps: float = 1e-8  # of Adam
    optimiser: str = "adam"  # of label rows; adam-bf16 and adagrad-bf16 take less memory, on a GPU
    prior: bool = False  # start biases at the labels' log-odds, not at 0: far fewer steps until rare labels are quiet
    precision: str = "fp32"  # or bf16, of products
    chunk: int = 65_536  # labels that are scored at a time
    validation: float = 0.05  # share of training texts that choose the epoch; 0: the last epoch is kept
    refit: bool = False  # train once more on all texts, as many epochs as were best
    vectors: str = ""  # a file of word vectors to start from
    text: Splitter = Splitter()
    vocabulary: VocabularyConfig = VocabularyConfig()

    def __post_init__(self) -> None:
        check_within(self, BOUNDS | {"chunk": (1, 1 << 30), "eps": (1e-30, 1), "hidden": (0, 65_536)})
        check_known(self, {"encoder": ENCODERS, "precision": PRECISIONS, "optimiser": OPTIMISERS})
        check_subwords(self.encoder, self.vocabulary)
        if self.batch_size == 1:
            raise ConfigError("batch_size must be 0 (chosen by the data) or at least 2, because of BatchNorm, but is 1")
        if self.refit and not self.validation:
            raise ConfigError("refit needs a validation split to choose the epoch; validation is 0")


def train(data: Dataset, config: Config, run: Run) -> Trained:
    config = sized(config, len(data), usual_length(data, config, "inceptionxml"))
    words, labels = data.inputs.shape[1], data.num_labels
    shape = Shape(words=words, labels=labels, length=config.length, dim=config.embedding, row=config.hidden)
    config = _chunked(config, shape, run)
    announce(config, shape, len(data), run, chunk=min(config.chunk, shape.labels), small_batch=128)
    return trained_by(_fitted, data, config, run)


def restore(config: Config, tensors: Mapping[str, Tensor]) -> FlatRanker:
    """The ranker from its state_dict, whose shapes say how large it is."""

    def make() -> FlatRanker:
        num_labels, _ = tensors["classifier.weight"].shape
        return FlatRanker(*build(*sizes_in(config, tensors), num_labels))

    return filled("inceptionxml", make, tensors)


def build(config: Config, num_ids: int, num_labels: int) -> tuple[Encoder, LinearClassifier]:
    encoder = build_encoder(config, num_ids)
    width = config.hidden or encoder.dim
    return encoder, LinearClassifier(width, num_labels, transform=Residual(encoder.dim, width, dropout=config.dropout))


def sized(config: Config, texts: int, usual: int) -> Config:
    """The config with a number wherever the data decides; `usual` is how many words 99.5 % of texts do not exceed."""
    return replace(
        config,
        epochs=sized_epochs(config.epochs, texts),
        batch_size=sized_batch(config.batch_size, texts, 128),
        length=sized_length(config.length, usual, bag=config.encoder in UNORDERED),
    )


def _chunked(config: Config, shape: Shape, run: Run) -> Config:
    """With so few labels at a time that it fits; on a GPU that makes no difference."""
    chunk = min(config.chunk, shape.labels)
    while chunk > _SMALLEST_CHUNK and not run.fits(training_memory(shape, batch=config.batch_size, chunk=chunk)):
        chunk = max(_SMALLEST_CHUNK, chunk // 2)
    return config if chunk == min(config.chunk, shape.labels) else replace(config, chunk=chunk)


def _fitted(
    stage: str, data: Dataset, held: Dataset, config: Config, run: Run, last_epoch: int = 0
) -> tuple[FlatRanker, TrainState]:
    with torch.random.fork_rng([]):
        torch.manual_seed(config.seed)
        encoder, classifier = build(config, data.inputs.shape[1], data.num_labels)
    start_encoder(encoder, config, data)
    if config.prior:
        classifier.start_from(torch.from_numpy(data.label_counts / len(data)))
    ranker = FlatRanker(encoder, classifier).to(run.device)
    task = AllLabels(
        encoder,
        classifier,
        dropout=config.classifier_dropout,
        chunk=config.chunk,
        precision=PRECISIONS[config.precision],
    )
    plan = Plan(
        epochs=config.epochs,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        eps=config.eps,
        optimiser=config.optimiser,
        seed=config.seed,
    )
    validate = (lambda: validation_figures(ranker, held)) if len(held) else None
    resident = Resident.of(data, config.length, run.device)
    state = run.fit(stage, task, resident, plan, validate=validate, last_epoch=last_epoch)
    return ranker.eval(), state
