"""HNSW as plain numbers: the same answers once it was kept, and nothing that leads a walk astray is opened."""

import builtins

import faiss
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from laconic.errors import ConfigError, ModelError
from laconic.models.shortlisters import labels as labels_file
from laconic.models.shortlisters.graph import Graph, most_levels
from laconic.types import NO_LABEL
from tests.variants import examples

LINKS, ROWS, DIM = 4, 300, 8


def vectors(rows=ROWS, seed=0):
    return functional.normalize(torch.randn(rows, DIM, generator=torch.Generator().manual_seed(seed)), dim=1)


ROWS_OF_IT = vectors()
GRAPH = Graph.of(ROWS_OF_IT, LINKS, 20)
QUERIES = vectors(20, seed=1)


def kept(graph):
    return {f"g.{name}": tensor.clone() for name, tensor in graph.state_dict().items()}


def test_a_graph_finds_nearly_all_that_exact_search_finds():
    found = GRAPH.nearest(QUERIES, ROWS_OF_IT, 10, 100)
    exact = (QUERIES @ ROWS_OF_IT.T).topk(10)
    shares = [len(set(a) & set(b)) / 10 for a, b in zip(found.labels.tolist(), exact.indices.tolist(), strict=True)]
    assert np.mean(shares) > 0.95
    torch.testing.assert_close(found.scores, (QUERIES @ ROWS_OF_IT.T).gather(1, found.labels))
    assert (found.scores[:, :-1] >= found.scores[:, 1:]).all()


def test_a_wider_walk_finds_more():
    exact = (QUERIES @ ROWS_OF_IT.T).topk(1).values
    narrow, wide = (GRAPH.nearest(QUERIES, ROWS_OF_IT, 1, width).scores for width in (1, 200))
    assert (wide >= narrow).all()
    assert (narrow < exact).any()
    torch.testing.assert_close(wide, exact)


def test_a_graph_that_was_kept_gives_the_same_answers():
    again = Graph.kept_in(kept(GRAPH), "g", ROWS)
    for mine, other in zip(
        again.nearest(QUERIES, ROWS_OF_IT, 7, 9), GRAPH.nearest(QUERIES, ROWS_OF_IT, 7, 9), strict=True
    ):
        assert torch.equal(mine, other)
    assert Graph.kept_in({}, "g", ROWS) is None


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_same_vectors_give_the_same_graph_whatever_the_number_of_threads(threads):
    before = faiss.omp_get_max_threads()
    try:
        faiss.omp_set_num_threads(threads)
        again = Graph.of(ROWS_OF_IT, LINKS, 20)
    finally:
        faiss.omp_set_num_threads(before)
    for name, tensor in GRAPH.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name])


def test_where_a_walk_ends_early_the_text_is_looked_up_exactly():
    lonely = Graph.kept_in(kept(GRAPH), "g", ROWS)
    lonely.neighbours.fill_(-1)  # nobody has a neighbour
    found = lonely.nearest(QUERIES, ROWS_OF_IT, 5, 50)
    assert (found.labels[:, 1:] == NO_LABEL).all()
    assert (found.scores[:, 1:] == 0).all()
    instead = labels_file._by_graph(QUERIES, ROWS_OF_IT, 5, lonely, 50)
    assert torch.equal(instead.labels, (QUERIES @ ROWS_OF_IT.T).topk(5).indices)


@pytest.mark.parametrize("links", [2, 3, 10, 16, 50, 100, 1000])
def test_floors_are_as_many_as_faiss_has(links):
    index = faiss.IndexHNSWFlat(2, links, faiss.METRIC_INNER_PRODUCT)
    expected = [0, *((floor + 1) * links for floor in range(1, most_levels(links) + 1))]
    assert faiss.vector_to_array(index.hnsw.cum_nneighbor_per_level).tolist() == expected


def test_without_faiss_the_error_names_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "faiss":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"pip install '\.\[ann\]'"):
        Graph.of(ROWS_OF_IT, LINKS, 20)


def upstairs():
    """A slot on the first floor that has a neighbour, and a vector that is on the ground floor alone."""
    levels = GRAPH.levels.numpy()
    high = int(np.flatnonzero(levels > 1)[0])
    return int(((levels[:high] + 1) * LINKS).sum() + 2 * LINKS), int(np.flatnonzero(levels == 1)[0])


