"""Two ranks on one GPU train what one process trains, at the shape of AmazonTitles-670K: losses, and times of a step.

Texts of that shape are made in every process. A part of the benchmark is one process, or several ranks, that take 200
steps of InceptionXML and InceptionXML+ from equal weights:

- `one process`, eagerly; twice, since a GPU adds in no fixed order: the second time says how far that alone leads apart
- `gloo`: two ranks, eagerly; gloo sends what is on the GPU through the host. 30 more steps time each collective from
  when both ranks have come to it
- `one process, captured`: with the compiled encoder, as a CUDA graph; twice
- `nccl`: two ranks, the collectives inside the graph. NCCL refuses two ranks on one GPU of one host, so that each rank
  names another host, and they talk by sockets. Both processes take turns on the GPU: the losses count, not the time
- `one of`: one rank of 2, 4 and 8 that hears itself in place of the others, captured: the time of its own work

On a GPU, in two goes; parts that `--seconds` leaves no time for are ended, and figures of other parts are kept:

    PYTHONPATH=src python3 -m benchmarks.ranks_on_one_gpu --seconds 140 --parts 'one process' gloo
    PYTHONPATH=src python3 -m benchmarks.ranks_on_one_gpu --seconds 140 --parts 'one process, captured' nccl 'one of'

On a CPU, a small shape, the first two parts alone:

    python -m benchmarks.ranks_on_one_gpu --small
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import RESULTS, save
from benchmarks.shapes import PAPER_SHAPES, make
from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.methods import inceptionxml, inceptionxml_plus
from laconic.methods.common import seeded
from laconic.models.classifiers import LinearClassifier
from laconic.models.clustering import random_tree
from laconic.system.files import writing
from laconic.system.process_group import ProcessGroup
from laconic.system.ranks import ALONE, Alone, Ranks
from laconic.training.optimizer import Adam, OneCycle, Plan
from laconic.training.step import Step
from laconic.training.tasks import AllLabels, ClustersAndLabels

PARTS = {"one process": 1, "gloo": 2, "one process, captured": 1, "nccl": 2, "one of": 1}  # with their processes
ON_A_CPU = ("one process", "gloo")
UNTIMED, TIMED_COLLECTIVES = 50, 30  # steps before those that are timed, and after them
TIMEOUT = 60.0  # seconds until a rank that does not answer is given up


@dataclass(frozen=True, kw_only=True)
class Case:
    """Table 7's values."""

    batch: int
    clusters: int = 0  # 0: every label is scored
    top: int = 800
    embedding: int = 300


CASES = {"InceptionXML": Case(batch=128), "InceptionXML+": Case(batch=256, clusters=65_536)}
SMALL = {
    "InceptionXML": Case(batch=16, embedding=16),
    "InceptionXML+": Case(batch=16, embedding=16, clusters=128, top=24),
}


class TimedGroup(ProcessGroup):
    """Ranks that time their collectives while `timing` is set, each from when all ranks have come to it."""

    timing = False

    def __init__(self, device: torch.device, timeout: float) -> None:
        super().__init__(device, timeout)
        self.milliseconds: defaultdict[str, list[float]] = defaultdict(list)

    def summed(self, tensor: Tensor, purpose: str) -> Tensor:
        with self._timed(purpose):
            return super().summed(tensor, purpose)

    def _gathered(self, tensor: Tensor, purpose: str, group: Any) -> list[Tensor]:
        with self._timed(purpose):
            return super()._gathered(tensor, purpose, group)

    @contextmanager
    def _timed(self, purpose: str) -> Iterator[None]:
        if not self.timing:
            yield
            return
        finish_work()
        self.wait()
        began = time.perf_counter()
        yield
        finish_work()
        self.milliseconds[purpose].append(1e3 * (time.perf_counter() - began))


class OneOf(Alone):
    """The first of several ranks, which hears itself in place of the others."""

    def __init__(self, world: int) -> None:
        super().__init__()
        self.world = world

    def gather(self, tensor: Tensor) -> list[Tensor]:
        return [tensor] * self.world


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="few labels and steps, to try it on a CPU")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=600.0, help="until parts that are not done are ended")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="where the figures go")
    parser.add_argument("--part", help=argparse.SUPPRESS)  # in a process of one part
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        work(options.part, options.into, small=options.small)
        return
    if not (options.small or torch.cuda.is_available()):
        print("no GPU here, left out; --small tries it on a CPU")
        return
    deadline, found = time.monotonic() + options.seconds, dict[str, Any]()
    for part in options.parts:
        if part in ON_A_CPU or torch.cuda.is_available():
            found[part] = run_part(part, deadline, small=options.small)
            show(found, options.folder, small=options.small)


