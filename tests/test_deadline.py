"""Budgets that are kept: how much of a plan is done by a clock that tests turn themselves."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from laconic.data.prepare import prepare
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.methods import trees
from laconic.methods.auto import choose
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_ranker
from laconic.methods.stage_times import Situation
from laconic.methods.train import train_model
from laconic.system.speed import Speed, best_of, core_speed
from laconic.training.deadline import Amount, Deadline, Part, deadline_of, scale_within, total_seconds
from laconic.training.loop import Silent
from laconic.training.optimizer import Adam
from laconic.training.run import Run
from tests.planted import planted_texts


class Clock:
    """A clock that stands still until somebody turns it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Notes(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def noted(self, line: str) -> None:
        self.lines.append(line)


def deadline(clock: Clock, seconds: float = 1000.0, **parts: Part) -> Deadline:
    return Deadline(seconds, dict(parts), clock=clock)


def test_parts_are_scaled_together_and_each_within_its_bounds() -> None:
    parts = {"fixed": Part(100.0), "epochs": Part(100.0, 0.5, 3.0), "trees": Part(100.0, 0.2, 1.0)}
    assert total_seconds(parts, 1.0) == 300
    assert scale_within(parts, 400.0) == pytest.approx(2.0)
    assert scale_within(parts, 230.0) == pytest.approx(0.65)
    assert scale_within(parts, 1e9) == 3.0
    assert scale_within(parts, 10.0) == 0.0


def test_what_is_left_is_used_and_what_comes_later_is_reserved() -> None:
    clock = Clock()
    one = deadline(clock, train=Part(100.0, 0.1, 20.0), packing=Part(300.0))
    assert one.amount("train", 10) == pytest.approx(67, abs=1)  # 970 - 300 seconds, ten epochs in a hundred
    clock.now += 570
    assert one.amount("train", 10) == pytest.approx(10, abs=1)


def test_the_measured_speed_of_a_part_decides_and_is_expected_of_the_others_too() -> None:
    one = deadline(Clock(), train=Part(100.0, 0.1, 20.0), packing=Part(300.0))
    slow = one.amount("train", 10, seconds=20.0)  # twice as long as estimated
    assert one.pace == pytest.approx(250 / 150)
    assert slow == pytest.approx((970 - 300 * one.pace) / 20, abs=1)


def test_finished_parts_change_the_pace_but_a_wild_estimate_says_nothing_of_the_machine() -> None:
    clock = Clock()
    one = deadline(clock, reading=Part(100.0), odd=Part(1.0), packing=Part(200.0))
    one.finished("reading", 150.0)
    assert one.pace == pytest.approx(200 / 150)
    before = one.pace
    one.finished("odd", 300.0)
    assert one.pace == pytest.approx(before, rel=0.02)
    one.finished("packing", None)  # an earlier process has done it
    assert one.pace == pytest.approx(before, rel=0.02)
    assert not one.parts


def test_what_is_done_once_is_not_scaled_and_says_nothing_of_the_pace() -> None:
    parts = {"epochs": Part(100.0, 0.5, 3.0, once=40.0), "packing": Part(20.0, once=16.0)}
    assert [total_seconds(parts, scale) for scale in (0.5, 1.0, 3.0)] == [126, 176, 376]
    assert scale_within(parts, 276.0) == pytest.approx(2.0)
    clock = Clock()
    one = deadline(clock, **parts, trees=Part(100.0))
    one.finished("packing", 1.0)  # its kernels were there
    assert one.pace == 1
    one.finished("trees", 200.0)
    assert one.pace > 1
    assert one.amount("epochs", 10) == pytest.approx(30, abs=1)
    assert one.expected == pytest.approx(40 + 300 * one.pace), "compiling is still to come"
    two = deadline(clock, **parts)
    two.amount("epochs", 10, seconds=10.0)
    assert two.parts["epochs"].once == 0, "it had passed before epochs were timed"


def test_what_is_decided_of_one_part_holds_for_the_one_that_follows() -> None:
    clock = Clock()
    one = deadline(clock, 700.0, trees=Part(300.0, 1 / 3), again=Part(300.0, 1 / 3, follows="trees"))
    assert one.amount("trees", 3) == 3
    clock.now += 300
    assert one.amount("trees", 3) == 2
    one.amounts["trees"] = Amount(3, 1)
    assert one.expected == pytest.approx(300 + 200)


def test_something_is_left_out_where_even_the_shortest_plan_is_too_long() -> None:
    clock = Clock()
    one = deadline(clock, space=Part(500.0, 0.5), packing=Part(300.0))
    assert one.affords()
    clock.now += 600
    assert not one.affords()
    one.leave_out("spa")
    assert list(one.parts) == ["packing"]


def test_another_time_is_announced_when_the_first_turns_out_wrong() -> None:
    clock = Clock()
    one = deadline_of({"train": Part(300.0), "packing": Part(300.0)}, None)
    one.clock, one.began = clock, clock.now
    clock.now += 310
    assert not one.finished("train", 310.0)
    one = Deadline(600.0, {"train": Part(300.0), "packing": Part(300.0)}, clock=clock, is_limit=False)
    clock.now += 600
    assert one.finished("train", 600.0)
    assert one.announced == pytest.approx(600 + 300 * one.pace)


def test_an_estimate_without_a_budget_changes_no_plan() -> None:
    one = deadline_of({"train": Part(10.0, 0.1, 5.0)}, None)
    assert not one.may_change("train")
    run = Run(None, watcher=Silent(), device=torch.device("cpu"), deadline=one)
    assert run.amount("train", 7, "epoch") == 7
    assert run.affords("space", "train")


def test_a_run_does_fewer_epochs_and_says_so() -> None:
    watcher = Notes()
    one = deadline(Clock(), 100.0, train=Part(200.0, 0.1, 2.0))
    run = Run(None, watcher=watcher, device=torch.device("cpu"), deadline=one)
    assert run.amount("train", 10, "epoch") == 5
    assert watcher.lines == ["training: 5 of 10 epochs, to end in time"]
    assert run.amount("train", 10, "epoch") == 5, "decided once"
    assert run.amount("other", 10, "epoch") == 10, "nothing is known of it"


def test_a_resumed_run_keeps_its_decisions_and_counts_the_time_before(tmp_path: Path) -> None:
    clock = Clock()

    def run_with(left: float) -> Run:
        one = Deadline(100.0, {"train": Part(200.0, 0.1, 2.0)}, clock=clock, began=clock.now - 100 + left)
        run = Run(tmp_path, watcher=Silent(), device=torch.device("cpu"), deadline=one)
        run.begin({"some": "facts"})
        return run

    assert run_with(left=60.0).amount("train", 10, "epoch") == 3
    again = run_with(left=100.0)
    assert again.amount("train", 10, "epoch") == 3
    assert again.deadline is not None
    assert again.deadline.elapsed == 40.0


def test_trees_are_as_many_as_there_is_time_for_after_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 50.0])  # the first tree takes so long
    monkeypatch.setattr("laconic.methods.trees.monotonic", lambda: next(times, 0.0))
    corpus = planted_texts(num_labels=40, num_texts=200)
    data = prepare(corpus, Splitter(), VocabularyConfig(), with_label_texts=False).data
    one = deadline(Clock(), 60.0, trees=Part(150.0, 1 / 3))
    run = Run(None, watcher=Silent(), device=torch.device("cpu"), deadline=one)
    trained = trees.train(data, trees.Config(trees=3, leaf=10, calibration=0.0), run)
    assert trained.config.trees == 2
    few = trees.train(data, trees.Config(trees=2, leaf=10, calibration=0.0), Run.unkept())
    _assert_equal(trained.ranker.state_dict(), few.ranker.state_dict())


