"""Models of MLflow are model folders, and answer as these do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlflow")
pytest.importorskip("pandas")

import pandas
from mlflow import pyfunc

import laconic.mlflow
from laconic import Laconic
from laconic.errors import ModelError
from laconic.storage.manifest import files_of

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own
TEXTS = ["red rose", "white rose", "blue sea", "deep sea"]


@pytest.fixture(scope="module")
def model() -> Laconic:
    return Laconic("nearest").fit(TEXTS, ["flower", "flower", "water", "water"])


@pytest.fixture
def saved(model: Laconic, tmp_path: Path) -> str:
    laconic.mlflow.save_model(model, tmp_path / "saved")
    return str(tmp_path / "saved")


def test_a_logged_model_answers_as_it_did(mlflow: Any, model: Laconic) -> None:
    with mlflow.start_run() as run:
        logged = laconic.mlflow.log_model(model)
    for address in (logged.model_uri, f"runs:/{run.info.run_id}/model"):
        assert laconic.mlflow.load_model(address).predict(TEXTS) == model.predict(TEXTS)


def test_a_model_is_registered_and_loaded_by_its_name(mlflow: Any, model: Laconic, tmp_path: Path) -> None:
    mlflow.set_registry_uri((tmp_path / "registry").as_uri())
    try:
        with mlflow.start_run():
            laconic.mlflow.log_model(model, registered_model_name="flowers")
        assert laconic.mlflow.load_model("models:/flowers/1").predict("a rose") == model.predict("a rose")
    finally:
        mlflow.set_registry_uri(None)


def test_a_function_of_frames_returns_a_frame(saved: str, model: Laconic) -> None:
    function = pyfunc.load_model(saved)
    frame = pandas.DataFrame({"text": TEXTS}, index=[3, 5, 7, 9])
    found = function.predict(frame, params={"k": 1})
    assert list(found.columns) == ["row", "text", "rank", "label", "score"]
    assert found.equals(model.predict(frame, k=1, as_frame=True))
    assert found["row"].tolist() == [3, 5, 7, 9]
    assert len(function.predict(frame)) == 8  # both labels
    assert function.predict(frame, params={"min_score": 2.0}).empty
    assert function.predict(frame.iloc[:0]).empty


def test_a_function_refuses_what_is_no_text(saved: str) -> None:
    function = pyfunc.load_model(saved)
    with pytest.raises(Exception, match="missing inputs"):
        function.predict(pandas.DataFrame({"title": ["a rose"]}))
    with pytest.raises(Exception, match=r"texts\[0\] is None"):
        function.predict(pandas.DataFrame({"text": [None]}))


def test_a_model_of_mlflow_has_the_files_of_a_model_folder_and_no_pickles(saved: str, model: Laconic) -> None:
    names = {str(path.relative_to(saved)) for path in Path(saved).rglob("*") if path.is_file()}
    inside = {f"laconic-model/{name}" for name in files_of(Path(saved) / "laconic-model")}
    assert names == inside | {"MLmodel", "requirements.txt"}
    assert not [name for name in names if name.endswith((".pkl", ".pickle", ".bin", ".pt"))]


def test_a_model_folder_is_saved_as_it_is(model: Laconic, tmp_path: Path) -> None:
    model.save(tmp_path / "folder")
    laconic.mlflow.save_model(tmp_path / "folder", tmp_path / "saved")
    with pytest.raises(ModelError, match="already exists; choose another name"):
        laconic.mlflow.save_model(tmp_path / "folder", tmp_path / "saved")
    with pytest.raises(ModelError, match="there is no such model folder"):
        laconic.mlflow.save_model(tmp_path / "nowhere", tmp_path / "other")


def test_a_damaged_model_and_one_of_another_flavour_are_refused(saved: str) -> None:
    described = Path(saved) / "MLmodel"
    labels = Path(saved) / "laconic-model" / "labels.txt"
    labels.write_bytes(labels.read_bytes().swapcase())
    with pytest.raises(ModelError, match="a hash differs"):
        laconic.mlflow.load_model(saved)
    described.write_text(described.read_text().replace("  laconic:", "  other:"))
    with pytest.raises(ModelError, match="this is no model of laconic; its flavours are: other, python_function"):
        laconic.mlflow.load_model(saved)
