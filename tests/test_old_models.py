"""Models of every format that was ever published go on loading, and answer what they answered then.

python -m tests.test_old_models [NAME ...]      writes the folders of this format; commit them once per format
"""

import json
import shutil
import sys
from pathlib import Path

import pytest

from laconic.export.pack import pack
from laconic.methods.registry import METHODS, config_of
from laconic.methods.train import train_model
from laconic.packed import folder as packed_folder
from laconic.predict.packed_predictor import PackedPredictor
from laconic.predict.prediction import Prediction
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import FORMAT, write_model
from laconic.training.run import Run
from tests.planted import planted_texts

FOLDER = Path(__file__).parent / "models"
_NARROW = {"epochs": 8, "embedding": 16, "length": 4, "batch_size": 16, "learning_rate": 0.02}
SMALL = {
    "trees": {"trees": 2, "fan_out": 2, "leaf": 2, "pairs": 1024},
    "siamese": {**_NARROW, "grams": 256, "validation": 0.0},
    "inceptionxml": _NARROW,
    "inceptionxml+": {**_NARROW, "epochs": 24, "clusters": 2, "top": 1},
    "astec": {**_NARROW, "epochs": 24, "surrogate": {"count": 4}},
    "decaf": {**_NARROW, "epochs": 24, "learning_rate": 0.1, "clusters": 2, "beam": 1},
    "xml-cnn": {**_NARROW, "embedding": 8, "length": 1},  # its bottleneck is 512 numbers wide, whatever is read
    "mach": {**_NARROW, "members": 3, "buckets": 4},
}
FUSED = {**_NARROW, "encoder": "bag", "validation": 0.2, "fusion": {"width": 4, "hidden": 8, "epochs": 10}}
# Beside one model of every method: the name of a folder, the method, its settings.
OTHERS = {
    "fused": ("inceptionxml+", {**FUSED, "epochs": 24, "clusters": 2, "top": 1}),
    "combined": ("inceptionxml", {**FUSED, "fusion": {**FUSED["fusion"], "siamese": 8, "rare": 0.8, "trees": 1}}),
}
WITH_TREES = ("trees", "fused", "combined")  # whose weights in float32 are read as bytes today
TEXTS = ["w1 w2 w3", "nothing known", ""]


@pytest.mark.parametrize("folder", sorted(FOLDER.iterdir()), ids=lambda folder: folder.name)
def test_an_old_model_answers_what_it_answered(folder):
    expected = json.loads((folder / "expected.json").read_text())
    is_packed = (folder / "packed").exists()
    within = 5e-3 if folder.name.endswith(WITH_TREES) else 1e-4
    predictor = PackedPredictor.open(folder / "packed", verify=True) if is_packed else plain(folder / "model")
    for text, predictions in zip(expected["texts"], predictor.predict(expected["texts"], k=4), strict=True):
        wanted = expected["predictions"][text]
        assert [label for label, _ in predictions] == [label for label, _ in wanted]
        assert [score for _, score in predictions] == pytest.approx([score for _, score in wanted], abs=within)


def plain(folder: Path) -> Predictor:
    return Predictor.open(folder, device="cpu", verify=True)


def test_every_method_and_every_kind_of_folder_has_a_model_of_this_format():
    names = {folder.name for folder in FOLDER.iterdir()}
    assert names >= {f"format-{FORMAT}-{name}" for name in [*METHODS, *OTHERS]}
    assert names >= {f"packed-format-{packed_folder.FORMAT}-{name}" for name in OTHERS}


def write(name: str) -> None:
    """Write the model of a name, and what was packed of it if it is none of a method alone."""
    method, settings = OTHERS.get(name, (name, SMALL.get(name, {})))
    corpus = planted_texts(num_labels=6, with_label_texts=True)
    model = train_model(corpus, method, config_of(method, settings), Run.unkept("cpu"))
    texts = [*(corpus.split("test").texts or ())[:3], *TEXTS]
    folder = emptied(FOLDER / f"format-{FORMAT}-{name}")
    write_model(model, folder / "model")
    write_expected(folder, texts, Predictor(model, "cpu").predict(texts, k=4))
    if name in OTHERS:
        folder = emptied(FOLDER / f"packed-format-{packed_folder.FORMAT}-{name}")
        packed_folder.write_packed(pack(model, corpus), folder / "packed")
        write_expected(folder, texts, PackedPredictor.open(folder / "packed").predict(texts, k=4))


def emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def write_expected(folder: Path, texts: list[str], answers: list[list[Prediction]]) -> None:
    predictions = dict(zip(texts, answers, strict=True))
    (folder / "expected.json").write_text(json.dumps({"texts": texts, "predictions": predictions}, indent=1))


if __name__ == "__main__":
    for one in sys.argv[1:] or [*METHODS, *OTHERS]:
        write(one)