def test_a_core_that_runs_kernels_twice_as_often_is_twice_as_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([470.0, 1000.0, 5800.0, 100.0, 2250.0, 5000.0, 469.0, 2000.0, 1.0])  # of three rounds
    monkeypatch.setattr("laconic.system.speed._rate", lambda kernel: (kernel(), next(counts))[1])
    assert core_speed() == Speed(products=2.0, memory=2.0, lookups=1.0)
    assert best_of(Speed(1.0, 2.0, 3.0), Speed(3.0, 1.0, 2.0)) == Speed(3.0, 2.0, 3.0)


SETTINGS = {
    "embedding": 16,
    "validation": 0.2,
    "surrogate": {"epochs": 4},
    "extreme": {"epochs": 2},
    "fusion": {"trees": 2, "siamese": 16},
}
PARTS = {
    "surrogate": Part(40.0, 0.1, 3.0),
    "extreme": Part(20.0, 0.1, 3.0),
    "fusion-siamese-0": Part(10.0, 0.1, 1.0),
    "fusion-trees": Part(20.0, 0.5),
    "fusion-trees-of-all": Part(20.0, 0.5, follows="fusion-trees"),
    "packing": Part(10.0),
}


def test_a_run_of_the_combined_model_has_what_its_decisions_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laconic.training.run.epoch_seconds", lambda *_: 10.0)  # as estimated
    corpus = planted_texts(num_labels=12, num_texts=300, with_label_texts=True)
    config = config_of("astec", SETTINGS)
    one = Deadline(60.0, dict(PARTS), clock=Clock())
    run = Run(None, watcher=Notes(), device=torch.device("cpu"), deadline=one)
    model = train_model(corpus, "astec", config, run)
    assert one.amounts["extreme"].done == len(model.facts["training"]["epochs"]) > 2, "time that was not used is left"
    assert one.amounts["surrogate"].done == len(model.facts["training"]["surrogate"])
    assert one.amounts["surrogate"].done < 4
    assert not set(PARTS) - {"packing"} & set(one.parts), "all parts are done"
    assert any(name.startswith("siamese.") for name in model.tensors)


