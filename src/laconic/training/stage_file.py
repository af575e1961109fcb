"""A stage's checkpoint in a run folder, and when it is due."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from laconic.data.shards import Shard
from laconic.errors import TrainingError
from laconic.training.run_folder import RunFolder

_COPIES, _WRITTEN = 4, 5e8  # of the weights in a checkpoint: moments and the best epoch's too; bytes a second, at first
_SAVING = 0.05  # of a training's time, at most, for saving checkpoints


class StageFile:
    """A stage's checkpoint; tensors that have shards are spread over several ranks.

    It is saved every `seconds`, or less often where that would take more than a small part of the training's time: by
    its size at first, then by how long it took.
    """

    def __init__(
        self, folder: RunFolder | None, name: str, seconds: float, shards: Mapping[str, Shard], weights: int = 0
    ) -> None:
        self.folder, self.name, self.seconds, self.shards = folder, name, seconds, shards
        self.saving = _COPIES * weights / _WRITTEN  # seconds that it takes to save, by the bytes of the weights
        self.saved_at = time.monotonic()

    def load(self) -> tuple[dict[str, Tensor], Any] | None:
        found = None if self.folder is None else self.folder.load(self.name, self.shards)
        if found is None:
            return None
        tensors, metadata = found
        try:
            return tensors, json.loads(metadata.get("state", ""))
        except (ValueError, RecursionError):
            raise self.damaged("its progress is not JSON") from None

    def due(self) -> bool:
        wanted = max(self.seconds, self.saving / _SAVING) if self.seconds else 0.0  # 0: after every step
        return self.folder is not None and time.monotonic() - self.saved_at >= wanted

    def save(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        began = time.monotonic()
        if self.folder is not None:
            self.folder.save(self.name, tensors, {"state": json.dumps(facts)}, self.shards)
        self.saved_at = time.monotonic()
        self.saving = self.saved_at - began

    def damaged(self, what: str) -> TrainingError:
        assert self.folder is not None, "nothing was loaded"
        return self.folder.damaged(self.name, what)
