"""A pre-trained transformer under InceptionXML's all-label training, beside InceptionXML's own encoder.

Settings are chosen on texts cut off the training split (`--what choices`); the best of them by nDCG@5 are trained on
all training texts, and the test split is scored once (`--what test`). Pairs of a text with itself are left out.
`--fused` adds the combined default with either encoder.

    python -m benchmarks.encoder_quality --encoder FOLDER --data debian-related yso-titles --what choices
    python -m benchmarks.encoder_quality --encoder FOLDER --data debian-related yso-titles --what test --seeds 1 2 3
    python -m benchmarks.encoder_quality --encoder FOLDER --device cpu --rows 300 --at-once 1 --set epochs=1
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace
from functools import cache
from pathlib import Path
from shutil import which
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks._trainings import METRICS, Figures, Job, corpus_of, show_rows, side_by_side, stored
from benchmarks.common import RESULTS, data_folder
from laconic.config import merged, read_settings
from laconic.data.corpus import Corpus
from laconic.methods.auto import choose, describe_situation
from laconic.methods.registry import config_of
from laconic.methods.train import Training
from laconic.methods.transformer import with_pretrained
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel
from laconic.training.run import Run

OWN, TRANSFORMER = "inceptionxml", "transformer"
LABEL_TEXTS = {"warm_up": {"epochs": 15}, "row_start": 8.0}
FEWER = {"warm_up": {"epochs": 4, "batch_size": 512}, "row_start": 8.0}  # a transformer knows words already
SIZES: dict[str, dict[str, Any]] = {  # by data: of InceptionXML as chosen before, of a transformer as good as may be
    "debian-related": {
        OWN: {"epochs": 28, "learning_rate": 0.003},
        TRANSFORMER: {"epochs": 16, "learning_rate": 0.003, "batch_size": 128},
    },
    "yso-titles": {
        OWN: {"epochs": 6, "batch_size": 512, "prior": True, "validation": 0.02},
        TRANSFORMER: {"epochs": 6, "batch_size": 512, "prior": True, "validation": 0.02},
    },
}
RATES = (5e-5, 1e-4, 3e-4)
_CUT, _MOST_CUT, _SEED = 0.1, 10_000, 17
_TIMED = 100  # texts that are asked one by one
_SHOWN = ("P@1", "P@5", "nDCG@5", "PSP@5", "tail R@10", "training seconds", "ms a text", "seconds")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--encoder", default="", help="the folder of a pre-trained transformer")
    parser.add_argument("--data", nargs="+", default=list(SIZES))
    parser.add_argument("--what", choices=["choices", "test"], default="choices")
    parser.add_argument("--fused", action="store_true", help="also the combined default with either encoder")
    parser.add_argument("--set", action="append", default=[], help="a setting of all trainings")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--only", default="", help="trainings with this in their names")
    parser.add_argument("--again", action="store_true", help="also what is among the results already")
    parser.add_argument("--rows", type=int, default=0, help="so many training texts, to see that it runs")
    parser.add_argument("--to", type=Path, default=RESULTS, help="the folder of the results")
    options = parser.parse_args()
    if not Path(options.encoder or "-").is_dir():
        print("--encoder names no folder of a transformer here, left out")
        return
    if options.device == "cuda" and not which("nvidia-smi"):  # asking torch would spoil the processes to come
        print("no GPU here, left out")
        return
    there = [name for name in options.data if data_folder(name) is not None]
    jobs = [job for name in there for seed in options.seeds for job in jobs_of(name, seed, options)]
    jobs = [job for job in jobs if options.only in job.name]
    for job in jobs:
        prepared(job.data, options.what, options.rows, job.settings.get("encoder", ""))  # once, before processes part
    name = f"encoder_{options.what}" + "_tried" * bool(options.rows)
    found = side_by_side(jobs, Work(options), name, options.at_once, again=options.again, folder=options.to)
    for one in there:
        show_rows(one, found.get(Path(one).name, {}), _SHOWN)


def jobs_of(name: str, seed: int, options: Any) -> list[Job]:
    every = {**plain(name, options), **(fused(name, options) if options.fused else {})}
    if options.what == "test":
        every = best_of(name, every, options)
    own = read_settings(None, options.set)
    suffix = "".join(f", {one}" for one in options.set)
    return [Job(name, called + suffix, seed, merged(settings, own), OWN) for called, settings in every.items()]


def plain(name: str, options: Any) -> dict[str, dict[str, Any]]:
    sizes = SIZES.get(name, SIZES["debian-related"])
    of_own, of_other = {"validation": 0.05} | sizes[OWN], {"validation": 0.05} | sizes[TRANSFORMER]
    found = {OWN: of_own, f"{OWN}, label texts": of_own | LABEL_TEXTS}
    encoder = of_other | {"encoder": str(Path(options.encoder).resolve())}
    for rate in RATES:
        settings = encoder | {"transformer": {"learning_rate": rate}}
        found[f"{TRANSFORMER}, {rate:.0e}"] = settings
        found[f"{TRANSFORMER}, {rate:.0e}, label texts"] = settings | FEWER
    found[f"{TRANSFORMER}, frozen"] = encoder | {"transformer": {"frozen": True}}
    return found


def fused(name: str, options: Any) -> dict[str, dict[str, Any]]:
    """Return the settings of the combined default on a GPU, with its own encoder and with the transformer."""
    choice = choose(describe_situation(corpus_of(name), gpu=True, budget=None))
    assert choice.method == OWN
    encoder = {"encoder": str(Path(options.encoder).resolve()), "transformer": {"learning_rate": 1e-4}}
    of_other = SIZES.get(name, SIZES["debian-related"])[TRANSFORMER] | {"validation": choice.settings["validation"]}
    return {"combined": choice.settings, "combined, transformer": choice.settings | of_other | encoder | FEWER}


def best_of(name: str, every: dict[str, dict[str, Any]], options: Any) -> dict[str, dict[str, Any]]:
    """Return InceptionXML and the best of each kind by nDCG@5 on the texts that choose."""
    tried = stored("encoder_choices" + "_tried" * bool(options.rows), options.to).get(Path(name).name, {})

    def best(start: str) -> list[str]:
        known = [one for one in every if one.startswith(start) and one in tried]
        if not known:
            raise SystemExit(f"{name}: no choice of {start} was tried; run --what choices first")
        return sorted(known, key=lambda one: -tried[one]["nDCG@5"]["mean"])[:1]

    chosen = dict.fromkeys([OWN, *best(OWN), *best(TRANSFORMER), *(one for one in every if one.startswith("combined"))])
    return {one: every[one] for one in chosen}


@cache
def corpus_for(name: str, what: str, rows: int) -> Corpus:
    """Return the data; for choices, some of its training texts stand in place of the test split."""
    corpus = corpus_of(name)
    train, test = corpus.split("train"), corpus.split("test")
    order = np.random.default_rng(_SEED).permutation(len(train))[: rows * 2 or None]
    if what == "choices":
        held = min(round(_CUT * len(order)), _MOST_CUT)
        train, test = train.rows(np.sort(order[held:])), train.rows(np.sort(order[:held]))
    elif rows:
        train, test = train.rows(order), test.rows(np.arange(min(rows, len(test))))
    return replace(corpus, splits={"train": train, "test": test})


@cache
def prepared(name: str, what: str, rows: int, encoder: str) -> Training:
    """Read and tokenise the data once for each way of reading texts; label texts are read as well."""
    settings = LABEL_TEXTS | ({"encoder": encoder} if encoder else {})
    return Training.of(corpus_for(name, what, rows), OWN, config_of(OWN, settings))


class Work:
    """What is done with a job, in a process of its own."""

    def __init__(self, options: Any) -> None:
        self.options = options

    def __call__(self, job: Job) -> Figures:
        encoder = job.settings.get("encoder", "")
        training = prepared(job.data, self.options.what, self.options.rows, encoder)
        config = config_of(OWN, {"seed": job.seed} | job.settings)
        if training.data.pretrained is not None:
            config = with_pretrained(config, training.data.pretrained)
        started = perf_counter()
        model = replace(training, config=config).run(Run.unkept(self.options.device))
        seconds = perf_counter() - started
        predictor = Predictor(model, self.options.device)
        metrics = predictor.evaluate(training.corpus, "test").metrics
        found = {name: metrics[name] for name in METRICS if name in metrics}
        return found | {"training seconds": round(seconds, 1)} | self._latency(predictor, model, training.corpus)

    def _latency(self, predictor: Predictor, model: SavedModel, corpus: Corpus) -> Figures:
        """Return the milliseconds of a text that is asked alone: the median of some, after the first ten."""
        texts, times = list(corpus.split("test").texts or ())[:_TIMED], list[float]()
        for text in texts:
            started = perf_counter()
            predictor.predict([text], k=5)
            times.append(perf_counter() - started)
        size = sum(tensor.nbytes for tensor in model.tensors.values())
        return {"ms a text": round(1000 * statistics.median(times[10:] or times), 3), "bytes": size}


if __name__ == "__main__":
    main()