def test_the_space_is_left_out_where_there_is_no_time_for_it() -> None:
    corpus = planted_texts(num_labels=12, num_texts=300, with_label_texts=True)
    watcher = Notes()
    one = Deadline(5.0, dict(PARTS), clock=Clock())
    run = Run(None, watcher=watcher, device=torch.device("cpu"), deadline=one)
    model = train_model(corpus, "astec", config_of("astec", SETTINGS), run)
    assert "siamese: left out, to end in time" in watcher.lines
    assert not any(name.startswith("siamese.") for name in model.tensors)


def test_members_of_an_ensemble_have_the_same_channels_whatever_time_is_left() -> None:
    corpus = planted_texts(num_labels=12, num_texts=300, with_label_texts=True)
    parts = {f"member-{number}.{name}": part for number in range(2) for name, part in PARTS.items()}
    one = Deadline(5.0, parts, clock=Clock())

    class Relieved(Notes):
        def noted(self, line: str) -> None:
            super().noted(line)
            if "left out" in line:
                one.seconds = 1e6  # there is time for all that follows

    watcher = Relieved()
    run = Run(None, watcher=watcher, device=torch.device("cpu"), deadline=one)
    model = train_model(corpus, "astec", config_of("astec", SETTINGS), run, members=2)
    assert [line for line in watcher.lines if "left out" in line] == [
        f"member {number} of 2, siamese: left out, to end in time" for number in (1, 2)
    ]
    assert not any("siamese" in name for name in model.tensors)
    assert restore_ranker(model, torch.device("cpu")).num_labels == 12


def test_an_ensemble_has_as_many_members_as_there_is_time_for() -> None:
    corpus = planted_texts(num_labels=12, num_texts=300)
    config = config_of("trees", {"trees": 1, "leaf": 10})
    parts = {f"member-{number}.trees": Part(30.0) for number in range(4)}
    clock = Clock()

    class Working(Notes):
        def exited(self, seconds: float) -> None:
            clock.now += 20.0  # a stage of a member took so long: its trees, and its calibration

    watcher = Working()
    run = Run(None, watcher=watcher, device=torch.device("cpu"), deadline=Deadline(100.0, parts, clock=clock))
    model = train_model(corpus, "trees", config, run, members=4)
    assert model.facts["ensemble"] == len(model.facts["members"]) == 2
    assert watcher.lines[-1] == "further models: left out, to end in time"
    assert {name.split(".")[1] for name in model.tensors} == {"0", "1"}


