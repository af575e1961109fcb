"""The combined default with a pre-trained transformer as one more channel, beside the default without it.

The base, label trees and the space of label texts are trained once; the transformer once for each learning rate, and a
combiner for each. What chooses between rates are the figures on held-out texts, which are printed after every epoch;
the test split is scored for all. Pairs of a text with itself are left out.

    python -m benchmarks.encoder_channel --encoder FOLDER --data debian-related
    python -m benchmarks.encoder_channel --encoder FOLDER --data yso-titles --rates 2e-4
    python -m benchmarks.encoder_channel --encoder FOLDER --device cpu --rows 600 --set epochs=1 --epochs 1
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from shutil import which
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks._trainings import Figures, Job, Material, prefixed, scored, side_by_side
from benchmarks.combined_quality import Remembering, job, of
from benchmarks.common import data_folder
from laconic.config import configure
from laconic.data.encoder_folder import read_pretrained
from laconic.evaluation.evaluate import rank_all
from laconic.methods.config import FusionConfig
from laconic.methods.registry import METHODS
from laconic.methods.result import Trained
from laconic.methods.wrappers import fusion
from laconic.methods.wrappers import label_texts as extra_texts
from laconic.methods.wrappers.encoder_channel import with_channel
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
        wanted, found = settings.pop("fusion"), Figures()
        device = device_named(self.options.device)
        run = Remembering(Run(None, watcher=LineWatcher(partial(print, flush=True)), device=device))
        config = configure(METHODS[job.method].config, {"seed": job.seed} | settings)

        @cache
        def base() -> Trained:
            train = METHODS[job.method].train
            train = train if config.extra_texts is None else partial(extra_texts.train_over, train)
            return train(have.prepared.data, config, run)

        for way, own in self._ways().items():
            ranker = self._combined(base, have, replace(config, fusion=configure(FusionConfig, wanted | own)), run)
            if not found:
                found |= said(job.method, scored(base().ranker.to(run.device), have))
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

    def _combined(self, base: Callable[[], Trained], have: Material, config: Any, run: Any) -> Any:
        """Combine the base, which is trained the first time, while label trees grow."""
        data = have.prepared.data
        if config.fusion.encoder.folder:
            config, data = with_channel(config, self.encoder), replace(data, pretrained=self.encoder)
        train = partial(
            fusion.train_over, lambda *_: base()._replace(config=replace(base().config, fusion=config.fusion))
        )
        train = train if config.extra_texts is None else partial(extra_texts.train_over, train)
        return train(data, config, run).ranker


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
