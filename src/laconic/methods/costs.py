"""What InceptionXML costs, from shapes alone: parameters, bytes, arithmetic of one text, memory and time of training.

A shape with clusters is InceptionXML+. Multiply-accumulates are counted as the paper's Table 4 counts "Giga FLOPS", so
that its column comes out (length 32 on AmazonTitles-670K, 14 on the two Wikipedia datasets):

- one for every weight of a convolution or linear layer at every place where it is applied;
- three products in either attention, in the paper's order with dim × dim scores: W x, x yᵀ, and one times the other;
- every label or, with clusters, every cluster and then the labels of `top` clusters of average size;
- nothing for the word lookup, biases, norms, activations, skips, or choosing the top.

Our encoder orders the dimension attention more cheaply and runs at a text's own length; neither is counted off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

import torch

from laconic.errors import ConfigError
from laconic.system.machine import usable_cores
from laconic.units import counted

CHANNELS = 32  # the encoder's layers are spelled out here once more, so that counting needs no torch; a test compares
KERNELS = (4, 8, 16)
STRIDE = 4
SMALLEST_DIM = 6  # the widest branch wraps so many places around either end


@dataclass(frozen=True, kw_only=True)
class Shape:
    words: int  # rows of the embedding, those of padding and of unknown words among them
    labels: int
    length: int = 32
    dim: int = 300
    clusters: int = 0  # 0: every label is scored
    top: int = 0  # clusters whose labels are scored
    row: int = 0  # numbers of a label's row; 0: as many as the encoder makes of a text

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
        """Labels scored for one text; with clusters, on average."""
        return round(self.top * self.labels / self.clusters) if self.clusters else self.labels


@dataclass(frozen=True, kw_only=True)
class Cost:
    parameters: Mapping[str, int]  # by part
    macs: Mapping[str, int]  # multiply-accumulates of one text, by the same parts

    @property
    def total_parameters(self) -> int:
        return sum(self.parameters.values())

    @property
    def gmacs(self) -> float:
        return sum(self.macs.values()) / 1e9

    @property
    def bytes(self) -> int:
        """In fp32, without buffers and optimiser state. The model sizes of Table 4 are these in units of 2³⁰."""
        return 4 * self.total_parameters


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a training step can count on: rates reached in practice, well under the makers'."""

    name: str
    flops: float  # a second
    bandwidth: float  # bytes a second
    launch: float  # seconds that a step takes however small it is

    def times(self, cores: int) -> Machine:
        return replace(self, name=f"{cores} × {self.name}", flops=cores * self.flops, bandwidth=cores * self.bandwidth)


GPU = Machine(name="H200", flops=60e12, bandwidth=3.5e12, launch=1.5e-3)  # fp32 and tf32 mixed
CPU = Machine(name="CPU core", flops=25e9, bandwidth=8e9, launch=5e-3)  # a machine is CPU.times(cores)


def inception_cost(shape: Shape) -> Cost:
    width, row = encoder_width(shape.dim), shape.row_width
    parts = {"embeddings": _Part(shape.words * shape.dim, 0), "encoder": _encoder(shape)}
    if shape.clusters:
        # Spectral normalisation has buffers but no parameters; label rows have no bias.
        parts["head"] = _linear(width, row) + _linear(width, row)
        parts["meta"] = _linear(row, shape.clusters)
        parts["classifier"] = _Part(shape.labels * row, shape.candidates * row)
    else:
        parts["head"] = _linear(width, row) + _norm(row)
        parts["classifier"] = _linear(row, shape.labels)
    return Cost(
        parameters={name: part.parameters for name, part in parts.items()},
        macs={name: part.macs for name, part in parts.items()},
    )


def encoder_width(dim: int) -> int:
    """How many values the encoder makes of a text: 480 from words of 300."""
    _, _, after = _places(dim)
    return CHANNELS * after


def training_memory(shape: Shape, *, batch: int, chunk: int) -> int:
    """Bytes, estimated from above, for fp32 Adam that updates in place; one that makes copies needs more.

    `chunk` is how many labels of a text are scored at once. With clusters, their rows are gathered text by text, and
    so are the rows' gradients; for a kernel that goes cluster by cluster and gathers nothing, give a small chunk.
    """
    adam = 16 * inception_cost(shape).total_parameters  # weight, gradient, two moments
    scored = min(chunk, shape.candidates)
    numbers = _activations(shape) + 3 * (scored + shape.clusters)  # scores, targets, gradients
    if shape.clusters:
        numbers += 2 * scored * shape.row_width
    return adam + 4 * batch * numbers


ROW_BYTES = {"adam": 12, "adam-bf16": 6, "adagrad-bf16": 6}  # of a label row's number: in half precision it is made of
# a whole one; beside rows and their state there is never a gradient, which is multiplied out where it is used


