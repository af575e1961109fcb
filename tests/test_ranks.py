"""Several ranks train the model that one process trains: the same losses, weights and labels, to the rounding of sums.

The bounds: from equal weights a step's loss is within 1e-6 of its value and gradients within 2e-6 of their norm; after
a training of some dozen steps, losses and rows of labels are within 1e-6, and all else within 5e-4 of its norm.
"""

from __future__ import annotations

import os
import signal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn

from laconic.data.resident import Resident
from laconic.data.shards import Shard
from laconic.errors import ConfigError, LostRankError, TrainingError
from laconic.methods.registry import METHODS, check_shardable, config_of
from laconic.methods.train import Training, train_model
from laconic.models.classifiers import LabelText, LinearClassifier, shards_of
from laconic.models.classifiers.label_text import Texts
from laconic.models.clustering import random_tree
from laconic.models.layers import DocumentBlock, Residual, SpectralResidual
from laconic.models.rankers import FlatRanker, ShortlistRanker
from laconic.models.shortlisters.clusters import Clusters, label_shard
from laconic.predict.predictor import Predictor
from laconic.system.ranks import Alone, Ranks
from laconic.training.loop import Silent
from laconic.training.run import Run
from laconic.training.tasks import AllLabels, ClustersAndLabels, PickedClusters, Shortlisted
from laconic.types import NO_LABEL, Batch
from tests.planted import planted_texts
from tests.several import on_ranks
from tests.turned import Turned

TEXTS, LABELS, DIM = 6, 37, 8
CLUSTERS, TOP = 8, 6


def slow(*values: Any) -> Any:
    """Return a variant of a test that is left to the slow ones."""
    return pytest.param(*values, marks=pytest.mark.slow)


def drawn(kind: str) -> Batch:
    """Return a batch whose texts have labels of all ranks, soft targets, weights and left-out labels among them."""
    generator = torch.Generator().manual_seed(3)
    order = torch.stack([torch.randperm(LABELS, generator=generator) for _ in range(TEXTS)])
    positives, left_out = order[:, :5].clone(), order[:, 5:7].clone()
    positives[1, 2:], positives[2], left_out[0] = NO_LABEL, NO_LABEL, NO_LABEL
    inputs, rest = torch.randn(TEXTS, DIM, generator=generator), kind == "all at once"
    return Batch(
        inputs,
        positives,
        torch.rand(TEXTS, 5, generator=generator) if rest else None,
        torch.rand(TEXTS, generator=generator) if rest else None,
        negatives=order[:, 3:19],  # of which some are positives, and some left out
        left_out=left_out if rest else None,
    )


def flat_task(ranks: Ranks, labels: int = LABELS) -> AllLabels:
    torch.manual_seed(0)
    encoder = Turned(DIM)
    transform = Residual(DIM, DIM, dropout=0.0)
    classifier = LinearClassifier(DIM, labels, transform=transform, shard=Shard.even(ranks, labels))
    return AllLabels(encoder, classifier, dropout=0.3, chunk=10)


def plus_task(ranks: Ranks, labels: int = LABELS) -> ClustersAndLabels:
    torch.manual_seed(0)
    encoder, tree = Turned(DIM), random_tree(labels, CLUSTERS, 0)
    clusters = Shard.even(ranks, CLUSTERS)
    meta, classifier = (
        LinearClassifier(DIM, shard.total, transform=SpectralResidual(DIM, DIM, dropout=0.0), shard=shard)
        for shard in (clusters, label_shard(clusters, tree.starts))
    )
    return ClustersAndLabels(
        encoder, Clusters(meta, tree), classifier, top=TOP, dropouts=(0.3, 0.3), detached=0.2, chunk=10
    )


def listed_task(ranks: Ranks, labels: int = LABELS) -> Shortlisted:
    torch.manual_seed(0)
    encoder, transform = Turned(DIM), Residual(DIM, DIM, dropout=0.3)
    classifier = LinearClassifier(DIM, labels, transform=transform, shard=Shard.even(ranks, labels))
    classifier.spread(0.5)
    return Shortlisted(encoder, classifier, random=6, likely=torch.arange(1.0, labels + 1))


