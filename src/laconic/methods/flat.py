"""The recipe of flat methods: an encoder and one row per label, trained on all labels at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.data.shards import Shard
from laconic.evaluation.evaluate import validation_figures
from laconic.methods.common import (
    build_encoder,
    choose_batch_size,
    choose_epochs,
    choose_length,
    encoded,
    frequencies,
    restore_module,
    seeded,
    sizes_from,
    start_encoder,
)
from laconic.methods.config import PRECISIONS, ClassifierConfig, Encoding, FlatConfig
from laconic.methods.transformer import encoded_if_frozen
from laconic.methods.warm_up import before_rows, check_label_texts, start_rows, warm_up
from laconic.models.classifiers import LinearClassifier, fold, normalise
from laconic.models.encoders import Encoder
from laconic.models.rankers import FlatRanker
from laconic.system.ranks import ALONE, Ranks
from laconic.training.loop import TrainState
from laconic.training.optimizer import Plan
from laconic.training.run import Run
from laconic.training.tasks import AllLabels

C = TypeVar("C", bound=FlatConfig)
Parts = tuple[Encoder, LinearClassifier]
_USUAL = 2000  # texts whose vectors a normalisation starts from


def build(config: Encoding, num_ids: int, num_labels: int, ranks: Ranks = ALONE) -> Parts:
    """Build an encoder and a row per label, with nothing in between; several ranks share the rows."""
    encoder = build_encoder(config, num_ids)
    return encoder, LinearClassifier(encoder.dim, num_labels, shard=Shard.even(ranks, num_labels))


@dataclass(frozen=True, kw_only=True)
class FlatTraining:
    """How a flat method is built and trained."""

    plan: Plan
    dropout: float  # before the classifier
    chunk: int  # labels scored at a time
    prior: bool  # start biases at the labels' log-odds
    batch_norm: bool = False  # normalise vectors before the rows in training, which is folded into the rows at last
    precision: torch.dtype
    build: Callable[[int, int], Parts]  # from the numbers of token ids and of labels


def flat_training(
    config: ClassifierConfig, plan: Plan, build: Callable[[int, int], Parts], *, batch_norm: bool = False
) -> FlatTraining:
    return FlatTraining(
        plan=plan,
        dropout=config.classifier_dropout,
        chunk=config.chunk,
        prior=config.prior,
        batch_norm=batch_norm,
        precision=PRECISIONS[config.precision],
        build=build,
    )


def with_sizes(config: C, texts: int, usual: int, *, batch_size: int = 128, fraction: float = 1.0) -> C:
    """Return the config with a value wherever the data decides; `usual` is the 99.5 % quantile of words per text."""
    return replace(
        config,
        epochs=choose_epochs(config.epochs, texts, fraction),
        batch_size=choose_batch_size(config.batch_size, texts, batch_size),
        length=choose_length(config.length, usual, encoder=config.encoder),
    )


def fit_flat(
    training: FlatTraining, stage: str, data: Dataset, held: Dataset, config: FlatConfig, run: Run, last_epoch: int = 0
) -> tuple[FlatRanker, TrainState]:
    """Train a stage; `held` chooses the epoch, and where it is empty the last epoch is kept.

    The vectors of an encoder that is frozen are computed once, and label rows are trained on them.
    """
    with seeded(training.plan.seed):
        encoder, classifier = training.build(data.inputs.shape[1], data.num_labels)
    start_encoder(encoder, config, data)
    if training.prior:
        classifier.start_from(frequencies(data))
    ranker = FlatRanker(encoder, classifier).to(run.device)
    if isinstance(config, ClassifierConfig):
        check_label_texts(data, config.warm_up, config.row_start)
        warm_up(f"{stage}-warm-up", before_rows(encoder, classifier), data, config.warm_up, config, run)
        start_rows(classifier, encoder, data, config.row_start, run.device)
    reader, data, held = encoded_if_frozen(encoder, config, data, held, run.device)
    own = classifier.shard.own
    weights = None if data.label_weights is None else torch.from_numpy(data.label_weights[own]).to(run.device)
    if training.batch_norm:
        some = data.rows(np.linspace(0, len(data) - 1, min(_USUAL, len(data))).astype(np.int64))
        with torch.no_grad():
            normalise(classifier, encoded(reader.eval(), some.inputs, run.device))
    task = AllLabels(
        reader,
        classifier,
        dropout=training.dropout,
        chunk=training.chunk,
        precision=training.precision,
        label_weights=weights,
    )
    learnt = FlatRanker(reader, classifier)
    validate = (lambda: validation_figures(learnt, held)) if len(held) else None
    resident = Resident.of(data, config.length, run.device, shard=classifier.shard)
    state = run.fit(stage, task, resident, training.plan, validate=validate, last_epoch=last_epoch)
    if training.batch_norm:
        fold(classifier)
    return ranker.eval(), state


def restore_flat(
    method: str, build: Callable[[C, int, int], Parts], config: C, tensors: Mapping[str, Tensor]
) -> FlatRanker:
    """Restore a flat ranker from its state_dict, whose shapes give its sizes."""

    def make() -> FlatRanker:
        num_labels, _ = tensors["classifier.weight"].shape
        return FlatRanker(*build(*sizes_from(tensors, config), num_labels))

    return restore_module(method, make, tensors)
