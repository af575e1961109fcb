"""Several models of one method that differ in nothing but their seed, and answer with the mean of their scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.errors import ModelError
from laconic.methods.result import Trained
from laconic.models.rankers import Ensemble, Ranker
from laconic.storage.model_folder import SavedModel
from laconic.training.run import Run


def train_members(
    train: Callable[[Dataset, Any, Run], Trained], members: int, data: Dataset, config: Any, run: Run
) -> Trained:
    """One after another; a run that was stopped finds the finished ones."""
    trained: list[Trained] = []
    for number in range(members):
        one = train(data, seeded(config, number), run.member(number, of=members))
        one.ranker.cpu()  # so that the next one has the device for itself
        trained.append(one)
    histories = [{"seed": one.config.seed, **one.facts} for one in trained]
    ensemble = Ensemble([one.ranker for one in trained])
    together = agreed([one.config for one in trained], config)
    return Trained(ensemble, together, {"ensemble": members, "members": histories})


def agreed(configs: Sequence[Any], given: Any) -> Any:
    """The settings of all members; where each chose its own, which its tensors keep, what training was given."""
    changes = {}
    for name in (field.name for field in fields(given)):
        values = [getattr(config, name) for config in configs]
        if any(value != values[0] for value in values):
            own = getattr(given, name)
            changes[name] = agreed(values, own) if is_dataclass(own) else own
    return replace(configs[0], **changes)


def restore_members(
    restore: Callable[[Any, Mapping[str, Tensor]], Ranker], members: int, config: Any, tensors: Mapping[str, Tensor]
) -> Ensemble:
    """The ensemble from its state_dict; each member is looked at as it would be alone."""
    rankers = [restore(seeded(config, number), part) for number, part in enumerate(_by_member(tensors, members))]
    sizes = {(ranker.num_labels, ranker.num_ids) for ranker in rankers}
    if len(sizes) > 1:
        raise ModelError(f"the members of the model differ in their numbers of labels and words: {sorted(sizes)}")
    return Ensemble(rankers)


def seeded(config: Any, number: int) -> Any:
    return replace(config, seed=config.seed + number)


def ensemble_size(model: SavedModel) -> int:
    """How many members answer; 1: it is no ensemble."""
    if "ensemble" not in model.facts:
        return 1
    match model.facts:
        case {"ensemble": int(size), "members": list(members)} if 1 < size == len(members) <= len(model.tensors):
            if all(isinstance(member, dict) for member in members):
                return size
    raise ModelError(
        f"model.json must say of how many members the model is and tell of each, but the ensemble is "
        f"{model.facts['ensemble']!r}; copy the model again"
    )


def first_member(model: SavedModel) -> SavedModel:
    """A single model as it is; of an ensemble the first member alone."""
    size = ensemble_size(model)
    return model if size == 1 else replace(model, tensors=_by_member(model.tensors, size)[0])


def _by_member(tensors: Mapping[str, Tensor], members: int) -> list[dict[str, Tensor]]:
    """Each member's tensors by its own names."""
    parts: dict[str, dict[str, Tensor]] = {str(number): {} for number in range(members)}
    for name, tensor in tensors.items():
        word, number, own = (*name.split(".", 2), "", "")[:3]
        if word != "members" or number not in parts:
            raise ModelError(f"the model has {members} members, but the tensor {name!r} is of none of them")
        parts[number][own] = tensor
    known = {name for part in parts.values() for name in part}
    for number, part in parts.items():
        if missing := known - part.keys():
            raise ModelError(
                f"the model has no tensor 'members.{number}.{min(missing)}', which other members have; copy the model "
                "again"
            )
    return list(parts.values())
