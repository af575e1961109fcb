"""Fusion: any method's answers weighed with the labels of the nearest texts and with labels' own texts.

What each is worth is learnt on texts that the method has not learnt from. As a part of other methods it is a group of
their settings, `fusion`, and changes nothing else of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn import functional

from laconic.changing import Additions, Lesson, taught, with_labels, without_labels
from laconic.combining import NUMBERS, Evidence
from laconic.combining.network import Combiner
from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.data.tokenizer import inputs_of
from laconic.errors import ConfigError, ModelError
from laconic.evaluate import on_device
from laconic.fusing import Combining, FusedRanker
from laconic.methods.nearest import Config as Nearest
from laconic.methods.nearest import build as build_nearest
from laconic.methods.nearest import restore as restore_nearest
from laconic.methods.parts import check_within, config_with, filled
from laconic.methods.trained import Trained
from laconic.metrics.pairs import holds
from laconic.optim import OneCycle, Plan
from laconic.rankers import Ranker
from laconic.run import Run
from laconic.shortlisters.nearest import tensor_of

_AT_ONCE = 1024  # texts that are looked up at a time


@dataclass(frozen=True, kw_only=True)
class Config:
    width: int = 100  # labels that each channel puts forward
    neighbours: int = 100  # training texts that are looked at
    power: float = 3.0  # of a neighbour's cosine
    hidden: int = 32  # width of the combining network's two layers
    epochs: int = 30  # over the held-out texts
    learning_rate: float = 0.005
    tail: float = 0.0  # a dial: rare labels gain by it what frequent ones lose

    def __post_init__(self) -> None:
        whole = {"width": (1, 1 << 16), "neighbours": (1, 1 << 16), "hidden": (1, 1024), "epochs": (1, 10_000)}
        check_within(self, {**whole, "power": (0.01, 100), "learning_rate": (1e-9, 100), "tail": (-10, 10)})


def config_over(kind: type[Any]) -> type[Any]:
    """The config of a method whose answers are fused: its own, with a group of settings for it."""
    return config_with(kind, "fusion", Config())


def train_over(train_base: Callable[[Dataset, Any, Run], Trained], data: Dataset, config: Any, run: Run) -> Trained:
    _check_held_out(config)
    base = train_base(data, config, run)
    data = replace(data, extend=None)  # labels' own texts have a channel for themselves
    learn, held = data.split(base.config.validation, base.config.seed)
    combiner = _seeded(config)
    fitting = _ranker(base.ranker, learn, combiner, config.fusion)
    inputs = run.remember("fusion-evidence", lambda: _evidence(fitting, held, run.device))
    there = inputs["numbers"][:, :, 0] > 0
    combiner.standardise(inputs["numbers"][there])
    seen = Dataset(inputs=inputs["numbers"].flatten(1).numpy(), labels=_places(inputs))
    state = run.fit("fusion", Combining(combiner).to(run.device), Resident.of(seen, 0, run.device), _plan(config))
    combiner.cpu().calibrate(inputs["numbers"][there], inputs["true"][there])
    # What votes in the end are all texts, not only those that the method has learnt from.
    ranker = _ranker(base.ranker, data, combiner, config.fusion)
    facts = {"texts": len(held), "epochs": state.history}
    return Trained(ranker.eval(), base.config, {**base.facts, "fusion": facts})


def restore_over(
    restore_base: Callable[[Any, Mapping[str, Tensor]], Ranker], config: Any, tensors: Mapping[str, Tensor]
) -> FusedRanker:
    """Base and channels are looked at as they would be alone."""
    parts = {name: _under(tensors, name) for name in ("base", "nearest", "combiner")}
    base = restore_base(config, parts["base"])
    near = restore_nearest(_nearest(config.fusion), parts["nearest"])

    def make() -> Combiner:
        return Combiner(len(NUMBERS), parts["combiner"]["first.weight"].shape[0])

    combiner = filled("fusion", make, parts["combiner"])
    frequency = tensor_of(tensors, "frequency", torch.float32)
    if frequency.shape != (base.num_labels,) or base.num_labels != near.num_labels or not frequency.isfinite().all():
        raise ModelError(
            f"the model's tensor 'frequency' must have a number for each of the {base.num_labels:,} labels, and its "
            f"channels, which know {near.num_labels:,}, must know as many; its folder is damaged: fetch it again"
        )
    fusion = config.fusion
    return FusedRanker(base, near, combiner, frequency, width=fusion.width, tail=fusion.tail).eval()


def remembering(ranker: FusedRanker, data: Dataset, config: Config) -> FusedRanker:
    """The same ranker with these texts alone as neighbours."""
    return _ranker(ranker.base, data, ranker.combiner, config).eval()


def _check_held_out(config: Any) -> None:
    if not getattr(config, "validation", 0.0):
        raise ConfigError(
            "fusion is learnt on texts that are held out, but none are; use a method that trains, with validation "
            "above 0"
        )
    if getattr(config, "refit", False):
        raise ConfigError("fusion is learnt on texts that are held out, but refit learns from all; leave refit out")


def _seeded(config: Any) -> Combiner:
    with torch.random.fork_rng([]):
        torch.manual_seed(config.seed)
        return Combiner(len(NUMBERS), config.fusion.hidden)


def _ranker(base: Ranker, data: Dataset, combiner: Combiner, config: Config) -> FusedRanker:
    near = build_nearest(data, _nearest(config))
    frequency = torch.from_numpy(np.log1p(data.label_counts).astype(np.float32))
    return FusedRanker(base, near, combiner, frequency, width=config.width, tail=config.tail)


def _nearest(config: Config) -> Nearest:
    return Nearest(neighbours=config.neighbours, power=config.power)


@torch.no_grad()
def _evidence(ranker: FusedRanker, held: Dataset, device: torch.device) -> dict[str, Tensor]:
    """Of every held-out text; labels that are to be left out are not there."""
    ranker.base.to(device).eval()
    parts = [_part(ranker, held, first, device) for first in range(0, len(held), _AT_ONCE)]
    labels, numbers = (np.concatenate(part) for part in zip(*parts, strict=True))
    true = holds(held.labels, labels) & (numbers[:, :, 0] > 0)
    return {"numbers": torch.from_numpy(numbers), "true": torch.from_numpy(true)}


def _part(ranker: FusedRanker, held: Dataset, first: int, device: torch.device) -> Evidence:
    part = slice(first, first + _AT_ONCE)
    found = ranker.evidence(on_device(inputs_of(held.inputs[part]), device))
    if held.leave_out is not None:
        found.numbers[holds(held.leave_out[part], found.labels)] = 0
    return found


def _places(inputs: Mapping[str, Tensor]) -> csr_array:
    """The places of a text's true labels among its candidates."""
    return csr_array(inputs["true"].numpy().astype(np.float32))


