"""One row per label over an encoder, trained on all labels at once: XML-CNN is that, and so is every member of MACH."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.errors import ConfigError
from laconic.evaluation.evaluate import validation_figures
from laconic.methods.common import Encoding, build_encoder, start_encoder
from laconic.methods.costs import training_machine
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import Encoder, WordEncoder
from laconic.models.rankers import FlatRanker
from laconic.training.loop import TrainState
from laconic.training.optimizer import Plan
from laconic.training.run import Run
from laconic.training.tasks import AllLabels


@dataclass(frozen=True, kw_only=True)
class Training:
    plan: Plan
    dropout: float  # before the classifier
    chunk: int  # labels that are scored at a time
    prior: bool  # start biases at the labels' log-odds
    precision: torch.dtype


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What training takes, from shapes alone: memory from above, time to a factor of a few."""

    parameters: int
    memory: int  # bytes
    seconds: float


def check_training(encoder: str, batch_size: int, validation: float, *, refit: bool) -> None:
    """Raises an error for settings that cannot go together."""
    if batch_size == 1 and encoder in ("inception", "dense"):
        raise ConfigError(
            f"batch_size must be 0 (chosen by the data) or at least 2 for the encoder {encoder}, because of BatchNorm, "
            "but is 1"
        )
    if refit and not validation:
        raise ConfigError("refit needs a validation split to choose the epoch; validation is 0")


def build(config: Encoding, num_ids: int, num_labels: int) -> tuple[Encoder, LinearClassifier]:
    encoder = build_encoder(config, num_ids)
    return encoder, LinearClassifier(encoder.dim, num_labels)


def fitted(
    training: Training, stage: str, data: Dataset, held: Dataset, config: Encoding, run: Run, last_epoch: int = 0
) -> tuple[FlatRanker, TrainState]:
    """`held` chooses the epoch; where it is empty, the last is kept."""
    with torch.random.fork_rng([]):
        torch.manual_seed(training.plan.seed)
        encoder, classifier = build(config, data.inputs.shape[1], data.num_labels)
    start_encoder(encoder, config, data)
    if training.prior:
        classifier.start_from(torch.from_numpy(data.label_counts / len(data)))
    ranker = FlatRanker(encoder, classifier).to(run.device)
    task = AllLabels(encoder, classifier, dropout=training.dropout, chunk=training.chunk, precision=training.precision)
    validate = (lambda: validation_figures(ranker, held)) if len(held) else None
    resident = Resident.of(data, config.length, run.device)
    state = run.fit(stage, task, resident, training.plan, validate=validate, last_epoch=last_epoch)
    return ranker.eval(), state


def needs(training: Training, config: Encoding, data: Dataset, num_labels: int, device: torch.device) -> Needs:
    with torch.device("meta"):
        encoder, classifier = build(config, data.inputs.shape[1], num_labels)
    plan, parameters = training.plan, _size(encoder) + _size(classifier)
    table = _size(encoder.embedding) if isinstance(encoder, WordEncoder) else 0
    read = config.length * config.embedding  # numbers that a text's words are
    # Each of a text's words makes as much again ten times over, filters and gradients among it.
    numbers = 10 * (read + encoder.dim) + 3 * min(training.chunk, num_labels)
    memory = 16 * parameters + 4 * plan.batch_size * numbers  # weight, gradient, two moments
    machine = training_machine(device)
    macs = config.length * (_size(encoder) - table) + num_labels * encoder.dim  # a layer is used at every word
    moved = parameters - table + (min(table, plan.batch_size * read) if plan.lazy else table)
    step = 6 * macs * plan.batch_size / machine.flops + 28 * moved / machine.bandwidth + machine.launch
    steps = plan.epochs * -(-len(data) // plan.batch_size)
    return Needs(parameters=parameters, memory=memory, seconds=steps * step)


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
