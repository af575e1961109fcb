"""PECOS's XR-Linear with its own tf-idf of words, from raw text; for a Python that has libpecos.

It is timed as it comes, and at its quickest: loaded for nothing but prediction, one thread told to both its halves.
Reads FOLDER/job.json (training texts, texts to be answered, how many of them singly, label names) and
FOLDER/labels.npz; writes FOLDER/scores.npz, the best labels of every text, and prints its figures.

    PYTHON benchmarks/_pecos.py FOLDER
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from pecos.utils.featurization.text.vectorizers import Vectorizer
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel
from scipy.sparse import csr_matrix, load_npz, save_npz

WARM_UP = 200
KEPT = 20  # labels of a text that are judged
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # how it is loaded, how it is asked
    "as_it_comes": ({}, {}),
    "quickest": ({"is_predict_only": True}, {"threads": 1}),
}


def main() -> None:
    folder = Path(sys.argv[1])
    job = json.loads((folder / "job.json").read_text())
    started = perf_counter()
    vectoriser = Vectorizer.train(job["train"])
    labels = csr_matrix(load_npz(folder / "labels.npz"), dtype=np.float32)
    features = vectoriser.predict(job["train"])
    clusters = Indexer.gen(LabelEmbeddingFactory.create(labels, features))
    model = XLinearModel.train(features, labels, C=clusters)
    figures: dict[str, Any] = {"seconds_of_training": round(perf_counter() - started, 1)}
    model.save(str(folder / "model"))
    save_npz(folder / "scores.npz", model.predict(vectoriser.predict(job["texts"]), only_topk=KEPT))
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for way, (loaded, asked) in WAYS.items():
        model = XLinearModel.load(str(folder / "model"), **loaded)
        figures[way] = _timed(vectoriser, model, job, asked)
    print(json.dumps(figures))


def _timed(vectoriser: Vectorizer, model: XLinearModel, job: dict[str, Any], asked: dict[str, Any]) -> dict[str, float]:
    """Milliseconds from a text to names."""
    count, whole, vectors = WARM_UP + job["singly"], [], []
    for number in range(count):
        text = job["texts"][number % len(job["texts"])]
        started = perf_counter()
        features = vectoriser.predict([text], **asked)
        vectors.append(1000 * (perf_counter() - started))
        found = model.predict(features, only_topk=5, **asked)
        [(job["names"][label], score) for label, score in zip(found.indices, found.data, strict=True)]
        whole.append(1000 * (perf_counter() - started))
    figures = {
        "p50_ms": np.percentile(whole[WARM_UP:], 50),
        "p99_ms": np.percentile(whole[WARM_UP:], 99),
        "p50_ms_of_its_vectoriser": np.percentile(vectors[WARM_UP:], 50),
    }
    return {name: round(float(value), 3) for name, value in figures.items()}


if __name__ == "__main__":
    main()