def text_task(ranks: Ranks, labels: int = LABELS) -> PickedClusters:
    """Return a task whose rows are made of label texts, by a word table that all ranks share."""
    torch.manual_seed(0)
    tree, clusters = random_tree(labels, CLUSTERS, 0), Shard.even(ranks, CLUSTERS)
    shard, table = label_shard(clusters, tree.starts), nn.Embedding(11, DIM)
    bags = csr_array(np.random.default_rng(0).random((labels, 11), dtype=np.float32))[shard.own]
    transform, start = DocumentBlock(DIM, dropout=0.3), torch.randn(labels, DIM)[shard.own]
    classifier = LabelText(Texts(bags, table), start, transform, dropout=0.3, shard=shard)
    task = PickedClusters(Turned(DIM), classifier, tree.starts, clusters=clusters)
    task.table = table
    return task


TASKS = {"all labels": flat_task, "clusters": plus_task, "shortlists": listed_task, "label texts": text_task}


def own_batch(kind: str, task: Any) -> Batch:
    """Return what a rank has of a batch; for a task of picked clusters, negatives are clusters."""
    batch, shard = drawn(kind), task.classifier.shard
    assert batch.negatives is not None
    clusters = Shard.even(shard.ranks, CLUSTERS)
    picked = batch.negatives % CLUSTERS
    return batch._replace(
        positives=shard.numbered(batch.positives),
        negatives=clusters.numbered(picked) if isinstance(task, PickedClusters) else shard.own_lists(batch.negatives),
        left_out=None if batch.left_out is None else shard.numbered(batch.left_out),
    )


def one_step(ranks: Ranks, name: str, kind: str) -> dict[str, Any]:
    """Return loss and gradients of a step; those of label rows joined."""
    task: Any = TASKS[name](ranks)
    own = own_batch(kind, task)
    torch.manual_seed(1)
    loss = task(own, torch.tensor(0.5))
    loss.backward()
    return {"loss": loss.detach().numpy(), **whole({name: one.grad for name, one in task.named_parameters()}, task)}


def whole(tensors: dict[str, Any], task: nn.Module) -> dict[str, Any]:
    """Return the tensors with rows joined on the first rank, as arrays."""
    shards = shards_of(task)
    joined = {name: shards[name].join(one) if name in shards else one for name, one in tensors.items()}
    return {name: one.detach().numpy() for name, one in joined.items() if one is not None}


def far(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, float]:
    """Return the distance of each array from what is expected, as a fraction of its norm."""
    assert found.keys() == expected.keys()
    return {name: _distance(found[name], expected[name]) for name in expected}


def _distance(found: Any, expected: Any) -> float:
    if np.array_equal(found, expected):
        return 0.0
    one, other = np.float64(found), np.float64(expected)
    return float(np.linalg.norm(one - other) / max(np.linalg.norm(other), 1e-12))


@pytest.mark.parametrize(
    ("world", "kind"), [(2, "plain"), slow(2, "all at once"), (3, "all at once"), slow(4, "all at once")]
)
@pytest.mark.parametrize("name", TASKS)
def test_a_step_has_the_loss_and_gradients_of_one_process(world: int, name: str, kind: str) -> None:
    (expected,) = on_ranks(1, one_step, name, kind)
    first, *others = on_ranks(world, one_step, name, kind)
    assert max(far(first, expected).values()) < 2e-6
    assert first["loss"] == pytest.approx(expected["loss"], rel=1e-6)
    for other in others:  # what is replicated is the same on all ranks, to the bit
        assert all(np.array_equal(other[name], first[name]) for name in other)


@pytest.mark.parametrize("shape", [(37, 8), (5, 3), (1000, 7)])
def test_rows_are_drawn_as_if_by_one_process(shape: tuple[int, int]) -> None:
    labels, dim = shape
    torch.manual_seed(4)
    expected, after = nn.init.xavier_uniform_(torch.empty(labels, dim)), torch.rand(3)
    rows = []
    for rank in range(3):
        torch.manual_seed(4)
        ranks = Imagined(rank, 3)
        rows.append(LinearClassifier(dim, labels, shard=Shard.even(ranks, labels)).weight.detach())
        assert torch.equal(torch.rand(3), after), "what is drawn later is the same too"
    assert torch.equal(torch.cat(rows), expected)


