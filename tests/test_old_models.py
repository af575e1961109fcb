"""Models of every format that was ever published go on loading, and answer what they answered then.

python -m tests.test_old_models [METHOD ...]      writes the folders of this format; commit them once per format
"""

import json
import shutil
import sys
from pathlib import Path

import pytest

from laconic.methods.registry import METHODS, config_of
from laconic.methods.train import train_model
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import FORMAT, write_model
from laconic.training.run import Run
from tests.planted import planted_texts

FOLDER = Path(__file__).parent / "models"
_NARROW = {"epochs": 8, "embedding": 16, "length": 4, "batch_size": 16, "learning_rate": 0.02}
SMALL = {
    "trees": {"trees": 2, "fan_out": 2, "leaf": 2, "pairs": 1024},
    "inceptionxml": _NARROW,
    "inceptionxml+": {**_NARROW, "epochs": 24, "clusters": 2, "top": 1},
    "astec": {**_NARROW, "epochs": 24, "surrogate": {"count": 4}},
    "decaf": {**_NARROW, "epochs": 24, "learning_rate": 0.1, "clusters": 2, "beam": 1},
    "xml-cnn": {**_NARROW, "embedding": 8, "length": 1},  # its bottleneck is 512 numbers wide, whatever is read
    "mach": {**_NARROW, "members": 3, "buckets": 4},
}
TEXTS = ["w1 w2 w3", "nothing known", ""]


@pytest.mark.parametrize("folder", sorted(FOLDER.iterdir()), ids=lambda folder: folder.name)
def test_an_old_model_answers_what_it_answered(folder):
    expected = json.loads((folder / "expected.json").read_text())
    predictor = Predictor.open(folder / "model", device="cpu", verify=True)
    for text, predictions in zip(expected["texts"], predictor.predict(expected["texts"], k=4), strict=True):
        wanted = expected["predictions"][text]
        assert [label for label, _ in predictions] == [label for label, _ in wanted]
        assert [score for _, score in predictions] == pytest.approx([score for _, score in wanted], abs=1e-4)


def test_every_method_has_a_model_of_this_format():
    assert {folder.name for folder in FOLDER.iterdir()} >= {f"format-{FORMAT}-{method}" for method in METHODS}


def write(method: str) -> None:
    folder, corpus = FOLDER / f"format-{FORMAT}-{method}", planted_texts(num_labels=6, with_label_texts=True)
    shutil.rmtree(folder, ignore_errors=True)
    model = train_model(corpus, method, config_of(method, SMALL.get(method, {})), Run.unkept())
    write_model(model, folder / "model")
    texts = [*(corpus.split("test").texts or ())[:3], *TEXTS]
    predictions = dict(zip(texts, Predictor(model, "cpu").predict(texts, k=4), strict=True))
    (folder / "expected.json").write_text(json.dumps({"texts": texts, "predictions": predictions}, indent=1))


if __name__ == "__main__":
    for name in sys.argv[1:] or METHODS:
        write(name)
