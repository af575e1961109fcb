"""Whole training steps at the shapes of the paper's largest datasets, on a GPU: the floor, plain torch, and ours.

The floor is what rows and their state move through memory, at the copy bandwidth measured in the same run: 24 bytes a
number for Adam, 12 in half precision, 4 for Adagrad with one number a row. Plain is the same step eagerly, with
gradients of torch's own. Texts that predict their labels are made on the device; clusters are picked by a
meta-classifier whose rows are drawn at random, which spreads the picks, and how many are touched is said.

    python -m benchmarks.training_speed
    python -m benchmarks.training_speed --cases 'InceptionXML, 670K' --optimisers adam
    python -m benchmarks.training_speed --cases 'InceptionXML, 2.8M' --optimisers adam-bf16 --epoch
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from benchmarks.common import save_beside
from benchmarks.shapes import PAPER_SHAPES, make
from laconic.data.resident import Resident
from laconic.methods import inceptionxml, inceptionxml_plus
from laconic.models.classifiers import LinearClassifier
from laconic.models.clustering import random_tree
from laconic.training import losses
from laconic.training.loop import rows_in_half_precision
from laconic.training.optimizer import OPTIMISERS, Adam, OneCycle, Plan
from laconic.training.step import Step
from laconic.training.tasks import AllLabels, ClustersAndLabels, Task
from laconic.types import FIRST_WORD

BYTES = {"adam": 24, "adam-bf16": 12, "adagrad-bf16": 4}
WARM_UP, TIMED = 30, 60


@dataclass(frozen=True, kw_only=True)
class Case:
    """Table 7's values; milliseconds that are wanted, by optimiser, and bytes."""

    shape: str
    batch: int
    clusters: int = 0  # 0: every label is scored
    hidden: int = 0
    limits: dict[str, float]
    limit_bytes: float | None = None
    plain: bool = True