class Imagined(Alone):
    """A rank of several that cannot talk to the others."""

    def __init__(self, rank: int, world: int) -> None:
        super().__init__()
        self.rank, self.world = rank, world


def test_data_keeps_the_labels_of_its_shard() -> None:
    data = Training.of(planted_texts(), "inceptionxml", config_of("inceptionxml", {})).data
    whole_rows = Resident.of(data, 8, torch.device("cpu")).take(torch.arange(20)).positives
    for rank in range(3):
        shard = Shard.even(Imagined(rank, 3), data.num_labels)
        own = Resident.of(data, 8, torch.device("cpu"), shard=shard).take(torch.arange(20)).positives
        for mine, all_of in zip(own.tolist(), whole_rows.tolist(), strict=True):
            expected = {label - shard.first for label in all_of if shard.first <= label < shard.last}
            assert {label for label in mine if label != NO_LABEL} == expected


def ranked(ranks: Ranks) -> list[Any]:
    """Return the best k labels for some k, more than a rank has and more than there are among them."""
    task = flat_task(ranks).eval()
    ranker = FlatRanker(task.encoder, task.classifier, chunk=7)
    inputs = torch.randn(9, DIM, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        rankings = [ranker.rank(inputs, k) for k in (1, 5, 11, LABELS, LABELS + 3)]
        return [[*map(Tensor.numpy, best), ranker.score(inputs, best.labels).numpy()] for best in rankings]


def test_the_best_labels_of_all_ranks_are_those_of_one_process() -> None:
    (expected,) = on_ranks(1, ranked)
    for found in on_ranks(4, ranked):
        for ours, theirs in zip(found, expected, strict=True):
            assert np.array_equal(ours[0], theirs[0])
            np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6)
            there = theirs[0] != NO_LABEL
            np.testing.assert_allclose(ours[2][there], theirs[2][there], rtol=1e-6)


def picked(ranks: Ranks) -> Any:
    """Return the clusters that a rank picks for some texts, by their numbers among all."""
    task = plus_task(ranks).eval()
    shard, batch = task.clusters.shard, own_batch("plain", task)
    vectors = torch.randn(TEXTS, DIM, generator=torch.Generator().manual_seed(5))
    picks = task.clusters.pick(vectors, task.clusters.of(batch.positives), TOP).picks
    return [{int(pick) + shard.first for pick in row if pick < len(shard)} for row in picks]


@pytest.mark.parametrize("world", [slow(2), 4])
def test_ranks_pick_the_clusters_that_one_process_picks_each_once(world: int) -> None:
    (expected,) = on_ranks(1, picked)
    parts = on_ranks(world, picked)
    for text, row in enumerate(expected):
        assert sorted(pick for part in parts for pick in part[text]) == sorted(row)


def shortlisted(ranks: Ranks, product: bool) -> list[Any]:
    task = plus_task(ranks).eval()
    ranker = ShortlistRanker(task.encoder, task.clusters, task.classifier, top=TOP, product=product)
    inputs = torch.randn(9, DIM, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        best = ranker.rank(inputs, 7)
        return [best.labels.numpy(), best.scores.numpy(), ranker.score(inputs, best.labels).numpy()]


@pytest.mark.parametrize("product", [True, False])
def test_the_best_labels_of_all_ranks_clusters_are_those_of_one_process(product: bool) -> None:
    (expected,) = on_ranks(1, shortlisted, product)
    for found in on_ranks(3, shortlisted, product):
        assert np.array_equal(found[0], expected[0])
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)
        np.testing.assert_allclose(found[2], expected[2], rtol=1e-5)


# Whole trainings

SMALL = {"epochs": 2, "batch_size": 12, "embedding": 16, "validation": 0.1, "seed": 3}  # 46 steps


def settings_of(method: str, **more: Any) -> Any:
    clusters = {"clusters": 16, "top": 6} if method == "inceptionxml+" else {}
    return config_of(method, {**SMALL, **clusters, **more})


