"""Fusion: combine any method's scores with those of label trees, nearest texts and labels' own texts.

A small network learns their weights on texts that the method has not learnt from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.sparse import csr_array
from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.errors import ConfigError, ModelError
from laconic.evaluation.calibration import logistic_line
from laconic.evaluation.evaluate import batches
from laconic.evaluation.metrics.pairs import holds
from laconic.methods import siamese
from laconic.methods.common import restore_module, seeded, tensors_under
from laconic.methods.config import FusionConfig, MethodConfig
from laconic.methods.nearest import Config as Nearest
from laconic.methods.nearest import build as build_nearest
from laconic.methods.nearest import restore as restore_nearest
from laconic.methods.result import Trained
from laconic.methods.trees import restore as restore_trees
from laconic.methods.wrappers.encoder_channel import restore_channel, train_channel
from laconic.methods.wrappers.fusion_trees import Forests, forests, trees_config
from laconic.models.fusion import numbers_of
from laconic.models.fusion.network import Combiner, TreeOrder
from laconic.models.fusion.order import Ordering, check_ordering, forest_sums
from laconic.models.fusion.ranker import FusedRanker, SharedBase
from laconic.models.rankers import FlatRanker, Ranker
from laconic.models.shortlisters.nearest import tensor_of
from laconic.models.siamese_ranker import SiameseRanker
from laconic.training.lambdamart import fit_forest
from laconic.training.optimizer import OneCycle, Plan
from laconic.training.run import Run
from laconic.training.tasks_fusion import Combining

_AT_ONCE = 1000  # texts whose candidates are scored at a time
_DUPLICATE = 0.9  # a cosine above which two texts are near-duplicates
_EVIDENCE = "fusion-evidence"  # what the channels say of held-out texts
_TRAINED_TEXTS = 150_000  # texts times epochs for the combiner; more no longer help (docs/log.md)


class Channels(NamedTuple):
    """Rankers beside the method itself, in the order of their features."""

    trees: Ranker | None
    siamese: SiameseRanker | None
    transformer: FlatRanker | None

    def there(self) -> list[Ranker]:
        return [one for one in self if one is not None]


def train_over(
    train_base: Callable[[Dataset, Any, Run], Trained], data: Dataset, config: MethodConfig, run: Run
) -> Trained:
    """Train the base, then the network that combines its scores with those of the other channels.

    Several ranks share the base; the first one alone has the channels and trains the network.
    """
    _check_held_out(config, data)
    with forests(replace(data, extend=None), config, run) as trees:
        base = train_base(data, config, run)
        return train_network(base, data, config, trees, run)


def train_network(base: Trained, whole: Dataset, config: MethodConfig, trees: Forests, run: Run) -> Trained:
    """Train the other channels of a base, and the network over all of them."""
    fusion, data = _group(config), replace(whole, extend=None)  # labels' own texts have a channel for themselves
    learn, held = data.split(base.config.validation, base.config.seed)
    if not run.ranks.is_first:
        return _with_first_rank(base, held, fusion, run)
    with run.apart():
        transformer = train_channel(whole, base.config, run)
        space = _siamese(learn, base.config, run)
        channels = Channels(trees.without_held_out(), space, transformer)
        combiner = _initial_combiner(fusion, config.seed, 1 + len(channels.there()))
        fitting = _ranker(base.ranker, learn, combiner, fusion, channels)
    duplicate = _DUPLICATE**fusion.power
    inputs = run.remember_together(
        _EVIDENCE, lambda: _evidence(fitting, held, run.device, duplicate, run.watcher.advanced)
    )
    with run.apart():
        history = _learn_combiner(combiner, inputs, fusion, config.seed, run)
        # The final ranker looks up all texts, not only those that the method has learnt from.
        channels = channels._replace(trees=trees.of_all())
        ranker = _ranker(base.ranker, data, combiner, fusion, channels)
    facts = {"texts": len(held), "epochs": history}
    return Trained(ranker.eval(), base.config, {**base.facts, "fusion": facts}, calibration_ranker=fitting.eval())


def _with_first_rank(base: Trained, held: Dataset, fusion: FusionConfig, run: Run) -> Trained:
    """Rank texts by the base while the first rank gathers evidence, and wait while it does all else."""
    ranker = SharedBase(base.ranker, width=fusion.width).eval()

    @torch.no_grad()
    def rank_held_out() -> dict[str, Tensor]:
        for _, inputs in batches(held.inputs, run.device):
            ranker.rank(inputs, ranker.width)
        return {}

    with run.apart():
        pass  # until there is something to gather evidence from
    run.remember_together(_EVIDENCE, rank_held_out)
    with run.apart():
        pass  # until the network is trained
    return base._replace(ranker=ranker, calibration_ranker=ranker)


def _learn_combiner(
    combiner: Combiner, inputs: Mapping[str, Tensor], fusion: FusionConfig, seed: int, run: Run
) -> list[dict[str, Any]]:
    """Train the network, and the trees that order its best labels; return the history of its epochs."""
    there = inputs["numbers"][:, :, 0] > 0
    combiner.standardise(inputs["numbers"][there])
    seen = Dataset(inputs=inputs["numbers"].flatten(1).numpy(), labels=_positives(inputs))
    task, resident = (
        Combining(combiner, rare=fusion.rare, first=fusion.first).to(run.device),
        Resident.of(seen, 0, run.device),
    )
    with _one_thread():
        state = run.fit("fusion", task, resident, _plan(fusion, seed, len(inputs["numbers"])))
    calibrate(combiner.cpu(), inputs["numbers"][there], inputs["true"][there])
    with run.stage("fusion-order"):
        combiner.order = _learn_order(combiner, inputs, fusion.ordered)
    return state.history


def restore_over(
    restore_base: Callable[[Any, Mapping[str, Tensor]], Ranker], config: MethodConfig, tensors: Mapping[str, Tensor]
) -> FusedRanker:
    """Restore a fused ranker; base and channels are checked as models of their own."""
    fusion = _group(config)
    parts = {name: tensors_under(tensors, f"{name}.") for name in ("base", "nearest", "combiner", *Channels._fields)}
    base = restore_base(config, parts["base"])
    near = restore_nearest(_nearest_config(fusion), parts["nearest"])
    channels = Channels(
        restore_trees(trees_config(config), parts["trees"]) if parts["trees"] else None,
        siamese.restore(_siamese_config(config), parts["siamese"]) if parts["siamese"] else None,
        restore_channel(config, parts["transformer"]) if parts["transformer"] else None,
    )

    def make() -> Combiner:
        trees = parts["combiner"].get("order.values")
        order = None if trees is None else TreeOrder(len(trees))
        return Combiner(numbers_of(1 + len(channels.there())), parts["combiner"]["first.weight"].shape[0], order)

    combiner = restore_module("fusion", make, parts["combiner"])
    if combiner.order is not None:
        check_ordering(combiner.order.ordering(), combiner.numbers)
    frequency = tensor_of(tensors, "frequency", torch.float32)
    known = [one.num_labels for one in (base, near, *channels.there())]
    if frequency.shape != (base.num_labels,) or len(set(known)) > 1 or not frequency.isfinite().all():
        raise ModelError(
            "the model's tensor 'frequency' must have a number for every label, and its method and channels must know "
            f"the same labels; here they know {', '.join(f'{count:,}' for count in known)}, and it has "
            f"{frequency.numel():,} numbers; its folder is damaged: fetch it again"
        )
    return _fused(fusion, base, near, combiner, frequency, channels).eval()


def _group(config: MethodConfig) -> FusionConfig:
    assert config.fusion is not None
    return config.fusion


def _check_held_out(config: MethodConfig, data: Dataset) -> None:
    if not config.validation:
        raise ConfigError("fusion needs held-out texts: use a method that trains, with validation above 0")
    if config.refit:
        raise ConfigError("fusion needs held-out texts, but refit trains on all; leave refit out")
    if not len(replace(data, extend=None).split(config.validation, config.seed)[1]):
        raise ConfigError(
            f"fusion needs held-out texts, but a fraction of {config.validation} of {len(data):,} texts is none; "
            "raise validation"
        )


def _initial_combiner(fusion: FusionConfig, seed: int, rankers: int) -> Combiner:
    with seeded(seed):
        return Combiner(numbers_of(rankers), fusion.hidden)


def _siamese(data: Dataset, config: MethodConfig, run: Run) -> SiameseRanker | None:
    """Train the space of texts and label texts; None where it is not wanted or labels have no texts."""
    if not _group(config).siamese or not siamese.suits(data):
        return None
    if not run.affords("fusion-space", "fusion-siamese"):
        return None
    return siamese.learn_space(data, _siamese_config(config), run, "fusion")


def _siamese_config(config: MethodConfig) -> siamese.Config:
    return siamese.space_config(max(8, _group(config).siamese), config)


def _ranker(base: Ranker, data: Dataset, combiner: Combiner, fusion: FusionConfig, channels: Channels) -> FusedRanker:
    near = build_nearest(data if fusion.neighbours else data.rows(np.arange(0)), _nearest_config(fusion))
    frequency = torch.from_numpy(np.log1p(data.label_counts).astype(np.float32))
    return _fused(fusion, base, near, combiner, frequency, channels)


def _fused(
    fusion: FusionConfig, base: Ranker, near: Ranker, combiner: Combiner, frequency: Tensor, channels: Channels
) -> FusedRanker:
    return FusedRanker(base, near, combiner, frequency, width=fusion.width, tail=fusion.tail, **channels._asdict())


def _nearest_config(fusion: FusionConfig) -> Nearest:
    weight = Nearest().label_text if fusion.label_texts else 0.0
    return Nearest(neighbours=max(1, fusion.neighbours), power=fusion.power, label_text=weight)


@torch.no_grad()
def _evidence(
    ranker: FusedRanker,
    held: Dataset,
    device: torch.device,
    duplicate: float,
    advance: Callable[[float], None] = lambda fraction: None,
) -> dict[str, Tensor]:
    """Return the channels' numbers for every held-out text, without left-out labels.

    For every second text, neighbours of a weight above `duplicate` are removed: new texts may have no near-duplicates,
    and a network trained only on texts that do would trust neighbours too much.
    """
    ranker.to(device).eval()
    parts = []
    for part, inputs in batches(held.inputs, device):
        found = ranker.evidence(inputs, through=lambda channels: channels.without(duplicate, slice(0, None, 2)))
        if held.leave_out is not None:
            found.numbers[holds(held.leave_out[part], found.labels)] = 0
        parts.append(found)
        advance(min(1.0, part.stop / len(held)))
    labels, numbers = (np.concatenate(several) for several in zip(*parts, strict=True))
    true = holds(held.labels, labels) & (numbers[:, :, 0] > 0)
    return {"numbers": torch.from_numpy(numbers), "true": torch.from_numpy(true)}


@torch.no_grad()
def calibrate(combiner: Combiner, numbers: Float[Tensor, "n numbers"], true: Bool[Tensor, "n"]) -> None:
    """Make the network's scores logits of probabilities; they stay as they are where truth does not rise with them."""
    line = logistic_line(combiner(numbers).numpy(), true.numpy())
    if line is not None:
        combiner.rescale(*line)


