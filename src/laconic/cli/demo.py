"""The verb `demo`: describe the bundled data, train a model on it, and show metrics and examples."""

from __future__ import annotations

import numpy as np
import torch
from rich.console import Console

from laconic.cli.tables import facts_tables, metrics_table, predictions_table, training_display
from laconic.config import preset_path, read_settings
from laconic.data.catalogue import BUNDLED
from laconic.data.corpus import Corpus
from laconic.data.dataset import label_counts
from laconic.data.describe import describe
from laconic.data.sources import read
from laconic.evaluation.evaluate import Evaluation, evaluate, truth_in_numbers_of
from laconic.evaluation.metrics import TrainingCounts
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.predict.predictor import Predictor
from laconic.training.run import Run, device_named
from laconic.types import Ranking

DATA = "debian-related"
TEXTS = (
    "real-time strategy game",
    "Python bindings for a computer vision library",
    "web server written in Go",
    "LaTeX style for a thesis",
    "GNOME desktop calendar",
)


def run(console: Console) -> None:
    corpus = read(BUNDLED[DATA])
    for table in facts_tables(describe(corpus)):
        console.print(table)
    nearest = Predictor(train_model(corpus, "nearest", config_of("nearest", {}), Run.unkept()))
    console.print("\nTraining a small InceptionXML:", style="bold")
    with training_display(console) as watcher:
        run = Run(None, watcher=watcher, device=device_named("auto"))
        settings = read_settings(preset_path("inceptionxml", "laptop"), [])
        model = Predictor(train_model(corpus, "inceptionxml", config_of("inceptionxml", settings), run))
    evaluations = {
        "popularity": _popularity(corpus),
        "nearest": nearest.evaluate(corpus, "test"),
        "inceptionxml": model.evaluate(corpus, "test"),
    }
    console.print(metrics_table(evaluations, f"{DATA}, test split"))
    own_texts = dict(zip(corpus.labels.names, corpus.labels.texts or (), strict=False))
    for text, predictions in zip(TEXTS, model.predict(TEXTS, k=5), strict=True):
        console.print(predictions_table(text, predictions, own_texts))
    console.print("\nNext, on this data or on yours (a CSV with columns text and labels will do):\n", style="bold")
    console.print(f"  laconic train {DATA} --out model    # what suits this machine; --budget 5m: in that time")
    console.print(f"  laconic evaluate model {DATA}")
    console.print("  echo 'tool to edit photos' | laconic predict model -k 5", markup=False)


def _popularity(corpus: Corpus) -> Evaluation:
    """Evaluate the baseline that answers every text with the most frequent labels."""
    train, test, names = corpus.split("train"), corpus.split("test"), corpus.labels.names
    popular = np.argsort(-label_counts(train.labels), kind="stable")[:30]
    labels = torch.from_numpy(np.tile(popular, (len(test), 1)))
    training = TrainingCounts.of(train.labels)
    truth = truth_in_numbers_of(names, names, test.labels, test.leave_out, training)
    return evaluate(Ranking(labels, torch.zeros(labels.shape)), truth)
