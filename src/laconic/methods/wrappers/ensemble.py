"""Ensembles: models of one method that differ in their seed alone, and average their scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from torch import Tensor

from laconic.config import C
from laconic.data.dataset import Dataset
from laconic.errors import ModelError
from laconic.methods.config import MethodConfig
from laconic.methods.result import Trained
from laconic.models.rankers import Ensemble, Ranker
from laconic.storage.model_folder import SavedModel
from laconic.training.run import Run

_FEWEST = 2  # members of an ensemble


def train_members(
    train: Callable[[Dataset, Any, Run], Trained], members: int, data: Dataset, config: MethodConfig, run: Run
) -> Trained:
    """Train one member after another, as long as the run has time; a resumed run loads the finished ones."""
    trained: list[Trained] = []
    for number in range(members):
        if number >= _FEWEST and not run.affords(f"member-{number}", "member-"):
            break
        one = train(data, with_seed(config, number), run.member(number, of=members))
        one.ranker.cpu()  # so that the next one has the device for itself
        trained.append(one)
    histories = [{"seed": one.config.seed, **one.facts} for one in trained]
    ensemble = Ensemble([one.ranker for one in trained])
    common = common_settings([one.config for one in trained], config)
    facts = {"ensemble": len(trained), "members": histories}
    return Trained(ensemble, common, facts, _calibration_ranker(trained, common))


def _calibration_ranker(trained: Sequence[Trained], config: MethodConfig) -> Ensemble | None:
    """Return the ensemble of rankers that have not seen the texts to calibrate with, if these are the same for all."""
    rankers = [one.calibration_ranker for one in trained if one.calibration_ranker is not None]
    return Ensemble(rankers) if len(rankers) == len(trained) and config.calibration else None


def common_settings(configs: Sequence[C], given: C) -> C:
    """Return the members' settings; where they differ (their tensors keep them), those that training was given."""
    changes = {}
    for name in (field.name for field in fields(given)):
        values = [getattr(config, name) for config in configs]
        if any(value != values[0] for value in values):
            own = getattr(given, name)
            changes[name] = common_settings(values, own) if is_dataclass(own) else own
    return replace(configs[0], **changes)


def restore_members(
    restore: Callable[[Any, Mapping[str, Tensor]], Ranker],
    members: int,
    config: MethodConfig,
    tensors: Mapping[str, Tensor],
) -> Ensemble:
    """Restore an ensemble from its state_dict; each member is checked as a model of its own."""
    rankers = [restore(with_seed(config, number), part) for number, part in enumerate(_by_member(tensors, members))]
    sizes = {(ranker.num_labels, ranker.num_ids) for ranker in rankers}
    if len(sizes) > 1:
        raise ModelError(f"the members of the model differ in their numbers of labels and words: {sorted(sizes)}")
    return Ensemble(rankers)


def with_seed(config: C, number: int) -> C:
    """Return the config of a member: its seed is the first one's plus its number."""
    return replace(config, seed=config.seed + number)  # type: ignore[attr-defined]  # methods with members have a seed


def ensemble_size(model: SavedModel) -> int:
    """Return the number of members; 1: the model is no ensemble."""
    if "ensemble" not in model.facts:
        return 1
    match model.facts:
        case {"ensemble": int(size), "members": list(members)} if 1 < size == len(members) <= len(model.tensors):
            if all(isinstance(member, dict) for member in members):
                return size
    raise ModelError(
        f"model.json must list as many members as the ensemble has, but the ensemble is "
        f"{model.facts['ensemble']!r}; copy the model again"
    )


def first_member(model: SavedModel) -> SavedModel:
    """Return the first member of an ensemble; a single model is returned as it is."""
    size = ensemble_size(model)
    return model if size == 1 else replace(model, tensors=_by_member(model.tensors, size)[0])


def _by_member(tensors: Mapping[str, Tensor], members: int) -> list[dict[str, Tensor]]:
    """Return the tensors of each member, without the prefix of its number."""
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
