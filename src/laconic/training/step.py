"""One training step, from row numbers to new weights: eager, or compiled and captured as a CUDA graph.

A step never synchronises with the host. A loss that is not finite changes no weight, and its step is recorded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from laconic.data.resident import Resident
from laconic.errors import LostRankError
from laconic.system.ranks import ALONE, Ranks
from laconic.training.optimizer import Adam
from laconic.training.tasks import Task

log = logging.getLogger(__name__)
_WARM_UP = 3  # eager runs before a capture, as CUDA graphs want


class Step:
    """A training step of a task on resident data."""

    def __init__(self, task: Task, data: Resident, optimiser: Adam, ranks: Ranks = ALONE) -> None:
        self.task, self.data, self.optimiser, self.ranks = task, data, optimiser, ranks
        device = optimiser.at.device
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=device)
        self.first_bad = torch.full((), -1, dtype=torch.int64, device=device)
        self._armed = torch.ones((), device=device)  # 0 during the warm-up of a capture
        # None: eager. A method of this object would refer to it, and its optimiser would stay when it is let go.
        self._replay: Callable[[Tensor], None] | None = None

    def __call__(self, rows: Int[Tensor, "batch"]) -> None:
        (self._replay or self._eager)(rows)

    def capture(self, batch_size: int, *, compiles: bool = True) -> str:
        """Compile the encoder, unless that is not wanted, and capture the step where that works; say what was done."""
        if not self.optimiser.at.is_cuda:
            return "eager on the CPU"
        if not self.ranks.captures:
            return "eager on the GPU: several ranks share it"
        buffers = {name: buffer.clone() for name, buffer in self.task.named_buffers()}
        captured: Callable[[Tensor], None] | None = None
        compiles = compiles and self.task.compiles
        try:
            if compiles and "encode" not in vars(self.task):  # a task of several stages is compiled once
                vars(self.task)["encode"] = torch.compile(self.task.encode, dynamic=False)
            captured = self._captured(batch_size)
        except LostRankError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a compiler or a driver may raise, eager steps still work
            log.warning("the step cannot be captured (%s: %s)", type(error).__name__, str(error).partition("\n")[0])
            leave_capture(self.optimiser.at.device)
        finally:
            self._undo(buffers)
        (failed,) = self.ranks.any(captured is None)  # all ranks replay a graph, or none does
        if failed:
            vars(self.task).pop("encode", None)
            return "eager on the GPU: the step could not be captured"
        self._replay = captured
        return "encoder compiled, " * compiles + "step captured as a CUDA graph"

    def _eager(self, rows: Int[Tensor, "batch"]) -> None:
        for parameter in self.optimiser.parameters.values():
            parameter.grad = None
        loss = self.task(self.data.take(rows), self.optimiser.progress())
        with self.optimiser.stepping(self._account(loss.detach())):
            loss.backward()

    def _account(self, loss: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """Add up the loss; return 1, or 0 from the first loss on that is not finite: weights no longer change."""
        finite = torch.isfinite(loss)
        self.loss_sum += torch.where(finite, loss, 0)
        self.first_bad.copy_(torch.where(finite | (self.first_bad >= 0), self.first_bad, self.optimiser.at))
        return (self.first_bad < 0) * self._armed

    def _captured(self, batch_size: int) -> Callable[[Tensor], None]:
        rows = torch.arange(batch_size, device=self.optimiser.at.device) % len(self.data)
        self._armed.zero_()
        warm_up(lambda: self._eager(rows))
        for parameter in self.optimiser.parameters.values():
            parameter.grad = None
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        # With a higher priority than the optimiser's side stream, which would otherwise occupy the whole GPU.
        first = torch.cuda.Stream(priority=-1)  # type: ignore[no-untyped-call]
        # Threads that watch communication must not spoil the capture.
        mode = "global" if self.ranks.world == 1 else "thread_local"
        with torch.cuda.graph(graph, stream=first, capture_error_mode=mode):
            self._eager(rows)

        def replay(wanted: Int[Tensor, "batch"]) -> None:
            rows.copy_(wanted)
            graph.replay()

        return replay

    def _undo(self, buffers: dict[str, Tensor]) -> None:
        """Reset step counts and running statistics, which the warm-up changed; weights it did not."""
        torch.cuda.synchronize()
        for name, buffer in self.task.named_buffers():
            buffer.copy_(buffers[name])
        self.optimiser.at.zero_()
        self.loss_sum.zero_()
        self.first_bad.fill_(-1)
        self._armed.fill_(1)


def warm_up(run: Callable[[], object]) -> None:
    """Run a few times on another stream before a capture, so that first-run allocations are not captured."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP):
            run()
    torch.cuda.current_stream().wait_stream(stream)


def leave_capture(device: torch.device) -> None:
    """Give the random generator a new state: a capture that failed leaves it in capture mode."""
    index = torch.cuda.current_device() if device.index is None else device.index
    torch.cuda.default_generators[index].graphsafe_set_state(torch.Generator(device).graphsafe_get_state())