CASES = {
    "InceptionXML+, 670K": Case(
        shape="AmazonTitles-670K",
        batch=256,
        clusters=65_536,
        limits={"adam": 4.2, "adam-bf16": 3.2, "adagrad-bf16": 2.6},
        limit_bytes=8e9,
    ),
    "InceptionXML, 670K": Case(
        shape="AmazonTitles-670K", batch=128, limits={"adam": 3.2, "adam-bf16": 2.4, "adagrad-bf16": 2.0}
    ),
    "InceptionXML, 2.8M": Case(
        shape="AmazonTitles-3M",
        batch=128,
        hidden=300,
        limits={"adam": 8.0, "adam-bf16": 6.0, "adagrad-bf16": 4.5},
        limit_bytes=14e9,
        plain=False,
    ),
    "InceptionXML+, 3M": Case(shape="AmazonTitles-3M", batch=128, clusters=131_072, hidden=300, limits={}, plain=False),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--optimisers", nargs="+", choices=OPTIMISERS, default=list(OPTIMISERS))
    parser.add_argument("--epoch", action="store_true", help="also train one whole epoch with each")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU here, left out")
        return
    torch.set_float32_matmul_precision("high")
    on = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    for name in options.cases:
        texts = make(PAPER_SHAPES[CASES[name].shape], device="cuda").resident()
        figures: dict[str, Any] = {"copy_terabytes_a_second": round(copy_bandwidth() / 1e12, 2), **on}
        figures |= {one: measured(CASES[name], texts, one, epoch=options.epoch) for one in options.optimisers}
        if CASES[name].plain:
            with mock.patch.object(losses, "_by_kernels", return_value=False):
                figures["plain"] = measured(CASES[name], texts, "adam", captured=False)
        save_beside("training_speed", name, figures)


def measured(
    case: Case, texts: Resident, optimiser: str, *, captured: bool = True, epoch: bool = False
) -> dict[str, Any]:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    task = made(case)
    plan = Plan(epochs=1, batch_size=case.batch, schedule=OneCycle(warm_up=0.33), optimiser=optimiser)
    with rows_in_half_precision(task, plan, torch.device("cuda")):
        steps = 10 * texts.steps(case.batch)
        step = Step(task, texts, Adam(dict(task.named_parameters()), plan, steps, task.tables, task.rows()))
        how = step.capture(case.batch) if captured else "eager"
        order = texts.order(0, 0, case.batch).cuda()
        for rows in order[:WARM_UP]:
            step(rows)
        found: dict[str, Any] = {"how": how}
        if isinstance(task, ClustersAndLabels):
            scatter(task)
            found["share_of_clusters_touched"] = touched(task, texts, order[WARM_UP])
        times = [timed(step, rows) for rows in order[WARM_UP : WARM_UP + TIMED]]
        found["loss"] = round(float(step.loss_sum) / (WARM_UP + TIMED), 6)
        if epoch:
            found["epoch_seconds"] = epoch_of(step, texts, case.batch)
        learnt = sum(parameter.numel() for parameter in task.parameters())
        return found | {
            "milliseconds": round(statistics.median(times), 3),
            "limit_milliseconds": case.limits.get(optimiser),
            "floor_milliseconds": round(BYTES[optimiser] * learnt / copy_bandwidth() * 1e3, 3),
            "bytes": torch.cuda.max_memory_allocated() - held,
            "limit_bytes": case.limit_bytes,
        }


def epoch_of(step: Step, texts: Resident, batch: int) -> float:
    """Return the seconds of a whole epoch."""
    began = time.perf_counter()
    for rows in texts.order(0, 1, batch).cuda():
        step(rows)
    torch.cuda.synchronize()
    return round(time.perf_counter() - began, 1)


def made(case: Case) -> Task:
    shape = PAPER_SHAPES[case.shape]
    if case.clusters:
        plus = inceptionxml_plus.Config(length=32, clusters=case.clusters, top=800, hidden=case.hidden)
        return jointly(plus, shape.words + FIRST_WORD, shape.labels)
    config = inceptionxml.Config(length=32, hidden=case.hidden)
    with torch.device("cuda"):
        encoder, classifier = inceptionxml.build(config, shape.words + FIRST_WORD, shape.labels)
    return AllLabels(encoder, classifier, dropout=0.5, chunk=config.chunk).cuda().train()


def jointly(config: inceptionxml_plus.Config, num_ids: int, labels: int) -> ClustersAndLabels:
    with torch.device("cuda"):
        ranker = inceptionxml_plus.build(config, num_ids, random_tree(labels, config.clusters, 0))
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
    """Make texts pick clusters as far apart as those of a model at the end of training, or further."""
    task.clusters.classifier.weight.normal_()
    assert task.clusters.classifier.bias is not None
    task.clusters.classifier.bias.zero_()


@torch.no_grad()
def touched(task: ClustersAndLabels, data: Resident, rows: torch.Tensor) -> float:
    """Return the share of clusters that any text of the batch picks."""
    batch = data.take(rows)
    vectors = task.encode(batch.inputs, torch.zeros((), device="cuda"))[0]
    picks = task.clusters.pick(vectors, task.clusters.of(batch.positives), task.top).picks
    return round(len(picks.unique()) / task.clusters.classifier.num_labels, 3)


def timed(step: Step, rows: torch.Tensor) -> float:
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begun.record()
    step(rows)
    ended.record()
    torch.cuda.synchronize()
    return float(begun.elapsed_time(ended))


def copy_bandwidth() -> float:
    """Return bytes a second, read and written."""
    source = torch.empty(1 << 28, device="cuda")
    target = torch.empty_like(source)
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(3):
        begun.record()
        target.copy_(source)
        ended.record()
    torch.cuda.synchronize()
    return 2 * source.nbytes / begun.elapsed_time(ended) * 1e3


if __name__ == "__main__":
    main()
