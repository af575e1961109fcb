"""The processes that train one model together, called ranks: one alone, or several (system/process_group.py).

Label rows are sharded: every rank owns a range of rows with their optimiser state (data/shards.py). All else is
replicated: every rank has the same texts, order of texts, random numbers and encoder. Each method below is called by
all ranks in the same order. For one rank alone all of them are trivial.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence

from torch import Tensor


class Ranks(ABC):
    """The ranks of a training, as one of them sees them."""

    rank: int
    """The number of this process among them."""
    world: int
    """How many there are."""
    captures: bool
    """Whether their communication can be part of a CUDA graph."""
    sent: Counter[str]
    """Bytes that this rank has sent, by purpose."""
    reads: bool = True
    """Whether this rank reads the data, for itself and the other ranks of its machine."""

    @property
    def is_first(self) -> bool:
        """Return whether this is the rank that prints, and writes what is written once."""
        return self.rank == 0

    @abstractmethod
    def sum_gradients(self, vectors: Tensor) -> Tensor:
        """Return the vectors; their gradient will be the sum of all ranks' gradients."""

    @abstractmethod
    def sum_losses(self, loss: Tensor) -> Tensor:
        """Return the sum of all ranks' losses; its gradient is that of this rank's own."""

    @abstractmethod
    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum of all ranks' tensors, without a gradient."""

    @abstractmethod
    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Return the tensors of all ranks, which have one shape."""

    @abstractmethod
    def gather_texts(self, text: str) -> list[str]:
        """Return the texts of all ranks."""

    @abstractmethod
    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Return, for each flag, whether it is set on any rank."""

    @abstractmethod
    def replicate(self, tensors: Iterable[Tensor]) -> float:
        """Overwrite the tensors with those of the first rank; return the largest difference that there was."""

    @abstractmethod
    def join_rows(self, rows: Tensor, bounds: Sequence[int]) -> Tensor | None:
        """Return the rows of all ranks on the first one's CPU, None on the others; rank r has those from bound r on."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until all ranks are here, however long the first one takes."""

    @abstractmethod
    def close(self) -> None:
        """End the communication; each rank goes on alone, or ends."""


class Alone(Ranks):
    """A process that trains alone."""

    rank, world, captures = 0, 1, True

    def __init__(self) -> None:
        self.sent = Counter()

    def sum_gradients(self, vectors: Tensor) -> Tensor:
        return vectors

    def sum_losses(self, loss: Tensor) -> Tensor:
        return loss

    def sum(self, tensor: Tensor) -> Tensor:
        return tensor

    def gather(self, tensor: Tensor) -> list[Tensor]:
        return [tensor]

    def gather_texts(self, text: str) -> list[str]:
        return [text]

    def any(self, *flags: bool) -> tuple[bool, ...]:
        return flags

    def replicate(self, tensors: Iterable[Tensor]) -> float:
        return 0.0

    def join_rows(self, rows: Tensor, bounds: Sequence[int]) -> Tensor | None:
        return rows

    def wait(self) -> None: ...
    def close(self) -> None: ...


ALONE = Alone()
