"""Several models of one method answer with the mean of their scores, and are trained, kept and told of as one."""

from __future__ import annotations

import io
import json
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from sklearn.base import clone
from torch import Tensor
from torch.nn import functional

from laconic import Laconic
from laconic.cli.inspection import inspect_model
from laconic.cli.progress import training_display
from laconic.errors import ConfigError, ModelError, TrainingError
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_ranker
from laconic.methods.train import train_model
from laconic.models.rankers import Ensemble, Ranker
from laconic.predict.predictor import Predictor
from laconic.storage.card import model_card
from laconic.storage.model_folder import SavedModel, read_model, write_model
from laconic.training.loop import Silent
from laconic.training.run import Run
from laconic.types import NO_LABEL, Inputs, Ranking
from tests.planted import planted_texts
from tests.test_cli import laconic
from tests.variants import some_slow

CPU = torch.device("cpu")
SETTINGS = {"epochs": 3, "batch_size": 16, "embedding": 16, "length": 4, "learning_rate": 0.02, "validation": 0.2}
CORPUS = planted_texts(num_labels=12, num_texts=60)
TEXTS = list(CORPUS.split("test").texts or ())
STEPS = 3 * 3  # of one member: epochs × batches


class Known(Ranker):
    """Ranks by a table of scores; a text is its row of the table. Labels with a score of 0 are not ranked at all."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table, self.num_labels = table, table.shape[1]

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        assert isinstance(inputs, Tensor)
        scores, labels = self.table[inputs[:, 0].long()].topk(min(k, self.num_labels))
        missing = (0, k - labels.shape[1])
        ranked = functional.pad(labels.masked_fill(scores == 0, NO_LABEL), missing, value=NO_LABEL)
        return Ranking(ranked, functional.pad(scores, missing))

    def score(self, inputs: Inputs, labels: Tensor) -> Tensor:
        assert isinstance(inputs, Tensor)
        scores = self.table[inputs[:, 0].long()].gather(1, labels.clamp(min=0))
        return scores.masked_fill(labels == NO_LABEL, 0.5)


def known(*tables: list[list[float]], **options: int) -> Ensemble:
    return Ensemble([Known(torch.tensor(table)) for table in tables], **options)


def rows(count: int) -> Tensor:
    return torch.arange(float(count))[:, None]


def trained(members: int, run: Run | None = None, **settings: Any) -> SavedModel:
    return train_model(
        CORPUS, "inceptionxml", config_of("inceptionxml", SETTINGS | settings), run or Run.unkept(), members
    )


@pytest.fixture(scope="module")
def pair() -> SavedModel:
    return trained(2)


def same(one: SavedModel, other: SavedModel) -> bool:
    return one.tensors.keys() == other.tensors.keys() and all(
        torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items()
    )


# Answers


def test_the_mean_of_scores_ranks() -> None:
    ensemble = known([[0.9, 0.8, 0.1]], [[0.1, 0.6, 0.2]])
    labels, scores = ensemble.rank(rows(1), 3)
    assert labels.tolist() == [[1, 0, 2]]
    torch.testing.assert_close(scores, torch.tensor([[0.7, 0.5, 0.15]]))
    torch.testing.assert_close(ensemble.score(rows(1), labels), scores)


def test_a_label_that_only_one_member_names_is_scored_by_all() -> None:
    ensemble = known([[0.9, 0.8, 0.0]], [[0.5, 0.0, 0.4]], width=2)
    labels, scores = ensemble.rank(rows(1), 3)
    assert labels.tolist() == [[0, 1, 2]]
    torch.testing.assert_close(scores, torch.tensor([[0.7, 0.4, 0.2]]))


def test_a_label_beyond_the_width_of_every_member_is_not_found() -> None:
    tables = [[0.9, 0.1, 0.6]], [[0.1, 0.9, 0.6]]
    assert known(*tables, width=1).rank(rows(1), 1).labels.tolist() == [[0]]  # of equals the smaller number
    assert known(*tables, width=2).rank(rows(1), 1).labels.tolist() == [[2]]


def test_rows_end_in_no_label_only_where_labels_give_out() -> None:
    ensemble = known([[0.0, 0.2, 0.0], [0.1, 0.2, 0.3]], [[0.0, 0.4, 0.0], [0.1, 0.2, 0.3]])
    labels, scores = ensemble.rank(rows(2), 4)
    assert labels.tolist() == [[1, -1, -1, -1], [2, 1, 0, -1]]
    assert scores[labels == NO_LABEL].tolist() == [0, 0, 0, 0]
    assert ensemble.rank(rows(2), 0).labels.shape == (2, 0)
    assert ensemble.rank(rows(0), 4).labels.shape == (0, 4)


@pytest.mark.parametrize("at_once", [1, 30, 1 << 17])
@pytest.mark.parametrize("k", [1, 7, 40])
def test_ranking_agrees_with_a_plain_loop(k: int, at_once: int) -> None:
    generator = torch.Generator().manual_seed(k)
    tables = [torch.rand(9, 40, generator=generator) for _ in range(3)]
    labels, scores = Ensemble([Known(table) for table in tables], width=5, at_once=at_once).rank(rows(9), k)
    mean = torch.stack(tables).mean(0)
    for row in range(9):
        named = {int(label) for table in tables for label in table[row].topk(max(k, 5)).indices}
        expected = sorted(named, key=lambda label: -float(mean[row, label]))[:k]
        assert labels[row].tolist() == expected
        torch.testing.assert_close(scores[row], mean[row, expected])


def test_members_rank_the_same_labels() -> None:
    with pytest.raises(AssertionError):
        known([[0.1, 0.2]], [[0.1, 0.2, 0.3]])


# Training


def test_members_are_what_they_would_be_alone_with_one_seed_after_another(pair: SavedModel) -> None:
    for number in range(2):
        alone = trained(1, seed=29 + number)
        prefix = f"members.{number}."
        assert {prefix + name for name in alone.tensors} == {name for name in pair.tensors if name.startswith(prefix)}
        assert all(torch.equal(pair.tensors[prefix + name], tensor) for name, tensor in alone.tensors.items())
    assert not torch.equal(pair.tensors["members.0.classifier.weight"], pair.tensors["members.1.classifier.weight"])


def test_the_model_tells_of_each_member(pair: SavedModel) -> None:
    assert pair.facts["ensemble"] == 2
    assert pair.facts["config"]["seed"] == 29
    assert [member["seed"] for member in pair.facts["members"]] == [29, 30]
    for member in pair.facts["members"]:
        assert [epoch["epoch"] for epoch in member["training"]["epochs"]] == [1, 2, 3]


def test_one_member_is_no_ensemble() -> None:
    alone = trained(1)
    assert not {"ensemble", "members"} & alone.facts.keys()
    assert "training" in alone.facts
    assert not any(name.startswith("members.") for name in alone.tensors)


@pytest.mark.parametrize("members", [0, -1])
def test_a_number_of_members_is_at_least_1(members: int) -> None:
    with pytest.raises(ConfigError, match=f"ensemble must be an integer of 1 or more, but is {members}"):
        trained(members)


def test_a_method_without_a_seed_has_no_ensembles() -> None:
    with pytest.raises(ConfigError, match=r"ensemble must be 1 for nearest, but is 3: .* seed, and it has none"):
        train_model(CORPUS, "nearest", config_of("nearest", {}), Run.unkept(), 3)
    assert train_model(CORPUS, "nearest", config_of("nearest", {}), Run.unkept(), 1).facts["method"] == "nearest"


class Watched(Silent):
    """Counts steps, and interrupts at one of them."""

    def __init__(self, at: int = 0) -> None:
        self.at, self.steps = at, 0

    def stepped(self) -> None:
        self.steps += 1
        if self.steps == self.at:
            signal.raise_signal(signal.SIGINT)


def kept(folder: Path, watcher: Watched) -> Run:
    return Run(folder, watcher=watcher, device=CPU)


@pytest.mark.parametrize("stop", some_slow([4, STEPS, STEPS + 1, 2 * STEPS - 1]))
def test_a_stopped_ensemble_goes_on_to_the_same_bits_and_trains_no_member_again(
    pair: SavedModel, tmp_path: Path, stop: int
) -> None:
    with pytest.raises(KeyboardInterrupt):
        trained(2, kept(tmp_path, Watched(stop)))
    watcher = Watched()
    assert same(trained(2, kept(tmp_path, watcher)), pair)
    assert watcher.steps == 2 * STEPS - stop
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    expected = [(f"member-{number}.train", epoch) for number in (0, 1) for epoch in (1, 2, 3)]
    assert [(line["stage"], line["epoch"]) for line in lines] == expected


def test_another_number_of_members_is_not_mixed_into_a_run(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        trained(2, kept(tmp_path, Watched(4)))
    for members in (1, 3):
        with pytest.raises(TrainingError, match=rf"ensemble = 2 \(now {members}\) was started here"):
            trained(members, kept(tmp_path, Watched()))


# Folders


def test_a_saved_ensemble_is_the_same_ensemble(pair: SavedModel, tmp_path: Path) -> None:
    write_model(pair, tmp_path / "model")
    opened = Predictor.open(tmp_path / "model", device="cpu", verify=True)
    assert opened.predict(TEXTS) == Predictor(pair, "cpu").predict(TEXTS)
    assert opened.evaluate(CORPUS, "test").metrics == Predictor(pair, "cpu").evaluate(CORPUS, "test").metrics
    assert same(read_model(tmp_path / "model"), pair)
    assert len(opened.predict(TEXTS[0], 3, allow=["L0", "L1"])[0]) == 2


Spoilt = dict[str, Any]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda facts: facts | {"ensemble": 3},
        lambda facts: facts | {"ensemble": 1},
        lambda facts: facts | {"ensemble": 0},
        lambda facts: facts | {"ensemble": -2},
        lambda facts: facts | {"ensemble": True},
        lambda facts: facts | {"ensemble": 2.0},
        lambda facts: facts | {"ensemble": "2"},
        lambda facts: facts | {"ensemble": None},
        lambda facts: facts | {"ensemble": 10**30},
        lambda facts: facts | {"ensemble": 3, "members": facts["members"] * 2},
        lambda facts: facts | {"ensemble": 4, "members": facts["members"] * 2},
        lambda facts: facts | {"ensemble": 10_000, "members": [{}] * 10_000},
        lambda facts: facts | {"members": "two"},
        lambda facts: facts | {"members": ["one", "two"]},
        lambda facts: {name: value for name, value in facts.items() if name != "members"},
        lambda facts: {name: value for name, value in facts.items() if name != "ensemble"},
        lambda facts: facts | {"method": "nearest", "config": {}},
    ],
)
def test_facts_that_do_not_fit_together_are_refused(pair: SavedModel, spoil: Callable[[Spoilt], Spoilt]) -> None:
    with pytest.raises(ModelError):
        restore_ranker(replace(pair, facts=spoil(dict(pair.facts))), CPU)


def test_tensors_that_do_not_fit_together_are_refused(pair: SavedModel) -> None:
    name, rest = "members.1.classifier.weight", dict(pair.tensors)
    tensor = rest.pop(name)
    first_alone = {name: tensor for name, tensor in pair.tensors.items() if name.startswith("members.0.")}
    for wrong, message in [
        (rest, name),
        (first_alone, r"members\.1\."),
        ({}, "ensemble"),
        (pair.tensors | {"members.2.classifier.weight": tensor}, "'members.2.classifier.weight' is of none of them"),
        (pair.tensors | {"members.01.classifier.weight": tensor}, "members.01"),
        (pair.tensors | {"members": tensor}, "'members' is of none"),
        (pair.tensors | {"classifier.weight": tensor}, "'classifier.weight' is of none"),
        (pair.tensors | {name: tensor[:-1]}, "inceptionxml"),
        (_fewer_labels(pair.tensors), "differ in their numbers of labels and words"),
    ]:
        with pytest.raises(ModelError, match=message):
            restore_ranker(replace(pair, tensors=wrong), CPU)


def _fewer_labels(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """A second member that is whole, but ranks a label less."""
    names = ("members.1.classifier.weight", "members.1.classifier.bias")
    return tensors | {name: tensors[name][:-1] for name in names}


# What people see


def test_members_are_named_and_finished_ones_are_said_to_be_done(tmp_path: Path) -> None:
    shown = io.StringIO()
    with training_display(Console(file=shown, width=200)) as watcher:
        for _ in range(2):
            trained(2, Run(tmp_path, watcher=watcher, device=CPU))
    lines = [line for line in shown.getvalue().splitlines() if "member" in line]
    ends = [line.rpartition(", ")[2] for line in lines]
    assert all(re.fullmatch(r"\d+\.\d s", end) for end in ends[:2])
    assert ends[2:] == ["done before"] * 2
    assert [f"member {number} of 2" in line for number, line in zip((1, 2, 1, 2), lines, strict=True)] == [True] * 4
    assert shown.getvalue().count("Estimated: ") == 2


def test_the_card_tells_of_the_members(pair: SavedModel) -> None:
    card = model_card(pair.facts)
    assert "| method | `inceptionxml`: 2 members (seeds 29, 30), whose scores are averaged |" in card
    for seed in (29, 30):
        assert f"| training, seed {seed} | 3 epochs" in card
        assert f"| best epoch, seed {seed} |" in card


def test_inspect_counts_all_members(pair: SavedModel, tmp_path: Path) -> None:
    write_model(pair, tmp_path / "pair")
    write_model(trained(1), tmp_path / "alone")
    both, one = (inspect_model(tmp_path / name, verify=True).facts["cost"] for name in ("pair", "alone"))
    assert both["parameters"] == {part: 2 * count for part, count in one["parameters"].items()}
    assert (both["gmacs"], both["bytes"], both["length"]) == (2 * one["gmacs"], 2 * one["bytes"], one["length"])
    write_model(replace(pair, facts={**pair.facts, "ensemble": 7}), tmp_path / "spoilt")
    with pytest.raises(ModelError):
        inspect_model(tmp_path / "spoilt", verify=False)


@pytest.mark.slow
def test_the_command_line_trains_evaluates_and_inspects_ensembles(tmp_path: Path) -> None:
    from laconic.data.output import write_folder

    write_folder(CORPUS, tmp_path / "data")
    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    command = ["train", tmp_path / "data", "--method", "inceptionxml", "--device", "cpu", *settings]
    shown = laconic(*command, "--ensemble", 2, "--out", tmp_path / "model")
    assert "inceptionxml (2 members), 60 texts" in shown
    assert "2, whose scores are averaged" in laconic("inspect", tmp_path / "model")
    assert "PSP" in laconic("evaluate", tmp_path / "model", tmp_path / "data", "--device", "cpu")
    assert {path.name for path in (tmp_path / "model").glob("training*.png")} == {"training0.png", "training1.png"}
    laconic(*command, "--ensemble", 0, "--out", tmp_path / "none", code=2)
    refused = laconic(*command[:2], "--method", "nearest", "--ensemble", 2, "--out", tmp_path / "none", code=2)
    assert "ensemble must be 1 for nearest" in refused
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_the_estimator_knows_ensembles(tmp_path: Path) -> None:
    texts, labels = ["red rose", "blue sea", "white rose", "deep sea"], [["flower"], ["water"], ["flower"], ["water"]]
    model = Laconic("inceptionxml", device="cpu", ensemble=2, epochs=2, embedding=16, validation=0.0)
    assert repr(model).startswith("Laconic('inceptionxml', device='cpu', ensemble=2, epochs=2")
    assert clone(model).get_params() == model.get_params()
    assert model.get_params()["ensemble"] == 2
    model.fit(texts, labels).save(tmp_path / "model")
    loaded = Laconic.load(tmp_path / "model", device="cpu")
    assert loaded.get_params()["ensemble"] == 2
    assert loaded.predict(texts) == model.predict(texts)
    again = clone(loaded).fit(texts, labels)
    assert again.model_.facts["ensemble"] == 2
    assert same(again.model_, model.model_)
    alone = loaded.set_params(ensemble=1).fit(texts, labels)
    assert "ensemble" not in alone.model_.facts
    assert Laconic.load(tmp_path / "model").set_params(ensemble=3).ensemble == 3
