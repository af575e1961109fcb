"""Compile the kernels of a training's later stages in a process of its own, while a GPU trains and cores are idle.

On a machine that has not compiled them, evidence for the combining network, the order of labels and packing would take
a minute longer. The process trains, evaluates and packs a model of made-up data. Its kernels are kept on disk, where
the training finds them; nothing else comes of it, and an error in it changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from laconic.config import Settings
from laconic.kernels.cache import is_marked, mark
from laconic.methods.first_kernels import COMPILED_BESIDE, CORES_TO_COMPILE_BESIDE, MEMORY_LEFT
from laconic.system.machine import at_most_cores, free_memory, usable_cores

if TYPE_CHECKING:
    from laconic.data.corpus import Corpus
    from laconic.methods.config import MethodConfig
    from laconic.methods.train import Training
    from laconic.models.trees_ranker import TreesRanker

log = logging.getLogger(__name__)
_MODULE = "laconic.predict.kernel_process"
_NICE = 10  # as the system counts: as low as label trees that grow beside it; what prepares the GPU's work goes first
_TEXTS, _TEST_TEXTS, _LABELS, _WORDS = 600, 100, 300, 200  # of made-up data
_WIDTH = 32  # of the space of texts and label texts


class Task(NamedTuple):
    """What decides the types of a training's kernels."""

    method: str
    settings: Settings
    label_texts: bool

    @property
    def name(self) -> str:
        return "later stages of " + json.dumps(self, sort_keys=True)


def task_of(method: str, config: MethodConfig, *, texts: bool, label_texts: bool) -> Task | None:
    """Describe the kernels of a training's later stages; None for one that is not the default of a GPU."""
    fusion = config.fusion
    if (
        method not in COMPILED_BESIDE
        or not texts
        or fusion is None
        or fusion.encoder.folder
        or config.reranker is not None
    ):
        return None
    channels = {"trees": min(fusion.trees, 1), "neighbours": fusion.neighbours, "ordered": fusion.ordered}
    channels |= {"label_texts": fusion.label_texts, "siamese": _WIDTH if fusion.siamese else 0, "rounds": 1}
    return Task(method, {"epochs": 1, "validation": 0.1, "fusion": channels}, label_texts)


@contextmanager
def compiled_beside(task: Task | None, memory: int = 0) -> Iterator[None]:
    """Compile kernels while the block runs, if there is a task, they are not there yet, and nothing suffers by it.

    `memory` is what the block is expected to take with the process, in bytes.
    """
    is_wanted = task is not None and _has_room(memory) and not is_marked(task.name)
    process = _started(task) if task is not None and is_wanted else None
    try:
        yield
    finally:
        if process is not None:
            process.kill()
            process.wait()


def _has_room(memory: int) -> bool:
    free = free_memory()
    return usable_cores() >= CORES_TO_COMPILE_BESIDE and (free is None or free >= memory + MEMORY_LEFT)


def _started(task: Task) -> subprocess.Popen[bytes] | None:
    places = os.pathsep.join(filter(None, sys.path))  # modules are found where this process finds them
    env = {**os.environ, "PYTHONPATH": places, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-P", "-m", _MODULE, json.dumps(task)]
    try:
        with ExitStack() as opened:
            errors = opened.enter_context(tempfile.TemporaryFile())
            # The process ends where its input does, which is when this one ends.
            outputs: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": errors}
            process = subprocess.Popen(command, stdin=subprocess.PIPE, env=env, **outputs)
            opened.pop_all()
    except OSError as error:
        log.debug("no process compiles kernels: %s", error)
        return None
    Thread(target=_watch, args=(process, errors), daemon=True, name="laconic-kernels").start()
    return process


def _watch(process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    """Wait for the process, so that the system forgets it, and log what went wrong in it."""
    code = process.wait()
    assert process.stdin is not None
    with process.stdin, errors:
        if code > 0:
            errors.seek(0)
            complaint = errors.read().decode(errors="replace").strip()
            log.debug("the process that compiles kernels ended with exit code %s: %s", code, complaint)


def main(task: Task) -> None:
    """Use every kernel once, in the order of a training's stages."""
    from laconic.data.evaluation_texts import evaluation_texts
    from laconic.export.pack import pack
    from laconic.methods.registry import config_of
    from laconic.methods.train import Training
    from laconic.predict.packing_cost import measured
    from laconic.predict.predictor import scored

    corpus = made_up(with_label_texts=task.label_texts)
    with at_most_cores(1):
        training = Training.of(corpus, task.method, config_of(task.method, task.settings))
        model = training.model(_learnt(training))
        model, _ = scored(model, evaluation_texts(corpus, "test"), "cpu")
        measured(pack(model, corpus, "cpu"), model, corpus, "test")
    mark(task.name)


def _learnt(training: Training) -> Any:
    """Train the method and the network over it, with label trees that need not be grown."""
    from laconic.methods.registry import ensemble_of
    from laconic.methods.wrappers.fusion import train_network
    from laconic.methods.wrappers.fusion_trees import Forests
    from laconic.training.run import Run

    run, data = Run.unkept(), replace(training.data, extend=None)
    base = ensemble_of(training.method_name, 1).train(data, training.config, run)
    forests = Forests(data, training.config, run).with_all(_trees(training))
    return training.learning.finished(train_network(base, data, training.config, forests, run), run)


def _trees(training: Training) -> TreesRanker:
    from laconic.models.label_trees.features import Reading
    from laconic.models.label_trees.forest import empty_tree
    from laconic.models.trees_ranker import StoredForest, TreesRanker

    ids = training.data.inputs.shape[1]
    reading = Reading(ids, ids, 1 << 10)
    return TreesRanker(StoredForest.of(empty_tree(training.data.num_labels, reading.size)), reading, beam=10)


def made_up(*, with_label_texts: bool) -> Corpus:
    """Return texts of three words and a label, whose own text has two of them."""
    from laconic.data.formats.assemble import LabelRow, Row, corpus_of

    def words(number: int) -> list[str]:
        digest = hashlib.blake2b(b"%d" % number).digest()
        return [f"w{int.from_bytes(digest[at : at + 4]) % _WORDS:03}" for at in (0, 4, 8)]

    def row(number: int) -> Row:
        label = number % _LABELS
        return Row(f"made-up:{number}", " ".join(words(label)), [f"L{label}", f"L{label // 2}"])

    texts = [" ".join(words(label)[:2]) if with_label_texts else None for label in range(_LABELS)]
    return corpus_of(
        {"train": map(row, range(_TEXTS)), "test": map(row, range(_TEST_TEXTS))},
        [LabelRow("made-up", f"L{label}", text) for label, text in enumerate(texts)],
        source="made-up",
    )


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, in whatever way."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training, which ends this process
    if hasattr(os, "nice"):
        os.nice(_NICE)
    with suppress(OSError):  # where memory runs out, Linux ends this process first
        Path("/proc/self/oom_score_adj").write_text("1000")
    Thread(target=_end_with_parent, daemon=True).start()
    main(Task(*json.loads(sys.argv[1])))
