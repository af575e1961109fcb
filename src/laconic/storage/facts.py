"""Typed access to the facts in model.json; unknown keys are kept as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from laconic.errors import ModelError

Facts = Mapping[str, Any]


class Sizes(TypedDict):
    """Numbers of labels, training texts, their pairs, and input features or token ids."""

    labels: int
    texts: int
    pairs: int
    inputs: int


def changes_of(facts: Facts) -> list[Facts]:
    """Return the changes to a model since it was trained, the latest last; its facts may be anything."""
    changes = facts.get("changes")
    return [change for change in changes if isinstance(change, Mapping)] if isinstance(changes, list) else []


class ModelFacts(dict[str, Any]):
    """The content of model.json: a dictionary with typed properties for the keys that this version knows."""

    @property
    def version(self) -> str:
        """Return the version of laconic that made the model."""
        return str(self["laconic"])

    @property
    def method(self) -> str:
        return str(self["method"])

    @property
    def config(self) -> Facts:
        return self.get("config") or {}

    @property
    def inputs(self) -> str:
        """Return what the model reads: text, sparse or dense."""
        return str(self["inputs"])

    @property
    def sizes(self) -> Sizes:
        sizes: Sizes = self["sizes"]
        return sizes

    @property
    def data_name(self) -> str:
        return str(self["data"]["name"])

    @property
    def members(self) -> Sequence[Facts]:
        """Return the facts of an ensemble's members; empty for other models."""
        return self.get("members") or []

    @property
    def changes(self) -> Sequence[Facts]:
        return changes_of(self)

    @property
    def metrics(self) -> Facts:
        return self.get("metrics") or {}

    @property
    def command(self) -> str | None:
        """Return the command line that made the model, if it was one."""
        return self.get("command")

    def check(self, folder: Path) -> None:
        """Refuse facts that lack what every reader of a model relies on."""
        match self:
            case {
                "laconic": str(),
                "method": str(),
                "config": dict(),
                "inputs": "text" | "sparse" | "dense",
                "sizes": {"labels": int(), "texts": int(), "pairs": int(), "inputs": int()},
                "data": {"name": str()},
                "propensity": {"a": float(), "b": float()},
                "created": str(),
            }:
                return
        raise ModelError(f"{folder}/model.json: it lacks what a model must say of itself; copy the model again")
