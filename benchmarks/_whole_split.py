"""Every test text answered by the model itself, by `Laconic.predict` and by `laconic predict`: how far they agree."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from jaxtyping import Int

from laconic.data.corpus import Corpus
from laconic.estimator import Laconic
from laconic.evaluation.dataset_view import DatasetView
from laconic.evaluation.evaluate import Truth, places_needed, rank_all
from laconic.evaluation.metrics import judge, report
from laconic.methods.restore import restore_ranker
from laconic.storage.model_folder import read_model
from laconic.training.run import device_named
from laconic.types import NO_LABEL

_BEST = 5


def agreement(folder: Path, corpus: Corpus) -> dict[str, Any]:
    """The folder is a model's, which was packed; it is the latter that answers texts."""
    saved, texts = read_model(folder), list(corpus.split("test").texts or ())
    rows, truth = DatasetView.of(saved).rows_and_truth(corpus, "test")
    places = places_needed(truth, (_BEST,))
    wanted = rank_all(restore_ranker(saved, device_named("cpu")), rows, places).labels.numpy()
    answers = {
        "Laconic.predict": _by_estimator(folder, texts, places),
        "laconic predict": _by_command(folder, texts, places),
    }
    found = {way: _numbered(named, saved.labels.names, places) for way, named in answers.items()}
    same = np.equal(*found.values()).all(1)
    return {
        "method": saved.facts["method"],
        "texts": len(texts),
        "P@5": _precision(wanted, truth),
        **{way: {"found": _found(wanted, labels), "P@5": _precision(labels, truth)} for way, labels in found.items()},
        "texts_answered_alike_by_both": round(100 * float(same.mean()), 3),
    }


def _by_estimator(folder: Path, texts: Sequence[str], places: int) -> list[list[str]]:
    answers = Laconic.load(folder, device="cpu").predict(texts, k=places)
    return [[label for label, _ in answer] for answer in answers]


def _by_command(folder: Path, texts: Sequence[str], places: int) -> list[list[str]]:
    with TemporaryDirectory(prefix="laconic-") as scratch:
        asked, told = (Path(scratch) / name for name in ("asked.jsonl", "told.jsonl"))
        asked.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        command = [sys.executable, "-m", "laconic", "predict", str(folder), str(asked), "--out", str(told)]
        subprocess.run([*command, "-k", str(places), "--device", "cpu"], check=True)
        with told.open(encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines]
    return [[one["label"] for one in record["predictions"]] for record in records]


def _numbered(answers: Iterable[Sequence[str]], names: Sequence[str], places: int) -> Int[np.ndarray, "texts k"]:
    number = {name: label for label, name in enumerate(names)}
    rows = [[number[name] for name in answer] for answer in answers]
    return np.array([row + [NO_LABEL] * (places - len(row)) for row in rows], dtype=np.int64)


def _found(wanted: Int[np.ndarray, "texts k"], labels: Int[np.ndarray, "texts k"]) -> float:
    """Of the model's best five, in percent."""
    shared = (wanted[:, :_BEST, None] == labels[:, None, :_BEST]).any(2)
    return round(100 * float(shared[wanted[:, :_BEST] != NO_LABEL].mean()), 3)


def _precision(labels: Int[np.ndarray, "texts k"], truth: Truth) -> float:
    return round(report(judge(labels, truth.labels, leave_out=truth.leave_out), ks=(_BEST,))["P@5"], 3)
