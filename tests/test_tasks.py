"""What training minimises, against a plain computation text by text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from laconic.kernels.triton.shortlist import Shortlist
from laconic.models.classifiers import LinearClassifier
from laconic.models.clustering import random_tree
from laconic.models.encoders import Identity
from laconic.models.layers import Residual, SpectralResidual
from laconic.models.shortlisters.clusters import Clusters
from laconic.training.tasks import AllLabels, ClustersAndLabels, PickedClusters, Shortlisted, Task
from laconic.types import NO_LABEL, Batch
from tests.turned import Turned

TEXTS, LABELS, CLUSTERS, DIM = 5, 22, 8, 6  # clusters of 2 or 3 labels
POSITIVES = torch.tensor(
    [
        [0, 21, 3, 4],
        [7, NO_LABEL, NO_LABEL, NO_LABEL],
        [NO_LABEL, NO_LABEL, NO_LABEL, NO_LABEL],  # a text may have none
        [3, 4, 7, NO_LABEL],  # two of which share a cluster
        [0, 1, 20, 21],
    ]
)
BEGUN, DONE = torch.tensor(0.1), torch.tensor(0.25)
MORE: dict[str, dict[str, Tensor]] = {
    "plain": {},
    "soft targets": {"targets": torch.rand(TEXTS, 4, generator=torch.Generator().manual_seed(2))},
    "weighted texts": {"weights": torch.tensor([1.0, 0.0, 2.0, 0.5, 3.0])},
}


def jointly(
    *, top: int = 4, bias: bool = True, dropouts: tuple[float, float] = (0.0, 0.0), **options: Any
) -> ClustersAndLabels:
    torch.manual_seed(0)
    meta, classifier = (
        LinearClassifier(DIM, rows, transform=SpectralResidual(DIM, DIM, dropout=0.0), bias=biases)
        for rows, biases in ((CLUSTERS, True), (LABELS, bias))
    )
    for head in (meta, classifier):
        if head.bias is not None:
            nn.init.normal_(head.bias)
    clusters = Clusters(meta, random_tree(LABELS, CLUSTERS, 0))
    settings: dict[str, Any] = {"detached": 0.25, "chunk": 3} | options
    return ClustersAndLabels(Turned(DIM), clusters, classifier, top=top, dropouts=dropouts, **settings)


def batch(**more: Tensor) -> Batch:
    inputs = torch.randn(TEXTS, DIM, generator=torch.Generator().manual_seed(1))
    return Batch(inputs, POSITIVES, **more)


def plain_loss(task: ClustersAndLabels, batch: Batch, *, attached: bool) -> Tensor:
    """The mean over every cluster, and that over so many clusters of the largest size, of each text in turn."""
    meta, classifier, starts = task.clusters.classifier, task.classifier, task.clusters.starts.tolist()
    vectors = task.encoder(batch.inputs)
    for_clusters = meta.score_all(vectors)
    for_labels = classifier.score_all(vectors if attached else vectors.detach())
    total = torch.zeros(())
    for row in range(TEXTS):
        wanted, truest = torch.zeros(LABELS), torch.zeros(CLUSTERS)
        true = set()
        for place, label in enumerate(batch.positives[row].tolist()):
            if label != NO_LABEL:
                wanted[label] = 1.0 if batch.targets is None else batch.targets[row, place]
                cluster = max(number for number in range(CLUSTERS) if starts[number] <= label)
                truest[cluster] = max(truest[cluster], wanted[label])
                true.add(cluster)
        others = [cluster for cluster in for_clusters[row].argsort(descending=True).tolist() if cluster not in true]
        picks = [*true, *others][: task.top]
        labels = [label for cluster in picks for label in range(starts[cluster], starts[cluster + 1])]
        weight = 1.0 if batch.weights is None else batch.weights[row]
        total = total + weight * cross_entropy(for_clusters[row], truest) / CLUSTERS
        total = total + weight * cross_entropy(for_labels[row, labels], wanted[labels]) / (task.top * 3)
    return total / TEXTS


def cross_entropy(scores: Tensor, wanted: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(scores, wanted, reduction="sum")


def gradients(task: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    names, parameters = zip(*task.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


@pytest.mark.parametrize("progress", [BEGUN, DONE], ids=["detached", "attached"])
@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize(("top", "bias"), [(3, True), (4, False), (CLUSTERS, True)])
def test_the_loss_is_the_mean_over_clusters_and_that_over_the_labels_of_picked_ones(
    top: int, bias: bool, more: str, progress: Tensor
) -> None:
    task, texts = jointly(top=top, bias=bias).eval(), batch(**MORE[more])
    loss, expected = task(texts, progress), plain_loss(task, texts, attached=progress is DONE)
    torch.testing.assert_close(loss, expected)
    ours, theirs = gradients(task, loss), gradients(task, expected)
    assert ours.keys() == theirs.keys()
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, msg=lambda problem, name=name: f"{name}: {problem}")


def test_every_true_cluster_is_picked_even_where_there_is_room_for_them_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    task, seen = jointly(top=3), []  # no text has labels in more than three clusters

    def look(vectors: Tensor, rows: Tensor, biases: Tensor, texts: Batch, shortlist: Shortlist, **more: Any) -> Tensor:
        seen.append(shortlist.picks)
        return torch.zeros(())

    monkeypatch.setattr("laconic.training.tasks.shortlist_loss", look)
    task(batch(), BEGUN)
    true = task.clusters.of(POSITIVES)
    for row in range(TEXTS):
        assert set(true[row].tolist()) - {NO_LABEL} <= set(seen[0][row].tolist())


def test_labels_teach_the_encoder_only_once_enough_of_the_training_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laconic.training.tasks.all_labels_loss", lambda *args, **options: torch.zeros(()))
    task = jointly()
    for progress, learns in ((0.0, False), (0.2499, False), (0.25, True), (0.9, True)):
        task.zero_grad()
        task(batch(), torch.tensor(progress)).backward()
        encoder, head, rows = task.encoder.matrix, task.classifier.transform.weight.matrix, task.classifier.weight
        assert bool(encoder.grad.any()) == learns
        assert head.grad.any()
        assert rows.grad.any()
        assert task.clusters.classifier.weight.grad is None


def test_clusters_teach_the_encoder_from_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laconic.training.tasks.shortlist_loss", lambda *args, **options: torch.zeros(()))
    task = jointly(detached=1.0)
    task(batch(), torch.tensor(0.0)).backward()
    learning = (task.encoder.matrix, task.clusters.classifier.weight, task.clusters.classifier.transform.weight.matrix)
    assert all(parameter.grad.any() for parameter in learning)
    assert task.classifier.weight.grad is None


@pytest.mark.parametrize(("detached", "attached"), [(0.0, [True, True]), (1.0, [False, False])])
def test_the_share_may_be_none_or_all_of_the_training(detached: float, attached: list[bool]) -> None:
    task, texts = jointly(detached=detached).eval(), batch()
    for progress, expected in zip((0.0, 99 / 100), attached, strict=True):  # before the first step and the last
        ours = gradients(task, task(texts, torch.tensor(progress)))["encoder.matrix"]
        theirs = gradients(task, plain_loss(task, texts, attached=expected))["encoder.matrix"]
        torch.testing.assert_close(ours, theirs)


def test_several_labels_of_one_cluster_count_it_once() -> None:
    task = jointly()
    together = Batch(batch().inputs, torch.tensor([[0, 1, NO_LABEL]] * TEXTS))  # both of cluster 0
    alone = Batch(batch().inputs, torch.tensor([[0, NO_LABEL, NO_LABEL]] * TEXTS))
    assert task.clusters.of(together.positives)[0].tolist() == [0, 0, NO_LABEL]
    ours, theirs = task._of_clusters(together), task._of_clusters(alone)
    torch.testing.assert_close(ours.targets.sum(1), theirs.targets.sum(1))


def test_texts_without_any_label_are_all_negatives() -> None:
    task = jointly(top=CLUSTERS).eval()
    nothing = Batch(batch().inputs, torch.full((TEXTS, 1), NO_LABEL))
    vectors = task.encoder(nothing.inputs)
    every = [head.score_all(vectors) for head in (task.clusters.classifier, task.classifier)]
    expected = functional.softplus(every[0]).mean() + functional.softplus(every[1]).sum() / (TEXTS * CLUSTERS * 3)
    torch.testing.assert_close(task(nothing, DONE), expected)


def test_each_head_has_a_dropout_of_its_own() -> None:
    inputs = torch.randn(200, DIM)
    for dropouts in ((0.5, 0.0), (0.0, 0.5)):
        task = jointly(dropouts=dropouts).train()
        heads = task.encode(inputs, BEGUN)
        for head, dropout in zip(heads, dropouts, strict=True):
            assert float((head == 0).float().mean()) == pytest.approx(dropout, abs=0.1)
        assert task.eval().encode(inputs, BEGUN).all()


def test_half_precision_is_close() -> None:
    full, half = (jointly(precision=kind).eval()(batch(), DONE) for kind in (torch.float32, torch.bfloat16))
    assert full != half
    torch.testing.assert_close(full, half, rtol=2e-2, atol=1e-3)


def test_tables_are_parameters_of_their_task() -> None:
    """Those with a row for each word or label, by the names that the optimiser knows them by."""
    task = jointly()
    assert {name for name in task.tables if not name.startswith("encoder.")} <= dict(task.named_parameters()).keys()


def test_all_labels_are_scored_with_what_encode_gives() -> None:
    torch.manual_seed(0)
    classifier = LinearClassifier(DIM, LABELS, transform=Residual(DIM, dropout=0.0))
    task, texts = AllLabels(Turned(DIM), classifier, dropout=0.0, chunk=5).eval(), batch()
    wanted = torch.zeros(TEXTS, LABELS)
    for row, label in (POSITIVES != NO_LABEL).nonzero().tolist():
        wanted[row, POSITIVES[row, label]] = 1
    scores = classifier.score_all(task.encoder(texts.inputs))
    torch.testing.assert_close(task(texts, BEGUN), cross_entropy(scores, wanted) / wanted.numel())


def all_labels() -> AllLabels:
    torch.manual_seed(0)
    return AllLabels(Turned(DIM), LinearClassifier(DIM, LABELS), dropout=0.0, chunk=5)


def shortlisted() -> Shortlisted:
    torch.manual_seed(0)
    return Shortlisted(Turned(DIM), LinearClassifier(DIM, LABELS), random=20 * LABELS)  # every label is drawn


def opened() -> PickedClusters:
    torch.manual_seed(0)
    return PickedClusters(Turned(DIM), LinearClassifier(DIM, LABELS), random_tree(LABELS, CLUSTERS, 0).starts)


LEFT_OUT = 10  # of a text whose only label is 0: in a cluster of its own
TASKS: dict[str, tuple[Callable[[], Task], int]] = {  # and what a text's negatives are numbers of
    "AllLabels": (all_labels, LABELS),
    "ClustersAndLabels": (lambda: jointly(top=CLUSTERS), LABELS),
    "ClustersAndLabels, few picked": (lambda: jointly(top=3), LABELS),
    "Shortlisted": (shortlisted, LABELS),
    "PickedClusters": (opened, CLUSTERS),
}


def learnt_from_one_text(name: str, positives: list[int], left_out: list[int], row: Tensor | None = None) -> Any:
    """The gradients of a batch of one text; `row` replaces the row of the first left-out label."""
    make, negatives = TASKS[name]
    task = make().eval()
    if row is not None:
        task.classifier.weight.data[left_out[0]] = row
    text = Batch(
        batch().inputs[:1],
        torch.tensor([positives]),
        negatives=torch.arange(negatives)[None],
        left_out=torch.tensor([left_out]),
    )
    return gradients(task, task(text, DONE)), task


@pytest.mark.parametrize("name", TASKS)
def test_a_left_out_pair_moves_no_weight(name: str) -> None:
    found, task = learnt_from_one_text(name, [0, NO_LABEL], [LEFT_OUT, NO_LABEL])
    assert found["classifier.weight"][0].any()
    assert found["encoder.matrix"].any()
    assert float(found["classifier.weight"][LEFT_OUT].abs().max()) < 1e-6 * float(
        found["classifier.weight"].abs().max()
    )
    if isinstance(task, ClustersAndLabels):
        cluster = int(task.clusters.of(torch.tensor(LEFT_OUT)))
        assert float(found["clusters.classifier.weight"][cluster].abs().max()) < 1e-7
        assert float(found["clusters.classifier.bias"][cluster].abs()) < 1e-7


@pytest.mark.parametrize("name", TASKS)
def test_the_row_of_a_left_out_label_teaches_the_encoder_nothing(name: str) -> None:
    (one, _), (other, _) = (
        learnt_from_one_text(name, [0, NO_LABEL], [LEFT_OUT, NO_LABEL], row) for row in (torch.zeros(DIM), None)
    )
    torch.testing.assert_close(one["encoder.matrix"], other["encoder.matrix"])


def test_a_cluster_with_a_true_label_is_true_whatever_else_of_it_is_left_out() -> None:
    task = jointly()
    same = int(task.clusters.starts[int(task.clusters.of(torch.tensor(0))) + 1]) - 1
    assert same != 0
    (found, _), (expected, _) = (
        learnt_from_one_text("ClustersAndLabels", [0], left_out) for left_out in ([same], [NO_LABEL])
    )
    torch.testing.assert_close(found["clusters.classifier.weight"], expected["clusters.classifier.weight"])


def test_all_labels_learns_nothing_about_pairs_that_are_left_out():
    torch.manual_seed(0)
    classifier = LinearClassifier(4, 6)
    task = AllLabels(Identity(4), classifier, dropout=0.0, chunk=3)
    vectors, positives = torch.randn(2, 4), torch.tensor([[1, NO_LABEL], [0, 3]])
    left_out = torch.tensor([[2], [5]])
    task(Batch(vectors, positives, left_out=left_out), torch.zeros(())).backward()
    slopes = classifier.score_all(vectors).sigmoid().detach()
    for row, labels in enumerate(positives.tolist()):
        for label in labels:
            if label != NO_LABEL:
                slopes[row, label] -= 1
        slopes[row, left_out[row]] = 0
    torch.testing.assert_close(classifier.weight.grad, slopes.T @ vectors / slopes.numel())