class Dying(Silent):
    """A watcher that kills its process at a step."""

    def __init__(self, step: int) -> None:
        self.left = step

    def stepped(self) -> None:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)


class Leaving(Dying):
    """A watcher that interrupts its process at a step."""

    def stepped(self) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def trained(
    ranks: Ranks, method: str, folder: Path | None = None, dies: int | None = None, at: int = 20
) -> dict[str, Any] | None:
    """Train; return the history and, on the first rank, all weights. `dies` is the rank that is killed at a step."""
    watcher = Silent() if dies is None else Leaving(at) if dies < 0 else Dying(at) if dies == ranks.rank else Silent()
    run = Run(folder, watcher=watcher, device=torch.device("cpu"), seconds=0.0, ranks=ranks)
    try:
        model = train_model(corpus(), method, settings_of(method), run)
    except KeyboardInterrupt:
        return None
    losses = [line["loss"] for line in model.facts["training"]["epochs"]]
    tensors = {name: tensor.numpy() for name, tensor in model.tensors.items()}

    return {"losses": losses, "tensors": tensors, "sent": dict(ranks.sent)}


@cache
def corpus() -> Any:
    return planted_texts(num_labels=LABELS, num_texts=300, seed=1, with_label_texts=True)


@cache
def alone(method: str) -> dict[str, Any]:
    (found,) = on_ranks(1, trained, method)
    assert found is not None
    return dict(found)


@cache
def together(world: int, method: str) -> list[dict[str, Any]]:
    return on_ranks(world, trained, method)


def check_same_training(found: dict[str, Any], method: str) -> None:
    expected = alone(method)
    np.testing.assert_allclose(found["losses"], expected["losses"], rtol=1e-6)
    distances = far(found["tensors"], expected["tensors"])
    assert distances["classifier.weight"] < 1e-6
    assert max(distances.values()) < 5e-4  # biases before a norm have no gradient but that of rounding


SHARDED = ["inceptionxml", "inceptionxml+", "xml-cnn", "astec", "decaf"]
TRAININGS = [(2, "inceptionxml"), (2, "inceptionxml+"), (3, "astec"), (2, "decaf")]
TRAININGS += [slow(3, "inceptionxml"), slow(4, "inceptionxml"), slow(4, "inceptionxml+"), slow(2, "xml-cnn")]


@pytest.mark.parametrize(("world", "method"), TRAININGS)
def test_a_training_has_the_losses_and_weights_of_one_process(world: int, method: str) -> None:
    first, *others = together(world, method)
    check_same_training(first, method)
    assert all(other["losses"] == first["losses"] and "classifier.weight" not in other["tensors"] for other in others)


@pytest.mark.parametrize("method", ["inceptionxml", slow("inceptionxml+")])
def test_a_run_goes_on_with_other_numbers_of_ranks(tmp_path: Path, method: str) -> None:
    """4 ranks, then 2, then 1: each stops in the middle, and the last one ends the training."""
    folder = tmp_path / "run"
    assert on_ranks(4, trained, method, folder, -1, 20) == [None] * 4  # saved at step 16, within an epoch
    assert len(list(folder.glob("train.?.*-of-00004.safetensors"))) == 4
    assert on_ranks(2, trained, method, folder, -1, 10) == [None] * 2  # saved at the end of the epoch
    assert len(list(folder.glob("train.?.*.safetensors"))) == 2, "the older pieces are gone"
    (found,) = on_ranks(1, trained, method, folder)
    check_same_training(found, method)
    assert (folder / "train.safetensors").exists()
    assert not list(folder.glob("train.?.*"))


# The combined default, and starts from label texts

FUSION = {"trees": 1, "siamese": 8, "width": 6, "neighbours": 8, "epochs": 3, "hidden": 8}
COMBINED: dict[str, dict[str, Any]] = {
    "astec": {
        "fusion": {**FUSION, "siamese": 0},
        "extra_texts": {"share": 0.2},
        "shortlister": "siamese",
        "shortlist": {"size": 6},
        "validation": 0.3,
    },
    "inceptionxml": {"fusion": FUSION, "warm_up": {"epochs": 1}, "row_start": 2.0, "validation": 0.3},
}


