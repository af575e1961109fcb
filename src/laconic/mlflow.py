"""The flavour of MLflow: models in its registry, loaded as `Laconic` or as a function of frames.

    import laconic.mlflow

    with mlflow.start_run():
        model = Laconic("trees", track="mlflow").fit(texts, labels)
        logged = laconic.mlflow.log_model(model, registered_model_name="titles")
    laconic.mlflow.load_model(logged.model_uri).predict("a title")
    mlflow.pyfunc.load_model(logged.model_uri).predict(frame, params={"k": 3})

A model of MLflow has the files of a model folder. They hold no code and no pickles.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from laconic.errors import ModelError, missing_package

try:
    from mlflow.artifacts import download_artifacts
    from mlflow.models import Model
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(missing_package("laconic.mlflow", error) or str(error), name=error.name) from None

from laconic.data.formats.memory import texts_in_memory
from laconic.estimator.frames import frame_like, prediction_columns
from laconic.predict.interface import TextPredictor
from laconic.predict.load import open_model
from laconic.predict.min_score import reaching
from laconic.trackers import mlflow as store

if TYPE_CHECKING:
    from laconic.estimator import Laconic

__all__ = ["LaconicFunction", "load_model", "log_model", "save_model"]


def log_model(model: Laconic | Path | str, name: str = store.MODEL_NAME, **options: Any) -> Any:
    """Store a model in the active run of MLflow, or in a new one.

    Args:
        model: A fitted estimator, or a model folder.
        name: Name of the model in the run.
        **options: Options of MLflow's own `log_model`, such as `registered_model_name`, `run_id`, `tags`, `metadata`.

    Returns:
        What MLflow says of the model; `model_uri` is its address.
    """
    with _folder_of(model) as folder:
        return store.log_folder(folder, name=name, **options)


def save_model(model: Laconic | Path | str, path: Path | str, mlflow_model: Model | None = None) -> None:
    """Write a model in MLflow's form into a new folder.

    Args:
        model: A fitted estimator, or a model folder.
        path: The folder to write.
        mlflow_model: What MLflow records of the model, if it is there already.
    """
    if Path(path).exists():
        raise ModelError(f"{path}: already exists; choose another name or remove it")
    with _folder_of(model) as folder:
        store.save_model(path, folder, mlflow_model)


def load_model(model_uri: str, dst_path: str | None = None, *, device: str = "auto") -> Laconic:
    """Load a model of MLflow as an estimator, after checking all of its files.

    Args:
        model_uri: Its address, such as "models:/titles/1", "runs:/ID/model" or a folder.
        dst_path: Folder to copy it to; None means a temporary one.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.

    Returns:
        A fitted estimator.
    """
    from laconic.estimator import Laconic

    folder = Path(download_artifacts(artifact_uri=model_uri, dst_path=dst_path))
    flavours = Model.load(str(folder)).flavors
    if store.FLAVOUR not in flavours:
        raise ModelError(f"{model_uri}: this is no model of laconic; its flavours are: {', '.join(flavours)}")
    return Laconic.load(folder / store.DATA, device=device)


class LaconicFunction:
    """A model as a function of frames, which `mlflow.pyfunc.load_model` wraps."""

    def __init__(self, predictor: TextPredictor) -> None:
        self.predictor = predictor

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Return a frame with a row for each text and label: `row`, `text`, `rank`, `label`, `score`.

        Args:
            model_input: A frame with a column `text`, or texts.
            params: `k`, labels per text (5), and `min_score`, the lowest score of a label (0).

        Returns:
            A pandas DataFrame; `row` is the index of the text in `model_input`.
        """
        wanted = {"k": 5, "min_score": 0.0} | (params or {})
        texts = texts_in_memory([model_input] if isinstance(model_input, str) else model_input)
        answers = self.predictor.predict(texts, int(wanted["k"])) if texts else []
        lowest = float(wanted["min_score"])
        kept = [reaching(answer, lowest, None) for answer in answers] if lowest else answers
        return frame_like(texts, prediction_columns(model_input, texts, kept))


def _load_pyfunc(path: str) -> LaconicFunction:
    """Open the model of a folder, as MLflow asks for it; packed models need no torch."""
    return LaconicFunction(open_model(Path(path)))


@contextmanager
def _folder_of(model: Laconic | Path | str) -> Iterator[Path]:
    """Yield the folder of a model, which is temporary for an estimator."""
    if isinstance(model, Path | str):
        yield Path(model)
        return
    with TemporaryDirectory() as place:
        model.save(folder := Path(place) / store.MODEL_NAME)
        yield folder
