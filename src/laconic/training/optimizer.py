"""The optimiser and its schedules; on a GPU their state is there too, so that a step can be captured."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.optim.adam import adam as fused_adam

from laconic.errors import ConfigError
from laconic.kernels.triton import HAS_KERNELS
from laconic.kernels.triton.adam import Several, adam, adam_reference, adam_rows, adam_rows_reference
from laconic.kernels.triton.factors import factors_of, take
from laconic.kernels.triton.pads import zeros_like
from laconic.kernels.triton.row_update import update_rows


@dataclass(frozen=True, kw_only=True)
class OneCycle:
    """A learning rate that rises and falls along cosines while beta1 falls and rises (InceptionXML's code)."""

    warm_up: float = 0.3  # fraction of all steps until the peak
    start: float = 1 / 10  # of the peak
    end: float = 1 / 10 / 1e4
    momentum: tuple[float, float] = (0.95, 0.85)  # beta1 at the start and end, and at the peak

    def factors(self, steps: int, epochs: int) -> tuple[Float[np.ndarray, "steps"], Float[np.ndarray, "steps"]]:
        """Return the factor of the learning rate, and beta1, for every step."""
        peak = self.warm_up * steps - 1
        at = np.arange(steps)
        rising = np.clip(at / peak, 0, 1) if peak > 0 else np.ones(steps)
        falling = np.clip((at - peak) / max(steps - 1 - peak, 1e-9), 0, 1)

        def cycle(start: float, top: float, end: float) -> Float[np.ndarray, "steps"]:
            up = top + (start - top) / 2 * (1 + np.cos(np.pi * rising))
            down = end + (top - end) / 2 * (1 + np.cos(np.pi * falling))
            return np.where(at <= peak, up, down)

        return cycle(self.start, 1.0, self.end), cycle(self.momentum[0], self.momentum[1], self.momentum[0])


@dataclass(frozen=True, kw_only=True)
class Halving:
    """A learning rate that is halved after a fraction of the epochs and, from then on, twice as often (DeepXML's code).

    There: after 14 of 20 epochs; after 10 and 15 of 20; after 7 of 10. Never more often than every fifth epoch.
    """

    after: float = 0.7
    beta1: float = 0.9

    def factors(self, steps: int, epochs: int) -> tuple[Float[np.ndarray, "steps"], Float[np.ndarray, "steps"]]:
        every = max(1, round(self.after * epochs))
        factor, of_epoch = 1.0, np.ones(epochs)
        for epoch in range(1, epochs):
            if epoch % every == 0:
                factor, every = factor / 2, max(min(5, every), every // 2)
            of_epoch[epoch] = factor
        at = np.arange(steps) * epochs // max(steps, 1)
        return of_epoch[at], np.full(steps, self.beta1)


_SMALL, _TOGETHER = 1 << 20, 32  # numbers of a parameter that is updated together with others, and how many of these
OPTIMISERS = ("adam", "adam-bf16", "adagrad-bf16")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How one stage is trained. Defaults are InceptionXML's (paper, Table 7; the rest from its code)."""

    epochs: int
    batch_size: int
    learning_rate: float = 0.005  # at its peak
    pretrained_rate: float = 0.0  # that of pre-trained parameters; 0: that of all others
    schedule: OneCycle | Halving = OneCycle()
    beta2: float = 0.999
    eps: float = 1e-8
    lazy: bool = False  # skip rows of word and label tables without a gradient, moments included
    optimiser: str = "adam"  # of label rows, one of OPTIMISERS; those in bfloat16 need a GPU
    seed: int = 29

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "learning_rate"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be above 0, but is {getattr(self, name)}")
        if self.optimiser not in OPTIMISERS:
            raise ConfigError(f"optimiser must be one of {', '.join(OPTIMISERS)}, but is {self.optimiser!r}")


def clock_table(plan: Plan, steps: int) -> Float[np.ndarray, "steps 7"]:
    """Return, for every step, the learning rate and beta1 of the schedule, then Adam's constants."""
    factors, beta1 = plan.schedule.factors(steps, plan.epochs)
    at, constant = np.arange(steps), np.ones(steps)
    corrections = 1 - beta1 ** (at + 1), 1 - plan.beta2 ** (at + 1)
    rates, beta2, eps = plan.learning_rate * factors, plan.beta2 * constant, plan.eps * constant
    return np.stack([rates, beta1, beta2, eps, *corrections, constant], axis=1)


class Adam:
    """Adam over named parameters; as in the published code, no weight decay and no clipping.

    Where the plan is lazy, only rows of the `tables` with a gradient are updated. The plan may use Adagrad for label
    `rows` instead, which keeps one number per row. `pretrained` parameters have the plan's rate for them.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        plan: Plan,
        steps: int,
        tables: Collection[str] = (),
        rows: Collection[str] = (),
        pretrained: Collection[str] = (),
    ) -> None:
        self.parameters = dict(parameters)
        self.lazy = frozenset(tables) if plan.lazy else frozenset()
        self.slow = frozenset(pretrained) if plan.pretrained_rate else frozenset()
        self.half = frozenset(rows) if plan.optimiser != "adam" else frozenset()  # these rows are in bfloat16
        self.slowness = plan.pretrained_rate / plan.learning_rate
        by_row = frozenset(rows) if plan.optimiser.startswith("adagrad") else frozenset()
        both = {name: zeros_like(parameter) for name, parameter in parameters.items() if name not in by_row}
        self.means, self.squares = both, {name: zeros_like(tensor) for name, tensor in both.items()}
        self.squares |= {name: torch.zeros(len(parameters[name]), device=parameters[name].device) for name in by_row}
        device = next(iter(self.parameters.values())).device
        self.table = torch.from_numpy(clock_table(plan, steps))
        self.clocks = self.table.to(device, torch.float32)
        self.at = torch.zeros((), dtype=torch.int64, device=device)
        self.steps = steps
        self._fused = fused = device.type == "cuda" and HAS_KERNELS
        self._update_all, self._update_rows = (adam, adam_rows) if fused else (adam_reference, adam_rows_reference)
        self._several: dict[tuple[str, ...], Several] = {}
        self._side_stream = torch.cuda.Stream() if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def progress(self) -> Float[Tensor, ""]:
        """Return the fraction of all steps that are done, on the device."""
        return self.at / self.steps

    def state(self) -> dict[str, Tensor]:
        """Return everything that a later step depends on, by name."""
        means = {f"mean.{name}": tensor for name, tensor in self.means.items()}
        squares = {f"square.{name}": tensor for name, tensor in self.squares.items()}
        return {"at": self.at} | means | squares

    def restore(self, state: Mapping[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])

    @contextmanager
    def stepping(self, go: Float[Tensor, ""]) -> Iterator[None]:
        """Compute gradients inside the block; they are applied at its end. Where `go` is 0 only the step count changes.

        On a GPU, rows whose gradient is stored as factors are updated meanwhile: that needs bandwidth and little else.
        """
        if self.at.is_cuda:
            # Everything is read on the device, so that the step can be captured and the host never waits.
            clock = self.clocks.index_select(0, self.at.view(1))[0]  # not self.clocks[self.at], which would synchronise
            clock[6] = go
            with self._rows_on_side_stream(clock) as others:
                yield
                self._update(others, clock)
        else:
            yield
            if go:
                self._step_on_host()
        self.at += 1

    @contextmanager
    def _rows_on_side_stream(self, clock: Float[Tensor, "7"]) -> Iterator[list[str]]:
        """Update rows on a side stream during the block; yield the names of the other parameters."""
        left = {name: factors for name, one in self.parameters.items() if (factors := take(one)) is not None}
        here, side = torch.cuda.current_stream(), self._side_stream
        assert side is not None
        side.wait_stream(here)
        with torch.no_grad(), torch.cuda.stream(side):
            for name, factors in left.items():
                state = self.means.get(name), self.squares[name]
                update_rows(self.parameters[name], *state, factors, clock, lazy=name in self.lazy, chance=self.at)
        yield [name for name in self.parameters if name not in left]
        here.wait_stream(side)
        del left  # not earlier: its memory would be reused while it is read

    @torch.no_grad()
    def _update(self, names: Iterable[str], clock: Float[Tensor, "7"]) -> None:
        slow = torch.cat([clock[:1] * self.slowness, clock[1:]]) if self.slow else clock
        small: dict[bool, list[str]] = {False: [], True: []}
        for name in names:
            if name in self.half:
                self._update_half(name, clock)
                continue
            if self._fused and name not in self.lazy and self.parameters[name].numel() <= _SMALL:
                small[name in self.slow].append(name)
                continue
            update = self._update_rows if name in self.lazy else self._update_all
            update(*self._parts(name), slow if name in self.slow else clock)
        for is_slow, found in small.items():
            for first in range(0, len(found), _TOGETHER):
                self._update_together(tuple(found[first : first + _TOGETHER]), slow if is_slow else clock)

    def _update_half(self, name: str, clock: Float[Tensor, "7"]) -> None:
        """Update rows in bfloat16 that another module was computed from: their gradient is no longer factors."""
        gradient = self.parameters[name].grad
        assert gradient is not None
        state, factors = (self.means.get(name), self.squares[name]), factors_of(gradient.contiguous())
        update_rows(self.parameters[name], *state, factors, clock, lazy=name in self.lazy, chance=self.at)

    def _parts(self, name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        gradient = self.parameters[name].grad
        assert gradient is not None
        return self.parameters[name], gradient.contiguous(), self.means[name], self.squares[name]

    def _update_together(self, names: tuple[str, ...], clock: Float[Tensor, "7"]) -> None:
        parts = [self._parts(name) for name in names]
        if names not in self._several:  # not while a step is captured, but in the steps before
            self._several[names] = Several([weight for weight, *_ in parts])
        weights, gradients, means, squares = zip(*parts, strict=True)
        self._several[names].step(weights, gradients, means, squares, clock)

    @torch.no_grad()
    def _step_on_host(self) -> None:
        groups = []
        for name, parameter in self.parameters.items():
            assert parameter.grad is not None
            tensors = (parameter.detach(), self.means[name], self.squares[name])
            touched, gradients = _touched_rows(parameter.grad) if name in self.lazy else (None, parameter.grad)
            rows = tensors if touched is None else tuple(tensor[touched] for tensor in tensors)
            groups.append((name, tensors, touched, (rows[0], gradients, *rows[1:])))
        for factor, slow in ((1.0, False), (self.slowness, True)):
            if of_rate := [rows for name, _, _, rows in groups if (name in self.slow) == slow]:
                self._by_torch(of_rate, factor)
        for _, tensors, touched, (weights, _, *moments) in groups:
            if touched is not None:
                for tensor, new in zip(tensors, (weights, *moments), strict=True):
                    tensor[touched] = new

    def _by_torch(self, groups: list[tuple[Tensor, ...]], factor: float) -> None:
        rate, beta1, beta2, eps, *_ = self.table[int(self.at)].tolist()
        weights, gradients, means, squares = (list(parts) for parts in zip(*groups, strict=True))
        fused_adam(
            weights,
            gradients,
            means,
            squares,
            [],
            [torch.tensor(float(self.at)) for _ in weights],
            fused=True,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=factor * rate,
            weight_decay=0.0,
            eps=eps,
            maximize=False,
        )


def _touched_rows(gradients: Tensor) -> tuple[Int[Tensor, "n"], Float[Tensor, "n dim"]]:
    """Return the rows of a table that have a gradient, and their gradients; the table may be sparse."""
    if gradients.is_sparse:
        gradients = gradients.coalesce()
        there = gradients.values().any(1)
        return gradients.indices()[0][there], gradients.values()[there]
    touched = gradients.any(1).nonzero()[:, 0]
    return touched, gradients[touched]