def with_value(tensor, place, value):
    tensor = tensor.clone()
    tensor[place] = value
    return tensor


DAMAGES = [
    ("levels", lambda tensor: tensor[:-1]),
    ("levels", lambda tensor: with_value(tensor, 0, 0)),
    ("levels", lambda tensor: with_value(tensor, 0, -5)),
    ("levels", lambda tensor: with_value(tensor, 0, 10**9)),
    ("levels", lambda tensor: with_value(tensor, 5, int(tensor[5]) + 1)),
    ("levels", lambda tensor: tensor.long()),
    ("levels", lambda tensor: tensor[None]),
    ("neighbours", lambda tensor: with_value(tensor, 3, ROWS)),
    ("neighbours", lambda tensor: with_value(tensor, 3, -2)),
    ("neighbours", lambda tensor: with_value(tensor, *upstairs())),  # followed on a floor that it is not on
    ("neighbours", lambda tensor: tensor[:-1]),
    ("neighbours", lambda tensor: tensor[:0]),
    ("neighbours", lambda tensor: torch.cat([tensor, tensor[-1:]])),
    ("neighbours", lambda tensor: torch.cat([tensor, tensor])[: len(tensor) * 3 // 2]),
    ("entry", lambda tensor: tensor - ROWS),
    ("entry", lambda tensor: tensor + ROWS),
    ("entry", lambda tensor: torch.tensor([upstairs()[1]])),
    ("entry", lambda tensor: tensor[:0]),
    ("entry", lambda tensor: tensor[0]),
]


@pytest.mark.parametrize(("part", "change"), DAMAGES)
def test_a_damaged_graph_is_refused(part, change):
    tensors = kept(GRAPH)
    with pytest.raises(ModelError, match=r"g\..*fetch it again"):
        Graph.kept_in(tensors | {f"g.{part}": change(tensors[f"g.{part}"])}, "g", ROWS)


def test_more_floors_than_faiss_has_are_refused():
    for floors, there in ((most_levels(LINKS), True), (most_levels(LINKS) + 1, False)):
        tower = Graph(
            torch.tensor([floors], dtype=torch.int32),
            torch.full(((floors + 1) * LINKS,), -1, dtype=torch.int32),
            torch.tensor([0]),
        )
        if there:
            assert Graph.kept_in(kept(tower), "g", 1).nearest(QUERIES, ROWS_OF_IT[:1], 1, 1).labels.eq(0).all()
        else:
            with pytest.raises(ModelError, match="fetch it again"):
                Graph.kept_in(kept(tower), "g", 1)


def test_a_graph_of_other_vectors_is_refused():
    with pytest.raises(ModelError, match="fetch it again"):
        Graph.kept_in(kept(GRAPH), "g", ROWS + 1)
    for name in kept(GRAPH):
        with pytest.raises(ModelError, match=name):
            Graph.kept_in({other: tensor for other, tensor in kept(GRAPH).items() if other != name}, "g", ROWS)


EXTREME = st.sampled_from([-(2**31), -2, -1, 0, 1, 2, ROWS - 1, ROWS, 2**31 - 1])


@examples(200)
@given(part=st.sampled_from(["levels", "neighbours", "entry"]), place=st.integers(0, 10**6), value=EXTREME)
def test_whatever_is_opened_can_be_walked(part, place, value):
    tensors = kept(GRAPH)
    tensor = tensors[f"g.{part}"]
    tensor[place % len(tensor)] = value
    try:
        graph = Graph.kept_in(tensors, "g", ROWS)
    except ModelError:
        return
    found = graph.nearest(QUERIES, ROWS_OF_IT, 5, 20).labels
    assert ((found >= NO_LABEL) & (found < ROWS)).all()


def test_an_extended_graph_finds_old_and_new_rows():
    more = torch.cat([ROWS_OF_IT, vectors(100, seed=2)])
    graph = GRAPH.extended(more, 20)
    assert Graph.kept_in(kept(graph), "g", len(more)) is not None
    found = graph.nearest(more, more, 1, 100)
    assert (found.labels[:, 0] == torch.arange(len(more))).float().mean() > 0.98
    again = Graph.kept_in(kept(graph), "g", len(more)).nearest(QUERIES, more, 5, 50)
    assert torch.equal(again.labels, graph.nearest(QUERIES, more, 5, 50).labels)
    assert len(GRAPH.levels) == ROWS  # the old one is as it was
