"""Train Astec on dense features, such as those of an image model, given as an array with label names.

The features here are made up: every label is a direction, and an image is near the directions of its labels.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from laconic.config import configure
from laconic.data.sources import read
from laconic.methods.registry import METHODS
from laconic.methods.train import train_model
from laconic.predict.predictor import Predictor
from laconic.training.run import Run

LABELS, IMAGES, WIDTH = 40, 800, 32
SETTINGS = {
    "encoder": "dense",
    "embedding": 48,
    "dropout": 0.2,
    "learning_rate": 0.01,
    "prior": True,
    "surrogate": {"count": 16, "epochs": 8},
    "extreme": {"epochs": 6, "learning_rate": 0.01, "random": 10},
    "shortlist": {"size": 20, "centroids": 20, "neighbours": 10},
}

chance = np.random.default_rng(1)
directions = chance.normal(size=(LABELS, WIDTH))
truth = [sorted(chance.choice(LABELS, size=2, replace=False)) for _ in range(IMAGES)]
features = np.stack([directions[labels].sum(0) for labels in truth]) + 0.3 * chance.normal(size=(IMAGES, WIDTH))

with TemporaryDirectory() as name:
    folder = Path(name)
    for split, rows in {"train": slice(0, 700), "test": slice(700, IMAGES)}.items():
        np.save(folder / f"{split}_features.npy", features[rows].astype(np.float32))
        lines = ["{" + f'"labels": ["thing {a}", "thing {b}"]' + "}" for a, b in truth[rows]]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    corpus = read(str(folder))

model = train_model(corpus, "astec", configure(METHODS["astec"].config, SETTINGS), Run.unkept())
predictor = Predictor(model, "cpu")
print({name: round(predictor.evaluate(corpus, "test").metrics[name], 1) for name in ("P@1", "P@3", "PSP@3")})
