"""The cost model: parameters, bytes, arithmetic per text, and memory and time of training, from shapes alone.

Parameters are counted by building modules on torch's meta device, which allocates nothing. Multiply-accumulates of
InceptionXML are counted as the paper's Table 4 counts "Giga FLOPS", so that its column comes out (length 32 on
AmazonTitles-670K, 14 on the two Wikipedia datasets):

- one for every weight of a convolution or linear layer at every place where it is applied;
- three products in either attention, in the paper's order with dim × dim scores: W x, x yᵀ, and one times the other;
- every label or, with clusters, every cluster and then the labels of `top` clusters of average size;
- nothing for the word lookup, biases, norms, activations, skips, or choosing the top.

Our encoder orders the dimension attention more cheaply and runs at a text's own length; neither is subtracted.
Memory is estimated from above, time to a factor of two or so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import ceil
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn

from laconic.config import C
from laconic.errors import ConfigError
from laconic.methods.common import choose_batch_size
from laconic.methods.config import ClassifierConfig, EncoderConfig, FlatConfig, InceptionConfig, NeuralConfig, WarmUp
from laconic.methods.flat import FlatTraining, build, flat_training
from laconic.methods.warm_up import WARM_UP_BATCH
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import WordEncoder
from laconic.models.encoders.inception import CHANNELS, STRIDE, InceptionEncoder
from laconic.models.layers import Residual, SpectralResidual
from laconic.system.machine import usable_cores
from laconic.training.run import Run
from laconic.units import counted

SMALLEST_DIM = 6  # the widest convolution wraps this many positions around either end


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Rates that a training step reaches in practice, well below the vendors' figures."""

    name: str
    flops: float  # per second
    bandwidth: float  # bytes per second
    launch: float  # seconds that any step takes, however small

    def times(self, cores: float) -> Machine:
        return replace(
            self, name=f"{cores:g} × {self.name}", flops=cores * self.flops, bandwidth=cores * self.bandwidth
        )


GPU = Machine(name="H200", flops=60e12, bandwidth=3.5e12, launch=1.5e-3)  # fp32 and tf32 mixed
CPU = Machine(name="CPU core", flops=15e9, bandwidth=8e9, launch=5e-3)  # a machine is CPU.times(cores)


def training_machine(device: torch.device) -> Machine:
    """Return the rates to estimate training time with: of a GPU, or of the cores that torch uses here."""
    return GPU if device.type == "cuda" else CPU.times(min(torch.get_num_threads(), usable_cores()))


class TrainingCosts(NamedTuple):
    """What a training takes."""

    memory: int  # bytes
    seconds: float


def report_costs(
    run: Run, config: C, costs_of: Callable[[C, Machine], TrainingCosts], remedies: Sequence[Mapping[str, int | str]]
) -> None:
    """Report what a training will take, or refuse it where memory is short; `remedies` are settings that save some."""
    machine = training_machine(run.device)
    needed = {}
    for remedy in remedies:
        options = " and ".join(f"--set {name}={value}" for name, value in remedy.items())
        needed[options] = costs_of(lowered(config, remedy), machine).memory
    run.report_costs(*costs_of(config, machine), needed)