def _plan(config: Any) -> Plan:
    fusion = config.fusion
    return Plan(
        epochs=fusion.epochs,
        batch_size=64,
        learning_rate=fusion.learning_rate,
        schedule=OneCycle(),
        seed=config.seed,
    )


def _under(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    start = f"{name}."
    return {own.removeprefix(start): tensor for own, tensor in tensors.items() if own.startswith(start)}


# Other labels


@without_labels.register
def _(ranker: FusedRanker, kept: Int[Tensor, "kept"]) -> FusedRanker:
    base, near = without_labels(ranker.base, kept), without_labels(ranker.nearest, kept)
    frequency = ranker.frequency[kept.to(ranker.frequency.device)]
    return FusedRanker(base, near, ranker.combiner, frequency, width=ranker.width, tail=ranker.tail).eval()


@with_labels.register
def _(ranker: FusedRanker, additions: Additions) -> FusedRanker:
    """What was learnt of weighing holds for new labels too: it goes by frequency, words and places, not by names."""
    base, near = with_labels(ranker.base, additions), with_labels(ranker.nearest, additions)
    known = functional.pad(ranker.frequency.expm1(), (0, additions.num_new))
    frequency = (known + torch.from_numpy(additions.examples.label_counts)).log1p().float()
    return FusedRanker(base, near, ranker.combiner, frequency, width=ranker.width, tail=ranker.tail).eval()


@taught.register
def _(ranker: FusedRanker, lesson: Lesson, run: Run) -> FusedRanker:
    base = taught(ranker.base, lesson, run)
    return FusedRanker(base, ranker.nearest, ranker.combiner, ranker.frequency, width=ranker.width, tail=ranker.tail)