# The parts, each in processes of its own


def run_part(part: str, deadline: float, *, small: bool) -> dict[str, Any]:
    """Return the figures of each rank that a part has come to until the deadline, and why it ended."""
    with TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        words = [sys.executable, "-m", "benchmarks.ranks_on_one_gpu", "--part", part, "--into", folder]
        words += ["--small"] if small else []
        processes = [subprocess.Popen(words, env=environment(part, rank, port)) for rank in range(PARTS[part])]
        began, ended = time.monotonic(), "done"
        for process in processes:
            try:
                if process.wait(max(1.0, deadline - time.monotonic())) != 0:
                    ended = f"exit status {process.returncode}"
            except subprocess.TimeoutExpired:
                ended = "no time left"
        for process in processes:
            process.kill()
            process.wait()
        ranks = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]
        return {"ended": ended, "seconds": round(time.monotonic() - began, 1), "ranks": ranks}


def environment(part: str, rank: int, port: int) -> dict[str, str]:
    """Return the environment of a rank, as a launcher sets it."""
    own = {"RANK": rank, "WORLD_SIZE": PARTS[part], "LOCAL_RANK": 0, "MASTER_PORT": port, "OMP_NUM_THREADS": 4}
    own |= {"LOCAL_WORLD_SIZE": 1 if part == "nccl" else PARTS[part]}  # one rank for each GPU is what takes NCCL
    named = {"MASTER_ADDR": "127.0.0.1", "NCCL_HOSTID": f"host-{rank}", "NCCL_SOCKET_IFNAME": "lo"}
    named |= {"NCCL_NET": "Socket", "GLOO_SOCKET_IFNAME": "lo"}
    named["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    return os.environ | {name: str(value) for name, value in own.items()} | named


def work(part: str, into: Path, *, small: bool) -> None:
    """Write the figures of a part to a file of this rank, anew after each case."""
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    torch.set_float32_matmul_precision("high")  # as training does
    several = PARTS[part] > 1
    ranks: Ranks = TimedGroup(device, TIMEOUT) if several else ALONE
    steps = 30 if small else 200
    found = dict[str, Any]()
    for name, case in (SMALL if small else CASES).items():
        data = texts(case, steps, small=small)
        if part == "one of":
            figures: dict[str, Any] = {
                str(world): trained(case, data, OneOf(world), device, steps=100, captured=True) for world in (2, 4, 8)
            }
        else:
            figures = trained(
                case, data, ranks, device, steps=steps, captured=part in ("nccl", "one process, captured")
            )
        if part.startswith("one process"):
            figures["again"] = trained(case, data, ranks, device, steps=steps, captured=part not in ON_A_CPU)["losses"]
        found[name] = figures
        with writing(into / f"{ranks.rank}.json") as file:
            file.write(json.dumps(found).encode())
    ranks.close()


def texts(case: Case, steps: int, *, small: bool) -> Dataset:
    shape = PAPER_SHAPES["AmazonTitles-670K"]
    shape = replace(shape, words=500, labels=600) if small else shape
    return make(shape, texts=(steps + TIMED_COLLECTIVES) * case.batch).dataset()


def trained(
    case: Case, data: Dataset, ranks: Ranks, device: torch.device, *, steps: int, captured: bool = False
) -> dict[str, Any]:
    """Return the loss of every step, milliseconds and bytes."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    task = built(case, data, ranks).to(device).train()
    assert isinstance(task.classifier, LinearClassifier)
    resident = Resident.of(data, 32, device, shard=task.classifier.shard)
    total = resident.steps(case.batch)
    plan = Plan(epochs=1, batch_size=case.batch, schedule=OneCycle(warm_up=0.33))
    step = Step(task, resident, Adam(dict(task.named_parameters()), plan, total, task.tables, task.rows()), ranks)
    how = step.capture(case.batch) if captured else "eager"
    torch.manual_seed(1)
    order = resident.order(0, 0, case.batch).to(device)
    sums, before, untimed = [step.loss_sum.clone()], sum(ranks.sent.values()), min(UNTIMED, steps // 2)
    for number, rows in enumerate(order[:steps]):
        if number == untimed:
            finish_work()
            began = time.perf_counter()
        step(rows)
        sums.append(step.loss_sum.clone())  # on the device: the host need not wait
    finish_work()
    figures = {
        "how": how,
        "milliseconds": round(1e3 * (time.perf_counter() - began) / (steps - untimed), 3),
        "bytes sent per step": (sum(ranks.sent.values()) - before) / steps,
        "bytes": torch.cuda.max_memory_allocated() if device.type == "cuda" else None,
        "losses": torch.stack(sums).diff().tolist(),
    }
    if isinstance(ranks, TimedGroup) and not captured:
        figures["collectives"] = collectives(step, order[steps:], ranks)
    return figures


def built(case: Case, data: Dataset, ranks: Ranks) -> AllLabels | ClustersAndLabels:
    """Return the task as its method builds it; rows are drawn on the CPU, and do not depend on the number of ranks."""
    words, labels = data.inputs.shape[1], data.num_labels
    if not case.clusters:
        flat = inceptionxml.Config(length=32, embedding=case.embedding)
        with seeded(3):
            encoder, classifier = inceptionxml.build(flat, words, labels, ranks)
        return AllLabels(encoder, classifier, dropout=flat.classifier_dropout, chunk=flat.chunk)
    plus = inceptionxml_plus.Config(length=32, embedding=case.embedding, clusters=case.clusters, top=case.top)
    with seeded(3):
        ranker = inceptionxml_plus.build(plus, words, random_tree(labels, case.clusters, 0), ranks)
    assert isinstance(ranker.classifier, LinearClassifier)
    return ClustersAndLabels(
        ranker.encoder,
        ranker.clusters,
        ranker.classifier,
        top=case.top,
        dropouts=(plus.cluster_dropout, plus.classifier_dropout),
        detached=plus.detached,
        chunk=plus.chunk,
    )


def collectives(step: Step, order: Tensor, ranks: TimedGroup) -> dict[str, float]:
    """Return the milliseconds that the collectives of a step take, by purpose: medians of some more steps."""
    ranks.milliseconds.clear()
    ranks.timing = True
    for rows in order:
        step(rows)
    ranks.timing = False
    return {purpose: round(statistics.median(times), 3) for purpose, times in ranks.milliseconds.items()}


def finish_work() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


# What is said of them


def show(found: dict[str, Any], folder: Path, *, small: bool) -> None:
    """Save what the parts that are done have found, and keep what is known of others."""
    name = "ranks_on_one_gpu" + ("_small" if small else "")
    path = folder / f"{name}.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    figures: dict[str, Any] = {"torch": torch.__version__}
    if torch.cuda.is_available():
        figures["gpu"] = torch.cuda.get_device_name()
    ended = {part: {key: one[key] for key in ("ended", "seconds")} for part, one in found.items()}
    figures["parts"] = known.get("parts", {}) | ended
    for case in CASES:
        of_case = {part: [rank[case] for rank in one["ranks"] if case in rank] for part, one in found.items()}
        done = compared({part: ranks for part, ranks in of_case.items() if ranks})
        figures[case] = known.get(case, {}) | done
    save(name, figures, folder=folder)


def compared(parts: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the figures of each part, with its losses beside those of one process."""
    figures = dict[str, Any]()
    for part, (first, *others) in parts.items():
        if part == "one of":
            figures[part] = {world: one["milliseconds"] for world, one in first.items()}
            continue
        shown = {name: value for name, value in first.items() if name not in ("losses", "again")}
        shown["losses at steps"] = {str(at): first["losses"][at - 1] for at in steps_shown(first["losses"])}
        if others:
            shown["both ranks have the same losses"] = all(one["losses"] == first["losses"] for one in others)
        reference = parts.get("one process, captured" if part == "nccl" else "one process")
        if others and reference:
            shown["loss differs from one process by"] = apart(first["losses"], reference[0]["losses"])
        if "again" in first:
            shown["loss differs from the same training again by"] = apart(first["again"], first["losses"])
        figures[part] = shown
    return figures


def apart(losses: list[float], expected: list[float]) -> dict[str, float]:
    """Return how far losses are from those expected, as fractions of these: at some steps, and at most."""
    differences = [abs(one - other) / abs(other) for one, other in zip(losses, expected, strict=True)]
    return {str(at): differences[at - 1] for at in steps_shown(losses)} | {"largest": max(differences)}


def steps_shown(losses: list[float]) -> list[int]:
    return sorted({min(step, len(losses)) for step in (1, 10, 50, 100, 200)})


if __name__ == "__main__":
    main()
