"""Runs of Weights & Biases; models are stored as its artifacts.

Project, entity and mode are its own variables' where they are set (WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE=offline).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb

from laconic.storage.manifest import files_of
from laconic.trackers.run import About, Status


class WeightsAndBiases:
    """Weights & Biases, with a project or its default one."""

    name = "wandb"

    def __init__(self, project: str = "") -> None:
        self.project = project

    def start(self, about: About, earlier: str | None) -> WandbRun:
        """Start a run, resume the earlier one, or join the one that is active in this program."""
        if wandb.run is not None:
            wandb.run.config.update(dict(about.parameters), allow_val_change=True)
            return WandbRun(wandb.run, own=False)
        run = wandb.init(
            project=self.project or None,
            id=earlier,
            resume="allow",
            name=about.title or None,
            config=dict(about.parameters),
            settings=wandb.Settings(console="off"),
        )
        return WandbRun(run, own=True)


class WandbRun:
    """A run of Weights & Biases."""

    def __init__(self, run: Any, *, own: bool) -> None:
        self.run, self.id = run, str(run.id)
        self.own = own  # False: it was active already, and is ended by whoever began it
        self.series: set[str] = set()  # whose metrics have a step of their own

    def log(self, series: str, metrics: Mapping[str, float], step: int) -> None:
        """Log metrics as SERIES/NAME, by the series' own epochs: steps of a run never go back."""
        if series not in self.series:
            self.series.add(series)
            self.run.define_metric(f"{series}/*", step_metric=f"{series}/epoch")
        self.run.log({f"{series}/epoch": step} | {f"{series}/{name}": value for name, value in metrics.items()})

    def add_model(self, folder: Path) -> None:
        """Store a model folder as an artifact of the type model, named like the folder."""
        name = re.sub(r"[^\w.-]", "-", folder.resolve().name, flags=re.ASCII) or "model"
        artifact = wandb.Artifact(name, type="model")
        for file in files_of(folder):
            artifact.add_file(str(folder / file), name=file)
        self.run.log_artifact(artifact)

    def end(self, status: Status) -> None:
        if self.own:
            self.run.finish(exit_code=0 if status is Status.FINISHED else 1)
