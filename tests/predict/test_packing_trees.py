"""What packing makes of many labels: trees, cells and groups, and dials that are set by probes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from laconic.errors import ConfigError, ModelError
from laconic.export import beams, learned_groups, learned_tree, tree
from laconic.export import rankers as packing
from laconic.export.cells import cells_of, grouped
from laconic.export.rankers import pack_ranker
from laconic.export.shortlists import pack_shortlist
from laconic.models.classifiers import LinearClassifier
from laconic.models.clustering import LabelTree
from laconic.models.encoders import Identity
from laconic.models.layers import Residual
from laconic.models.rankers import Ensemble, FlatRanker, Ranker, Reranker, ShortlistRanker
from laconic.models.shortlisters.base import Shortlister
from laconic.models.shortlisters.clusters import Clusters, OfClusters
from laconic.packed.engine.nibble_rows import NibbleRows
from laconic.packed.engine.search import Searched
from laconic.packed.engine.shortlists import ClusterLabels
from laconic.types import Inputs, Ranking
from tests.variants import some_slow

DIM, LABELS = 24, 3000


def topical(count: int, seed: int) -> Tensor:
    """Vectors of fifty topics, as trained rows and texts have them."""
    chance = torch.Generator().manual_seed(seed)
    topics = torch.randn(50, DIM, generator=torch.Generator().manual_seed(1))
    return topics[torch.randint(50, (count,), generator=chance)] + 0.6 * torch.randn(count, DIM, generator=chance)


def classifier(count: int, seed: int = 0, *, transform: torch.nn.Module | None = None) -> LinearClassifier:
    made = LinearClassifier(DIM, count, transform=transform).eval()
    with torch.no_grad():
        made.weight.copy_(topical(count, seed) / 4)
        assert made.bias is not None
        made.bias.copy_(torch.randn(count, generator=torch.Generator().manual_seed(seed)) - 4)
    return made


def flat(count: int = LABELS) -> FlatRanker:
    torch.manual_seed(0)
    return FlatRanker(Identity(DIM), classifier(count, transform=Residual(DIM, dropout=0.0).eval())).eval()


@torch.no_grad()
def share_found(ranker: Ranker, part: Any, vectors: Tensor) -> float:
    wanted, found = ranker.rank(vectors, 5).labels.numpy(), part.rank(vectors.numpy(), 5).labels
    return float((wanted[:, :, None] == found[:, None]).any(2).mean())


def test_a_tree_is_grown_over_many_labels_and_finds_nearly_all_with_probes() -> None:
    ranker, vectors = flat(), topical(300, 7)
    part = pack_ranker(ranker, topical(400, 8).numpy())
    assert isinstance(part, Searched)
    assert 0 < part.starts[0] < LABELS // 10
    assert part.clusters.size > 50
    assert part.beam < part.clusters.size // 2
    assert share_found(ranker, part, vectors) > 0.98
    assert share_found(ranker, part.exact(), vectors) > 0.999
    assert share_found(ranker, part.with_beam(1), vectors) < share_found(ranker, part, vectors)


def test_a_learnt_tree_opens_less_than_one_that_goes_by_its_rows() -> None:
    ranker, vectors, probes = flat(), topical(300, 7), topical(4000, 8).numpy()
    part, by_rows = pack_ranker(ranker, probes), pack_ranker(ranker, probes[:1000])
    assert isinstance(part, Searched)
    assert isinstance(by_rows, Searched)
    assert (part.cluster_transform is None, by_rows.cluster_transform is None) == (False, True)
    assert rows_opened(part) < rows_opened(by_rows)
    assert share_found(ranker, part, vectors) > 0.985
    assert share_found(ranker, part.exact(), vectors) > 0.999
    assert share_found(ranker, part.with_beam(1), vectors) < share_found(ranker, part, vectors)
    assert part.beam >= part.clusters.size // 64


def test_a_learnt_tree_in_groups_finds_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_tree, "SCANNED", 64)
    monkeypatch.setattr(learned_tree, "GROUP", 2)
    ranker, vectors = flat(), topical(300, 7)
    part = pack_ranker(ranker, topical(4000, 8).numpy())
    assert isinstance(part, Searched)
    assert part.groups is not None
    assert part.open_groups < part.groups.size
    assert share_found(ranker, part, vectors) > 0.98
    assert share_found(ranker, part.exact(), vectors) > 0.999


def rows_opened(part: Searched) -> float:
    """Of labels, on average."""
    return float(part.starts[0] + part.beam * np.diff(part.starts).mean())


def test_a_tree_is_learnt_alike_every_time() -> None:
    one, two = (pack_ranker(flat(), topical(3000, 8).numpy()) for _ in range(2))
    assert isinstance(one, Searched)
    assert isinstance(two, Searched)
    assert np.array_equal(one.order, two.order)
    assert np.array_equal(one.clusters.coarse, two.clusters.coarse)
    assert one.beam == two.beam


def test_no_more_texts_are_encoded_than_a_tree_is_learnt_from(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, encoded_by = list[int](), tree.encoded_by

    def recorded(encoder: Any, texts: Any) -> Any:
        seen.append(len(texts))
        return encoded_by(encoder, texts)

    monkeypatch.setattr(tree, "encoded_by", recorded)
    monkeypatch.setattr(learned_tree, "_SCORES", 1200 * LABELS)
    cpu = torch.device("cpu")
    texts = topical(3000, 8).numpy()
    found, expected = (tree.tree_over(flat(), some, cpu) for some in (texts, texts[:1200]))
    assert seen == [1200, 1200]
    assert np.array_equal(found.order, expected.order)
    assert np.array_equal(found.clusters.coarse, expected.clusters.coarse)


def test_the_largest_scores_of_clusters_are_found_on_any_device() -> None:
    scores, bounds = topical(7, 3), np.array([0, 1, 2, 6, 9, 9 + 4, DIM])
    expected = learned_tree._largest(scores, bounds)
    assert expected.shape == (7, 6)
    places = learned_tree._places(bounds, torch.device("cpu"))
    assert torch.equal(learned_tree._largest_together(scores, places), expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_tree_that_is_learnt_on_a_gpu_finds_what_one_of_the_cpu_finds() -> None:
    ranker, vectors, texts = flat(12_000), topical(300, 7), topical(4000, 8).numpy()
    part, other = (pack_ranker(ranker, texts, torch.device(name)) for name in ("cuda", "cpu"))
    assert isinstance(part, Searched)
    assert isinstance(other, Searched)
    assert np.array_equal(part.starts, other.starts)
    assert share_found(ranker, part, vectors) == pytest.approx(share_found(ranker, other, vectors), abs=0.01)
    assert share_found(ranker, part.exact(), vectors) > 0.999


def test_a_tree_is_learnt_on_the_cpu_where_that_is_asked_for_and_there_is_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    part = pack_ranker(flat(), topical(3000, 8).numpy(), torch.device("cpu"))
    assert isinstance(part, Searched)
    assert part.cluster_transform is not None  # it was learnt


@pytest.mark.parametrize("wrapped", ["members", "re-ranked"])
def test_what_is_inside_a_ranker_is_packed_on_that_device_too(wrapped: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[torch.device]()
    tree_over = packing.tree_over

    def recorded(ranker: FlatRanker, texts: Any, device: torch.device) -> Searched:
        seen.append(device)
        return tree_over(ranker, texts, torch.device("cpu"))

    monkeypatch.setattr(packing, "tree_over", recorded)
    inner = flat(20)
    over = Ensemble([inner, flat(20)], width=5) if wrapped == "members" else reranked(inner)
    pack_ranker(over, None, torch.device("cuda"))
    assert {device.type for device in seen} == {"cuda"}
    assert len(seen) == (2 if wrapped == "members" else 1)


def reranked(base: FlatRanker) -> Reranker:
    return Reranker(base, Identity(DIM), classifier(20), size=5, alpha=0.5).eval()


def test_a_tree_grows_without_probes() -> None:
    ranker, vectors = flat(), topical(300, 7)
    part = pack_ranker(ranker)
    assert isinstance(part, Searched)
    assert part.beam == -(-part.clusters.size // 12)
    assert share_found(ranker, part, vectors) > 0.5
    assert share_found(ranker, part.exact(), vectors) > 0.999


@pytest.mark.parametrize("count", [1, 2, 40, 2048, 2049])
def test_so_few_labels_are_all_found(count: int) -> None:
    ranker, vectors = flat(count), topical(20, 7)
    part = pack_ranker(ranker)
    assert share_found(ranker, part.exact(), vectors) == 1 or count > 40
    assert share_found(ranker, part, vectors) > (0.99 if count <= 2048 else 0.5)
    assert (np.sort(part.rank(vectors.numpy(), count).labels) == np.arange(count)).all()


def clustered(sizes: list[int], *, top: int, product: bool) -> ShortlistRanker:
    """Clusters as they are after labels have come and gone: of any size."""
    torch.manual_seed(0)
    order = torch.randperm(sum(sizes))
    tree = LabelTree(order=order, starts=torch.tensor([0, *sizes]).cumsum(0))
    clusters = Clusters(classifier(len(sizes), 3, transform=Residual(DIM, dropout=0.0).eval()), tree)
    return ShortlistRanker(Identity(DIM), clusters, classifier(sum(sizes)), top=top, product=product).eval()


@pytest.mark.parametrize("product", [False, True])
def test_learnt_clusters_of_any_size_are_opened_as_before(product: bool) -> None:
    ranker = clustered([9, 14, 3, 1, 33, 8, 16, 7], top=3, product=product)
    part, vectors = pack_ranker(ranker), topical(60, 7)
    assert share_found(ranker, part, vectors) > 0.99
    with torch.no_grad():
        expected = ranker.rank(vectors, 20)
    found = part.rank(vectors.numpy(), 20)
    assert (np.abs(found.scores - expected.scores.numpy()) < 1e-2).all()


@pytest.mark.parametrize("top", some_slow([1, 3, 5, 8], 2))
def test_packed_learnt_clusters_answer_as_the_model_does_however_many_are_opened(top: int) -> None:
    """Those that opened fewer in training go by the product where more are opened."""
    ranker = clustered([9, 14, 3, 1, 33, 8, 16, 7], top=3, product=False)
    part, vectors = pack_ranker(ranker), topical(60, 7)
    assert isinstance(part, Searched)
    assert share_found(ranker.with_beam(top), part.with_beam(top), vectors) > 0.99


def test_exact_answers_of_learnt_clusters_are_those_of_the_model_not_of_all_clusters() -> None:
    ranker = clustered([9, 14, 3, 1, 33, 8, 16, 7], top=3, product=False)
    part = pack_ranker(ranker)
    assert isinstance(part, Searched)
    assert (part.exact().beam, part.exact().product) == (3, False)
    assert share_found(ranker, part.exact(), topical(60, 7)) > 0.99


def one_topic_a_cluster(*, top: int, trained: int = 0) -> ShortlistRanker:
    """Fifty clusters, whose rows say of which topic their labels are."""
    topics = torch.randn(50, DIM, generator=torch.Generator().manual_seed(1))
    of_labels = classifier(1000)
    order = torch.cdist(of_labels.weight.detach() * 4, topics).argmin(1).sort(stable=True)
    starts = torch.searchsorted(order.values, torch.arange(51))
    of_clusters = LinearClassifier(DIM, 50).eval()
    with torch.no_grad():
        of_clusters.weight.copy_(topics)
        assert of_clusters.bias is not None
        of_clusters.bias.zero_()
        of_labels.weight.copy_(of_labels.weight[order.indices])
    clusters = Clusters(of_clusters, LabelTree(order=order.indices, starts=starts))
    return ShortlistRanker(Identity(DIM), clusters, of_labels, top=top, trained=trained).eval()


def test_no_more_learnt_clusters_are_probed_than_it_takes() -> None:
    ranker, vectors = one_topic_a_cluster(top=32), topical(300, 7)
    part = pack_ranker(ranker, topical(2000, 8).numpy())
    assert isinstance(part, Searched)
    assert part.beam < 16
    assert (part.trained, part.product) == (32, False)
    assert share_found(ranker, part, vectors) > 0.99
    assert (part.exact().beam, part.with_beam(1).exact().beam) == (32, 32)
    assert share_found(ranker, part.exact(), vectors) > 0.999
    without_texts = pack_ranker(ranker)
    assert isinstance(without_texts, Searched)
    assert without_texts.beam == 32  # nothing says what is enough


@pytest.mark.parametrize(("top", "trained"), [(32, 10), (10, 32)])
def test_exact_answers_probe_as_many_learnt_clusters_as_the_model_not_as_training(top: int, trained: int) -> None:
    ranker, vectors = one_topic_a_cluster(top=top, trained=trained), topical(300, 7)
    part = pack_ranker(ranker, topical(2000, 8).numpy())
    assert isinstance(part, Searched)
    assert part.beam < top
    assert (part.exact().beam, part.trained, part.product) == (top, trained, top > trained)
    assert share_found(ranker, part, vectors) > 0.99
    assert share_found(ranker, part.exact(), vectors) > 0.999


def test_cells_hold_every_row_with_the_middle_that_is_nearest() -> None:
    units = torch.nn.functional.normalize(topical(2000, 3), dim=1).numpy()
    part, cell_of = cells_of(units), np.empty(len(units), dtype=int)
    assert 8 <= part.middles.size <= 64
    assert 1 <= part.beam < part.middles.size
    middles = part.middles.coarse * part.middles.scales[:, None]
    cell_of[part.order] = np.repeat(np.arange(len(middles)), np.diff(part.starts))
    assert (cell_of == (units @ middles.T).argmax(1)).mean() > 0.98  # but for what coarse middles have lost
    assert (part.rows.fine is None, cells_of(units[:3], with_exact=True).rows.fine is None) == (True, False)
    assert cells_of(units[:1]).middles.size == 1


def test_groups_are_runs_of_clusters_and_as_their_mean() -> None:
    clusters = NibbleRows.of(topical(100, 3).numpy(), np.arange(100, dtype=np.float32), with_exact=False)
    parts = grouped(clusters, scanned=99, size=30)
    assert parts["group_starts"].tolist() == [0, 30, 60, 90, 100]
    table = clusters.coarse * clusters.scales[:, None]
    found = parts["groups"].coarse * parts["groups"].scales[:, None]
    expected = np.stack([table[first : first + 30].mean(0) for first in (0, 30, 60, 90)])
    np.testing.assert_allclose(found, expected, atol=0.02)
    assert parts["groups"].biases.tolist() == [29, 59, 89, 99]
    assert grouped(clusters, scanned=100)["groups"] is None


def test_a_packed_ranker_stays_as_it_is_while_the_model_learns_on() -> None:
    for ranker in (flat(40), clustered([9, 14, 3, 1], top=3, product=True)):
        part, vectors = pack_ranker(ranker), topical(9, 7).numpy()
        expected = part.rank(vectors, 5).scores
        with torch.no_grad():
            for parameter in ranker.parameters():
                parameter.add_(1)
        assert np.array_equal(part.rank(vectors, 5).scores, expected)


class Odd(Ranker):
    num_labels = 3

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        raise NotImplementedError

    def score(self, inputs: Inputs, labels: Tensor) -> Tensor:
        raise NotImplementedError


class OddShortlister(Shortlister):
    def forward(self, inputs: Inputs, vectors: Tensor, size: int) -> Ranking:
        raise NotImplementedError


def test_what_cannot_be_packed_says_so() -> None:
    with pytest.raises(ConfigError, match="kind Odd cannot be packed; laconic predict answers from the model itself"):
        pack_ranker(Odd())
    with pytest.raises(ModelError, match="kind OddShortlister cannot be packed"):
        pack_shortlist(OddShortlister(), DIM)
    of_clusters = OfClusters(clustered([2, 3], top=1, product=False).clusters, 4)
    assert isinstance(pack_shortlist(of_clusters, DIM), ClusterLabels)


def test_probes_say_how_many_groups_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_groups_of_four(clusters: NibbleRows) -> dict[str, Any]:
        return {**grouped(clusters, scanned=1, size=4), "open_groups": 1}

    monkeypatch.setattr(packing, "grouped", in_groups_of_four)
    ranker, probes = clustered([5] * 64, top=6, product=False), topical(300, 8).numpy()
    guessed, chosen = pack_ranker(ranker), pack_ranker(ranker, probes)
    assert isinstance(guessed, Searched)
    assert isinstance(chosen, Searched)
    vectors = topical(200, 9)
    assert (guessed.open_groups, guessed.with_beam(6).open_groups) == (1, 1)
    assert chosen.groups is None or 1 < chosen.open_groups < 16
    assert share_found(ranker, guessed, vectors) < 0.95 < 0.98 < share_found(ranker, chosen, vectors)


def test_own_clusters_get_learnt_groups_that_find_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_groups, "SCANNED", 16)
    monkeypatch.setattr(learned_groups, "GROUP", 2)
    ranker, vectors = one_topic_a_cluster(top=12), topical(200, 9)
    part, by_few = (pack_ranker(ranker, topical(count, 8).numpy()) for count in (4000, 1500))
    assert isinstance(part, Searched)
    assert isinstance(by_few, Searched)
    assert by_few.groups is None
    assert part.groups is not None
    assert part.groups.size == 25
    assert 1 < part.open_groups <= 15
    assert share_found(ranker, part, vectors) > 0.98
    assert share_found(ranker, part.exact(), vectors) > 0.999


@torch.no_grad()
def test_more_labels_are_scored_by_all_bits_where_a_large_number_hides_the_others() -> None:
    plain, vectors = flat(), topical(2000, 8).numpy()
    hiding = flat()
    hiding.classifier.weight[:, 3] += 40 * hiding.classifier.weight.std()  # the same for all labels
    few, many = (pack_ranker(ranker, vectors) for ranker in (plain, hiding))
    assert isinstance(few, Searched)
    assert isinstance(many, Searched)
    assert few.rescored == 32 < many.rescored
    assert share_found(hiding, replace(many, rescored=32), topical(200, 9)) < 0.98
    assert share_found(hiding, many, topical(200, 9)) > 0.98


@pytest.mark.parametrize("count", [4, LABELS])
def test_the_best_of_all_labels_by_products_are_those_of_an_exact_search(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, vectors = pack_ranker(flat(count)), topical(200, 7).numpy()
    assert isinstance(part, Searched)
    expected = part.exact().rank(vectors, 5).labels
    for places in (64, LABELS):  # that are scored at a time
        monkeypatch.setattr(beams, "_PAIRS", 200 * places)
        found = beams.best_of_all(part, vectors, torch.device("cpu"))
        assert found.dtype == expected.dtype
        assert (found == expected).mean() > 0.99
        assert ((found == -1) == (expected == -1)).all()
