"""What label texts are worth as a start: of an encoder, warmed up by contrast with them, and of the label rows.

The texts that decide are cut off the training split; the test split is not looked at. Besides, "siamese shortlist" is
Astec whose shortlists are the labels that siamese finds; and, as a prototype, "text in rows" is InceptionXML with rows
that are a free vector plus a linear map of the mean vector of the words of the label's text.

    python -m benchmarks.label_starts --data debian-related npm-names-deps
    python -m benchmarks.label_starts --data debian-related --device cpu --preset laptop --rows 2000 --at-once 1
"""

from __future__ import annotations

import argparse
from functools import partial
from shutil import which
from time import perf_counter
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor, nn

from benchmarks._trainings import METRICS, Figures, Job, evaluated, show_rows, side_by_side
from benchmarks.combined_choices import cut
from benchmarks.common import data_folder
from benchmarks.label_text_quality import BASES, HELD, base
from laconic.config import configure, merged, preset_path, read_settings
from laconic.data.dataset import Dataset
from laconic.data.vocabulary import bags
from laconic.methods import inceptionxml, siamese
from laconic.methods.common import train_and_refit, usual_length
from laconic.methods.flat import fit_flat, flat_training, with_sizes
from laconic.methods.registry import ensemble_of
from laconic.methods.result import Trained
from laconic.models.classifiers.base import Classifier
from laconic.models.classifiers.label_text import Texts
from laconic.models.classifiers.linear import LinearClassifier
from laconic.models.encoders import Encoder, WordEncoder
from laconic.training.run import Run

METHODS = ("inceptionxml", "astec", "decaf")
IN_ROWS = "text in rows"
_SHOWN = ("P@1", "P@5", "PSP@5", "tail R@10", "training seconds")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", default=["debian-related", "npm-names-deps"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--warm-up", type=int, nargs="+", default=[0, 5, 15], help="epochs by contrast; 0: none")
    parser.add_argument("--row-start", type=float, nargs="+", default=[0.0, 2.0, 8.0], help="0: rows start at random")
    parser.add_argument("--set", action="append", default=[], help="a setting of all trainings")
    parser.add_argument("--preset", default="", help="of every method instead of the settings chosen for the data")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--only", default="", help="trainings with this in their names")
    parser.add_argument("--again", action="store_true", help="also what is among the results already")
    parser.add_argument("--rows", type=int, default=0, help="so many training texts, to see that it runs")
    options = parser.parse_args()
    if options.device == "cuda" and not which("nvidia-smi"):  # asking torch would spoil the processes to come
        print("no GPU here, left out")
        return
    there = [name for name in options.data if data_folder(name) is not None]
    jobs = [job for name in there for seed in options.seeds for job in jobs_of(name, seed, options)]
    for name in there:
        cut(name, options.rows)  # read once, before processes part
    named = "label_starts_tried" if options.rows else "label_starts"
    found = side_by_side(
        [job for job in jobs if options.only in job.name],
        Training(options.device, options.rows),
        named,
        options.at_once,
        again=options.again,
    )
    for name in there:
        show_rows(name, found.get(name, {}), _SHOWN)


def jobs_of(name: str, seed: int, options: Any) -> list[Job]:
    own = read_settings(None, options.set)
    suffix = "".join(f", {one}" for one in options.set)
    found = []
    for method in options.methods:
        settings = merged(settings_of(name, method, options.preset), own)
        for epochs in options.warm_up:
            for score in options.row_start if method != "decaf" else [0.0]:  # DECAF's rows always start from texts
                way = {"warm_up": {"epochs": epochs}} | ({"row_start": score} if method != "decaf" else {})
                called = f"{method}, warm_up={epochs}, row_start={score:g}{suffix}"
                found.append(Job(name, called, seed, merged(settings, way), method))
        if method == "inceptionxml":
            found.append(Job(name, f"{method}, {IN_ROWS}{suffix}", seed, settings, method, looks=(IN_ROWS,)))
        if method == "astec":
            listing = merged(settings, {"shortlister": "siamese", "embedding": siamese.Config().embedding})
            found.append(Job(name, f"{method}, siamese shortlist{suffix}", seed, listing, method))
    return found


def settings_of(name: str, method: str, preset: str) -> dict[str, Any]:
    """Return the settings chosen for the data, where they were; a validation split chooses the epoch everywhere."""
    if preset:
        return read_settings(preset_path(method, preset), []) | {"validation": 0.05}
    return base(name, method, "") if name in HELD and (method in BASES or method == "decaf") else {"validation": 0.05}


class Training:
    """What is done with a job, in a process of its own."""

    def __init__(self, device: str, rows: int) -> None:
        self.device, self.rows = device, rows

    def __call__(self, job: Job) -> Figures:
        have, run = cut(job.data, self.rows), Run.unkept(self.device)
        method = ensemble_of(job.method, 1, over=job.settings)
        config: Any = configure(method.config, {"seed": job.seed} | job.settings)
        train = train_with_text_in_rows if job.looks else method.train
        started = perf_counter()
        ranker = train(have.prepared.data, config, run).ranker.to(run.device)
        seconds = perf_counter() - started
        metrics = evaluated(ranker, have).metrics
        found = {name: metrics[name] for name in METRICS if name in metrics}
        return found | {"training seconds": round(seconds, 1)}


class TextRows(Classifier):
    """A free row for every label, plus a linear map of the mean vector of the words of its text."""

    def __init__(self, linear: LinearClassifier, texts: csr_array, table: nn.Embedding) -> None:
        super().__init__()
        self.num_labels, self.transform = linear.num_labels, linear.transform
        self.weight, self.bias = linear.weight, linear.bias
        counts = np.maximum(np.diff(texts.indptr), 1)
        mean = csr_array((1 / np.repeat(counts, np.diff(texts.indptr)), texts.indices, texts.indptr), texts.shape)
        self.texts = Texts(mean.astype(np.float32), table)
        self.map = nn.Linear(table.embedding_dim, linear.weight.shape[1], bias=False)
        nn.init.zeros_(self.map.weight)  # rows start as without texts

    def rows(self, labels: Int[Tensor, "n"] | slice) -> Float[Tensor, "n dim"]:
        every = self.weight + self.map(self.texts())
        return every if labels == slice(0, self.num_labels) else every[labels]

    def biases(self, labels: Int[Tensor, "n"] | slice) -> Float[Tensor, "n"]:
        assert self.bias is not None
        return self.bias if labels == slice(0, self.num_labels) else self.bias[labels]


def train_with_text_in_rows(data: Dataset, config: inceptionxml.Config, run: Run) -> Trained:
    """Train InceptionXML with text in its rows."""
    config = with_sizes(config, len(data), usual_length(data, config, "inceptionxml"))

    def build(num_ids: int, num_labels: int) -> tuple[Encoder, Any]:
        encoder, linear = inceptionxml.build(config, num_ids, num_labels)
        assert isinstance(encoder, WordEncoder)
        assert data.label_inputs is not None
        return encoder, TextRows(linear, bags(data.label_inputs), encoder.embedding)

    training = flat_training(config, config.plan(eps=config.eps), build)
    return train_and_refit(partial(fit_flat, training), data, config, run)


if __name__ == "__main__":
    main()
