"""Fusion: any method's answers weighed with label trees', the labels of the nearest texts and labels' own texts.

What each is worth is learnt on texts that the method has not learnt from. As a part of other methods it is a group of
their settings, `fusion`, and changes nothing else of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.data.tokenizer import inputs_of
from laconic.errors import ConfigError, ModelError
from laconic.evaluation.evaluate import on_device
from laconic.evaluation.metrics.pairs import holds
from laconic.methods.common import check_within, config_with, filled
from laconic.methods.nearest import Config as Nearest
from laconic.methods.nearest import build as build_nearest
from laconic.methods.nearest import restore as restore_nearest
from laconic.methods.result import Trained
from laconic.methods.trees import Config as Trees
from laconic.methods.trees import build as build_trees
from laconic.methods.trees import restore as restore_trees
from laconic.models.fusion import Channels, Evidence, numbers_of
from laconic.models.fusion.network import Combiner
from laconic.models.fusion.ranker import FusedRanker
from laconic.models.rankers import Ranker
from laconic.models.shortlisters.nearest import tensor_of
from laconic.training.optimizer import OneCycle, Plan
from laconic.training.run import Run
from laconic.training.tasks_fusion import Combining

_AT_ONCE = 1024  # texts that are looked up at a time
_TWIN = 0.9  # a cosine above which two texts say nearly the same
_VISITS = 150_000  # texts in all that the combiner is shown; more no longer help (docs/log.md)


@dataclass(frozen=True, kw_only=True)
class Config:
    width: int = 64  # labels that each channel puts forward
    neighbours: int = 100  # training texts that are looked at; 0: none, which answers quicker
    power: float = 3.0  # of a neighbour's cosine
    label_texts: bool = True  # look at labels' own texts, where there are any
    trees: int = 3  # label trees over words, which are learnt beside the method; 0: none
    hidden: int = 32  # width of the combining network's two layers
    epochs: int = 0  # over the held-out texts; 0: from 30 for a few thousand to 6 for many
    learning_rate: float = 0.005
    tail: float = 0.0  # a dial: rare labels gain by it what frequent ones lose

    def __post_init__(self) -> None:
        whole = {"width": (1, 1 << 16), "neighbours": (0, 1 << 16), "hidden": (1, 1024), "epochs": (0, 10_000)}
        whole["trees"] = (0, 64)
        check_within(self, {**whole, "power": (0.01, 100), "learning_rate": (1e-9, 100), "tail": (-10, 10)})


def config_over(kind: type[Any]) -> type[Any]:
    """The config of a method whose answers are fused: its own, with a group of settings for it."""
    return config_with(kind, "fusion", Config())


def train_over(train_base: Callable[[Dataset, Any, Run], Trained], data: Dataset, config: Any, run: Run) -> Trained:
    _check_held_out(config, data)
    base = train_base(data, config, run)
    data = replace(data, extend=None)  # labels' own texts have a channel for themselves
    learn, held = data.split(base.config.validation, base.config.seed)
    combiner = _seeded(config, with_trees=_has_trees(config.fusion, data))
    fitting = _ranker(base.ranker, learn, combiner, config, _trees("fusion-trees", learn, config, run))
    twin = _TWIN**config.fusion.power
    inputs = run.remember("fusion-evidence", lambda: _evidence(fitting, held, run.device, twin))
    there = inputs["numbers"][:, :, 0] > 0
    combiner.standardise(inputs["numbers"][there])
    seen = Dataset(inputs=inputs["numbers"].flatten(1).numpy(), labels=_places(inputs))
    task, resident = Combining(combiner).to(run.device), Resident.of(seen, 0, run.device)
    with _one_thread():
        state = run.fit("fusion", task, resident, _plan(config, len(held)))
    combiner.cpu().calibrate(inputs["numbers"][there], inputs["true"][there])
    # What answers in the end are all texts, not only those that the method has learnt from.
    ranker = _ranker(base.ranker, data, combiner, config, _trees("fusion-trees-of-all", data, config, run))
    facts = {"texts": len(held), "epochs": state.history}
    return Trained(ranker.eval(), base.config, {**base.facts, "fusion": facts}, unaware=fitting.eval())


def restore_over(
    restore_base: Callable[[Any, Mapping[str, Tensor]], Ranker], config: Any, tensors: Mapping[str, Tensor]
) -> FusedRanker:
    """Base and channels are looked at as they would be alone."""
    parts = {name: _under(tensors, name) for name in ("base", "nearest", "combiner", "trees")}
    base = restore_base(config, parts["base"])
    near = restore_nearest(_nearest(config.fusion), parts["nearest"])
    trees = restore_trees(_trees_config(config), parts["trees"]) if parts["trees"] else None

    def make() -> Combiner:
        return Combiner(numbers_of(1 if trees is None else 2), parts["combiner"]["first.weight"].shape[0])

    combiner = filled("fusion", make, parts["combiner"])
    frequency = tensor_of(tensors, "frequency", torch.float32)
    known = [base.num_labels, near.num_labels] + ([] if trees is None else [trees.num_labels])
    if frequency.shape != (base.num_labels,) or len(set(known)) > 1 or not frequency.isfinite().all():
        raise ModelError(
            "the model's tensor 'frequency' must have a number for every label, and its method and channels must know "
            f"the same labels; here they know {', '.join(f'{count:,}' for count in known)}, and it has "
            f"{frequency.numel():,} numbers; its folder is damaged: fetch it again"
        )
    fusion = config.fusion
    return FusedRanker(base, near, combiner, frequency, width=fusion.width, tail=fusion.tail, trees=trees).eval()


def _check_held_out(config: Any, data: Dataset) -> None:
    if not getattr(config, "validation", 0.0):
        raise ConfigError(
            "fusion is learnt on texts that are held out, but none are; use a method that trains, with validation "
            "above 0"
        )
    if getattr(config, "refit", False):
        raise ConfigError("fusion is learnt on texts that are held out, but refit learns from all; leave refit out")
    if not len(replace(data, extend=None).split(config.validation, config.seed)[1]):
        raise ConfigError(
            f"fusion is learnt on held-out texts, but a share of {config.validation} of {len(data):,} texts is "
            "none; raise validation"
        )


def _has_trees(config: Config, data: Dataset) -> bool:
    """Trees are over words."""
    return config.trees > 0 and isinstance(data.inputs, csr_array)


def _seeded(config: Any, *, with_trees: bool) -> Combiner:
    with torch.random.fork_rng([]):
        torch.manual_seed(config.seed)
        return Combiner(numbers_of(1 + with_trees), config.fusion.hidden)


def _trees(name: str, data: Dataset, config: Any, run: Run) -> Ranker | None:
    if not _has_trees(config.fusion, data):
        return None
    settings = _trees_config(config)
    return restore_trees(settings, run.remember(name, lambda: build_trees(data, settings).state_dict()))


def _trees_config(config: Any) -> Trees:
    return Trees(trees=max(1, config.fusion.trees), seed=config.seed, vocabulary=config.vocabulary)


def _ranker(base: Ranker, data: Dataset, combiner: Combiner, config: Any, trees: Ranker | None) -> FusedRanker:
    fusion = config.fusion
    near = build_nearest(data if fusion.neighbours else data.rows(np.arange(0)), _nearest(fusion))
    frequency = torch.from_numpy(np.log1p(data.label_counts).astype(np.float32))
    return FusedRanker(base, near, combiner, frequency, width=fusion.width, tail=fusion.tail, trees=trees)


def _nearest(config: Config) -> Nearest:
    weight = Nearest().label_text if config.label_texts else 0.0
    return Nearest(neighbours=max(1, config.neighbours), power=config.power, label_text=weight)


@torch.no_grad()
def _evidence(ranker: FusedRanker, held: Dataset, device: torch.device, twin: float) -> dict[str, Tensor]:
    """Of every held-out text; labels that are to be left out are not there.

    Every second text does without neighbours of more weight than a `twin` has: new texts may have none such, and
    whoever has only seen texts that do trusts neighbours too much.
    """
    ranker.base.to(device).eval()
    some = slice(0, None, 2)
    parts = [
        _part(ranker, held, first, device, lambda channels: channels.without(twin, some))
        for first in range(0, len(held), _AT_ONCE)
    ]
    labels, numbers = (np.concatenate(part) for part in zip(*parts, strict=True))
    true = holds(held.labels, labels) & (numbers[:, :, 0] > 0)
    return {"numbers": torch.from_numpy(numbers), "true": torch.from_numpy(true)}


def _part(
    ranker: FusedRanker,
    held: Dataset,
    first: int,
    device: torch.device,
    through: Callable[[Channels], Channels],
) -> Evidence:
    part = slice(first, first + _AT_ONCE)
    found = ranker.evidence(on_device(inputs_of(held.inputs[part]), device), through=through)
    if held.leave_out is not None:
        found.numbers[holds(held.leave_out[part], found.labels)] = 0
    return found


@contextmanager
def _one_thread() -> Iterator[None]:
    """The network is so small that threads spend their time waiting for each other: ten times it, on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _places(inputs: Mapping[str, Tensor]) -> csr_array:
    """The places of a text's true labels among its candidates."""
    return csr_array(inputs["true"].numpy().astype(np.float32))


def _plan(config: Any, texts: int) -> Plan:
    fusion = config.fusion
    return Plan(
        epochs=fusion.epochs or int(np.clip(_VISITS // max(1, texts), 6, 30)),
        batch_size=64,
        learning_rate=fusion.learning_rate,
        schedule=OneCycle(),
        seed=config.seed,
    )


def _under(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    start = f"{name}."
    return {own.removeprefix(start): tensor for own, tensor in tensors.items() if own.startswith(start)}


# Other labels