def gpu_memory(shape: Shape, *, batch: int, optimiser: str = "adam") -> int:
    """Bytes of a run on a GPU, right to 15 % where labels are many, without the texts that wait there.

    Every text and label, or every pick, has a slope; nothing depends on how many labels are scored at a time.
    """
    rows = (shape.labels + shape.clusters) * shape.row_width
    others = inception_cost(shape).total_parameters - rows
    if shape.clusters:
        size = -(-shape.labels // shape.clusters)
        picks = shape.top * (4 * max(16, size) + 28)  # slopes, and the picks in the order of clusters
        scored = (
            picks + 14 * shape.clusters
        )  # how clusters' scores should move, and three copies while the best are found
    else:
        scored = 2 * shape.labels
    return ROW_BYTES[optimiser] * rows + 16 * others + batch * (scored + 4 * _activations(shape))


def training_seconds(shape: Shape, *, texts: int, epochs: int, batch: int, machine: Machine) -> float:
    """Right to a factor of two, where the data wait on the device and nothing else runs on it."""
    cost = inception_cost(shape)
    arithmetic = 6 * cost.gmacs * 1e9 * batch / machine.flops  # two operations forward, four backward
    optimiser = 28 * cost.total_parameters / machine.bandwidth  # weight, gradient, moments read; all but one written
    return ceil(texts / batch) * epochs * (arithmetic + optimiser + machine.launch)


@dataclass(frozen=True, kw_only=True)
class StagedShape:
    """What DeepXML's four modules are about."""

    words: int
    labels: int
    groups: int  # of the surrogate task; 0: there is none
    texts: int
    length: int
    dim: int
    batch: int
    shortlist: int  # labels of a text, those of chance included
    neighbours: bool  # whether texts are kept to be found again


def staged_memory(shape: StagedShape) -> int:
    """Bytes at the largest of the stages: weight, gradient and two moments of a number; what is kept of every text."""
    rows = max(shape.groups, shape.labels) + shape.words
    kept = shape.dim * (1 + shape.neighbours) + 2 * shape.length + shape.shortlist
    return 16 * rows * shape.dim + 4 * shape.texts * kept + 12 * shape.batch * max(shape.groups, shape.shortlist)


def staged_seconds(shape: StagedShape, *, epochs: tuple[int, int], machine: Machine) -> float:
    """To a factor of two: surrogate epochs, shortlists by all cosines, epochs on shortlists whose rows lie apart."""
    steps = -(-shape.texts // shape.batch)
    words = min(shape.words, shape.batch * shape.length)
    scored = shape.batch * shape.shortlist
    surrogate = 6 * shape.batch * shape.groups * shape.dim / machine.flops
    surrogate += 28 * (shape.groups + words) * shape.dim / machine.bandwidth + machine.launch
    extreme = (8 * 12 * scored + 28 * min(shape.labels, scored)) * shape.dim / machine.bandwidth + machine.launch
    compared = shape.labels + shape.texts * shape.neighbours
    search = 4 * shape.texts * compared * shape.dim / machine.flops
    return steps * (epochs[0] * surrogate * (shape.groups > 0) + epochs[1] * extreme) + search


@dataclass(frozen=True)
class _Part:
    parameters: int
    macs: int

    def __add__(self, other: _Part) -> _Part:
        return _Part(self.parameters + other.parameters, self.macs + other.macs)


def _encoder(shape: Shape) -> _Part:
    branches, kernel, after = _places(shape.dim)
    wide = len(KERNELS) * CHANNELS
    layers = [
        _attention(shape.length, shape.dim),
        _attention(shape.dim, shape.length),
        _convolution(shape.length, CHANNELS, kernel=1, places=shape.dim),
        _norm(CHANNELS),
        *(_convolution(CHANNELS, CHANNELS, kernel=size, places=branches) for size in KERNELS),
        _norm(wide),
        _convolution(wide, CHANNELS, kernel=kernel, places=after),
        _norm(CHANNELS),
    ]
    return sum(layers, start=_Part(0, 0))


def _places(dim: int) -> tuple[int, int, int]:
    """Steps along the embedding that every branch makes, the final kernel, and the steps that it makes over them."""
    branches = (dim - min(KERNELS)) // STRIDE + 1  # circular padding gives wider kernels as many
    kernel = min(max(KERNELS), branches)
    return branches, kernel, (branches - kernel) // STRIDE + 1


def _attention(rows: int, columns: int) -> _Part:
    return _Part(rows * rows + 1, 3 * rows * rows * columns)  # W and gamma; W x, x yᵀ, (x yᵀ)(W x)


def _convolution(inputs: int, outputs: int, *, kernel: int, places: int) -> _Part:
    weights = inputs * outputs * kernel
    return _Part(weights + outputs, weights * places)


def _linear(inputs: int, outputs: int) -> _Part:
    return _convolution(inputs, outputs, kernel=1, places=1)


def _norm(channels: int) -> _Part:
    return _Part(2 * channels, 0)  # running statistics are buffers


def _activations(shape: Shape) -> int:
    """Numbers kept for the backward pass of one text, dropout masks among them, and a gradient in flight a layer."""
    branches, _, _ = _places(shape.dim)
    attentions = 10 * shape.length * shape.dim + 2 * shape.length**2
    projection = 4 * CHANNELS * shape.dim
    return attentions + projection + 4 * len(KERNELS) * CHANNELS * branches + 10 * encoder_width(shape.dim)


def training_machine(device: torch.device) -> Machine:
    """Return the rates to estimate a training's time by: of a GPU, or of the cores that torch uses here."""
    return GPU if device.type == "cuda" else CPU.times(min(torch.get_num_threads(), usable_cores()))