@torch.no_grad()
def _learn_order(combiner: Combiner, inputs: Mapping[str, Tensor], places: int) -> TreeOrder | None:
    """Train the trees that order the network's best labels, on the texts that the network was trained on."""
    if not places:
        return None
    parts = []
    for numbers, true in zip(*(torch.split(inputs[name], _AT_ONCE) for name in ("numbers", "true")), strict=True):
        scores = combiner(numbers).masked_fill(numbers[:, :, 0] == 0, -torch.inf)
        best = scores.sort(dim=1, descending=True, stable=True).indices[:, :places]
        own = numbers.gather(1, best[:, :, None].expand(-1, -1, numbers.shape[2]))
        parts.append((own, true.gather(1, best), scores.gather(1, best)))
    numbers, true, start = (torch.cat(several) for several in zip(*parts, strict=True))
    lists = numbers.numpy(), true.numpy(), (start > -torch.inf).numpy(), start.numpy()
    return TreeOrder.of(Ordering(fit_forest(*lists), places, *_line_of_new_texts(*lists)))


def _line_of_new_texts(
    numbers: Float[np.ndarray, "texts k numbers"],
    true: Bool[np.ndarray, "texts k"],
    there: Bool[np.ndarray, "texts k"],
    start: Float[np.ndarray, "texts k"],
) -> tuple[float, float]:
    """Return the line that makes the trees' scores probabilities, from texts that the trees were not trained on.

    Trees are trained on one half of the texts for the other half, and the other way round.
    """
    scores = start.copy()
    for half in (0, 1):
        own, others = slice(half, None, 2), slice(1 - half, None, 2)
        forest = fit_forest(numbers[others], true[others], there[others], start[others])
        scores[own][there[own]] += forest_sums(forest, numbers[own][there[own]], start[own][there[own]])
    return logistic_line(scores[there], true[there]) or (1.0, 0.0)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: for so small a network, more take up to ten times as long on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _positives(inputs: Mapping[str, Tensor]) -> csr_array:
    """Return the positions of a text's true labels among its candidates."""
    return csr_array(inputs["true"].numpy().astype(np.float32))


def combiner_epochs(fusion: FusionConfig, texts: int) -> int:
    """Return the epochs of the combining network on so many held-out texts."""
    return fusion.epochs or int(np.clip(_TRAINED_TEXTS // max(1, texts), 6, 30))


def _plan(fusion: FusionConfig, seed: int, texts: int) -> Plan:
    return Plan(
        epochs=combiner_epochs(fusion, texts),
        batch_size=64,
        learning_rate=fusion.learning_rate,
        schedule=OneCycle(),
        seed=seed,
    )
