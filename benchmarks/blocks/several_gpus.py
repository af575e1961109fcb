"""Blocks of the page on several GPUs: how many a training needs, and how long a step would take on them.

Nothing here is measured on more than one GPU. A step of InceptionXML with all labels is

    encoder + rows × labels × dim / GPUs + 2 × latency + 2 × (GPUs - 1) / GPUs × 4 × batch × dim / bandwidth

where `encoder` is that of a step's profile, `rows` what is left of the step measured on one GPU, per number of all
label rows, and latency and bandwidth are those of the links: the vendors' bandwidth, and a usual latency of NCCL.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks.tables import Results, found, table

BATCH = 128
ENCODER = 0.9  # milliseconds of a step's profile on one H200 (docs/log.md); it does not depend on labels
MEASURED = (670_091, 480)  # labels and dim of the step in training_speed.json
SIZES = {"670K": (670_091, 480), "3M": (2_812_281, 300), "30M": (30_000_000, 300), "100M": (100_000_000, 300)}
NARROW = {**SIZES, "100M, narrow": (100_000_000, 64)}
BYTES = {"adam": (12, 0), "adam-bf16": (6, 0), "adagrad-bf16": (2, 4)}  # of each number, and of each row
CARDS = {"80 GB": 80e9, "141 GB": 141e9}
USABLE = 0.9  # of a GPU's memory: the encoder, the data and the libraries take the rest
GPUS = (1, 4, 8, 64)


class Link(NamedTuple):
    """How GPUs are connected."""

    latency: float  # milliseconds of a collective
    bandwidth: float  # bytes per millisecond and direction


NVLINK, INFINIBAND = Link(0.025, 450e6), Link(0.055, 50e6)  # of an H200's machine; 400 Gb/s for each GPU
ON_A_MACHINE = 8


def memory(labels: int, dim: int, optimiser: str) -> float:
    """Return the bytes of label rows, their state and the logit gradients of a batch, on all GPUs together."""
    number, row = BYTES[optimiser]
    return labels * (number * dim + row + 2 * BATCH)


def communication(gpus: int, dim: int) -> float:
    """Return the milliseconds of a step's collectives: the loss, and the gradient of the vectors."""
    if gpus == 1:
        return 0.0
    link = NVLINK if gpus <= ON_A_MACHINE else INFINIBAND
    return 2 * link.latency + 2 * (gpus - 1) / gpus * 4 * BATCH * dim / link.bandwidth


def step(measured: float, labels: int, dim: int, gpus: int) -> float:
    """Return the milliseconds of a step; `measured` is that of MEASURED on one GPU."""
    per_number = (measured - ENCODER) / (MEASURED[0] * MEASURED[1])
    return ENCODER + per_number * labels * dim / gpus + communication(gpus, dim)


def what_fits(results: Results) -> str:
    rows = []
    for labels, dim in NARROW.values():
        cells = []
        for optimiser in BYTES:
            needed = memory(labels, dim, optimiser)
            counts = [-(-needed // (USABLE * size)) for size in CARDS.values()]
            cells.append(f"{needed / 1e9:,.0f} GB: " + " / ".join(f"{count:.0f}" for count in counts))
        rows.append([f"{labels:,} × {dim}", *cells])
    return table(["labels × dim", *(f"`{one}`" for one in BYTES)], rows)


def step_times(results: Results) -> str:
    measured: Any = found(results, "training_speed", "InceptionXML, 670K", "adam", "milliseconds")
    rows = []
    for labels, dim in NARROW.values():
        cells = []
        for gpus in GPUS:
            fits = memory(labels, dim, "adam") / gpus <= USABLE * max(CARDS.values())
            cells.append(f"{step(measured, labels, dim, gpus):.1f}" if fits else "does not fit")
        rows.append([f"{labels:,} × {dim}", *cells, f"{communication(GPUS[-1], dim):.2f}"])
    heads = [f"{gpus} GPU{'s' * (gpus > 1)}" for gpus in GPUS]
    return table(["ms per step", *heads, f"of which is sent, {GPUS[-1]} GPUs"], rows)


METHODS = ("InceptionXML", "InceptionXML+")
BESIDE = {
    "eager: the same again": "one process",
    "eager: 2 ranks, gloo": "gloo",
    "captured: the same again": "one process, captured",
    "captured: 2 ranks, NCCL": "nccl",
}
AGAIN, APART = "loss differs from the same training again by", "loss differs from one process by"


def rank_times(results: Results) -> str:
    """Return the milliseconds of one rank's own work, of several sizes of the group."""
    rows = []
    for method in METHODS:
        alone: Any = found(results, "ranks_on_one_gpu", method, "one process, captured", "milliseconds")
        parts: Any = [found(results, "ranks_on_one_gpu", method, "one of", world) for world in ("2", "4", "8")]
        rows.append([method, *(f"{time:.2f}" for time in (alone, *parts))])
    return table(["ms per step", "1 rank", "one of 2", "one of 4", "one of 8"], rows)


def two_ranks(results: Results) -> str:
    """Return how far losses of two ranks on one GPU are from those of one process, and the time of collectives."""
    rows = []
    for method in METHODS:
        parts: Any = found(results, "ranks_on_one_gpu", method)
        for name, part in BESIDE.items():
            apart = parts[part].get(AGAIN if part.startswith("one process") else APART)
            if apart is not None:
                rows.append([method, name, *(f"{apart[at]:.1e}" for at in ("1", "10", "50", "200", "largest"))])
    return table(["", "beside one process", "step 1", "step 10", "step 50", "step 200", "at most"], rows)
