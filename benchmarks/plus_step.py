"""A whole InceptionXML+ training step at the shapes of the paper's largest datasets, on a GPU: milliseconds and memory.

Texts that predict their labels are made on the device. A young meta-classifier picks the same few clusters for every
text, and a step costs what it touches; so steps are timed as trained so far, and with the meta-classifier's rows drawn
at random, which spreads the picks. Balanced random clusters.
Floor: 28 bytes of optimiser traffic a parameter at the copy bandwidth measured in the same run.

    python -m benchmarks.plus_step                              AmazonTitles-670K
    python -m benchmarks.plus_step --shape AmazonTitles-3M      2,000 steps timed, then what is left of an epoch
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass

import torch

from benchmarks.common import save
from benchmarks.shapes import PAPER_SHAPES, make
from benchmarks.training_step import copy_bandwidth, timed
from laconic.data.resident import Resident
from laconic.methods.inceptionxml_plus import Config, build
from laconic.models.classifiers import LinearClassifier
from laconic.models.clustering import random_tree
from laconic.training.optimizer import Adam, OneCycle, Plan
from laconic.training.step import Step
from laconic.training.tasks import ClustersAndLabels
from laconic.types import FIRST_WORD


@dataclass(frozen=True, kw_only=True)
class Case:
    """Table 7's values."""

    batch: int
    clusters: int
    hidden: int = 0
    precision: str = "fp32"
    authors_ms: float | None = None
    limit_ms: float | None = None
    limit_bytes: float | None = None


CASES = {
    "AmazonTitles-670K": Case(batch=256, clusters=65_536, authors_ms=104.6, limit_ms=18, limit_bytes=12e9),
    "AmazonTitles-3M": Case(batch=128, clusters=131_072, hidden=300),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=CASES, default="AmazonTitles-670K")
    parser.add_argument("--warm-up", type=int, default=1500)
    parser.add_argument("--timed", type=int, default=0, help="steps; 0: 200, of the larger shape 2,000")
    parser.add_argument("--epoch", action="store_true", help="then finish the epoch")
    parser.add_argument("--lazy", action="store_true")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU here, left out")
        return
    case, shape = CASES[options.shape], PAPER_SHAPES[options.shape]
    torch.set_float32_matmul_precision("high")
    begun = time.perf_counter()
    texts = make(shape, device="cuda").resident()
    torch.cuda.synchronize()
    figures: dict[str, object] = {"gpu": torch.cuda.get_device_name(), "authors_code_ms": case.authors_ms}
    figures["seconds to make the data"] = round(time.perf_counter() - begun, 1)
    data_bytes = torch.cuda.memory_allocated()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    steps_an_epoch = -(-len(texts) // case.batch)
    config = Config(
        length=32,
        clusters=case.clusters,
        top=800,
        hidden=case.hidden,
        batch_size=case.batch,
        lazy=options.lazy,
    )
    task = built(config, shape.words + FIRST_WORD, shape.labels)
    plan = Plan(
        epochs=35,
        batch_size=case.batch,
        learning_rate=0.008,
        schedule=OneCycle(warm_up=0.33),
        lazy=config.lazy,
    )
    step = Step(task, texts, Adam(dict(task.named_parameters()), plan, 35 * steps_an_epoch, task.tables))
    figures["how"] = step.capture(case.batch)
    order = texts.order(0, 0, case.batch).cuda()
    for rows in order[: options.warm_up]:
        step(rows)
    torch.cuda.synchronize()
    count = options.timed or (2000 if options.shape == "AmazonTitles-3M" else 200)
    rows_timed = order[options.warm_up : options.warm_up + count]
    figures["as trained so far"] = {
        "milliseconds": round(statistics.median([timed(step, rows) for rows in rows_timed[:100]]), 2),
        "share of clusters touched by a step": touched(task, texts, rows_timed[-1]),
    }
    scatter(task)
    loss_before = float(step.loss_sum)
    times = [timed(step, rows) for rows in rows_timed]
    parameters = sum(parameter.numel() for parameter in task.parameters())
    figures |= {
        "batch": case.batch,
        "clusters": case.clusters,
        "dim": int(task.classifier.weight.shape[1]),
        "parameters": parameters,
        "lazy": options.lazy,
        "share of clusters touched by a step": touched(task, texts, order[options.warm_up + count - 1]),
        "milliseconds": round(statistics.median(times), 2),
        "steps timed": len(times),
        "limit_milliseconds": case.limit_ms,
        "floor_milliseconds": round(parameters * 28 / copy_bandwidth() * 1e3, 2),
        "max_memory_allocated": torch.cuda.max_memory_allocated(),
        "of which data": data_bytes,
        "limit_bytes": case.limit_bytes,
        "steps an epoch": steps_an_epoch,
        "loss": round((float(step.loss_sum) - loss_before) / len(times), 6),
    }
    if options.epoch:
        begun = time.perf_counter()
        rest = order[options.warm_up + count :]
        for rows in rest:
            step(rows)
        torch.cuda.synchronize()
        figures["rest of the epoch"] = {"steps": len(rest), "seconds": round(time.perf_counter() - begun, 1)}
    save("plus_step_" + options.shape.split("-")[-1].lower() + ("_lazy" if options.lazy else ""), figures)


def built(config: Config, num_ids: int, labels: int) -> ClustersAndLabels:
    with torch.device("cuda"):
        ranker = build(config, num_ids, random_tree(labels, config.clusters, 0))
    assert isinstance(ranker.classifier, LinearClassifier)
    task = ClustersAndLabels(
        ranker.encoder,
        ranker.clusters,
        ranker.classifier,
        top=config.top,
        dropouts=(config.cluster_dropout, config.classifier_dropout),
        detached=config.detached,
        chunk=config.chunk,
    )
    return task.cuda().train()


@torch.no_grad()
def scatter(task: ClustersAndLabels) -> None:
    """Makes texts pick clusters as far apart as those of a model at the end of training, or further."""
    task.clusters.classifier.weight.normal_()
    assert task.clusters.classifier.bias is not None
    task.clusters.classifier.bias.zero_()


@torch.no_grad()
def touched(task: ClustersAndLabels, data: Resident, rows: torch.Tensor) -> float:
    """The share of clusters that any text of the batch picks."""
    batch = data.take(rows)
    vectors = task.encode(batch.inputs, torch.zeros((), device="cuda"))[0]
    picks = task.clusters.pick(vectors, task.clusters.of(batch.positives), task.top).picks
    return round(len(picks.unique()) / task.clusters.classifier.num_labels, 3)


if __name__ == "__main__":
    main()
