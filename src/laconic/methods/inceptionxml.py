"""InceptionXML: a light convolutional encoder and one row per label, trained on all labels at once.

Defaults are those of the paper's Table 7 and of the code behind its figures (docs/papers/inceptionxml.md lists the
differences); what depends on the size of the data is 0 here and chosen by `with_sizes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.data.shards import Shard
from laconic.methods.common import build_encoder, train_and_refit, usual_length
from laconic.methods.config import TRANSFORMER, InceptionConfig
from laconic.methods.costs import Shape, report_inception_costs, report_transformer_costs, training_memory
from laconic.methods.flat import fit_flat, flat_training, restore_flat, with_sizes
from laconic.methods.result import Trained
from laconic.methods.transformer import encoder_plan
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import Encoder
from laconic.models.layers import Residual
from laconic.models.rankers import FlatRanker
from laconic.system.ranks import ALONE, Ranks
from laconic.training.run import Run

_SMALLEST_CHUNK = 1024  # labels; below it matrix products are too small to be fast


@dataclass(frozen=True, kw_only=True)
class Config(InceptionConfig):
    """Settings of InceptionXML."""

    epochs: int = 0
    """Passes over the training texts. 0: from 12 for half a million texts and more to 100 for a few."""
    batch_size: int = 0
    """Texts per training step. 0: 128, fewer for small data."""
    learning_rate: float = 0.005
    """Learning rate at the peak of the cycle. Symbol: lr_max (InceptionXML, Table 7)."""


def train(data: Dataset, config: Config, run: Run) -> Trained:
    config = with_sizes(config, len(data), usual_length(data, config, "inceptionxml"))
    words, labels = data.inputs.shape[1], -(-data.num_labels // run.ranks.world)  # labels of one rank
    if config.encoder == TRANSFORMER:
        report_transformer_costs(run, config, words=words, labels=labels, texts=len(data))
    else:
        config = _with_chunk(config, shape_of(config, words, labels), run)
        shape = partial(shape_of, words=words, labels=labels)
        report_inception_costs(run, config, shape, len(data), chunk=min(config.chunk, labels), small_batch=128)
    plan = config.plan(eps=config.eps, optimiser=config.optimiser, **encoder_plan(config))
    training = flat_training(config, plan, partial(build, config, ranks=run.ranks))
    return train_and_refit(partial(fit_flat, training), data, config, run)


def restore(config: Config, tensors: Mapping[str, Tensor]) -> FlatRanker:
    return restore_flat("inceptionxml", build, config, tensors)


def build(config: Config, num_ids: int, num_labels: int, ranks: Ranks = ALONE) -> tuple[Encoder, LinearClassifier]:
    encoder = build_encoder(config, num_ids)
    width = config.hidden or encoder.dim
    transform = Residual(encoder.dim, width, dropout=config.dropout)
    return encoder, LinearClassifier(width, num_labels, transform=transform, shard=Shard.even(ranks, num_labels))


def shape_of(config: Config, words: int, labels: int) -> Shape:
    return Shape(words=words, labels=labels, length=config.length, dim=config.embedding, row=config.hidden)


def _with_chunk(config: Config, shape: Shape, run: Run) -> Config:
    """Return the config with a chunk of labels whose scores fit in memory; on a GPU it makes no difference."""
    chunk = min(config.chunk, shape.labels)
    while chunk > _SMALLEST_CHUNK and not run.fits(training_memory(shape, batch=config.batch_size, chunk=chunk)):
        chunk = max(_SMALLEST_CHUNK, chunk // 2)
    return config if chunk == min(config.chunk, shape.labels) else replace(config, chunk=chunk)