@pytest.mark.parametrize("slow", [0.8, 1.0, 1.6])
@pytest.mark.parametrize("seed", range(5))
def test_a_run_ends_in_time_though_every_part_is_estimated_wrongly(slow: float, seed: int) -> None:
    sizes = {"texts": 45_000, "labels": 36_000, "pairs": 230_000, "judged": 11_000}
    of = Situation(**sizes, kind="text", label_texts=True, gpu=False, cores=3, budget=600.0)
    clock, random = Clock(), np.random.default_rng(seed)
    one = Deadline(600.0, dict(choose(of).parts), clock=clock)
    began = clock.now
    for name in sorted(one.parts, key=_place):
        part, took = one.parts[name], slow * float(random.uniform(0.7, 1.4))  # times its estimate
        if one.may_change(name) and not part.follows:
            planned = 3 if "trees" in name else 10
            measured = part.seconds * took / planned if "trees" not in name else None
            one.amounts[name] = Amount(planned, one.amount(name, planned, measured))
        planned, done = one.amounts.get(part.follows or name, Amount(1, 1))
        seconds = part.seconds * took * done / planned
        clock.now += seconds
        one.finished(name, seconds)
    assert clock.now - began == pytest.approx(600, rel=0.2)


def _place(name: str) -> int:
    """Return where a part stands in a run: the ranker, the space, the trees, and what combines and judges them."""
    order = ("surrogate", "negatives", "extreme", "blend", "fusion-siamese", "fusion-trees", "fusion", "calibration")
    return next((place for place, first in enumerate(order) if name.startswith(first)), len(order))


class Stopping(Silent):
    """Interrupts a run at the end of a stage."""

    def __init__(self, stage: str) -> None:
        self.last, self.now = stage, ""

    def entered(self, stage: str) -> None:
        self.now = stage

    def exited(self, seconds: float) -> None:
        if self.now == self.last:
            raise KeyboardInterrupt


def test_a_resumed_run_ends_with_the_bits_of_one_that_was_not_interrupted(tmp_path: Path) -> None:
    corpus = planted_texts(num_labels=12, num_texts=300, with_label_texts=True)
    config = config_of("astec", SETTINGS)

    def trained(folder: str, seconds: float, watcher: Silent) -> tuple[dict[str, Tensor], Deadline]:
        one = Deadline(seconds, dict(PARTS), clock=Clock())
        run = Run(tmp_path / folder, watcher=watcher, device=torch.device("cpu"), deadline=one)
        return train_model(corpus, "astec", config, run).tensors, one

    whole, first = trained("whole", 5.0, Silent())
    with pytest.raises(KeyboardInterrupt):
        trained("broken", 5.0, Stopping("scores of held-out texts"))
    again, second = trained("broken", 1e6, Silent())  # on a machine with all the time in the world
    _assert_equal(whole, again)
    assert first.amounts == second.amounts
    assert not any(name.startswith("siamese.") for name in again)


def test_measuring_an_epoch_changes_nothing_that_is_trained() -> None:
    corpus = planted_texts(num_labels=12, num_texts=300, with_label_texts=True)
    config = config_of(
        "astec", {name: own for name, own in SETTINGS.items() if name != "fusion"} | {"extreme": {"epochs": 6}}
    )
    parts = {"surrogate": Part(1.0, 0.9, 1.0), "extreme": Part(1.0, 0.9, 1.0)}
    run = Run(None, watcher=Silent(), device=torch.device("cpu"), deadline=Deadline(1e9, parts))
    measured = train_model(corpus, "astec", config, run)
    plain = train_model(corpus, "astec", config, Run.unkept())
    _assert_equal(measured.tensors, plain.tensors)


def test_what_a_stage_was_trained_with_is_gone_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[weakref.ref[Adam]] = []

    class Noted(Adam):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            seen.append(weakref.ref(self))

    monkeypatch.setattr("laconic.training.loop.Adam", Noted)
    corpus = planted_texts(num_labels=12, num_texts=100)
    gc.disable()  # nothing may wait for the collector: moments are as large as the weights, twice
    try:
        train_model(corpus, "inceptionxml", config_of("inceptionxml", {"embedding": 16, "epochs": 1}), Run.unkept())
        assert seen
        assert not any(one() is not None for one in seen)
    finally:
        gc.enable()


def _assert_equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name