def combined(ranks: Ranks, method: str, folder: Path | None) -> dict[str, Any]:
    """Train a method with all that the default puts over it; return what its model has."""
    corpus = planted_texts(num_labels=LABELS, num_texts=200, seed=1, with_label_texts=True)
    run = Run(folder, watcher=Silent(), device=torch.device("cpu"), ranks=ranks)
    model = train_model(corpus, method, config_of(method, {**SMALL, **COMBINED[method]}), run)
    answers = Predictor(model).predict(list(corpus.split("test").texts or ()), k=3) if ranks.is_first else []
    tensors = {name: tensor.numpy() for name, tensor in model.tensors.items() if ".order." not in name}
    return {"tensors": tensors, "facts": dict(model.facts), "answers": [[*map(tuple, one)] for one in answers]}


@pytest.mark.parametrize("method", ["astec", slow("inceptionxml")])
def test_the_combined_model_is_that_of_one_process(tmp_path: Path, method: str) -> None:
    (expected,) = on_ranks(1, combined, method, None)
    first, _ = on_ranks(2, combined, method, tmp_path)
    distances = far(first["tensors"], expected["tensors"])
    assert max(distances.values()) < 5e-3, distances
    assert all(not distance for name, distance in distances.items() if name.startswith(("trees", "nearest", "siamese")))
    labels = [[[label for label, _ in answer] for answer in one["answers"]] for one in (first, expected)]
    assert labels[0] == labels[1]
    for part in ("fusion", "training"):
        ours, theirs = ([line["loss"] for line in one["facts"][part]["epochs"]] for one in (first, expected))
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    assert first["facts"]["calibration"]["how"] == expected["facts"]["calibration"]["how"]


@pytest.mark.slow
def test_a_combined_model_is_made_again_of_what_is_remembered(tmp_path: Path) -> None:
    first, again = (on_ranks(2, combined, "astec", tmp_path)[0] for _ in range(2))
    assert all(np.array_equal(again["tensors"][name], first["tensors"][name]) for name in first["tensors"])


@pytest.mark.slow
def test_a_run_of_one_process_goes_on_with_several(tmp_path: Path) -> None:
    assert on_ranks(1, trained, "inceptionxml", tmp_path, -1, 20) == [None]
    check_same_training(on_ranks(3, trained, "inceptionxml", tmp_path)[0], "inceptionxml")


def test_a_run_that_goes_on_with_as_many_ranks_ends_with_the_same_bits(tmp_path: Path) -> None:
    assert on_ranks(2, trained, "inceptionxml", tmp_path, -1, 20) == [None] * 2
    first, unbroken = on_ranks(2, trained, "inceptionxml", tmp_path)[0], together(2, "inceptionxml")[0]
    assert all(np.array_equal(first["tensors"][name], unbroken["tensors"][name]) for name in unbroken["tensors"])
    assert first["losses"] == unbroken["losses"]


@pytest.mark.parametrize("dies", [slow(0), 2])
def test_a_rank_that_is_killed_ends_all_ranks_and_the_run_goes_on(tmp_path: Path, dies: int) -> None:
    found = on_ranks(3, trained, "inceptionxml", tmp_path, dies, 20)
    assert found.pop(dies) == -signal.SIGKILL
    assert all(isinstance(error, LostRankError) and "same command resumes" in str(error) for error in found)
    check_same_training(on_ranks(2, trained, "inceptionxml", tmp_path)[0], "inceptionxml")


def test_a_checkpoint_with_a_piece_missing_or_changed_is_refused(tmp_path: Path) -> None:
    on_ranks(2, trained, "inceptionxml", tmp_path, -1, 20)
    first, last = sorted(tmp_path.glob("train.?.*.safetensors"))
    content = last.read_bytes()
    for damage in (content[:-1], content[:-5] + b"12345", first.read_bytes(), None):
        last.unlink()
        if damage is not None:
            last.write_bytes(damage)
        with pytest.raises(TrainingError, match=f"{last.name}: this file of the run is damaged"):
            on_ranks(1, trained, "inceptionxml", tmp_path)
        last.write_bytes(content)


