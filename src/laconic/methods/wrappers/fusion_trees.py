"""The label trees of a fused method: without its held-out texts, for the combining network, and of all texts.

Where a GPU trains the method, they grow on the cores meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from scipy.sparse import csr_array
from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.methods.config import MethodConfig
from laconic.methods.tree_process import build_apart
from laconic.methods.trees import Config, build, restore
from laconic.models.trees_ranker import TreesRanker
from laconic.system.background import Advance, Background
from laconic.system.machine import usable_cores
from laconic.training.run import Run
from laconic.training.stages import StageFacts

_LEARNT, _ALL = "fusion-trees", "fusion-trees-of-all"
_THRESHOLD = 0.25  # of weights; the combining network does not miss what trees alone would (docs/log.md)
_FEW_HELD_OUT = 0.05  # of the texts; trees that have not seen so few are kept: those of all find nearly the same labels
_PAIRS_OF_CORE = 125_000  # of text and label: trees of fewer have grown beside a GPU's training before it has ended


def trees_config(config: MethodConfig) -> Config:
    assert config.fusion is not None
    trees = max(1, config.fusion.trees)
    return Config(trees=trees, threshold=_THRESHOLD, seed=config.seed, vocabulary=config.vocabulary)


def has_trees(config: MethodConfig, data: Dataset) -> bool:
    assert config.fusion is not None
    return config.fusion.trees > 0 and isinstance(data.inputs, csr_array)  # trees are over words


def are_grown_again(held_out: float, pairs: int, cores: int, *, beside_gpu: bool) -> bool:
    """Return whether trees are grown of all texts too; where few are held out, only if a GPU trains for as long."""
    return held_out > _FEW_HELD_OUT or (beside_gpu and pairs < _PAIRS_OF_CORE * cores)


def _grow_beside(run: Run) -> bool:
    """Return whether trees grow while a GPU trains."""
    return run.device.type == "cuda" and run.ranks.world == 1


@contextmanager
def forests(data: Dataset, config: MethodConfig, run: Run) -> Iterator[Forests]:
    """Yield the forests of a method; they begin to grow at once where its training leaves the cores idle."""
    grown = Forests(data, config, run)
    # What is needed is decided here: where the first rank works apart, the run looks like one without others.
    if grown.needed and _grow_beside(run):
        grown.start()
    try:
        yield grown
    finally:
        grown.stop()


@dataclass(eq=False)
class Forests:
    """Label trees that are grown when they are asked for, or before."""

    data: Dataset
    config: MethodConfig
    run: Run
    grown: dict[str, TreesRanker] = field(default_factory=dict)  # those that are there, by name
    _started: dict[str, Background[dict[str, Tensor]]] = field(default_factory=dict, init=False)

    def start(self) -> None:
        """Begin to grow what will be needed, one forest after the other, beside whatever follows."""
        before: Background[dict[str, Tensor]] | None = None
        for name in self.needed:
            if name not in self.grown and not self.run.knows(name):
                before = self._started[name] = Background(self._apart(name, before))

    def stop(self) -> None:
        for one in self._started.values():
            one.stop()
        for one in self._started.values():
            one.wait()

    def without_held_out(self) -> TreesRanker | None:
        return self._of(_LEARNT) if has_trees(self.config, self.data) else None

    def of_all(self) -> TreesRanker | None:
        """Return trees of all texts; where few are held out, those that have not seen them unless others are free."""
        return self._of(self.needed[-1]) if self.needed else None

    def with_all(self, ranker: TreesRanker) -> Forests:
        """Return forests that are grown already: this one for every purpose."""
        return replace(self, grown=dict.fromkeys((_LEARNT, _ALL), ranker))

    @cached_property
    def needed(self) -> list[str]:
        """Return the names of the forests, in the order in which they grow."""
        if not has_trees(self.config, self.data):
            return []
        return [_LEARNT, _ALL] if self._again else [_LEARNT]

    @cached_property
    def _again(self) -> bool:
        """Return whether trees are grown again, decided once for a run that is resumed with other cores."""
        held_out, pairs = self._held_out, int(self.data.labels.nnz)
        if not _grow_beside(self.run):
            return are_grown_again(held_out, pairs, 0, beside_gpu=False)

        def decide() -> dict[str, Tensor]:
            return {"again": torch.tensor(are_grown_again(held_out, pairs, usable_cores(), beside_gpu=True))}

        return bool(self.run.remember(f"{_ALL}-amount", decide)["again"])

    @cached_property
    def _settings(self) -> Config:
        """Return the settings of the trees, of which there are as many as the time budget has room for."""
        settings = trees_config(self.config)
        return replace(settings, trees=self.run.amount(_LEARNT, settings.trees, "tree"))

    @property
    def _held_out(self) -> float:
        """Return the fraction of the training texts that is held out."""
        learnt, held = self.data.split(self.config.validation, self.config.seed)
        return 0.0 if self.data.validation is not None else len(held) / (len(learnt) + len(held))

    def _of(self, name: str) -> TreesRanker:
        if name not in self.grown:
            self.grown[name] = self._grow(name)
        return self.grown[name]

    def _grow(self, name: str) -> TreesRanker:
        settings, started = self._settings, self._started.get(name)
        grow: Callable[[Advance], dict[str, Tensor]] = self._here(name) if started is None else started.result
        made = self.run.remember(name, lambda: grow(self.run.watcher.advanced))
        if started is not None:
            self.run.stages.append(StageFacts(f"{name}-beside", round(started.seconds, 2), 0))
        return restore(settings, made)

    def _here(self, name: str) -> Callable[[Advance], dict[str, Tensor]]:
        return lambda advance: build(self._learnt(name), self._settings, advance).state_dict()

    def _apart(self, name: str, before: Background[dict[str, Tensor]] | None) -> Callable[[Advance], dict[str, Tensor]]:
        """Return what grows trees in another process, after others."""
        settings = self._settings

        def grow(advance: Advance) -> dict[str, Tensor]:
            if before is not None:
                before.wait()
            advance(0.0)
            return build_apart(self._learnt(name), settings, advance)

        return grow

    def _learnt(self, name: str) -> Dataset:
        return self.data if name == _ALL else self.data.split(self.config.validation, self.config.seed)[0]
