"""The kernel over picked clusters against its twin, and both against torch's own cross-entropy."""

import pytest
import torch
from torch.nn import functional

from laconic.kernels.shortlist_cpu import shortlist_gradients_cpu
from laconic.kernels.triton import shortlist as kernels
from laconic.kernels.triton.factors import take
from laconic.kernels.triton.row_update import multiply_out
from laconic.kernels.triton.shortlist import (
    Gradients,
    Shortlist,
    ShortlistTargets,
    members,
    shortlist_gradients,
    shortlist_gradients_reference,
)
from laconic.training import losses
from laconic.training.losses import shortlist_loss
from laconic.types import NO_LABEL, Batch, Tokens
from tests.kernel_references import dense
from tests.variants import some_slow

SHAPES = [{}, {"soft": True}, {"clusters": 2, "k": 2}, {"batch": 20, "clusters": 4, "k": 2}]
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def bounds(labels, clusters):
    return torch.arange(clusters + 1) * labels // clusters


def case(*, batch=7, labels=101, clusters=8, k=3, dim=20, p=4, seed=0, device="cpu", soft=False):
    """Fresh inputs; every positive's cluster is among its text's picks."""
    torch.manual_seed(seed)
    starts = bounds(labels, clusters)
    positives = torch.stack([torch.randperm(labels)[:p] for _ in range(batch)])
    positives[torch.rand(batch, p) < 0.3] = NO_LABEL
    cluster = torch.searchsorted(starts, positives.clamp(min=0), right=True) - 1
    # At most k true clusters a text: whatever is in others is dropped.
    boosted = torch.rand(batch, clusters).scatter_add(1, cluster, (positives != NO_LABEL) * 10.0)
    picks = boosted.topk(k).indices
    positives[~(cluster[:, :, None] == picks[:, None]).any(2)] = NO_LABEL
    targets = (positives != NO_LABEL) * (torch.rand(batch, p) if soft else 1.0)
    parts = torch.randn(batch, dim), torch.randn(labels, dim), torch.randn(labels)
    shortlist = Shortlist(picks.to(device), starts.to(device), int(starts.diff().max()))
    wanted = ShortlistTargets(positives.to(device), targets.to(device), torch.rand(batch).to(device))
    return *(part.to(device) for part in parts), shortlist, wanted


def plain_loss(vectors, weight, bias, shortlist, wanted):
    """Text by text, in torch's own cross-entropy."""
    total = 0
    for row, picks in enumerate(shortlist.picks):
        labels = torch.cat([torch.arange(shortlist.starts[c], shortlist.starts[c + 1]) for c in picks])
        truth = torch.zeros(len(labels))
        for positive, target in zip(wanted.positives[row], wanted.targets[row], strict=True):
            if positive != NO_LABEL:
                truth[labels == positive] = target
        scores = weight[labels] @ vectors[row] + (0 if bias is None else bias[labels])
        losses = functional.binary_cross_entropy_with_logits(scores, truth, reduction="sum")
        total = total + wanted.text_weights[row] * losses
    return total


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("shape", [{}, {"soft": True}, {"clusters": 1, "k": 1}, {"labels": 8, "k": 8}, {"dim": 1}])
def test_the_twin_has_torchs_loss_and_gradients(shape, with_bias):
    vectors, weight, bias, shortlist, wanted = case(**shape)
    leaves = [part.requires_grad_() for part in ((vectors, weight, bias) if with_bias else (vectors, weight))]
    expected = plain_loss(vectors, weight, bias if with_bias else None, shortlist, wanted)
    slopes = torch.autograd.grad(expected, leaves)
    with torch.no_grad():
        ours = shortlist_gradients_reference(vectors, weight, bias if with_bias else None, shortlist, wanted)
    torch.testing.assert_close(ours.loss, expected.detach())
    for mine, other in zip(ours[1:], slopes, strict=False):
        torch.testing.assert_close(mine, other)


def _multiplied(found, rows):
    """With the rows' gradient itself, as the kernel makes it and as its twin does."""
    gradient = multiply_out(found.weight, rows)
    torch.testing.assert_close(gradient, dense(found.weight, rows))
    return Gradients(found.loss, found.vectors, gradient, found.bias)


def poisoned(monkeypatch):
    """Memory that is handed out unwritten holds NaN, so that a place the kernel forgets is seen."""
    empty_like = torch.empty_like

    def poison(tensor, **options):
        return empty_like(tensor, **options).fill_(torch.nan)

    monkeypatch.setattr(kernels.torch, "empty_like", poison)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("seed", some_slow(range(3)))
