"""The kernels that score for answering, against their twins, and those against scores that are written out."""

import math
from contextlib import contextmanager

import pytest
import torch

from laconic.kernels.triton import maxima, shortlist_scores, windows
from laconic.kernels.triton.maxima import Tile, best_groups, group_maxima, places_in
from laconic.kernels.triton.shortlist import Shortlist
from laconic.kernels.triton.windows import Windows, convolved
from tests.kernel_references import convolved_reference, group_maxima_reference, shortlist_scores_reference

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = Tile(texts=16, labels=64, depth=32, warps=4)


def drawn(*size, dtype=torch.float32, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


@contextmanager
def poisoned(monkeypatch, module):
    """Memory that is handed out unwritten holds NaN, and so does what lies beyond its end: a place that the kernel
    forgets is seen, and one that it should not write to.
    """
    full, beyond = torch.full, []

    def empty(size, **options):
        memory = full((math.prod(size) + 1000,), torch.nan, **options)
        beyond.append(memory[-1000:])
        return memory[:-1000].view(size)

    with monkeypatch.context() as patch:
        patch.setattr(module.torch, "empty", empty)
        yield
    assert all(part.isnan().all() for part in beyond)


def test_the_twin_has_the_largest_score_of_every_group():
    vectors, rows = drawn(5, 12), drawn(96, 12, seed=1)
    expected = torch.stack([(vectors @ part.T).amax(1) for part in rows.split(8)], dim=1)
    torch.testing.assert_close(group_maxima_reference(vectors, rows, 8), expected)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])  # the interpreter has no products of bfloat16
@pytest.mark.parametrize("group", [4, 32, 64])
@pytest.mark.parametrize("batch", [0, 1, 16, 37])
def test_the_kernel_of_groups_does_what_its_twin_does(monkeypatch, batch, group, dtype):
    vectors, rows = drawn(batch, 96, dtype=dtype), drawn(192, 96, dtype=dtype, seed=1)
    expected = group_maxima_reference(vectors, rows, group)
    with poisoned(monkeypatch, maxima):
        ours = group_maxima(vectors, rows, group, tile=SMALL)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-4)


@on_gpu
@pytest.mark.parametrize("batch", [1, 40, 1000])
def test_the_kernel_of_groups_does_what_its_twin_does_at_real_shapes(batch):
    vectors, rows = drawn(batch, 512, dtype=torch.bfloat16), drawn(20_480, 512, dtype=torch.bfloat16, seed=1)
    for group in (32, 64, 128):
        torch.testing.assert_close(group_maxima(vectors, rows, group), group_maxima_reference(vectors, rows, group))


@pytest.mark.parametrize("groups", [7, 2048, 2080, 4096, 32 * 2048 * 2, 3000])
@pytest.mark.parametrize("count", [1, 6, 40])
def test_the_best_groups_are_those_of_a_plain_top_k(groups, count):
    scores = drawn(3, groups)
    best = best_groups(scores, count)
    assert best.sort().values.tolist() == scores.topk(min(count, groups)).indices.sort().values.tolist()


def test_of_equal_groups_each_is_there_once():
    best = best_groups(torch.zeros(2, 4096), 50)
    assert all(len(set(row)) == 50 for row in best.tolist())


def test_the_best_labels_are_in_the_best_groups():
    scores = drawn(20, 4096, seed=3)
    groups = best_groups(scores.view(20, -1, 8).amax(2), 6)
    inside = scores.view(20, -1, 8).gather(1, groups[:, :, None].expand(-1, -1, 8)).flatten(1)
    best = places_in(groups, inside.topk(6).indices, 8)
    assert best.tolist() == scores.topk(6).indices.tolist()


STARTS = torch.tensor([0, 3, 3, 40, 41, 60])  # unequal clusters, one of them empty


def case(dim=20):
    picks = torch.tensor([[0, 2], [1, 4], [4, 3], [2, 1]], device=DEVICE)
    parts = drawn(4, dim), drawn(60, dim, seed=1), drawn(60, seed=2)
    return *parts, Shortlist(picks, STARTS.to(DEVICE), int(STARTS.diff().max()))


def by_hand(vectors, weight, bias, shortlist):
    scores = torch.full((len(vectors), shortlist.picks.shape[1], shortlist.size), -torch.inf)
    for text, picks in enumerate(shortlist.picks.tolist()):
        for place, cluster in enumerate(picks):
            labels = range(int(STARTS[cluster]), int(STARTS[cluster + 1]))
            for i, label in enumerate(labels):
                scores[text, place, i] = vectors[text] @ weight[label] + (0 if bias is None else bias[label])
    return scores.flatten(1).to(DEVICE)


def test_the_twin_scores_what_was_picked():
    vectors, weight, bias, shortlist = case()
    for biases in (bias, None):
        ours = shortlist_scores_reference(vectors, weight, biases, shortlist)
        torch.testing.assert_close(ours, by_hand(vectors, weight, biases, shortlist))


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("dim", [1, 20, 512, 530])
def test_the_kernel_of_picked_clusters_does_what_its_twin_does(monkeypatch, dim):
    vectors, weight, bias, shortlist = case(dim)
    for biases in (bias, None):
        expected = shortlist_scores_reference(vectors, weight, biases, shortlist)
        with poisoned(monkeypatch, shortlist_scores):
            ours = shortlist_scores.shortlist_scores(vectors, weight, biases, shortlist)
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.usefixtures("interpreted")
def test_no_texts_have_no_scores():
    vectors, weight, bias, (picks, starts, size) = case()
    for scores_of in (shortlist_scores_reference, shortlist_scores.shortlist_scores):
        assert scores_of(vectors[:0], weight, bias, Shortlist(picks[:0], starts, size)).shape == (0, 2 * size)


def test_windows_go_around_the_ring():
    assert Windows(3, 4, 2, first=-1).places(6).tolist() == [[5, 0, 1, 2], [1, 2, 3, 4], [3, 4, 5, 0]]


CONVOLUTIONS = [
    (Windows(5, 8, 4, first=-2), 20, 32, 64),
    (Windows(2, 3, 4), 9, 64, 32),
]  # windows, places, channels, out


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("batch", [0, 1, 30])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_the_kernel_of_convolutions_does_what_its_twin_does(monkeypatch, case, batch):
    of, before, channels, out = case
    h, weight, bias = drawn(batch, before, channels), drawn(out, of.size * channels, seed=1), drawn(out, seed=2)
    expected = convolved_reference(h, of, weight / 16, bias)
    with poisoned(monkeypatch, windows):
        ours = convolved(h, of, weight / 16, bias)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


@on_gpu
@pytest.mark.parametrize("batch", [16, 1000])
def test_the_kernel_of_convolutions_is_as_precise_as_float32_at_real_shapes(batch):
    for of, before, channels, out in ((Windows(75, 16, 4, first=-6), 300, 32, 96), (Windows(15, 16, 4), 75, 96, 32)):
        h, weight, bias = drawn(batch, before, channels), drawn(out, of.size * channels, seed=1), drawn(out, seed=2)
        expected = convolved_reference(h, of, weight / 32, bias)
        torch.testing.assert_close(convolved(h, of, weight / 32, bias), expected, rtol=1e-5, atol=1e-5)
