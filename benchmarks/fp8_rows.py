"""InceptionXML with label rows in 8 bits: what the accuracy is where Adagrad by row stores them in fewer bits.

Rows are kept in float32 and rounded after every update to what a format can hold, stochastically or to the nearest,
with or without a scale for each row (a power of two, chosen anew at every update). Nothing is faster or smaller here:
this shows whether kernels for it would be worth writing. Figures are of texts that are cut off the training split, by
packages; the test split is not read. The encoder and biases have Adam in float32 throughout.

    python -m benchmarks.fp8_rows
    python -m benchmarks.fp8_rows --ways float32 --rates 0.01 0.02 0.05
    python -m benchmarks.fp8_rows --device cuda --whole --seeds 1 2 3
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from time import perf_counter
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from benchmarks._trainings import Figures, Job, corpus_of, show_rows, side_by_side
from benchmarks.common import data_folder
from benchmarks.static_vectors import figures, for_validation, some
from laconic.config import merged, read_settings
from laconic.data.corpus import Corpus, Split
from laconic.kernels.triton.factors import take
from laconic.kernels.triton.row_update import multiply_out
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.training import loop
from laconic.training.optimizer import Adam, Plan
from laconic.training.run import Run
from laconic.training.step import Step

_SMALL = ("epochs=10", "embedding=64", "hidden=64")  # minutes on one core
_COMMON = ("prior=true", "eps=1e-12", "validation=0")
_SHOWN = ("P@1", "P@5", "PSP@5", "tail R@10", "training seconds")


class Format(NamedTuple):
    """A floating-point format: bits of the mantissa, the exponent of the least normal number, the largest number."""

    mantissa: int
    least: int
    largest: float


E4M3, E5M2 = Format(3, -6, 448.0), Format(2, -14, 57_344.0)
BFLOAT16 = Format(7, -119, 3.38953139e38)  # from -126 on, but float32 must hold the distance of its neighbours


class Way(NamedTuple):
    """How rows are stored after an update; without a format as they are."""

    format: Format | None = None
    stochastic: bool = True
    scaled: bool = False  # each row by a power of two that brings its largest number near the top of the format


ADAM = "float32, Adam"
WAYS: Mapping[str, Way] = {
    "float32": Way(),
    "e4m3": Way(E4M3),
    "e4m3, scale by row": Way(E4M3, scaled=True),
    "bfloat16": Way(BFLOAT16),
    "e4m3, scale by row, to nearest": Way(E4M3, stochastic=False, scaled=True),
    "e5m2": Way(E5M2),
    "e5m2, scale by row": Way(E5M2, scaled=True),
}


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.fp8_rows", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--data", default="debian-related")
    parser.add_argument("--ways", nargs="+", choices=[*WAYS, ADAM], default=[*WAYS, ADAM])
    parser.add_argument("--rates", type=float, nargs="+", default=[0.02], help="learning rates, all with all ways")
    parser.add_argument("--texts", type=int, default=6_000, help="training texts at most, drawn at random")
    parser.add_argument("--whole", action="store_true", help="all training texts, and the method's own sizes")
    parser.add_argument("--set", action="append", default=[], help="a setting of all trainings")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--again", action="store_true", help="also what is among the results already")
    parser.add_argument("--name", default="fp8_rows")
    options = parser.parse_args()
    if data_folder(options.data) is None:
        print(f"{options.data} is not here, left out")
        return
    jobs = [job(way, rate, seed, options) for seed in options.seeds for rate in options.rates for way in options.ways]
    found = side_by_side(jobs, partial(work, options=options), options.name, 1, again=options.again)
    show_rows(options.data, found.get(options.data, {}), _SHOWN)


def job(way: str, rate: float, seed: int, options: Any) -> Job:
    sizes = () if options.whole else _SMALL
    settings = merged(read_settings(None, [*sizes, *_COMMON, *options.set]), {"seed": seed, "learning_rate": rate})
    called = ", ".join([way, f"rate {rate:g}", "whole" if options.whole else f"{options.texts} texts", *options.set])
    return Job(options.data, called, seed, settings, "inceptionxml", looks=(way,))


def work(job: Job, options: Any) -> Figures:
    """Train with rows stored in the job's way; evaluate on texts that were cut off the training split."""
    corpus = cut(job.data, 0 if options.whole else options.texts)
    (way,), started = job.looks, perf_counter()
    with rows_stored(WAYS.get(way)):
        model = train_model(corpus, job.method, config_of(job.method, job.settings), Run.unkept(options.device))
    seconds = round(perf_counter() - started, 1)
    counted = {"training texts": len(corpus.split("train")), "texts": len(corpus.split("test"))}
    counted |= {"labels": len(corpus.labels)}
    rate = job.settings["learning_rate"]
    return {"way": way, "rate": str(rate), "training seconds": seconds} | counted | figures(model, corpus)