@pytest.mark.parametrize(
    "shape",
    some_slow([{}, {"clusters": 5}, {"soft": True}, {"clusters": 2, "k": 2}, {"batch": 20, "clusters": 4, "k": 2}], 2),
)
def test_the_kernel_does_what_its_twin_does(monkeypatch, shape, seed):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    vectors, weight, bias, shortlist, wanted = case(**shape, seed=seed, device=device)
    for biases in (bias, None):
        expected = shortlist_gradients_reference(vectors, weight, biases, shortlist, wanted)
        with monkeypatch.context() as patch:
            poisoned(patch)
            ours = _multiplied(shortlist_gradients(vectors, weight, biases, shortlist, wanted), len(weight))
        for mine, other in zip(ours, expected, strict=True):
            torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shape", [{}, {"soft": True}, {"clusters": 2, "k": 2}, {"batch": 40, "clusters": 4, "k": 2}])
def test_the_cpus_way_does_what_the_twin_does(monkeypatch, shape, threads):
    vectors, weight, bias, shortlist, wanted = case(**shape)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for biases in (bias, None):
            expected = shortlist_gradients_reference(vectors, weight, biases, shortlist, wanted)
            with monkeypatch.context() as patch:
                poisoned(patch)
                ours = shortlist_gradients_cpu(vectors, weight, biases, shortlist, wanted)
            for mine, other in zip(ours, expected, strict=True):
                torch.testing.assert_close(mine, other)
    finally:
        torch.set_num_threads(before)


@on_gpu
def test_the_kernel_does_what_its_twin_does_at_real_shapes(monkeypatch):
    parts = case(batch=256, labels=20_000, clusters=2048, k=100, dim=480, p=8, device="cuda")
    vectors, weight, bias, shortlist, wanted = parts
    weight /= 20
    for biases in (bias, None):
        expected = shortlist_gradients_reference(vectors, weight, biases, shortlist, wanted)
        with monkeypatch.context() as patch:
            poisoned(patch)
            ours = _multiplied(shortlist_gradients(vectors, weight, biases, shortlist, wanted), len(weight))
        for mine, other in zip(ours, expected, strict=True):
            if other is not None:
                scale = other.abs().max() if other.ndim else other.abs()
                torch.testing.assert_close(mine, other, rtol=1e-2, atol=float(scale) * 1e-5)


def test_members_are_ranges():
    starts = torch.tensor([0, 2, 5, 7])
    assert members(torch.tensor([[1, 0], [2, 1]]), starts, 3).tolist() == [
        [2, 3, 4, 0, 1, NO_LABEL],
        [5, 6, NO_LABEL, 2, 3, 4],
    ]


def test_the_loss_is_a_mean_and_carries_factors_and_text_weights():
    vectors, weight, bias, shortlist, wanted = case()
    weights = torch.rand(len(vectors))
    inputs = Tokens(torch.zeros(len(vectors), 1, dtype=torch.int32), torch.zeros(len(vectors), 1))
    batch = Batch(inputs, wanted.positives, None, weights)
    leaves = [part.clone().requires_grad_() for part in (vectors, weight, bias)]
    loss = shortlist_loss(*leaves, batch, shortlist, over=shortlist.picks.shape[1] * shortlist.size)
    (3 * loss).backward()
    text_weights = weights / (len(vectors) * shortlist.picks.shape[1] * shortlist.size)
    others = [part.clone().requires_grad_() for part in (vectors, weight, bias)]
    expected = plain_loss(*others, shortlist, wanted._replace(text_weights=text_weights))
    (3 * expected).backward()
    torch.testing.assert_close(loss, expected)
    for mine, other in zip(leaves, others, strict=True):
        torch.testing.assert_close(mine.grad, other.grad)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("learnt", [True, False])
def test_by_the_kernel_rows_that_are_learnt_have_their_gradient_as_factors(monkeypatch, learnt):
    vectors, weight, bias, shortlist, wanted = case(device="cuda" if torch.cuda.is_available() else "cpu")
    inputs = Tokens(torch.zeros(len(vectors), 1, dtype=torch.int32), torch.zeros(len(vectors), 1))
    batch, over = Batch(inputs, wanted.positives), shortlist.picks.shape[1] * shortlist.size
    leaves, others = ([part.clone().requires_grad_() for part in (vectors, weight, bias)] for _ in range(2))
    monkeypatch.setattr(losses, "_by_kernels", lambda vectors: False)
    shortlist_loss(*others, batch, shortlist, over=over).backward()
    monkeypatch.setattr(losses, "_by_kernels", lambda vectors: True)
    rows = leaves[1] if learnt else 1.0 * leaves[1]
    shortlist_loss(leaves[0], rows, leaves[2], batch, shortlist, over=over).backward()
    by_rows = dense(take(leaves[1]), len(weight)) if learnt else leaves[1].grad
    for mine, other in zip((leaves[0].grad, by_rows, leaves[2].grad), others, strict=True):
        torch.testing.assert_close(mine, other.grad)


def test_not_a_number_never_passes():
    vectors, weight, bias, shortlist, wanted = case()
    weight[shortlist.starts[shortlist.picks[0, 0]]] = torch.nan
    for slopes_of in (shortlist_gradients_reference, shortlist_gradients_cpu):
        assert slopes_of(vectors, weight, bias, shortlist, wanted).loss.isnan()
