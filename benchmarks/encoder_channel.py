"""The combined default with a pre-trained transformer as one more channel, beside the default without it.

The base, label trees and the space of label texts are trained once; the transformer once for each learning rate, and a
combiner for each. What chooses between rates are the figures on held-out texts, which are printed after every epoch;
the test split is scored for all. Pairs of a text with itself are left out.

    python -m benchmarks.encoder_channel --encoder FOLDER --data debian-related
    python -m benchmarks.encoder_channel --encoder FOLDER --data yso-titles --rates 2e-4 --trees-once
    python -m benchmarks.encoder_channel --encoder FOLDER --device cpu --rows 600 --set epochs=1 --epochs 1
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import which
from threading import Thread, current_thread
from time import perf_counter
from typing import Any

import numpy as np
from torch import Tensor

from benchmarks._trainings import Figures, Job, Material, prefixed, scored, side_by_side
from benchmarks.combined_quality import Remembering, job, of
from benchmarks.common import data_folder
from laconic.config import configure
from laconic.data.dataset import Dataset
from laconic.data.encoder_folder import read_pretrained
from laconic.evaluation.evaluate import rank_all
from laconic.methods.config import FusionConfig, MethodConfig
from laconic.methods.registry import METHODS, add_extra_texts
from laconic.methods.result import Trained
from laconic.methods.wrappers import fusion
from laconic.methods.wrappers import label_texts as extra_texts
from laconic.methods.wrappers.encoder_channel import with_channel
from laconic.methods.wrappers.fusion_trees import Forests
from laconic.models.rankers import Ranker
from laconic.training.run import Run, device_named
from laconic.training.watchers import LineWatcher

_TIMED, _BEFORE = 200, 20  # texts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--encoder", default="", help="the folder of a pre-trained transformer")
    parser.add_argument("--data", nargs="+", default=["debian-related"])
    parser.add_argument("--rates", type=float, nargs="+", default=[2e-4], help="learning rates of the transformer")
    parser.add_argument("--epochs", type=int, default=0, help="of the transformer; 0: chosen by the data")
    parser.add_argument("--warm-up", type=int, default=4, help="epochs of the transformer with label texts alone")
    parser.add_argument("--set", dest="settings", nargs="*", default=[], help="further settings, as for train")
    parser.add_argument("--trees-once", action="store_true", help="no second training of label trees, on all texts")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--rows", type=int, default=0, help="so many training and test texts, to see that it runs")
    parser.add_argument("--name", default="encoder_channel")
    options = parser.parse_args()
    options.budget = ""
    if not Path(options.encoder or "-").is_dir():
        print("--encoder names no folder of a transformer here, left out")
        return
    if options.device == "cuda" and not which("nvidia-smi"):
        print("no GPU here, left out")
        return
    jobs = [job(name, seed, options) for name in options.data if data_folder(name) for seed in options.seeds]
    side_by_side(jobs, Work(options), options.name + "_tried" * bool(options.rows), 1, again=True)


class Work:
    """What is done with a job: one base with its channels, and a transformer beside them in several ways."""

    def __init__(self, options: Any) -> None:
        self.options = options
        self.encoder = read_pretrained(Path(options.encoder))

    def __call__(self, job: Job) -> Figures:
        have, settings = of(job.data, self.options.rows), dict(job.settings)
        wanted, run = settings.pop("fusion"), Keeping(self.options)
        method = add_extra_texts(METHODS[job.method]) if "extra_texts" in settings else METHODS[job.method]
        config = configure(method.config, {"seed": job.seed} | settings)
        run.grow_trees(have.prepared.data, replace(config, fusion=configure(FusionConfig, wanted)))
        base = method.train(have.prepared.data, config, run)
        found = said(job.method, scored(base.ranker.to(run.device), have))
        for way, own in self._ways().items():
            ranker = self._combined(base, have, wanted | own, run)
            if own:
                alone = ranker.transformer
                found |= said(f"{way}, alone", scored(alone, have) | latency(alone, have))
            found |= said(way, scored(ranker, have) | latency(ranker, have))
        return found

    def _ways(self) -> dict[str, dict[str, Any]]:
        options = self.options
        common = {"folder": str(Path(options.encoder).resolve()), "epochs": options.epochs, "warm_up": options.warm_up}
        ways = {
            f"with transformer, {rate:.0e}": {"encoder": common | {"learning_rate": rate}} for rate in options.rates
        }
        return ways | {"without": {}}  # what is new first: a run may be stopped

    def _combined(self, base: Trained, have: Material, settings: dict[str, Any], run: Keeping) -> Any:
        config = replace(base.config, fusion=configure(FusionConfig, settings))
        data = have.prepared.data
        if "encoder" in settings:
            config, data = with_channel(config, self.encoder), replace(data, pretrained=self.encoder)
        train = partial(fusion.train_over, lambda *_: base._replace(config=config))
        train = train if config.extra_texts is None else partial(extra_texts.train_over, train)
        return train(data, config, run).ranker


class Keeping(Remembering):
    """A run that reports its epochs, and learns label trees on the cores while the base is trained on a GPU."""

    def __init__(self, options: Any) -> None:
        device = device_named(options.device)
        super().__init__(Run(None, watcher=LineWatcher(partial(print, flush=True)), device=device))
        self.trees_once, self.growing = options.trees_once, Thread()

    def remember(self, name: str, make: Callable[[], Mapping[str, Tensor]]) -> Mapping[str, Tensor]:
        if name.startswith("fusion-trees"):
            name = "fusion-trees" if self.trees_once else name
            if current_thread() is not self.growing:
                self.growing.join()
        return super().remember(name, make)

    def knows(self, name: str) -> bool:
        """Return whether label trees need not be grown by fusion."""
        return name.startswith("fusion-trees")

    def grow_trees(self, data: Dataset, config: MethodConfig) -> None:
        """Begin to learn label trees as fusion will want them."""

        def grow() -> None:
            trees = Forests(replace(data, extend=None), config, self)  # type: ignore[arg-type]
            trees.without_held_out()
            trees.of_all()

        self.growing = Thread(target=grow)
        self.growing.start()


def latency(ranker: Ranker, have: Material) -> Figures:
    """Return the median milliseconds of a text that is ranked alone, from token ids on; some come before to warm up."""
    times = []
    for row in range(_TIMED + _BEFORE):
        started = perf_counter()
        rank_all(ranker, have.rows[[row % have.rows.shape[0]]], 5)
        times.append(1000 * (perf_counter() - started))
    return {"ms a text": float(np.median(times[_BEFORE:]))}


def said(name: str, figures: Figures) -> Figures:
    """Print figures as soon as they are known: a run may be stopped."""
    print(f"[{perf_counter():.0f}] {name}: { {key: round(value, 2) for key, value in figures.items()} }", flush=True)
    return prefixed(name, figures)


if __name__ == "__main__":
    main()
