"""Training goes on where it was stopped, to the bit; it stops at a loss that is no number; it keeps the best epoch."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from laconic.data.prepare import prepare
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import ConfigError, DataError, TrainingError, UserError
from laconic.evaluation.evaluate import validation_figures
from laconic.methods.inceptionxml import Config, train
from laconic.storage.model_folder import read_model
from laconic.training.loop import Silent
from laconic.training.run import Run
from tests.planted import planted_texts
from tests.test_cli import laconic
from tests.variants import some_slow

SMALL = {"epochs": 4, "batch_size": 8, "embedding": 64, "length": 6, "learning_rate": 0.02}
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data():
    return prepare(planted_texts(num_labels=12), Splitter(), VocabularyConfig(), with_label_texts=False).data


class Watched(Silent):
    """Counts steps, and does something at one of them."""

    def __init__(self, at=0, action=lambda: None):
        self.steps, self.at, self.action, self.epochs = 0, at, action, []

    def stepped(self):
        self.steps += 1
        if self.steps == self.at:
            self.action()

    def ended(self, facts):
        self.epochs.append(facts)


def interrupt():
    signal.raise_signal(signal.SIGINT)


def best_epoch(epochs):
    """The last of those with the best score."""
    best = max(facts.score for facts in epochs)
    return max(facts.epoch for facts in epochs if facts.score == best)


def weights(trained):
    return {name: tensor.clone() for name, tensor in trained.ranker.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_planted_labels_are_learnt(data):
    watcher = Watched()
    trained = train(data, Config(**SMALL | {"epochs": 30}, validation=0.2), Run(None, watcher=watcher, device=CPU))
    assert watcher.epochs[-1].loss < watcher.epochs[0].loss / 3
    assert max(facts.score for facts in watcher.epochs) > 80
    assert trained.facts["training"]["best_epoch"] == best_epoch(watcher.epochs)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(data):
    config = Config(**SMALL, validation=0.0)
    first, again = (weights(train(data, config, Run.unkept())) for _ in range(2))
    assert same(first, again)
    assert not same(first, weights(train(data, replace(config, seed=30), Run.unkept())))


def test_the_users_own_random_numbers_are_not_disturbed(data):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(data, Config(**SMALL), Run.unkept())
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("stop", some_slow([7, 1, 10, 11, 25]))
@pytest.mark.parametrize("validation", [0.0, 0.2])
def test_a_stopped_run_goes_on_to_the_same_bits(data, tmp_path, stop, validation):
    config = Config(**SMALL, validation=validation)
    unbroken = weights(train(data, config, Run.unkept()))
    with pytest.raises(KeyboardInterrupt):
        train(data, config, Run(tmp_path / "run", watcher=Watched(stop, interrupt), device=CPU))
    watcher = Watched()
    went_on = train(data, config, Run(tmp_path / "run", watcher=watcher, device=CPU))
    assert same(weights(went_on), unbroken)
    all_steps = config.epochs * -(-(len(data) - round(validation * len(data))) // config.batch_size)
    assert watcher.steps == all_steps - stop
    assert [facts["epoch"] for facts in went_on.facts["training"]["epochs"]] == [1, 2, 3, 4]
    lines = [json.loads(line)["epoch"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert lines == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_finished_stage_is_not_trained_again(data, tmp_path):
    config = Config(**SMALL, validation=0.2, refit=True)
    first = weights(train(data, config, Run(tmp_path, watcher=Silent(), device=CPU)))
    watcher = Watched()
    assert same(weights(train(data, config, Run(tmp_path, watcher=watcher, device=CPU))), first)
    assert watcher.steps == 0


def test_a_finished_stage_keeps_its_weights_alone(data, tmp_path):
    config = Config(**SMALL, validation=0.2)
    trained = train(data, config, Run(tmp_path, watcher=Silent(), device=CPU))
    (stage,) = tmp_path.glob("*.safetensors")
    kept = load_file(stage)
    assert all(name.startswith("task.") for name in kept)
    best = weights(trained)
    assert all(any(torch.equal(tensor, other) for other in best.values()) for tensor in kept.values())


@pytest.mark.slow
def test_refit_trains_on_everything_for_as_many_epochs_as_were_best(data):
    watcher = Watched()
    trained = train(data, Config(**SMALL, validation=0.2, refit=True), Run(None, watcher=watcher, device=CPU))
    chosen, fitted = watcher.epochs[:4], watcher.epochs[4:]
    assert len(fitted) == best_epoch(chosen) == trained.facts["training"]["best_epoch"]
    assert all(facts.score is None for facts in fitted)


def test_a_validation_split_that_came_with_the_data_is_used(data):
    learn, held = data.split(0.25, seed=0)
    with_its_own = replace(learn, validation=held)
    assert [len(part) for part in with_its_own.split(0.05, seed=1)] == [len(learn), len(held)]
    assert [len(part) for part in with_its_own.split(0.0, seed=1)] == [len(learn), 0]
    watcher = Watched()
    train(with_its_own, Config(**SMALL), Run(None, watcher=watcher, device=CPU))
    assert watcher.steps == SMALL["epochs"] * -(-len(learn) // SMALL["batch_size"])
    assert all(facts.score is not None for facts in watcher.epochs)


def test_another_config_or_other_data_is_not_mixed_into_a_run(tmp_path):
    run = Run(tmp_path, watcher=Silent(), device=CPU)
    run.begin({"config": {"epochs": 9}, "data": "nothing was learnt with this, so it binds nobody"})
    run.begin({"config": {"epochs": 3, "text": {"pattern": ""}}, "data": "a"})
    (tmp_path / "train.safetensors").touch()
    run.begin({"config": {"epochs": 3, "text": {"pattern": ""}}, "data": "a"})
    with pytest.raises(TrainingError, match=r"config\.text\.pattern = '' \(now 'x'\)"):
        run.begin({"config": {"epochs": 3, "text": {"pattern": "x"}}, "data": "a"})
    with pytest.raises(TrainingError, match=r"data = 'a' \(now 'b'\)"):
        run.begin({"config": {"epochs": 3, "text": {"pattern": ""}}, "data": "b"})


def test_a_loss_that_is_no_number_stops_the_run_at_once_and_keeps_the_last_good_checkpoint(data, tmp_path, monkeypatch):
    config = Config(**SMALL, validation=0.0)
    unbroken = weights(train(data, config, Run.unkept()))
    import laconic.training.tasks as tasks

    watcher, sound = Watched(), tasks.all_labels_loss

    def spoilt(*arguments, **options):
        loss = sound(*arguments, **options)
        return loss * float("nan") if watcher.steps == 12 else loss

    monkeypatch.setattr(tasks, "all_labels_loss", spoilt)
    with pytest.raises(TrainingError, match=r"not a finite number at step 13 .*learning_rate"):
        train(data, config, Run(tmp_path, watcher=watcher, device=CPU, seconds=0.0))
    assert watcher.steps == 13
    monkeypatch.setattr(tasks, "all_labels_loss", sound)
    assert same(weights(train(data, config, Run(tmp_path, watcher=Silent(), device=CPU))), unbroken)


@pytest.mark.slow
def test_a_full_disk_is_said_and_keeps_the_last_checkpoint(data, tmp_path, monkeypatch):
    config = Config(**SMALL, validation=0.0)
    unbroken = weights(train(data, config, Run.unkept()))

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    watcher = Watched(9, lambda: monkeypatch.setattr("laconic.storage.tensors._bytes_of", full))
    with pytest.raises(UserError, match=r"train\.safetensors: the disk is full"):
        train(data, config, Run(tmp_path, watcher=watcher, device=CPU, seconds=0.0))
    monkeypatch.undo()
    assert same(weights(train(data, config, Run(tmp_path, watcher=Silent(), device=CPU))), unbroken)


def test_a_run_that_cannot_fit_is_refused_with_what_would_make_it_fit(data, monkeypatch):
    wide = Config(**SMALL | {"embedding": 1024})
    monkeypatch.setattr("laconic.training.run._free_memory", lambda device: 10_000_000)
    with pytest.raises(TrainingError, match=r"needs about .*, but .* are free .*with --set embedding=128 it would fit"):
        train(data, wide, Run.unkept())
    monkeypatch.setattr("laconic.training.run._free_memory", lambda device: 1000)
    with pytest.raises(TrainingError, match=r"--method nearest needs far less"):
        train(data, wide, Run.unkept())
    monkeypatch.setattr("laconic.training.run._free_memory", lambda device: 100_000_000)
    with pytest.raises(TrainingError, match=r"with --set batch_size=128 it would fit"):
        train(data, Config(**SMALL | {"batch_size": 1_000_000}), Run.unkept())


def test_a_run_that_was_kept_does_not_bind_the_next_one(tmp_path):
    run = Run(tmp_path, watcher=Silent(), device=CPU)
    run.begin({"config": {"epochs": 3}})
    (tmp_path / "train.safetensors").touch()
    (tmp_path / "finished").touch()
    run.begin({"config": {"epochs": 4}})
    assert not (tmp_path / "train.safetensors").exists()


def test_a_log_that_was_cut_off_does_not_stop_a_run(data, tmp_path):
    config = Config(**SMALL, validation=0.0)
    with pytest.raises(KeyboardInterrupt):
        train(data, config, Run(tmp_path, watcher=Watched(70, interrupt), device=CPU))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"stage": "tra')
    train(data, config, Run(tmp_path, watcher=Silent(), device=CPU))
    lines = [json.loads(line)["epoch"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [1, 2, 3, 4]


@pytest.mark.parametrize("optimiser", ["adam-bf16", "adagrad-bf16"])
def test_halves_need_a_gpu_and_without_one_nothing_is_changed(data, optimiser):
    with pytest.raises(ConfigError, match=f"optimiser={optimiser}.*leave it out"):
        train(data, Config(**SMALL, optimiser=optimiser), Run.unkept("cpu"))


def test_an_unknown_optimiser_is_refused():
    with pytest.raises(ConfigError, match="optimiser must be adam or adam-bf16 or adagrad-bf16, but is 'sgd'"):
        Config(optimiser="sgd")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("optimiser", "rate"), [("adam", 0.02), ("adam-bf16", 0.02), ("adagrad-bf16", 0.1)])
def test_planted_labels_are_learnt_by_every_optimiser(data, optimiser, rate):
    settings = SMALL | {"epochs": 20, "learning_rate": rate}
    ranker = train(data, Config(**settings, optimiser=optimiser), Run.unkept("cuda")).ranker
    assert ranker.classifier.weight.dtype == torch.float32
    assert validation_figures(ranker, data)["P@1"] > 80


@pytest.mark.slow
def test_label_weights_above_1_leave_the_loss_a_minimum(data):
    weighted = replace(data, labels=data.labels * 5)
    watcher = Watched()
    train(weighted, Config(**SMALL, validation=0.0), Run(None, watcher=watcher, device=CPU))
    assert all(facts.loss > 0 for facts in watcher.epochs)


def test_data_without_word_order_is_refused(data):
    with pytest.raises(DataError, match=r"reads words in their order.* nearest"):
        train(replace(data, ordered=False), Config(**SMALL), Run.unkept())


@pytest.mark.parametrize(("texts", "labels"), [(1, 1), (2, 3), (20, 3)])
def test_the_smallest_data_can_be_trained_on(texts, labels):
    corpus = planted_texts(num_labels=labels)
    small = prepare(corpus, Splitter(), VocabularyConfig(), with_label_texts=False).data.rows(np.arange(texts))
    trained = train(small, Config(epochs=2, embedding=64), Run.unkept())
    assert trained.ranker.num_labels == labels


COMMAND = ["train", "DATA", "--method", "inceptionxml", "--validation", "0.1", "--device", "cpu", "--no-pack"]
SETTINGS = ["epochs=6", "embedding=64", "length=6", "batch_size=4"]
MORE_SETTINGS = {"inceptionxml+": ["encoder=bag", "clusters=4", "top=2", "epochs=3", "batch_size=8"]}


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_kill_9_at_any_moment_then_the_same_command_gives_the_same_bits(tmp_path):
    """A real SIGKILL, several times, at moments that differ; one thread."""
    write_data(tmp_path / "data")
    unbroken = start(tmp_path, "unbroken")
    assert unbroken.wait() == 0
    kills = 0
    for delay in (0.3, 0.1, 0.6):
        process = start(tmp_path, "killed")
        stage = tmp_path / "killed" / "run" / "train.safetensors"
        before = stage.stat().st_mtime_ns if stage.exists() else 0
        while process.poll() is None and not (stage.exists() and stage.stat().st_mtime_ns != before):
            time.sleep(0.01)
        time.sleep(delay)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
    assert kills >= 1
    assert start(tmp_path, "killed").wait() == 0
    one, other = read_model(tmp_path / "unbroken", verify=True), read_model(tmp_path / "killed", verify=True)
    assert same(dict(one.tensors), dict(other.tensors))
    assert one.facts["metrics"]["metrics"] == other.facts["metrics"]["metrics"]
    assert not (tmp_path / "killed" / "run").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_kill_9_of_a_run_with_clusters_then_the_same_command_goes_on_with_them_to_the_same_bits(tmp_path, monkeypatch):
    """Half of it in a process of its own, which is killed; one thread."""
    write_data(tmp_path / "data")
    killed = start(tmp_path, "killed", "inceptionxml+")
    run = tmp_path / "killed" / "run"
    while killed.poll() is None and not (run / "train.safetensors").exists():
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert (run / "train-clusters.safetensors").exists()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        laconic(*arguments(tmp_path, "unbroken", "inceptionxml+"))
        monkeypatch.setattr("laconic.methods.common.cluster_labels", lambda *made_again: 1 / 0)
        laconic(*arguments(tmp_path, "killed", "inceptionxml+"))
    finally:
        torch.set_num_threads(threads)
    one, other = read_model(tmp_path / "unbroken", verify=True), read_model(tmp_path / "killed", verify=True)
    assert same(dict(one.tensors), dict(other.tensors))
    assert not run.exists()


def write_data(folder):
    from laconic.data.output import write_folder

    write_folder(planted_texts(num_labels=12), folder)


def arguments(folder, model, method):
    replaced = {"DATA": str(folder / "data"), "inceptionxml": method}
    words = [replaced.get(word, word) for word in COMMAND]
    for setting in [*SETTINGS, *MORE_SETTINGS.get(method, [])]:
        words += ["--set", setting]
    return [*words, "--out", str(folder / model)]


def start(folder, model, method="inceptionxml"):
    code = (
        "import sys, torch, laconic.training.run; torch.set_num_threads(1)\n"
        "laconic.training.run.Run.__init__.__kwdefaults__['seconds'] = 0.0\n"  # a checkpoint after every step
        "from laconic.cli.main import main; main()"
    )
    command = [sys.executable, "-c", code, *arguments(folder, model, method)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
