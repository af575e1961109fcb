"""What a run reports of its stages: titles, lines, progress, time and memory."""

from __future__ import annotations

from mmap import mmap
from pathlib import Path

import pytest
import torch

from laconic.data.prepare import prepare
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.methods import trees
from laconic.system.machine import most_memory_held, share_of_cores, watch_memory_anew
from laconic.training import watchers
from laconic.training.loop import EpochFacts, Silent
from laconic.training.run import Run
from laconic.training.stages import title_of
from laconic.training.watchers import LineWatcher
from tests.planted import planted_texts


@pytest.mark.parametrize(
    ("stage", "title"),
    [
        ("fusion-trees", "label trees"),
        ("fusion-trees-of-all", "label trees of all texts"),
        ("fusion-siamese-0", "siamese, round 1"),
        ("fusion-siamese-negatives-2", "siamese, negative labels, round 3"),
        ("fusion-space-256", ""),
        ("shortlister-space-128", ""),
        ("shortlister-siamese-1", "siamese, round 2"),
        ("train", "training"),
        ("train-warm-up", "training, warm-up by label texts"),
        ("refit-clusters", "training on all texts, clusters of labels"),
        ("something-new", "something new"),
    ],
)
def test_stages_have_titles_that_a_user_understands(stage: str, title: str) -> None:
    assert title_of(stage) == title


class Notes(Silent):
    def __init__(self) -> None:
        self.seen: list[str] = []
        self.fractions: list[float] = []

    def entered(self, stage: str) -> None:
        self.seen.append(f"entered {stage}")

    def advanced(self, fraction: float) -> None:
        self.fractions.append(fraction)

    def exited(self, seconds: float) -> None:
        self.seen.append("left")


def test_label_trees_report_how_far_they_are() -> None:
    corpus = planted_texts(num_labels=40, num_texts=200)
    data = prepare(corpus, Splitter(), VocabularyConfig(), with_label_texts=False).data
    watcher = Notes()
    run = Run(None, watcher=watcher, device=torch.device("cpu"))
    trees.train(data, trees.Config(trees=2, leaf=10, calibration=0.0), run)
    assert watcher.seen == ["entered label trees", "left"]
    assert [stage.stage for stage in run.stages] == ["trees"]
    assert watcher.fractions[-1] == pytest.approx(1.0)
    assert 0 < min(watcher.fractions) < 0.5 < max(watcher.fractions) <= 1 + 1e-9


def test_what_is_remembered_is_a_stage_once(tmp_path: Path) -> None:
    watcher = Notes()
    run = Run(tmp_path, watcher=watcher, device=torch.device("cpu"))
    for _ in range(2):
        run.remember("vectors", lambda: {"vectors": torch.zeros(2)})
    assert watcher.seen == ["entered vectors of texts", "left"]


def lines_of(watcher: LineWatcher, *, seconds: float = 5.0) -> None:
    watcher.entered("training")
    watcher.began("eager", 2, 3, 0)
    for epoch in (1, 2):
        for _ in range(3):
            watcher.stepped()
        watcher.ended(EpochFacts(epoch=epoch, loss=0.5 / epoch, score=70.0, seconds=2.0, figures={"P@1": 70.0 + epoch}))
    watcher.exited(seconds)


def test_a_stage_is_a_line_and_its_epochs_are_details() -> None:
    reported, details, shown = [], [], []
    watcher = LineWatcher(reported.append, lambda what, fraction: shown.append((what, fraction)), details.append)
    lines_of(watcher)
    assert reported == ["[0:00] training: 2 epochs, loss 0.250000, validation P@1 72.00, 5.0 s"]
    assert [line.partition(":")[0] for line in details] == ["training", "epoch 1/2", "epoch 2/2"]
    assert shown[0] == ("training", None)
    assert shown[4] == ("training, epoch 2/2", 0.5)
    assert shown[-1] == ("training, epoch 2/2", 1.0)


def test_a_long_stage_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "_SILENCE", 0.0)
    reported: list[str] = []
    lines_of(LineWatcher(reported.append, detail=lambda line: None))
    assert reported[0] == "training, epoch 1/2: loss 0.500000, validation P@1 71.00, 2.0 s"


@pytest.mark.parametrize(("seconds", "lines"), [(1.0, 0), (4.0, 1)])
def test_short_work_has_no_line(seconds: float, lines: int) -> None:
    reported: list[str] = []
    watcher = LineWatcher(reported.append)
    watcher.entered("label trees")
    watcher.advanced(0.5)
    watcher.exited(seconds)
    assert len(reported) == lines


def test_one_time_is_announced() -> None:
    reported: list[str] = []
    LineWatcher(reported.append, is_announced=True).planned(2_000_000, 100.0)
    LineWatcher(reported.append).planned(2_000_000, 100.0)
    assert reported == ["Estimated: 2.0 MB of memory, about 2 minutes"]


def test_the_most_memory_is_that_of_the_stage() -> None:
    watch_memory_anew()
    before = most_memory_held()
    if not before:
        pytest.skip("the system does not say")
    with mmap(-1, 64 << 20) as block:  # new pages, not those that were given back before
        block.write(b"x" * (64 << 20))
        assert most_memory_held() >= before + (48 << 20)


def test_other_processes_leave_a_share_of_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < share_of_cores(0.05) <= 1
    monkeypatch.setattr("laconic.system.machine.time.process_time", lambda: 0.0)  # nothing was given to this process
    assert share_of_cores(0.01) == 0.01
