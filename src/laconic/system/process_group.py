"""Ranks that torch.distributed connects: NCCL between GPUs, gloo between CPUs.

Whoever starts the ranks (torchrun, SLURM, Kubernetes) sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT.
Bytes are counted as a ring sends them: of n bytes a sum takes 2 n (world - 1) / world from every rank, and a gathering
n (world - 1).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from laconic.errors import ConfigError, LostRankError
from laconic.system.ranks import Ranks

_PATIENCE = timedelta(days=7)  # how long ranks wait for what the first one does alone
_BLOCK = 1 << 26  # bytes of rows that are sent at a time
_REPORTED = "laconic/reported"  # in the store that all ranks share


class ProcessGroup(Ranks):
    """Several ranks in a group of torch.distributed."""

    def __init__(self, device: torch.device, timeout: float, environment: Mapping[str, str] = os.environ) -> None:
        self.rank, self.world = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        own_gpus = int(environment.get("LOCAL_WORLD_SIZE", "1")) <= torch.cuda.device_count()
        self.captures = device.type == "cuda" and own_gpus
        limit, backend = timedelta(seconds=timeout), "nccl" if self.captures else "gloo"
        self.reads = int(environment.get("LOCAL_RANK", "0")) == 0
        self._where = f"rank {self.rank} of {self.world}"
        self.sent = Counter()
        with self._talking():
            dist.init_process_group(
                backend,
                rank=self.rank,
                world_size=self.world,
                timeout=limit,
                device_id=device if self.captures else None,
            )
            # What the host says is not queued behind work of the GPU.
            self._host = dist.new_group(backend="gloo", timeout=limit) if self.captures else dist.group.WORLD
            self._patient = dist.new_group(backend="gloo", timeout=_PATIENCE)
            self._store = dist.distributed_c10d._get_default_store()

    def sum_gradients(self, vectors: Tensor) -> Tensor:
        entered: Tensor = _SummedGradient.apply(vectors, self)  # type: ignore[no-untyped-call]
        return entered

    def sum_losses(self, loss: Tensor) -> Tensor:
        summed: Tensor = _SummedLoss.apply(loss, self)  # type: ignore[no-untyped-call]
        return summed

    def sum(self, tensor: Tensor) -> Tensor:
        return self.summed(tensor.detach(), "scores")

    def summed(self, tensor: Tensor, purpose: str) -> Tensor:
        """Return the sum of all ranks' tensors, and count its bytes for a purpose."""
        total = tensor.clone(memory_format=torch.contiguous_format)
        self.sent[purpose] += 2 * total.nbytes * (self.world - 1) // self.world
        with self._talking():
            dist.all_reduce(total)
        return total

    def gather(self, tensor: Tensor) -> list[Tensor]:
        return self._gathered(tensor.contiguous(), "rankings", None)

    def gather_texts(self, text: str) -> list[str]:
        written = torch.frombuffer(bytearray(text.encode("utf-8", "surrogatepass") or b"\0"), dtype=torch.uint8)
        sizes = [int(size) for size in self._gathered(torch.tensor([len(written)]), "texts", self._host)]
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        padded[: len(written)] = written
        found = self._gathered(padded, "texts", self._host)
        parts = [bytes(part[:size].tolist()) for part, size in zip(found, sizes, strict=True)]
        return [part.decode("utf-8", "surrogatepass").removesuffix("\0") for part in parts]

    def any(self, *flags: bool) -> tuple[bool, ...]:
        found = torch.tensor(flags, dtype=torch.uint8)
        self.sent["flags"] += 2 * len(flags) * (self.world - 1) // self.world
        with self._talking():
            dist.all_reduce(found, dist.ReduceOp.MAX, self._host)
        return tuple(map(bool, found.tolist()))

    def replicate(self, tensors: Iterable[Tensor]) -> float:
        largest = 0.0
        for tensor in tensors:
            before, now = tensor.clone(), tensor.contiguous()
            self.sent["replicas"] += now.nbytes * self.is_first
            with self._talking():
                dist.broadcast(now, 0)
            tensor.copy_(now)
            if tensor.is_floating_point() and tensor.numel():
                largest = max(largest, float((tensor - before).abs().max()))
        return largest

    def join_rows(self, rows: Tensor, bounds: Sequence[int]) -> Tensor | None:
        own = rows.detach().cpu().contiguous()
        if not self.is_first:
            for block in _blocks(own):
                self.sent["rows"] += block.nbytes
                with self._talking():
                    dist.send(block, 0, self._patient)
            return None
        whole = torch.empty((bounds[-1], *own.shape[1:]), dtype=own.dtype)
        whole[: bounds[1]] = own
        for rank in range(1, self.world):
            for block in _blocks(whole[bounds[rank] : bounds[rank + 1]]):
                with self._talking():
                    dist.recv(block, rank, self._patient)
        return whole

    def wait(self) -> None:
        with self._talking():
            dist.barrier(self._patient)

    def close(self) -> None:
        if dist.is_initialized():
            with self._talking():
                dist.barrier(self._patient)
            dist.destroy_process_group()

    def reports(self) -> bool:
        """Return whether this rank is the first of all to report an error; the others need not repeat it."""
        with suppress(RuntimeError):  # the store may be gone with its rank
            return bool(self._store.add(_REPORTED, 1) == 1)
        return True

    def _gathered(self, tensor: Tensor, purpose: str, group: Any) -> list[Tensor]:
        found = [torch.empty_like(tensor) for _ in range(self.world)]
        self.sent[purpose] += tensor.nbytes * (self.world - 1)
        with self._talking():
            dist.all_gather(found, tensor, group)
        return found

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """Explain errors of communication: another rank has ended, or does not answer."""
        try:
            yield
        except RuntimeError as error:
            why = re.sub(r"^\[\S+\] ", "", str(error)).partition("\n")[0].partition(". ")[0]  # not where in whose code
            raise LostRankError(
                f"{self._where} lost contact with another rank, which was killed, has failed or does not answer "
                f"({why}); the last checkpoint is kept: the same command resumes from it, with as many ranks or with "
                "another number"
            ) from None


class _SummedGradient(torch.autograd.Function):
    """The identity; sums the gradient over all ranks (Megatron's f)."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, ranks: ProcessGroup) -> Tensor:
        ctx.ranks = ranks
        return vectors.view_as(vectors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.ranks.summed(gradient, "gradients"), None


class _SummedLoss(torch.autograd.Function):
    """The sum over all ranks; hands the gradient on as it is (Megatron's g)."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, ranks: ProcessGroup) -> Tensor:
        return ranks.summed(loss, "losses")

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def rank_device(device: torch.device, environment: Mapping[str, str] = os.environ) -> torch.device:
    """Return the device of this rank: of GPUs the one with its number on its machine."""
    if device.type != "cuda":
        return device
    if ":" in str(device):
        raise ConfigError(f"--device {device} is one GPU, but every rank takes its own; --device cuda will do")
    found = torch.device("cuda", int(environment.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    torch.cuda.set_device(found)
    return found


def _blocks(rows: Tensor) -> Iterator[Tensor]:
    """Yield views of a few rows at a time."""
    size = max(1, _BLOCK // max(1, rows[:1].nbytes))
    yield from (rows[first : first + size] for first in range(0, len(rows), size))
