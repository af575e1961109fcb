"""The training loop, `fit`, with checkpoints and validation.

A checkpoint holds everything that a run depends on: the task's weights and buffers, the optimiser's state, the random
state, the epoch and the step within it, and the best epoch so far with its weights; that of a finished stage holds its
final weights alone. A resumed run ends with the same
bits as an uninterrupted one (on one CPU thread; a GPU adds in no fixed order).
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from laconic.data.resident import Resident
from laconic.data.shards import Shard
from laconic.errors import ConfigError, TrainingError
from laconic.kernels.triton import HAS_KERNELS
from laconic.kernels.triton.pads import padded
from laconic.models.classifiers import shards_of
from laconic.system.ranks import ALONE, Ranks
from laconic.training.optimizer import Adam, Plan
from laconic.training.step import Step
from laconic.training.tasks import Task
from laconic.units import counted

log = logging.getLogger(__name__)
_TRIAL, _TRIAL_STEPS = 1.0, 3  # seconds and steps, at least, by which the time of an epoch is measured
_ROOM = 4  # copies of the weights that a GPU must have room for, to keep one of the best epoch
_MANY = 20_000  # steps from which on compiling an encoder, which takes half a minute, saves more than it takes
_AGREED = 16  # steps after which several ranks ask each other whether to save or to stop


@dataclass(frozen=True, kw_only=True)
class EpochFacts:
    """What is logged of an epoch."""

    epoch: int  # from 1
    loss: float
    score: float | None  # of the validation split; None: there is none
    seconds: float
    figures: Mapping[str, float] = field(default_factory=dict)  # of the validation split, the score among them


@dataclass(kw_only=True)
class TrainState:
    """The progress of a stage, besides its tensors."""

    epoch: int = 0
    step: int = 0  # within the epoch
    history: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    best_score: float = -1.0


@runtime_checkable
class Checkpoints(Protocol):
    """Storage of a stage's checkpoint."""

    def load(self) -> tuple[dict[str, Tensor], Any] | None: ...
    def due(self) -> bool: ...
    def save(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None: ...
    def damaged(self, what: str) -> Exception:
        """Return the error of a checkpoint that cannot be what was saved."""
        ...


@runtime_checkable
class Watcher(Protocol):
    """An observer of training, such as a progress bar or a log."""

    def planned(self, memory: int, seconds: float) -> None: ...
    def entered(self, stage: str) -> None:
        """Take note that a stage of this title begins; it may have epochs."""

    def began(self, how: str, epochs: int, steps: int, done: int) -> None: ...
    def stepped(self) -> None: ...
    def advanced(self, fraction: float) -> None:
        """Take note that so much of a stage without epochs is done."""

    def ended(self, facts: EpochFacts) -> None: ...
    def exited(self, seconds: float) -> None:
        """Take note that the stage is done."""

    def noted(self, line: str) -> None:
        """Take note of something that a user should know."""


class Silent:
    """A watcher that does nothing."""

    def planned(self, memory: int, seconds: float) -> None: ...
    def entered(self, stage: str) -> None: ...
    def began(self, how: str, epochs: int, steps: int, done: int) -> None: ...
    def stepped(self) -> None: ...
    def advanced(self, fraction: float) -> None: ...
    def ended(self, facts: EpochFacts) -> None: ...
    def exited(self, seconds: float) -> None: ...
    def noted(self, line: str) -> None: ...


def fit(
    task: Task,
    data: Resident,
    plan: Plan,
    *,
    checkpoints: Checkpoints,
    watcher: Watcher,
    validate: Callable[[], Mapping[str, float]] | None = None,
    last_epoch: int = 0,
    ranks: Ranks = ALONE,
) -> TrainState:
    """Train the task; it ends with the weights of the best epoch or, without validation, of the last.

    `validate` returns figures, the first of which chooses the epoch. `last_epoch` stops early without changing the
    schedule. Several ranks take each step together, and agree on when to save and when to stop.
    """
    device = data.starts.device
    steps = data.steps(plan.batch_size)
    with _training(task, plan, device):
        step = _first_step(task, data, plan, ranks)
        how = step.capture(plan.batch_size, compiles=_worth_compiling(task, step))
        torch.manual_seed(plan.seed)
        loop = _Loop(task, step, plan, checkpoints, watcher, validate, ranks)
        loop.resume(steps, last_epoch or plan.epochs)
        watcher.began(how, plan.epochs, steps, loop.state.epoch * steps + loop.state.step)
        with _deferred_interrupts() as stop:
            while loop.state.epoch < (last_epoch or plan.epochs):
                loop.epoch(stop)
        loop.finish()
    task.eval()
    return loop.state


def epoch_seconds(
    task: Task, data: Resident, plan: Plan, validate: Callable[[], Mapping[str, float]] | None = None
) -> float:
    """Measure how long an epoch takes by a few of its steps, after which the task is as it was before."""
    device, before = data.starts.device, {name: tensor.clone() for name, tensor in _state(task)}
    with _training(task, plan, device):
        step = _first_step(task, data, plan, ALONE)
        step.capture(plan.batch_size, compiles=_worth_compiling(task, step))
        order = data.order(0, plan.seed, plan.batch_size).to(device)
        began, taken, seconds = time.perf_counter(), 0, 0.0
        for number, rows in enumerate(order):
            step(rows)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            if number == 0 and len(order) > 1:
                began = time.perf_counter()  # the first step takes longer than others: memory is allocated
                continue
            taken, seconds = taken + 1, time.perf_counter() - began
            if taken >= _TRIAL_STEPS and seconds >= _TRIAL:
                break
        if validate is not None:
            task.eval()
            validate()
    validating = time.perf_counter() - began - seconds
    with torch.no_grad():
        for name, tensor in _state(task):
            tensor.copy_(before[name])
    for parameter in task.parameters():
        parameter.grad = None
    return len(order) * seconds / taken + (0.0 if validate is None else validating)


def _state(task: Task) -> Iterator[tuple[str, Tensor]]:
    yield from task.named_parameters()
    yield from task.named_buffers()


def _worth_compiling(task: Task, step: Step) -> bool:
    """Return whether the encoder's compiled step saves more time than compiling takes; a transformer's always does."""
    return bool(task.pretrained()) or step.optimiser.steps >= _MANY


@contextmanager
def _training(task: Task, plan: Plan, device: torch.device) -> Iterator[None]:
    """Set up precisions and gradients as training has them; the caller's random state is restored afterwards."""
    with (
        tf32_products(),
        _sparse_word_gradients(task, plan.lazy and device.type == "cpu"),
        rows_in_half_precision(task, plan, device),
        torch.random.fork_rng([device] if device.type == "cuda" else []),
    ):
        yield


def _first_step(task: Task, data: Resident, plan: Plan, ranks: Ranks) -> Step:
    """Return the step of a training that begins."""
    torch.manual_seed(plan.seed)
    steps = plan.epochs * data.steps(plan.batch_size)
    optimiser = Adam(dict(task.named_parameters()), plan, steps, task.tables, task.rows(), task.pretrained())
    return Step(task.train(), data, optimiser, ranks)


@contextmanager
def _sparse_word_gradients(task: Task, wanted: bool) -> Iterator[None]:
    """Make gradients of word tables sparse: a batch has few of the words."""
    modules = task.named_modules() if wanted else ()
    tables = [one for name, one in modules if isinstance(one, nn.Embedding) and f"{name}.weight" in task.tables]
    for table in tables:
        table.sparse = True
    try:
        yield
    finally:
        for table in tables:
            table.sparse = False


def check_optimiser(plan: Plan, device: torch.device) -> None:
    """Refuse an optimiser that cannot run on the device."""
    if plan.optimiser != "adam" and (device.type != "cuda" or not HAS_KERNELS):
        raise ConfigError(f"optimiser={plan.optimiser} needs a GPU and triton, for stochastic rounding; leave it out")


@contextmanager
def rows_in_half_precision(task: Task, plan: Plan, device: torch.device) -> Iterator[None]:
    """Keep label rows in bfloat16 during training, where the plan's optimiser does so."""
    if plan.optimiser == "adam":
        yield
        return
    check_optimiser(plan, device)
    rows = [parameter for name, parameter in task.named_parameters() if name in task.rows()]
    for parameter in rows:
        parameter.data = padded(parameter.data.bfloat16())
    try:
        yield
    finally:
        for parameter in rows:
            parameter.data = parameter.data.float().contiguous()


@contextmanager
def _deferred_interrupts() -> Iterator[list[Callable[[], Any]]]:
    """Collect Ctrl-C and SIGTERM in a list of calls, to be made after the step, when a checkpoint is complete.

    Each call is that of the handler which was there before; a second signal calls it at once. A signal without a
    handler in Python, as SIGTERM has none by default, is left alone.
    """
    received: list[Callable[[], Any]] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in before.items() if callable(handler)}

    def note(number: int, frame: Any) -> None:
        received.append(partial(handlers[number], number, frame))
        if len(received) > 1:
            received[0]()

    for number in handlers:
        signal.signal(number, note)
    try:
        yield received
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def tf32_products() -> Iterator[None]:
    """Allow TF32 on a GPU: products have ten mantissa bits, sums are in float32."""
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
    ranks: Ranks
    state: TrainState = field(default_factory=TrainState)
    finished: bool = False  # by an earlier process
    best: dict[str, Tensor] = field(default_factory=dict)

    def epoch(self, stop: list[Callable[[], Any]]) -> None:
        started, state = time.monotonic(), self.state
        order = self.step.data.order(state.epoch, self.plan.seed, self.plan.batch_size).to(self.step.loss_sum.device)
        for rows in order[state.step :]:
            self.step(rows)
            state.step += 1
            self.watcher.stepped()
            if not rows.is_cuda:
                self._check_finite()
            if state.step < len(order) and (self.ranks.world == 1 or state.step % _AGREED == 0):
                self._save_if_due(stop)
        self._check_finite()
        self._replicate()
        loss = float(self.step.loss_sum) / len(order)
        self.step.loss_sum.zero_()
        state.epoch, state.step = state.epoch + 1, 0
        figures = self._run_validation()
        score = next(iter(figures.values()), None)
        seconds = time.monotonic() - started
        facts = EpochFacts(epoch=state.epoch, loss=loss, score=score, seconds=seconds, figures=figures)
        state.history.append(asdict(facts))
        self.watcher.ended(facts)
        self._save_if_due(stop)

    def _save_if_due(self, stop: list[Callable[[], Any]]) -> None:
        stops, is_due = self.ranks.any(bool(stop), self.checkpoints.due())
        if stops or is_due:
            self.save()
        if stop:
            stop[0]()  # raises
            stop.clear()  # or not: then training goes on
        elif stops:
            raise KeyboardInterrupt  # another rank was asked to stop

    def _replicate(self) -> None:
        """Make what all ranks have the same again: sums on a GPU have no fixed order, so replicas may drift apart."""
        if self.ranks.world == 1:
            return
        cut = {*sharded_tensors(self.task), "random.cpu", "random.cuda"}
        largest = self.ranks.replicate(tensor for name, tensor in self._tensors().items() if name not in cut)
        if largest:
            log.info("the replicas of the encoder differed by %.1e at most", largest)

    def save(self) -> None:
        self._check_weights()
        tensors = self._tensors() | {f"best.{name}": tensor for name, tensor in self.best.items()}
        self.checkpoints.save(tensors, asdict(self.state))

    def finish(self) -> None:
        """Take the best epoch's weights and keep these alone: a finished stage is never trained again."""
        if self.finished:
            return
        self._check_weights()
        if self.best:
            self.task.load_state_dict(self.best)
        self.checkpoints.save(self._weights(), asdict(self.state))

    def _check_weights(self) -> None:
        self._check_finite()
        if not all(parameter.detach().sum().isfinite() for parameter in self.task.parameters()):
            raise TrainingError("the weights are no longer finite numbers; the last good checkpoint is kept")

    def _weights(self) -> dict[str, Tensor]:
        return {f"task.{name}": tensor for name, tensor in self.task.state_dict().items()}

    def _tensors(self) -> dict[str, Tensor]:
        """Return everything that a checkpoint has, except the best epoch's weights."""
        tensors = self._weights()
        tensors |= {f"adam.{name}": tensor for name, tensor in self.step.optimiser.state().items()}
        tensors |= {"loss_sum": self.step.loss_sum, "random.cpu": torch.get_rng_state()}
        if self.step.loss_sum.is_cuda:
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.step.loss_sum.device)
        return tensors

    def resume(self, steps: int, last_epoch: int) -> None:
        """Go on from the checkpoint, if there is one; refuse one that this training cannot have saved."""
        found = self.checkpoints.load()
        if found is None:
            return
        tensors, facts = found
        try:
            self.state = restored_state(facts, steps=steps, epochs=last_epoch)
            finished = self.state.epoch == last_epoch and "loss_sum" not in tensors
            self._check_tensors(tensors, self._weights() if finished else self._tensors())
            self.task.load_state_dict(_part(tensors, "task."))
            if finished:
                self.finished = True
                return
            self.step.optimiser.restore(_part(tensors, "adam."))
            torch.set_rng_state(tensors["random.cpu"])
            if "random.cuda" in tensors and self.step.loss_sum.is_cuda:
                torch.cuda.set_rng_state(tensors["random.cuda"], self.step.loss_sum.device)
        except (ValueError, RuntimeError) as error:
            raise self.checkpoints.damaged(str(error)) from None
        self.best.update(_part(tensors, "best."))
        self.step.loss_sum.copy_(tensors["loss_sum"])

    def _check_tensors(self, tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
        """Raise an error for a tensor that is missing, of another shape or type, or not known."""
        expected = dict(expected)
        if self.state.best_epoch and "loss_sum" in expected:
            weights = _part(expected, "task.")
            expected |= {f"best.{name}": tensor for name, tensor in weights.items()}
        for name in sorted({*expected, *tensors} - {"random.cuda"}):  # a run may go on on another device
            one, other = (_form(group.get(name)) for group in (expected, tensors))
            if one != other:
                raise ValueError(f"the tensor {name} must be {one}, but is {other}")

    def _run_validation(self) -> dict[str, float]:
        if self.validate is None:
            return {}
        self.task.eval()
        figures = dict(self.validate())
        self.task.train()
        score = next(iter(figures.values()))
        if score >= self.state.best_score:  # of equals the later, whose loss is lower
            self.state.best_epoch, self.state.best_score = self.state.epoch, score
            self._keep_weights()
        return figures

    def _keep_weights(self) -> None:
        """Keep a copy of the weights, as the best epoch's: on a GPU with room for several of them, or on the host."""
        weights = {name: tensor.detach() for name, tensor in self.task.state_dict().items()}
        if not self.best:
            device = self.step.loss_sum.device
            size = sum(tensor.nbytes for tensor in weights.values())
            roomy = device.type == "cuda" and torch.cuda.mem_get_info(device)[0] > _ROOM * size
            to = device if roomy else torch.device("cpu")
            self.best.update({name: torch.empty_like(tensor, device=to) for name, tensor in weights.items()})
        for name, tensor in weights.items():
            self.best[name].copy_(tensor)

    def _check_finite(self) -> None:
        bad = int(self.step.first_bad)
        if bad >= 0:
            raise TrainingError(
                f"the loss was not a finite number at step {bad + 1} (epoch {self.state.epoch + 1}); the last good "
                "checkpoint is kept. A lower learning rate often helps (--set learning_rate=...)"
            )


def sharded_tensors(task: Task) -> dict[str, Shard]:
    """Return the shards of those tensors of a checkpoint that are spread over several ranks."""
    prefixes = ("task.", "best.", "adam.mean.", "adam.square.")
    return {prefix + name: shard for name, shard in shards_of(task).items() for prefix in prefixes}


def restored_state(facts: Any, *, steps: int, epochs: int) -> TrainState:
    """Return the progress that a checkpoint has stored, if training of so many steps and epochs can have got there."""
    match facts:
        case {
            "epoch": int(epoch),
            "step": int(step),
            "history": list(history),
            "best_epoch": int(best_epoch),
            "best_score": int() | float(),
            **others,
        } if not others:
            if not (0 <= epoch <= epochs and 0 <= step < max(steps, 1) and 0 <= best_epoch <= epoch):
                raise ValueError(
                    f"epoch {epoch}, step {step} and best epoch {best_epoch} are not of {epochs} × {steps}"
                )
            if [_epoch_of(line) for line in history] != list(range(1, epoch + 1)):
                raise ValueError(f"its history is not that of {counted(epoch, 'epoch')}")
            return TrainState(**facts)
    raise ValueError("its progress does not have the fields that it must have")


def _epoch_of(line: Any) -> int | None:
    """Return the epoch of a line of the history; None if it is none."""
    match line:
        case {"epoch": int(epoch), "loss": loss, "score": score, "seconds": seconds, "figures": dict(figures)}:
            numbers = [loss, seconds, *figures.values(), *([] if score is None else [score])]
            return epoch if all(isinstance(number, int | float) for number in numbers) else None
    return None


def _form(tensor: Tensor | None) -> str:
    return "absent" if tensor is None else f"{list(tensor.shape)} of {tensor.dtype}"


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