@cache
def cut(data: str, texts: int) -> Corpus:
    """Return a corpus whose test texts are a tenth of the packages of the training split; 0: all other texts to train.

    Of few training texts, labels that fewer than two of them have are left out: most rows would be of labels without
    any text, and take most of the time.
    """
    corpus = for_validation(corpus_of(data))
    if not texts:
        return corpus
    train, test = some(corpus.split("train"), texts), corpus.split("test")
    kept = np.flatnonzero(train.labels.sum(axis=0) >= 2)
    return replace(corpus, labels=corpus.labels.at(kept), splits={"train": of(kept, train), "test": of(kept, test)})


def of(kept: Int[np.ndarray, "labels"], split: Split) -> Split:
    """Return a split with these labels alone, and with those texts alone that have any of them."""
    left_out = None if split.leave_out is None else split.leave_out[:, kept]
    split = replace(split, labels=split.labels[:, kept], leave_out=left_out)
    return split.rows(np.flatnonzero(np.diff(split.labels.indptr)))


@contextmanager
def rows_stored(way: Way | None) -> Iterator[None]:
    """Train label rows by Adagrad inside the block, stored in this way; None: by Adam, as usual.

    Steps are eager on a GPU too.
    """
    with patch.object(Step, "capture", lambda step, batch_size: "eager"):
        if way is None:
            yield
        else:
            with patch.object(loop, "Adam", partial(RowAdagrad, way=way)):
                yield


class RowAdagrad(Adam):
    """Adam over named parameters, but Adagrad with one number per row for label rows, which are rounded each time."""

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        plan: Plan,
        steps: int,
        tables: Collection[str] = (),
        rows: Collection[str] = (),
        pretrained: Collection[str] = (),
        *,
        way: Way,
    ) -> None:
        self.rows = {name: parameters[name] for name in rows}
        others = {name: one for name, one in parameters.items() if name not in self.rows}
        super().__init__(others, plan, steps, tables, (), pretrained)
        self.way = way
        self.sums = {name: torch.zeros(len(one), device=one.device) for name, one in self.rows.items()}
        for one in self.rows.values():
            one.data.copy_(stored(one.data, way))

    def state(self) -> dict[str, Tensor]:
        return super().state() | {f"sum.{name}": one for name, one in self.sums.items()}

    @contextmanager
    def stepping(self, go: Float[Tensor, ""]) -> Iterator[None]:
        factors = {name: take(one) for name, one in self.rows.items()}  # of the forward pass, on a GPU
        rate, _, _, eps, *_ = self.table[int(self.at)].tolist()
        with super().stepping(go):
            yield
        for name, one in self.rows.items():
            left = factors[name]
            gradient = one.grad if left is None else multiply_out(left, len(one))
            assert gradient is not None
            if go:
                adagrad_by_row(one.data, self.sums[name], gradient, rate, eps)
                one.data.copy_(stored(one.data, self.way))
            one.grad = None


def adagrad_by_row(
    rows: Float[Tensor, "n dim"], sums: Float[Tensor, "n"], gradient: Float[Tensor, "n dim"], rate: float, eps: float
) -> None:
    """Update rows in place by Adagrad with one number per row: the sum of its mean squared gradients."""
    sums += gradient.square().mean(1)
    rows -= rate * gradient / (sums.sqrt() + eps)[:, None]


def stored(rows: Float[Tensor, "n dim"], way: Way) -> Float[Tensor, "n dim"]:
    """Return rows as they are read again after being stored in this way."""
    if way.format is None:
        return rows
    if not way.scaled:
        return rounded(rows, way.format, stochastic=way.stochastic)
    top = torch.frexp(torch.tensor(way.format.largest)).exponent
    # One below the top, where every mantissa is within the format.
    exponent = torch.frexp(rows.abs().amax(1, keepdim=True)).exponent - top + 1
    scale = torch.ldexp(torch.ones_like(rows[:, :1]), exponent)
    return rounded(rows / scale, way.format, stochastic=way.stochastic) * scale


def rounded(numbers: Float[Tensor, "n dim"], to: Format, *, stochastic: bool) -> Float[Tensor, "n dim"]:
    """Round to neighbours that the format has: the nearest, or one by chance, so that the mean is the number itself.

    Numbers beyond the largest become the largest.
    """
    exponent = (numbers.view(torch.int32) >> 23 & 255).clamp_(min=to.least + 127)  # of float32, which begins at -127
    step = (exponent - to.mantissa << 23).view(torch.float32)
    steps = numbers / step
    below = steps.floor()
    steps = below + (torch.rand_like(steps) < steps - below) if stochastic else steps.round()
    return (steps * step).clamp(-to.largest, to.largest)


if __name__ == "__main__":
    main()
