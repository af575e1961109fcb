"""The verb `demo`: train the default model on the bundled data, and show metrics and examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from laconic.cli.options import err, out
from laconic.cli.verb import command

if TYPE_CHECKING:
    from laconic.data.corpus import Corpus
    from laconic.evaluation.evaluate import Evaluation
    from laconic.methods.auto import Choice

verbs = typer.Typer()

DATA = "debian-related"
TEXTS = (
    "real-time strategy game",
    "Python bindings for a computer vision library",
    "web server written in Go",
    "LaTeX style for a thesis",
    "GNOME desktop calendar",
)
_BUDGET = 180.0  # seconds
_NEXT = f"""
Next, on this data or on yours (a CSV file with columns text and labels will do):

  laconic train {DATA} --out model    # the best model for this machine; --budget 5m limits the time
  laconic evaluate model {DATA}
  laconic predict model --text 'tool to edit photos'
"""


@command(verbs, group="Train and use", example="laconic demo")
def demo() -> None:
    """Train the default model on the bundled data and show what it predicts; takes a few minutes.

    The data are short descriptions of Debian packages; the labels of each are related packages. The model is the one
    that `laconic train` chooses for this machine within 3 minutes: several rankers, combined by a small network.
    """
    import torch  # noqa: F401 - where it is missing, the error names it

    from laconic.cli.data_tables import facts_tables
    from laconic.cli.progress import training_display
    from laconic.cli.tables import metrics_legend, metrics_table, predictions_table
    from laconic.data.catalogue import BUNDLED
    from laconic.data.describe import describe
    from laconic.data.sources import read
    from laconic.methods.auto import config_for
    from laconic.methods.first_kernels import remember_kernels
    from laconic.methods.registry import config_of
    from laconic.methods.train import train_model
    from laconic.predict.predictor import Predictor
    from laconic.storage.card import SHOWN
    from laconic.training.deadline import deadline_of
    from laconic.training.run import Run, device_named

    corpus = read(BUNDLED[DATA])
    for table in facts_tables(describe(corpus)):
        out.print(table)
    choice = _choice(corpus)
    out.print(f"\nTraining the default model: {choice.why}", style="bold")
    with training_display(err, is_announced=True) as watcher:
        deadline = deadline_of(choice.parts, _BUDGET)
        run = Run(None, watcher=watcher, device=device_named("auto"), deadline=deadline)
        trained = train_model(corpus, choice.method, config_for(choice, {})[1], run, choice.members)
    remember_kernels(choice.method, [stage.stage for stage in run.stages], gpu=run.device.type == "cuda")
    model = Predictor(trained)
    nearest = Predictor(train_model(corpus, "nearest", config_of("nearest", {}), Run.unkept()))
    evaluations = {
        "most frequent labels": _popularity(corpus),
        "nearest texts": nearest.evaluate(corpus, "test"),
        "default model": model.evaluate(corpus, "test"),
    }
    out.print(metrics_table(evaluations, f"{DATA}, test split"))
    out.print(metrics_legend(SHOWN, every=True))
    own_texts = dict(zip(corpus.labels.names, corpus.labels.texts or (), strict=False))
    for text, predictions in zip(TEXTS, model.predict(TEXTS, k=5), strict=True):
        out.print(predictions_table(text, predictions, own_texts))
    out.print(_NEXT, soft_wrap=True)


def _choice(corpus: Corpus) -> Choice:
    """Return the default model for this machine within the time of a demonstration."""
    from laconic.methods.auto import choose, describe_situation
    from laconic.training.run import device_named

    return choose(describe_situation(corpus, gpu=device_named("auto").type == "cuda", budget=_BUDGET))


def _popularity(corpus: Corpus) -> Evaluation:
    """Evaluate the baseline that answers every text with the most frequent labels."""
    import numpy as np
    import torch

    from laconic.data.dataset import label_counts
    from laconic.evaluation.evaluate import evaluate, truth_in_numbers_of
    from laconic.evaluation.metrics import TrainingCounts
    from laconic.types import Ranking

    train, test, names = corpus.split("train"), corpus.split("test"), corpus.labels.names
    popular = np.argsort(-label_counts(train.labels), kind="stable")[:30]
    labels = torch.from_numpy(np.tile(popular, (len(test), 1)))
    training = TrainingCounts.of(train.labels)
    truth = truth_in_numbers_of(names, names, test.labels, test.leave_out, training)
    return evaluate(Ranking(labels, torch.zeros(labels.shape)), truth)
