"""Runs and models of MLflow: models are stored in its own form, which its registry and its servers read.

The tracking server is the one that MLflow's own variables name (MLFLOW_TRACKING_URI).
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import mlflow
from mlflow import MlflowClient, pyfunc
from mlflow.entities import Metric, Param
from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

from laconic import __version__
from laconic.storage.manifest import files_of
from laconic.trackers.run import About, Status, parts

DATA = "laconic-model"  # the model folder inside a model of MLflow
FLAVOUR = "laconic"
MODEL_NAME = "model"
_LOADER = "laconic.mlflow"
_MOST = 100  # entries of one request
_LONGEST = 500  # signs of a parameter's value; longer ones are cut
_ENDS = {Status.FINISHED: "FINISHED", Status.FAILED: "FAILED", Status.KILLED: "KILLED"}
_RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"


class MLflow:
    """MLflow, with an experiment or its default one."""

    name = "mlflow"

    def __init__(self, experiment: str = "") -> None:
        self.experiment = experiment

    def start(self, about: About, earlier: str | None) -> MLflowRun:
        """Start a run, resume the earlier one, or join the one that is active in this program."""
        os.environ.setdefault(_RETRIES, "2")  # by default a server that is away would delay training by minutes
        client, active = MlflowClient(), mlflow.active_run()
        joined = active.info.run_id if active is not None else os.environ.get("MLFLOW_RUN_ID")
        if joined:
            run = MLflowRun(client, joined, own=False)
        elif earlier is not None:
            client.update_run(earlier, status="RUNNING")
            return MLflowRun(client, earlier, own=True)
        else:
            made = client.create_run(self._experiment(client), run_name=about.title or None)
            run = MLflowRun(client, made.info.run_id, own=True)
        run.add_parameters(about.parameters)
        return run

    def _experiment(self, client: MlflowClient) -> str:
        name = self.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME", "")
        if not name:
            return os.environ.get("MLFLOW_EXPERIMENT_ID", "0")
        found = client.get_experiment_by_name(name)
        return str(client.create_experiment(name) if found is None else found.experiment_id)


class MLflowRun:
    """A run of MLflow."""

    def __init__(self, client: MlflowClient, id: str, *, own: bool) -> None:
        self.client, self.id = client, id
        self.own = own  # False: it was active already, and is ended by whoever began it

    def add_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Log parameters that the run does not have; MLflow's parameters cannot be changed."""
        known = self.client.get_run(self.id).data.params
        new = {name: str(value)[:_LONGEST] for name, value in parameters.items() if name not in known}
        for some in parts(new, _MOST):
            self.client.log_batch(self.id, params=[Param(name, value) for name, value in some.items()])

    def log(self, series: str, metrics: Mapping[str, float], step: int) -> None:
        """Log metrics as SERIES/NAME."""
        now = round(time.time() * 1000)
        for some in parts(metrics, _MOST):
            listed = [Metric(f"{series}/{name}", value, now, step) for name, value in some.items()]
            self.client.log_batch(self.id, metrics=listed)

    def add_model(self, folder: Path) -> None:
        """Store a model folder as a model of MLflow, with the flavour laconic."""
        with redirect_stdout(sys.stderr):  # MLflow prints addresses, and the standard output is for results
            log_folder(folder, run_id=self.id)

    def end(self, status: Status) -> None:
        with redirect_stdout(sys.stderr):
            if self.own:
                self.client.set_terminated(self.id, _ENDS[status])


def log_folder(folder: Path, *, name: str = MODEL_NAME, run_id: str | None = None, **options: Any) -> Any:
    """Store a model folder in a run of MLflow, or in the active one; return what MLflow says of the model."""
    if run_id is not None and mlflow.active_run() is None:  # a model belongs to the experiment of the active run
        with mlflow.start_run(run_id=run_id, log_system_metrics=False):
            return log_folder(folder, name=name, run_id=run_id, **options)
    return Model.log(
        None, sys.modules[__name__], name=name, run_id=run_id, folder=folder, flavor_name=FLAVOUR, **options
    )


def save_model(path: Path | str, folder: Path, mlflow_model: Model | None = None, **_: Any) -> None:
    """Write a model of MLflow: the files of a model folder, and how it is loaded."""
    path, model = Path(path), mlflow_model or Model()
    for name in files_of(folder):
        (path / DATA / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / name, path / DATA / name)
    requirements = f"laconic-xmc[train]=={__version__}\npandas\n"
    (path / "requirements.txt").write_text(requirements, encoding="utf-8")
    model.signature = signature()
    model.add_flavor(FLAVOUR, data=DATA, version=__version__)
    pyfunc.add_to_model(model, loader_module=_LOADER, data=DATA)
    model.save(str(path / "MLmodel"))


def signature() -> ModelSignature:
    """Return what the model takes and returns as a function of frames."""
    parameters = [ParamSpec("k", "long", 5), ParamSpec("min_score", "double", 0.0)]
    columns = {"row": "long", "text": "string", "rank": "long", "label": "string", "score": "double"}
    return ModelSignature(
        inputs=Schema([ColSpec("string", "text")]),
        outputs=Schema([ColSpec(kind, name) for name, kind in columns.items()]),
        params=ParamSchema(parameters),
    )