def lowered(config: C, settings: Mapping[str, int | str]) -> C:
    """Return the config with these settings, `group.name` inside its group, where they are smaller than its own."""
    for name, value in settings.items():
        group, dot, inner = name.partition(".")
        own: Any = getattr(config, group)
        if dot:
            own = lowered(own, {inner: value})
        elif isinstance(value, str):
            own = value
        else:
            own = min(value, own or value)
        config = replace(config, **{group: own})
    return config


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What an encoder takes for one text in training."""

    table: int  # numbers of its word vectors
    read: int  # numbers that are looked up per text
    kept: int  # numbers per text that are kept for the backward pass
    macs: int  # multiply-accumulates per text
    dim: int  # numbers of a vector


def with_warm_up(
    costs: TrainingCosts, settings: WarmUp, reading: Reading, *, texts: int, machine: Machine
) -> TrainingCosts:
    """Return a training's costs with those of its warm-up, in which as many label texts as texts are read per step."""
    if not settings.epochs:
        return costs
    batch = choose_batch_size(settings.batch_size, texts, WARM_UP_BATCH)
    memory = 16 * reading.table + 8 * batch * reading.kept + 12 * batch * batch
    arithmetic = 6 * batch * (2 * reading.macs + batch * reading.dim) / machine.flops
    moved = 28 * min(reading.table, 2 * batch * reading.read) / machine.bandwidth
    seconds = settings.epochs * -(-texts // batch) * (arithmetic + moved + machine.launch)
    return TrainingCosts(max(costs.memory, memory), costs.seconds + seconds)


def bag_reading(words: int, config: NeuralConfig) -> Reading:
    """Return what a bag of words takes: its sum, and a few vectors of its length."""
    read, dim = config.length * config.embedding, config.embedding
    return Reading(table=words * dim, read=read, kept=2 * config.length + 6 * dim, macs=read, dim=dim)


def transformer_macs(config: EncoderConfig) -> int:
    """Count the multiply-accumulates of a pre-trained transformer for a text; 0 for other encoders."""
    own, dim = config.transformer, config.embedding
    return config.length * own.layers * (4 * dim * dim + 2 * dim * own.inner + 2 * config.length * dim)


def num_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


# InceptionXML and InceptionXML+


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of an InceptionXML model or, with clusters, of InceptionXML+."""

    words: int  # rows of the embedding, including those of padding and of unknown words
    labels: int
    length: int = 32
    dim: int = 300
    clusters: int = 0  # 0: every label is scored
    top: int = 0  # clusters whose labels are scored
    row: int = 0  # width of a label's row; 0: that of the encoder

    def __post_init__(self) -> None:
        for name, least in (("words", 1), ("labels", 1), ("length", 1), ("dim", SMALLEST_DIM), ("clusters", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, but is {getattr(self, name)}")
        if self.clusters > self.labels:
            raise ConfigError(f"clusters must be at most the {counted(self.labels, 'label')}, but are {self.clusters}")
        if not min(1, self.clusters) <= self.top <= self.clusters:
            raise ConfigError(
                f"top must be 1 or more of the {counted(self.clusters, 'cluster')} (0 if none), but is {self.top}"
            )

    @property
    def row_width(self) -> int:
        return self.row or encoder_width(self.dim)

    @property
    def candidates(self) -> int:
        """Return the labels scored per text; with clusters, on average."""
        return round(self.top * self.labels / self.clusters) if self.clusters else self.labels


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Size and arithmetic of a finished model."""

    parameters: Mapping[str, int]  # by part
    macs: Mapping[str, int]  # multiply-accumulates per text, by the same parts

    @property
    def total_parameters(self) -> int:
        return sum(self.parameters.values())

    @property
    def gmacs(self) -> float:
        return sum(self.macs.values()) / 1e9

    @property
    def bytes(self) -> int:
        """Return the size in fp32, without buffers and optimiser state: Table 4's model sizes, in units of 2³⁰."""
        return 4 * self.total_parameters


@cache
def inception_cost(shape: Shape) -> Cost:
    """Count a model's parameters and multiply-accumulates."""
    with torch.device("meta"):
        encoder = InceptionEncoder(num_ids=shape.words, length=shape.length, embedding=shape.dim)
        width, row = encoder.dim, shape.row_width
        head = SpectralResidual if shape.clusters else Residual
        heads = nn.ModuleList(head(width, row, dropout=0.0) for _ in range(2 if shape.clusters else 1))
        meta = LinearClassifier(row, shape.clusters) if shape.clusters else None
        classifier = LinearClassifier(row, shape.labels, bias=not shape.clusters)
    parts: dict[str, tuple[nn.Module, int]] = {
        "embeddings": (encoder.embedding, 0),
        "encoder": (encoder, _encoder_macs(encoder, shape)),
        "head": (heads, len(heads) * width * row),
        **({} if meta is None else {"meta": (meta, shape.clusters * row)}),
        "classifier": (classifier, shape.candidates * row),
    }
    parameters = {name: num_parameters(part) for name, (part, _) in parts.items()}
    parameters["encoder"] -= parameters["embeddings"]
    return Cost(parameters=parameters, macs={name: macs for name, (_, macs) in parts.items()})


def _encoder_macs(encoder: InceptionEncoder, shape: Shape) -> int:
    attentions = 3 * shape.length * shape.dim * (shape.length + shape.dim)
    projection = encoder.projection.weight.numel() * shape.dim
    branches = sum(one.weight.numel() for one in encoder.branches if isinstance(one, nn.Conv1d))
    return (
        attentions
        + projection
        + branches * _positions(shape.dim)
        + encoder.final.weight.numel() * (encoder.dim // CHANNELS)
    )


def _positions(dim: int) -> int:
    """Return the steps along the embedding that every branch makes; circular padding makes them equal."""
    return (dim - STRIDE) // STRIDE + 1


@cache
def encoder_width(dim: int) -> int:
    """Return the width of the encoder's vector: 480 for an embedding of 300."""
    with torch.device("meta"):
        return InceptionEncoder(num_ids=1, length=1, embedding=dim).dim


def training_memory(shape: Shape, *, batch: int, chunk: int) -> int:
    """Return the bytes that fp32 Adam needs when it updates in place.

    `chunk` labels of a text are scored at a time. With clusters, their rows and the rows' gradients are gathered text
    by text; for a kernel that goes cluster by cluster and gathers nothing, give a small chunk.
    """
    adam = 16 * inception_cost(shape).total_parameters  # weight, gradient, two moments
    scored = min(chunk, shape.candidates)
    numbers = _activations(shape) + 3 * (scored + shape.clusters)  # scores, targets, gradients
    if shape.clusters:
        numbers += 2 * scored * shape.row_width
    return adam + 4 * batch * numbers


# Bytes per number of a label row, with optimiser state. A gradient of rows is never stored: its factors are multiplied
# where they are used.
ROW_BYTES = {"adam": 12, "adam-bf16": 6, "adagrad-bf16": 6}


def gpu_memory(shape: Shape, *, batch: int, optimiser: str = "adam") -> int:
    """Return the bytes of a run on a GPU, without the resident texts; right to 15 % where labels are many.

    Every text and label, or every pick, has a gradient; how many labels are scored at a time makes no difference.
    """
    rows = (shape.labels + shape.clusters) * shape.row_width
    others = inception_cost(shape).total_parameters - rows
    scored = 2 * shape.labels
    if shape.clusters:
        size = -(-shape.labels // shape.clusters)
        picks = shape.top * (4 * max(16, size) + 28)  # gradients, and the picks in the order of clusters
        scored = picks + 14 * shape.clusters  # gradients of cluster scores, and three copies while the best are found
    return ROW_BYTES[optimiser] * rows + 16 * others + batch * (scored + 4 * _activations(shape))


def training_seconds(shape: Shape, *, texts: int, epochs: int, batch: int, machine: Machine) -> float:
    """Return the seconds of a training, to a factor of two, on a machine that does nothing else."""
    cost = inception_cost(shape)
    arithmetic = 6 * cost.gmacs * 1e9 * batch / machine.flops  # two operations forward, four backward
    optimiser = 28 * cost.total_parameters / machine.bandwidth  # weight, gradient, moments read; all but one written
    return ceil(texts / batch) * epochs * (arithmetic + optimiser + machine.launch)


def _activations(shape: Shape) -> int:
    """Count the numbers kept per text for the backward pass: activations, dropout masks, a gradient per layer."""
    attentions = 10 * shape.length * shape.dim + 2 * shape.length**2
    projection = 4 * CHANNELS * shape.dim
    return attentions + projection + 12 * CHANNELS * _positions(shape.dim) + 10 * encoder_width(shape.dim)


S = TypeVar("S", bound=InceptionConfig)


def report_inception_costs(
    run: Run, config: S, shape_of: Callable[[S], Shape], texts: int, *, chunk: int, small_batch: int
) -> None:
    """Report what a training will take; a CPU scores `chunk` labels at a time, `small_batch` is a remedy."""
    gpu = run.device.type == "cuda"

    def costs(one: S, machine: Machine) -> TrainingCosts:
        shape, batch = shape_of(one), one.batch_size
        seconds = training_seconds(shape, texts=texts, epochs=one.epochs, batch=batch, machine=machine)
        if gpu:
            memory = gpu_memory(shape, batch=batch, optimiser=one.optimiser)
        else:
            memory = training_memory(shape, batch=batch, chunk=chunk)
        reading = Reading(
            table=shape.words * shape.dim,
            read=shape.length * shape.dim,
            kept=_activations(shape),
            macs=sum(inception_cost(shape).macs[part] for part in ("encoder", "head")),
            dim=shape.row_width,
        )
        warm = with_warm_up(TrainingCosts(memory, seconds), one.warm_up, reading, texts=texts, machine=machine)
        return TrainingCosts(warm.memory, warm.seconds * (1 + one.refit))

    remedies: list[dict[str, int | str]] = [{"optimiser": "adam-bf16"}] if gpu else []
    remedies += [{"batch_size": small_batch}, {"embedding": 128}, {"embedding": 64, "batch_size": 32}]
    report_costs(run, config, costs, remedies)


def report_transformer_costs(run: Run, config: InceptionConfig, *, words: int, labels: int, texts: int) -> None:
    """Report what a training with a transformer will take, as if every label were scored."""

    def costs(one: InceptionConfig, machine: Machine) -> TrainingCosts:
        training = flat_training(one, one.plan(optimiser=one.optimiser), partial(build, one))
        return flat_costs(training, one, words=words, labels=labels, texts=texts, machine=machine)[0]

    report_costs(run, config, costs, [{"chunk": 8192}, {"batch_size": 32}])


# Flat methods: XML-CNN, and a member of MACH


def flat_costs(
    training: FlatTraining, config: FlatConfig, *, words: int, labels: int, texts: int, machine: Machine
) -> tuple[TrainingCosts, int]:
    """Return what a training of a flat model takes, and its number of parameters."""
    with torch.device("meta"):
        encoder, classifier = training.build(words, labels)
    plan, parameters = training.plan, num_parameters(encoder) + num_parameters(classifier)
    table = num_parameters(encoder.embedding) if isinstance(encoder, WordEncoder) else 0
    read = config.length * config.embedding  # numbers that are looked up per text
    # Filters, activations and gradients take about ten times the numbers of a text's words.
    numbers = 10 * (read + encoder.dim) + 3 * min(training.chunk, labels)
    memory = 16 * parameters + 4 * plan.batch_size * numbers  # weight, gradient, two moments
    macs = config.length * (num_parameters(encoder) - table) + labels * encoder.dim  # layers are used at every word
    updated = parameters - table + (min(table, plan.batch_size * read) if plan.lazy else table)
    step = 6 * macs * plan.batch_size / machine.flops + 28 * updated / machine.bandwidth + machine.launch
    costs = TrainingCosts(memory, plan.epochs * -(-texts // plan.batch_size) * step)
    if isinstance(config, ClassifierConfig):
        layers = config.length * (num_parameters(encoder) - table)
        reading = Reading(table=table, read=read, kept=10 * (read + encoder.dim), macs=layers, dim=encoder.dim)
        costs = with_warm_up(costs, config.warm_up, reading, texts=texts, machine=machine)
    return TrainingCosts(costs.memory, costs.seconds * (1 + config.refit)), parameters
