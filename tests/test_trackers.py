"""Trackers of experiments are told of runs, and no training is lost by one that fails."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from laconic import Laconic
from laconic.cli.main import app
from laconic.errors import ConfigError
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.storage.manifest import files_of
from laconic.trackers.registry import trackers_named
from laconic.trackers.run import About, Status, Trackers, flat, metric_name
from laconic.training.loop import Silent
from laconic.training.run import Run, device_named
from tests.planted import planted_texts

CORPUS = planted_texts()
SMALL = {"epochs": 2, "embedding": 16, "encoder": "bag", "batch_size": 16}
TABLE = "text,labels\n" + "".join(f"red rose {number},flower\nblue sea {number},water\n" for number in range(10))


class Recorder:
    """A tracker that remembers what it was told, and fails where it is asked to."""

    name = "recorder"

    def __init__(self, failing: frozenset[str] = frozenset()) -> None:
        self.failing, self.told, self.earlier, self.id = failing, list[Any](), list[str | None](), "run-1"

    def start(self, about: About, earlier: str | None) -> Recorder:
        self.earlier.append(earlier)
        return self._tell("start", about) or self

    def log(self, series: str, metrics: Mapping[str, float], step: int) -> None:
        self._tell("log", (series, dict(metrics), step))

    def add_model(self, folder: Path) -> None:
        self._tell("model", folder)

    def end(self, status: Status) -> None:
        self._tell("end", status)

    def _tell(self, what: str, value: Any) -> None:
        if what in self.failing:
            raise ConnectionError("nobody is there")
        self.told.append((what, value))

    def all(self, what: str) -> list[Any]:
        return [value for kind, value in self.told if kind == what]


def trained(trackers: Trackers, folder: Path | None = None, **settings: Any) -> Any:
    run = Run(folder, watcher=Silent(), device=device_named("cpu"), seconds=0, trackers=trackers)
    with trackers:
        return train_model(CORPUS, "inceptionxml", config_of("inceptionxml", {**SMALL, **settings}), run)


# Any tracker


def test_a_tracker_gets_parameters_every_epoch_and_the_end() -> None:
    recorder = Recorder()
    trained(Trackers([recorder], "small", {"data_name": "planted"}))
    (about,) = recorder.all("start")
    assert about.title == "small"
    assert about.parameters["method"] == "inceptionxml"
    assert about.parameters["config.epochs"] == 2
    assert about.parameters["data_name"] == "planted"
    assert len(about.parameters["data"]) == 32  # a fingerprint
    assert [(series, step) for series, _, step in recorder.all("log")] == [("train", 1), ("train", 2)]
    assert {"loss", "validation P_at_1"} <= recorder.all("log")[0][1].keys()
    assert recorder.told[-1] == ("end", Status.FINISHED)


@pytest.mark.parametrize("failing", ["start", "log", "end"])
def test_a_tracker_that_fails_costs_a_warning_and_no_training(failing: str, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(frozenset({failing}))
    with caplog.at_level(logging.WARNING):
        assert trained(Trackers([recorder])).tensors
    told = [record.getMessage() for record in caplog.records if record.name == "laconic.trackers.run"]
    again = "recorder: ConnectionError: nobody is there; the work goes on, and this is sent again at its end"
    assert told == [again, "recorder: ConnectionError: nobody is there; the run is incomplete there"]


def test_what_a_tracker_missed_is_sent_at_the_end() -> None:
    recorder = Recorder(frozenset({"start"}))
    trackers = Trackers([recorder])
    with trackers:
        trackers.begin({"a": 1})
        trackers.log("train", {"loss": 0.5}, 1)
        recorder.failing = frozenset()  # the server is back
        trackers.log("train", {"loss": 0.25}, 2)
        assert recorder.told == []
    assert [kind for kind, _ in recorder.told] == ["start", "log", "log", "end"]


def test_one_thing_that_a_tracker_refuses_does_not_keep_the_others_back() -> None:
    recorder = Recorder(frozenset({"log"}))
    trackers = Trackers([recorder])
    with trackers:
        trackers.begin({})
        trackers.log("train", {"loss": 0.5}, 1)
        trackers.add_model(Path("model"))
    assert [kind for kind, _ in recorder.told] == ["start", "model", "end"]


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError, Status.FAILED), (KeyboardInterrupt, Status.KILLED), (SystemExit, Status.KILLED)]
)
def test_the_end_says_how_it_ended(error: type[BaseException], status: Status) -> None:
    recorder = Recorder()
    with pytest.raises(error), Trackers([recorder]) as trackers:
        trackers.begin({})
        raise error
    assert recorder.told[-1] == ("end", status)


def test_a_run_that_never_began_is_not_told_of() -> None:
    recorder = Recorder()
    with Trackers([recorder]) as trackers:
        trackers.log("train", {"loss": 1.0})
    assert recorder.told == []


def test_a_run_is_resumed_in_the_run_of_the_tracker(tmp_path: Path) -> None:
    recorder = Recorder()
    trained(Trackers([recorder]), tmp_path)
    trained(Trackers([recorder]), tmp_path)
    (tmp_path / "trackers.json").write_text("{")  # damaged
    trained(Trackers([recorder]), tmp_path)
    assert recorder.earlier == [None, "run-1", None]
    for file in tmp_path.glob("*.safetensors"):
        file.unlink()
    trained(Trackers([recorder]), tmp_path, epochs=1)  # another run
    assert recorder.earlier[-1] is None


def test_numbers_that_are_none_are_left_out() -> None:
    recorder = Recorder()
    with Trackers([recorder]) as trackers:
        trackers.begin({})
        trackers.log("test", {"P@1": float("nan"), "near P@5": 1.0})
        trackers.log("test", {"P@1": float("inf")})
    assert recorder.all("log") == [("test", {"near P_at_5": 1.0}, 0)]


def test_names_are_those_that_every_tracker_takes() -> None:
    assert metric_name("P@5") == "P_at_5"
    assert metric_name("member-0.train") == "member-0.train"
    assert metric_name("F1 (é)%") == "F1 ____"
    assert flat({"a": {"b": {"c": 1}}, "d": [1]}) == {"a.b.c": 1, "d": [1]}


def test_an_unknown_tracker_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no tracker 'comet'; known are mlflow and wandb"):
        trackers_named("comet:project")
    assert trackers_named(None).ids == {}


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_tracker_that_is_not_installed_names_the_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=rf"needs {name}, .* pip install '.\[{name}\]'"):
        trackers_named([name])


# MLflow


def runs_of(mlflow: Any, experiment: str) -> list[Any]:
    client = mlflow.MlflowClient()
    found = client.get_experiment_by_name(experiment)
    return client.search_runs([found.experiment_id], order_by=["attribute.start_time"])


def invoked(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_training_evaluating_and_updating_are_runs_of_mlflow(mlflow: Any, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(TABLE)
    folder = tmp_path / "model"
    track = ("--track", "mlflow:shop")
    train = ("train", tmp_path / "data.csv", "--method", "nearest", "--out", folder, *track)
    assert invoked(*train).exit_code == 0
    (run,) = runs_of(mlflow, "shop")
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "model"
    assert run.data.params["method"] == "nearest"
    assert run.data.params["config.neighbours"] == "100"
    assert 0 <= run.data.metrics["held-out/P_at_1"] <= 100
    assert json.loads((folder / "model.json").read_text())["trackers"] == {"mlflow": run.info.run_id}
    stored = mlflow.artifacts.download_artifacts(f"runs:/{run.info.run_id}/model/laconic-model")
    assert sorted(files_of(Path(stored))) == sorted(files_of(folder))
    assert invoked(*train).exit_code == 0  # it is trained already, so there is no other run
    assert len(runs_of(mlflow, "shop")) == 1
    assert invoked("evaluate", folder, tmp_path / "data.csv", *track).exit_code == 0
    evaluated = runs_of(mlflow, "shop")[-1]
    assert evaluated.info.run_name == "model on data.csv"
    assert evaluated.data.metrics["held-out/P_at_1"] == run.data.metrics["held-out/P_at_1"]
    assert invoked("update", folder, tmp_path / "data.csv", "--epochs", "1", *track).exit_code == 0
    assert runs_of(mlflow, "shop")[-1].info.run_name == "model updated"


@pytest.mark.filterwarnings("ignore")
def test_epochs_are_steps_of_mlflow_also_when_the_run_is_resumed(mlflow: Any, tmp_path: Path) -> None:
    for _ in range(2):
        trackers = trackers_named("mlflow:epochs")
        trained(trackers, tmp_path / "run")
    (run,) = runs_of(mlflow, "epochs")
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "train/loss")
    assert [metric.step for metric in history] == [1, 2]
    assert run.info.status == "FINISHED"


@pytest.mark.filterwarnings("ignore")
def test_fit_joins_the_active_run_of_mlflow(mlflow: Any) -> None:
    with mlflow.start_run() as active:
        Laconic("nearest", track="mlflow").fit(["red rose", "blue sea"], ["flower", "water"])
        assert mlflow.active_run() is not None
    run = mlflow.MlflowClient().get_run(active.info.run_id)
    assert run.data.params["method"] == "nearest"
    assert len(runs_of(mlflow, "Default")) == 1


@pytest.mark.filterwarnings("ignore")
def test_a_server_of_mlflow_that_is_away_loses_no_training(
    mlflow: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mlflow.set_tracking_uri("http://127.0.0.1:9")
    (tmp_path / "data.csv").write_text(TABLE)
    done = invoked("train", tmp_path / "data.csv", "--method", "nearest", "--out", tmp_path / "m", "--track", "mlflow")
    assert done.exit_code == 0
    assert Laconic.load(tmp_path / "m").predict("a rose", k=1)[0].label == "flower"
    assert [record.getMessage()[:8] for record in caplog.records if "trackers" in record.name] == ["mlflow: "] * 2


def test_addresses_that_mlflow_prints_are_no_results(mlflow: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from laconic.trackers.mlflow import MLflowRun

    client = SimpleNamespace(
        set_terminated=lambda identifier, status: sys.stdout.write(f"View run {identifier} {status}\n")
    )
    MLflowRun(client, "one", own=True).end(Status.FINISHED)
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "View run one FINISHED\n")


# Weights & Biases


@pytest.mark.filterwarnings("ignore")
def test_training_is_an_offline_run_of_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    for name, value in {"MODE": "offline", "DIR": tmp_path, "DATA_DIR": tmp_path, "SILENT": "true"}.items():
        monkeypatch.setenv(f"WANDB_{name}", str(value))
    (tmp_path / "data.csv").write_text(TABLE)
    folder = tmp_path / "my model"
    done = invoked("train", tmp_path / "data.csv", "--method", "nearest", "--out", folder, "--track", "wandb:shop")
    assert done.exit_code == 0, done.output
    identifier = json.loads((folder / "model.json").read_text())["trackers"]["wandb"]
    (written,) = tmp_path.glob(f"wandb/offline-run-*-{identifier}/run-{identifier}.wandb")
    content = written.read_bytes()
    assert all(word in content for word in (b"held-out/P_at_1", b"config.neighbours", b"my-model", b"labels.txt"))
