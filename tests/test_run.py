"""What a run remembers is made once; its members are kept apart; nothing of one run is mixed into another."""

import errno
import json

import pytest
import torch

from laconic.data.prepare import prepare
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import TrainingError, UserError
from laconic.methods.common import remember_tree
from laconic.methods.inceptionxml import Config, train
from laconic.training.loop import Silent
from laconic.training.run import Run
from tests.planted import planted_texts

CPU = torch.device("cpu")
MADE = {
    "labels": torch.tensor([[3, 1], [0, 2]]),
    "scores": torch.tensor([0.5, -0.0, torch.inf]),
    "none": torch.zeros((0, 7), dtype=torch.int32),
    "turned": torch.arange(6.0).reshape(2, 3).T,
    "scalar": torch.tensor(True),
}


class Watched(Silent):
    """Notes what a run says of itself."""

    def __init__(self):
        self.plans, self.beginnings = [], []

    def planned(self, memory, seconds):
        self.plans.append((memory, seconds))

    def entered(self, stage):
        self.beginnings.append(stage)


def kept(folder, watcher=None):
    return Run(folder, watcher=watcher or Silent(), device=CPU)


def never():
    raise AssertionError("this was made before")


def same(one, other):
    return one.keys() == other.keys() and all(
        torch.equal(one[name], other[name]) and one[name].dtype == other[name].dtype for name in one
    )


def small():
    data = prepare(planted_texts(num_labels=4, num_texts=24), Splitter(), VocabularyConfig(), with_label_texts=False)
    return data.data, Config(epochs=2, batch_size=8, embedding=16, length=4, validation=0.0)


# Remembered values


def test_a_value_is_made_once_and_read_when_the_run_is_replayed(tmp_path):
    assert same(kept(tmp_path / "run").remember("clusters", lambda: MADE), MADE)
    assert same(kept(tmp_path / "run").remember("clusters", never), MADE)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"clusters.safetensors", "manifest.json"}


def test_without_a_folder_a_value_is_just_made():
    assert same(Run.unkept().remember("clusters", lambda: MADE), MADE)
    with pytest.raises(AssertionError, match="made before"):
        Run.unkept().remember("clusters", never)


def test_an_empty_value_is_remembered_too(tmp_path):
    kept(tmp_path).remember("nothing", dict)
    assert kept(tmp_path).remember("nothing", never) == {}


def test_what_is_remembered_needs_no_gradient(tmp_path):
    weight = torch.nn.Parameter(torch.ones(2))
    for run in (Run.unkept(), kept(tmp_path), kept(tmp_path)):
        assert not run.remember("vectors", lambda: {"rows": weight * 2})["rows"].requires_grad


def test_a_value_whose_making_fails_is_not_there(tmp_path):
    with pytest.raises(AssertionError):
        kept(tmp_path / "run").remember("clusters", never)
    assert not (tmp_path / "run").exists()


def test_a_full_disk_leaves_no_half_of_a_value(tmp_path, monkeypatch):
    def full(tensor):  # the head of the file is written by then
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("laconic.storage.tensors._bytes_of", full)
    with pytest.raises(UserError, match=r"clusters\.safetensors: the disk is full"):
        kept(tmp_path).remember("clusters", lambda: MADE)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("spoil", [lambda content: content[:-1], lambda content: b"", lambda content: b"\xff" * 99])
def test_a_damaged_value_is_not_made_anew_because_stages_may_rest_on_it(tmp_path, spoil):
    kept(tmp_path).remember("clusters", lambda: MADE)
    path = tmp_path / "clusters.safetensors"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(TrainingError, match=r"clusters\.safetensors: this file of the run is damaged .* start again"):
        kept(tmp_path).remember("clusters", lambda: MADE)


def test_a_damaged_checkpoint_is_told_in_the_same_words(tmp_path):
    data, config = small()
    train(data, config, kept(tmp_path))
    path = tmp_path / "train.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(TrainingError, match=r"train\.safetensors: this file of the run is damaged"):
        train(data, config, kept(tmp_path))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("order", [0, 1, 1, 3]),
        ("order", [0, 1, 2, 999]),
        ("starts", [0, 2, 9]),
        ("starts", [0, -2, 4]),
        ("starts", [0.0, 4.0]),
    ],
)
def test_a_forged_tree_of_labels_is_refused_before_loops_follow_it(tmp_path, name, wrong):
    good = {"order": torch.arange(4), "starts": torch.tensor([0, 2, 4])}
    kept(tmp_path).remember("clusters", lambda: good | {name: torch.tensor(wrong)})
    resumed = kept(tmp_path)
    with (
        pytest.raises(TrainingError, match=r"cannot go on from .*tree of labels"),
        resumed.blaming_its_files(),
    ):
        remember_tree(resumed, "clusters", never)