def test_a_piece_that_a_killed_save_has_left_is_not_used(tmp_path: Path) -> None:
    on_ranks(2, trained, "inceptionxml", tmp_path, -1, 20)
    (stale,) = {path.name[6] for path in tmp_path.glob("train.?.*")} ^ {"a", "b"}
    (tmp_path / f"train.{stale}.00001-of-00003.safetensors").write_bytes(b"half")
    check_same_training(on_ranks(1, trained, "inceptionxml", tmp_path)[0], "inceptionxml")
    assert [path.name for path in tmp_path.glob("*.safetensors")] == ["train.safetensors"]


# What is sent


def sent_in_steps(ranks: Ranks, name: str) -> list[float]:
    """Return the bytes that a rank sends in a step, for some labels and for ten times as many."""
    found = []
    for labels in (LABELS, 10 * LABELS):
        task: Any = TASKS[name](ranks, labels)
        own, before = own_batch("plain", task), sum(ranks.sent.values())
        for _ in range(10):
            task(own, torch.tensor(0.5)).backward()
        found.append((sum(ranks.sent.values()) - before) / 10)
    return found


@pytest.mark.parametrize("world", [2, slow(3), 4])
def test_a_step_sends_the_gradient_of_the_vectors_whatever_the_number_of_labels(world: int) -> None:
    for few, many in on_ranks(world, sent_in_steps, "all labels"):
        assert few == many == pytest.approx(TEXTS * DIM * 4 * 2 * (world - 1) / world, rel=0.1)


@pytest.mark.parametrize("world", [2, 4])
def test_a_step_with_clusters_sends_two_gradients_and_the_scores_of_the_best_clusters(world: int) -> None:
    gradients, scores = 2 * TEXTS * DIM * 4 * 2 * (world - 1) / world, TEXTS * TOP * 4 * (world - 1)
    for few, many in on_ranks(world, sent_in_steps, "clusters"):
        assert few == many == pytest.approx(gradients + scores, rel=0.1)


# What is refused


def other_settings(ranks: Ranks) -> Any:
    config = settings_of("inceptionxml", learning_rate=0.001 * (1 + ranks.rank))
    run = Run(None, watcher=Silent(), device=torch.device("cpu"), ranks=ranks)
    return train_model(corpus(), "inceptionxml", config, run)


def other_data(ranks: Ranks) -> Any:
    own = planted_texts(num_labels=LABELS, num_texts=300, seed=1 + ranks.rank)
    run = Run(None, watcher=Silent(), device=torch.device("cpu"), ranks=ranks)
    return train_model(own, "inceptionxml", settings_of("inceptionxml"), run)


@pytest.mark.parametrize(("what", "named"), [(other_settings, "config.learning_rate = 0.002"), (other_data, "data = ")])
def test_ranks_that_differ_are_refused_before_they_start(what: Any, named: str) -> None:
    for error in on_ranks(2, what):
        assert isinstance(error, TrainingError)
        assert str(error).startswith(f"rank 1 has {named}")


@pytest.mark.parametrize("method", sorted({*METHODS} - {*SHARDED}))
def test_methods_that_cannot_be_sharded_say_so(method: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot be trained by several processes: .* --method with one of "):
        check_shardable(method, config_of(method, {}), 1)


def test_a_re_ranker_an_ensemble_and_an_ablation_are_refused() -> None:
    with pytest.raises(ConfigError, match="inceptionxml cannot be trained by several processes: a re-ranker"):
        check_shardable("inceptionxml", config_of("inceptionxml", {"reranker": {}}), 1)
    with pytest.raises(ConfigError, match="decaf cannot be trained by several processes: shortlist=nearest"):
        check_shardable("decaf", config_of("decaf", {"shortlist": "nearest"}), 1)
    with pytest.raises(ConfigError, match="an ensemble"):
        check_shardable("inceptionxml", config_of("inceptionxml", {}), 2)


def test_more_ranks_than_labels_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 labels cannot be spread over 3 ranks"):
        Shard.even(Imagined(0, 3), 2)
