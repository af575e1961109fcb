"""InceptionXML+ on a GPU: accuracy, its ablations, and what the paper's Tables 5 and 6 and Figures 3, 4 and 5 show.

By the protocol of the figures of the authors' code: all training texts, fixed epochs, test split scored once, self
pairs kept, words `[a-z0-9+#]+`, 16 of them, random 300-d vectors; mean and deviation of seeds. Trainings run side by
side in processes of one program, which reads the data once.

    python -m benchmarks.plus_quality protocol table-5 figure-4 figure-5 --data debian-related
    python -m benchmarks.plus_quality table-6 --data yso-titles
    python -m benchmarks.plus_quality choices --data debian-related        how settings were chosen
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import which
from typing import Any

import torch

from benchmarks.common import DATA, RESULTS, data_folder, save
from laconic.config import configure, settings_of
from laconic.data.prepare import input_rows, prepare
from laconic.data.sources import read
from laconic.data.tokenizer import shuffled
from laconic.data.vectors import read_vectors
from laconic.evaluate import Truth, evaluate, places_needed, rank_all, shortlist_figures
from laconic.methods import METHODS
from laconic.metrics import TrainingCounts, judge, report
from laconic.rankers import Ensemble, Ranker, ShortlistRanker
from laconic.run import Run
from laconic.sweeping import sweep

METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "tail R@10")
PROTOCOL: dict[str, Any] = {
    "length": 16,
    "text": {"pattern": "[a-z0-9+#]+", "stop_words": False},
    "validation": 0.0,
    "batch_size": 256,
    "clusters": 4096,
}
OF_DATA: dict[str, dict[str, Any]] = {  # chosen on a validation split, see `choices`
    "debian-related": {"epochs": 28, "top": 100, "learning_rate": 0.003},
    "yso-titles": {"epochs": 7, "top": 200, "learning_rate": 0.005},
}
GLOVE = DATA / "glove-6b-100d" / "glove.6B.100d.subset.txt.gz"
NO_DETACHING = {"detached": 0.0}
LIGHTXML = {"detached": 0.0, "heads": "lightxml"}
TABLE_6 = {"Ours": {}, "w/o detaching": NO_DETACHING, "in LightXML's framework": LIGHTXML}
FAN_OUTS = {"1K, 50": {"clusters": 1024, "top": 50}, "4K, 200": {"clusters": 4096, "top": 200}}
SEEDS = (1, 2, 3)
CHOICES: dict[str, dict[str, dict[str, Any]]] = {
    "debian-related": {
        "rate .003, prior, 14 epochs": {"learning_rate": 0.003, "prior": True, "epochs": 14},
        "rate .003, prior, 20 epochs": {"learning_rate": 0.003, "prior": True, "epochs": 20},
        "rate .005, prior, 14 epochs": {"learning_rate": 0.005, "prior": True, "epochs": 14},
        "rate .003, prior, bias, 14 epochs": {"learning_rate": 0.003, "prior": True, "bias": True, "epochs": 14},
        "rate .003, walks, 28 epochs": {"learning_rate": 0.003, "clustering": {"walks": 400}},
        "rate .003, 20 epochs": {"learning_rate": 0.003, "epochs": 20},
        "rate .002, 28 epochs": {"learning_rate": 0.002},
    },
    "yso-titles": {
        "rate .003, 8 epochs": {"learning_rate": 0.003, "epochs": 8},
        "rate .005, 8 epochs": {"learning_rate": 0.005, "epochs": 8},
        "rate .005, prior, 8 epochs": {"learning_rate": 0.005, "epochs": 8, "prior": True},
    },
}


@dataclass(frozen=True)
class Job:
    data: str
    name: str
    seed: int
    settings: dict[str, Any] = field(hash=False, compare=False)
    looks: tuple[str, ...] = ()  # what else to look at: sweep, shuffles


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="*", choices=sorted(JOBS), default="protocol")
    parser.add_argument("--data", nargs="+", default=list(OF_DATA))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--at-once", type=int, default=12)
    parser.add_argument("--set", nargs="*", default=[], help="key=value for all trainings, such as epochs=1")
    parser.add_argument("--only", default="", help="trainings with this in their names")
    parser.add_argument("--name", default="")
    options = parser.parse_args()
    if options.device == "cuda" and not which("nvidia-smi"):  # asking torch would spoil the processes to come
        print("no GPU here, left out")
        return
    options.what = [options.what] if isinstance(options.what, str) else options.what
    name = options.name or "plus_quality_" + "_".join(options.what).replace("-", "_")
    extra = {key: float(value) if "." in value else int(value) for key, value in (x.split("=") for x in options.set)}
    for one in options.data:
        if data_folder(one) is not None:
            corpus_of(one)  # read before the processes part, so that they share it
    jobs = [job for one in options.data for what in options.what for job in JOBS[what](one)]
    jobs = list({(job.data, job.name, job.seed): job for job in jobs if options.only in job.name}.values())
    context, results = multiprocessing.get_context("fork"), {}
    with tempfile.TemporaryDirectory() as folder:
        with ProcessPoolExecutor(options.at_once, mp_context=context) as pool:
            waiting = {pool.submit(trained, job, extra, options.device, folder): job for job in jobs}
            for done in as_completed(waiting):
                results[waiting[done]] = done.result()
                so_far = {
                    one: summary([found for found in results.items() if found[0].data == one]) for one in options.data
                }
                (RESULTS / f"{name}.partial.json").write_text(json.dumps(so_far, indent=2))  # a time limit may come
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            ensembles = {
                one: pool.submit(together, one, options.device, folder).result()
                for one in options.data
                if "protocol" in options.what
            }
    figures = {
        one: summary([found for found in results.items() if found[0].data == one])
        | ({"ensemble of 3": ensembles[one]} if one in ensembles else {})
        for one in options.data
    }
    save(name, figures)
    (RESULTS / f"{name}.partial.json").unlink(missing_ok=True)


def protocol(name: str) -> list[Job]:
    return [Job(name, "protocol", seed, {}, ("sweep",) if seed == SEEDS[0] else ()) for seed in SEEDS]


def table_5(name: str) -> list[Job]:
    return [Job(name, "protocol", seed, {}, ("sweep", "shuffles")) for seed in SEEDS[:1]]


def table_6(name: str) -> list[Job]:
    return [
        Job(name, f"{fan_out}: {model}", seed, {**sizes, **settings})
        for fan_out, sizes in FAN_OUTS.items()
        for model, settings in TABLE_6.items()
        for seed in SEEDS
    ]


def figure_4(name: str) -> list[Job]:
    glove = {"vectors": str(GLOVE), "epochs": 14}
    return [Job(name, f"glove, permutation {i}", SEEDS[0], {**glove, "permutation": i}) for i in range(11)]


def figure_5(name: str) -> list[Job]:
    return [Job(name, "without attention", seed, {"attention": False}) for seed in SEEDS]


def figure_3(name: str) -> list[Job]:
    """Training watched on a validation split."""
    models = {"Ours": {}, "in LightXML's framework": LIGHTXML}
    return [Job(name, f"watched: {model}", SEEDS[0], {**s, "validation": 0.02}) for model, s in models.items()]


def choices(name: str) -> list[Job]:
    share = 0.1 if name == "debian-related" else 0.02
    return [Job(name, choice, SEEDS[0], {**s, "validation": share}) for choice, s in CHOICES[name].items()]


JOBS = {
    "protocol": protocol,
    "table-5": table_5,
    "table-6": table_6,
    "figure-3": figure_3,
    "figure-4": figure_4,
    "figure-5": figure_5,
    "choices": choices,
}
_corpora: dict[str, Any] = {}


def corpus_of(name: str) -> Any:
    """The data as numbers, once: (training data, test rows, truth, tokenizer)."""
    if name not in _corpora:
        config = config_for(Job(name, "", 0, {}), {})
        corpus = read(str(data_folder(name))).keeping_self_pairs()
        data, tokenizer = prepare(corpus, config.text, config.vocabulary, with_label_texts=False)
        test = corpus.split("test")
        training = TrainingCounts.of(data.labels)
        truth = Truth(labels=test.labels, leave_out=test.leave_out, training=training)
        _corpora[name] = data, input_rows(test, tokenizer), truth, tokenizer
    return _corpora[name]


def config_for(job: Job, extra: dict[str, Any]) -> Any:
    settings = PROTOCOL | OF_DATA[job.data] | {"seed": job.seed} | job.settings | extra
    return configure(METHODS["inceptionxml+"].config, settings)


def trained(job: Job, extra: dict[str, Any], device: str, folder: str) -> dict[str, Any]:
    """In a process of its own: trains, looks at the test split where nothing is chosen any more, keeps the ranker."""
    torch.set_num_threads(1)
    torch._dynamo.reset()  # or the compiler gives up after a few models
    (data, rows, truth, tokenizer), config = corpus_of(job.data), config_for(job, extra)
    if config.vectors:
        data = replace(data, word_vectors=read_vectors(Path(config.vectors), tokenizer.vocabulary))
    started = time.perf_counter()
    found = METHODS["inceptionxml+"].train(data, config, Run.unkept(device))
    history = found.facts["training"]["epochs"]
    figures: dict[str, Any] = {"seconds": time.perf_counter() - started, "history": history}
    figures["seconds of steps"] = sum(epoch["seconds"] for epoch in history)
    ranker = found.ranker
    assert isinstance(ranker, ShortlistRanker)
    if config.validation:
        figures["validation"] = {"last": history[-1]["figures"], "best": best(history)}
        print(job.data, job.name, job.seed, figures["validation"], round(figures["seconds"], 1), flush=True)
        return figures
    figures |= scored(ranker, rows, truth) | {"labels scored": 100 * ranker.top / config.clusters}
    product = ShortlistRanker(ranker.encoder, ranker.clusters, ranker.classifier, top=ranker.top, product=True)
    figures |= {f"by the product: {name}": value for name, value in p_at(product, rows, truth).items()}
    if "shuffles" in job.looks:
        figures["shuffled words"] = [p_at(ranker, shuffled(rows, seed), truth) for seed in range(10)]
    if "sweep" in job.looks:
        figures["sweep"] = sweep(ranker, rows, truth, [12, 25, 50, 100, 200, 400, 800])
    if job.name == "protocol":
        settings = settings_of(found.config)
        torch.save((settings, ranker.state_dict()), Path(folder) / f"{job.data}-{job.seed}.pt")
    print(job.data, job.name, job.seed, {name: round(figures[name], 2) for name in ("P@1", "P@5", "PSP@5")}, flush=True)
    return figures


def together(name: str, device: str, folder: str) -> dict[str, float]:
    """The three of the protocol as one."""
    _, rows, truth, _ = corpus_of(name)
    members = []
    for seed in SEEDS:
        settings, tensors = torch.load(Path(folder) / f"{name}-{seed}.pt", weights_only=True, map_location="cpu")
        method = METHODS["inceptionxml+"]
        members.append(method.restore(configure(method.config, settings), tensors))
    return scored(Ensemble(members).to(device), rows, truth)


def scored(ranker: Ranker, rows: Any, truth: Truth) -> dict[str, float]:
    found = evaluate(rank_all(ranker, rows, places_needed(truth)), truth).metrics
    figures = {name: found[name] for name in METRICS}
    return figures | (shortlist_figures(ranker, rows, truth.labels) if isinstance(ranker, ShortlistRanker) else {})


def p_at(ranker: Ranker, rows: Any, truth: Truth) -> dict[str, float]:
    figures = report(judge(rank_all(ranker, rows, 5), truth.labels), ks=(1, 3, 5))
    return {name: figures[name] for name in ("P@1", "P@3", "P@5")}


def best(history: list[dict[str, Any]]) -> dict[str, Any]:
    one = max(history, key=lambda epoch: epoch["score"])
    return {"epoch": one["epoch"], **one["figures"]}


def summary(results: list[tuple[Job, dict[str, Any]]]) -> dict[str, Any]:
    """Mean and deviation over the seeds of every name; what was looked at besides, as found."""
    table: dict[str, Any] = {}
    for name in dict.fromkeys(job.name for job, _ in results):
        runs = [found for job, found in sorted(results, key=lambda result: result[0].seed) if job.name == name]
        numbers = [key for key, value in runs[0].items() if isinstance(value, float)]
        table[name] = {"seeds": len(runs)} | {key: spread([run[key] for run in runs]) for key in numbers}
        kept = ("sweep", "shuffled words", "validation", "history")
        table[name] |= {key: run[key] for run in runs[:1] for key in kept if key in run}
    return table


def spread(values: list[float]) -> dict[str, float]:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": round(statistics.mean(values), 3), "sd": round(deviation, 3)}


if __name__ == "__main__":
    main()