def test_a_name_is_of_a_stage_or_of_a_value(tmp_path):
    data, config = small()
    for run in (Run.unkept(), kept(tmp_path)):
        run.remember("train", lambda: MADE)
        with pytest.raises(AssertionError, match="'train' is already the name of a value"):
            train(data, config, run)


def test_what_is_remembered_binds_the_run_to_its_settings(tmp_path):
    run = kept(tmp_path)
    run.begin({"config": {"clusters": 8}, "ensemble": 1})
    run.remember("clusters", lambda: MADE)
    run.begin({"config": {"clusters": 8}, "ensemble": 1})
    with pytest.raises(TrainingError, match=r"config\.clusters = 8 \(now 9\)"):
        run.begin({"config": {"clusters": 9}, "ensemble": 1})
    with pytest.raises(TrainingError, match=r"ensemble = 1 \(now 3\)"):
        run.begin({"config": {"clusters": 8}, "ensemble": 3})


# Members


def test_members_keep_what_they_remember_apart(tmp_path):
    for number in range(3):
        kept(tmp_path).member(number).remember("clusters", lambda n=number: {"first": torch.tensor([n])})
    for number in range(3):
        assert kept(tmp_path).member(number, of=3).remember("clusters", never)["first"].tolist() == [number]
    inner = kept(tmp_path).member(1).member(2)
    assert inner.remember("clusters", lambda: {"first": torch.tensor([12])})["first"].tolist() == [12]


def test_members_are_told_apart_in_the_log_and_to_those_who_look_on(tmp_path):
    data, config = small()
    watcher = Watched()
    for number in range(2):
        train(data, config, kept(tmp_path, watcher).member(number, of=2))
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    told = [(line["stage"], line["epoch"]) for line in lines]
    assert told == [("member-0.train", 1), ("member-0.train", 2), ("member-1.train", 1), ("member-1.train", 2)]
    assert [stage.partition(", ")[0] for stage in watcher.beginnings] == ["member 1 of 2", "member 2 of 2"]


def test_a_single_model_is_no_member_of_anything(tmp_path):
    data, config = small()
    watcher = Watched()
    train(data, config, kept(tmp_path, watcher))
    assert "member" not in watcher.beginnings[0]
    assert json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[0])["stage"] == "train"


class Stopping(Silent):
    def __init__(self, error):
        self.error = error

    def ended(self, facts):
        raise self.error


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
def test_what_writes_for_tensorboard_is_closed_however_a_stage_ends(tmp_path, monkeypatch, error):
    board = pytest.importorskip("torch.utils.tensorboard")
    opened, closed = [], []

    class Noted(board.SummaryWriter):
        def __init__(self, folder):
            super().__init__(folder)
            opened.append(self)

        def close(self):
            super().close()
            closed.append(self)

    monkeypatch.setattr(board, "SummaryWriter", Noted)
    data, config = small()
    if error is None:
        train(data, config, kept(tmp_path))
    else:
        with pytest.raises(error):
            train(data, config, kept(tmp_path, Stopping(error)))
    assert len(opened) == 1
    assert opened == closed


def test_the_first_member_announces_for_all_and_finished_ones_take_memory(monkeypatch):
    monkeypatch.setattr("laconic.training.run.memory_held", lambda: 700)  # before training
    watcher = Watched()
    run = Run(None, watcher=watcher, device=CPU)
    run.report_costs(1000, 60.0, {})
    for number in range(3):
        run.member(number, of=3).report_costs(1000, 60.0, {})
    assert watcher.plans == [(1700, 60.0), (2200, 180.0)]


def test_an_ensemble_that_cannot_fit_is_refused_with_what_would_make_it_fit(monkeypatch):
    monkeypatch.setattr("laconic.training.run._free_memory", lambda device: 1200)
    Run.unkept().report_costs(1000, 60.0, {})
    first, last = (Run.unkept().member(number, of=3) for number in (0, 2))
    with pytest.raises(
        TrainingError, match=r"about 1\.5 kB, but 1\.2 kB are free .* with --set tiny=true it would fit"
    ):
        first.report_costs(1000, 60.0, {"--set small=true": 900, "--set tiny=true": 800})
    last.report_costs(1000, 60.0, {})


def test_what_is_forgotten_leaves_the_folder_and_the_others_stay(tmp_path):
    run = kept(tmp_path)
    run.begin({"seed": 1})
    for name in ("part-0", "part-negatives-1", "whole"):
        run.remember(name, lambda: {"numbers": torch.arange(3)})
    run.forget("part-")
    assert sorted(path.name for path in tmp_path.glob("*.safetensors")) == ["whole.safetensors"]
    again = kept(tmp_path)
    again.begin({"seed": 1})
    assert torch.equal(again.remember("whole", never)["numbers"], torch.arange(3))
    again.forget("part-")  # once more, where nothing is left
    assert again.remember("part-0", lambda: {"numbers": torch.zeros(1)})["numbers"].tolist() == [0]
