"""fit(): the training loop. There is one.

What a run depends on, and so what a checkpoint holds: the task's weights and buffers, the optimiser's state, the random
state, the epoch and the step within it, and the best epoch so far with its weights. A run that goes on from one ends
with the same bits as one that was never stopped (one CPU thread; a GPU adds in no fixed order).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from laconic.data.resident import Resident
from laconic.errors import ConfigError, TrainingError
from laconic.training.optimizer import Adam, Plan
from laconic.training.step import Step
from laconic.training.tasks import Task


@dataclass(frozen=True, kw_only=True)
class EpochFacts:
    epoch: int  # from 1
    loss: float
    score: float | None  # of the validation split; None: there is none
    seconds: float
    figures: Mapping[str, float] = field(default_factory=dict)  # of the validation split, the score among them


@dataclass(kw_only=True)
class TrainState:
    """Where a run stands, besides its tensors."""

    epoch: int = 0
    step: int = 0  # within the epoch
    history: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    best_score: float = -1.0


@runtime_checkable
class Checkpoints(Protocol):
    """Where a stage's checkpoint is kept."""

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None: ...
    def due(self) -> bool: ...
    def save(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None: ...


@runtime_checkable
class Watcher(Protocol):
    """Who looks on: a progress bar, a log, or nobody."""

    def planned(self, memory: int, seconds: float) -> None: ...
    def began(self, how: str, epochs: int, steps: int, done: int) -> None: ...
    def stepped(self) -> None: ...
    def ended(self, facts: EpochFacts) -> None: ...


class Silent:
    """The watcher of those who want none."""

    def planned(self, memory: int, seconds: float) -> None: ...
    def began(self, how: str, epochs: int, steps: int, done: int) -> None: ...
    def stepped(self) -> None: ...
    def ended(self, facts: EpochFacts) -> None: ...


def fit(
    task: Task,
    data: Resident,
    plan: Plan,
    *,
    checkpoints: Checkpoints,
    watcher: Watcher,
    validate: Callable[[], Mapping[str, float]] | None = None,
    last_epoch: int = 0,
) -> TrainState:
    """Trains the task; it ends with the weights of the best epoch, or of the last where nothing is validated.

    `validate` gives figures, of which the first chooses. `last_epoch` stops early without changing the schedule.
    """
    device = data.starts.device
    steps = data.steps(plan.batch_size)
    # The user's own random state stays as it was.
    sparsely = plan.lazy and device.type == "cpu"
    with (
        _fast_products(),
        _words_by_row(task, sparsely),
        rows_as_planned(task, plan, device),
        torch.random.fork_rng([device] if device.type == "cuda" else []),
    ):
        torch.manual_seed(plan.seed)
        optimiser = Adam(dict(task.named_parameters()), plan, plan.epochs * steps, task.tables, task.rows())
        step = Step(task.train(), data, optimiser)
        how = step.capture(plan.batch_size)
        torch.manual_seed(plan.seed)
        loop = _Loop(task, step, plan, checkpoints, watcher, validate)
        loop.resume()
        watcher.began(how, plan.epochs, steps, loop.state.epoch * steps + loop.state.step)
        with _interrupts_wait() as stop:
            while loop.state.epoch < (last_epoch or plan.epochs):
                loop.epoch(stop)
        loop.save()  # a finished stage is never trained again
    if loop.best:
        task.load_state_dict(loop.best)
    task.eval()
    return loop.state


@contextmanager
def _words_by_row(task: Task, wanted: bool) -> Iterator[None]:
    """Gradients of word tables come as lists of the rows that a batch has, not as tables that are nearly all zeros."""
    modules = task.named_modules() if wanted else ()
    tables = [one for name, one in modules if isinstance(one, nn.Embedding) and f"{name}.weight" in task.tables]
    for table in tables:
        table.sparse = True
    try:
        yield
    finally:
        for table in tables:
            table.sparse = False


@contextmanager
def rows_as_planned(task: Task, plan: Plan, device: torch.device) -> Iterator[None]:
    """Label rows in half precision while they are learnt, where the plan says so."""
    if plan.optimiser == "adam":
        yield
        return
    if device.type != "cuda" or find_spec("triton") is None:
        raise ConfigError(
            f"optimiser={plan.optimiser} rounds by chance in a GPU's kernels, and there is none here; leave it out"
        )
    rows = [parameter for name, parameter in task.named_parameters() if name in task.rows()]
    for parameter in rows:
        parameter.data = parameter.data.bfloat16()
    try:
        yield
    finally:
        for parameter in rows:
            parameter.data = parameter.data.float()


@contextmanager
def _interrupts_wait() -> Iterator[list[int]]:
    """Ctrl-C is noted in the list and waits for the end of a step, where a checkpoint is whole. A second does not."""
    asked: list[int] = []

    def note(number: int, frame: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _fast_products() -> Iterator[None]:
    """TF32 where a GPU has it: ten mantissa bits in products, sums in full."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@dataclass
class _Loop:
    task: Task
    step: Step
    plan: Plan
    checkpoints: Checkpoints
    watcher: Watcher
    validate: Callable[[], Mapping[str, float]] | None
    state: TrainState = field(default_factory=TrainState)
    best: dict[str, Tensor] = field(default_factory=dict)  # on the host: a second copy on the device might not fit

    def epoch(self, stop: list[int]) -> None:
        started, state = time.monotonic(), self.state
        order = self.step.data.order(state.epoch, self.plan.seed, self.plan.batch_size).to(self.step.loss_sum.device)
        for rows in order[state.step :]:
            self.step(rows)
            state.step += 1
            self.watcher.stepped()
            if not rows.is_cuda:
                self._check_finite()
            if state.step < len(order):
                self._save_where_due(stop)
        self._check_finite()
        loss = float(self.step.loss_sum) / len(order)
        self.step.loss_sum.zero_()
        state.epoch, state.step = state.epoch + 1, 0
        figures = self._validated()
        score = next(iter(figures.values()), None)
        seconds = time.monotonic() - started
        facts = EpochFacts(epoch=state.epoch, loss=loss, score=score, seconds=seconds, figures=figures)
        state.history.append(asdict(facts))
        self.watcher.ended(facts)
        self._save_where_due(stop)

    def _save_where_due(self, stop: list[int]) -> None:
        if stop or self.checkpoints.due():
            self.save()
        if stop:
            raise KeyboardInterrupt

    def save(self) -> None:
        self._check_finite()
        if not all(parameter.detach().sum().isfinite() for parameter in self.task.parameters()):
            raise TrainingError("the weights are no longer finite numbers; the last good checkpoint is kept")
        tensors = {f"task.{name}": tensor for name, tensor in self.task.state_dict().items()}
        tensors |= {f"adam.{name}": tensor for name, tensor in self.step.optimiser.state().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best.items()}
        tensors |= {"loss_sum": self.step.loss_sum, "random.cpu": torch.get_rng_state()}
        if self.step.loss_sum.is_cuda:
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.step.loss_sum.device)
        self.checkpoints.save(tensors, asdict(self.state))

    def resume(self) -> None:
        found = self.checkpoints.load()
        if found is None:
            return
        tensors, facts = found
        self.state = TrainState(**facts)
        self.task.load_state_dict(_part(tensors, "task."))
        self.step.optimiser.restore(_part(tensors, "adam."))
        self.best.update(_part(tensors, "best."))
        self.step.loss_sum.copy_(tensors["loss_sum"])
        torch.set_rng_state(tensors["random.cpu"])
        if "random.cuda" in tensors and self.step.loss_sum.is_cuda:
            torch.cuda.set_rng_state(tensors["random.cuda"], self.step.loss_sum.device)

    def _validated(self) -> dict[str, float]:
        if self.validate is None:
            return {}
        self.task.eval()
        figures = dict(self.validate())
        self.task.train()
        score = next(iter(figures.values()))
        if score >= self.state.best_score:  # of equals the later: its loss is the lower one
            self.state.best_epoch, self.state.best_score = self.state.epoch, score
            weights = self.task.state_dict()
            self.best.update({name: tensor.detach().to("cpu", copy=True) for name, tensor in weights.items()})
        return figures

    def _check_finite(self) -> None:
        bad = int(self.step.first_bad)
        if bad >= 0:
            raise TrainingError(
                f"the loss was not a finite number at step {bad + 1} (epoch {self.state.epoch + 1}); the last good "
                "checkpoint is kept. A lower learning rate often helps (--set learning_rate=...)"
            )


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
