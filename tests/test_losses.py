"""The chunked loss over all labels against torch's own binary cross-entropy."""

from functools import partial

import pytest
import torch
from torch.nn import functional

from laconic.kernels.triton.factors import take
from laconic.training import losses
from laconic.training.losses import all_labels_loss
from laconic.types import NO_LABEL, Batch, Tokens
from tests.kernel_references import dense
from tests.variants import some_slow

BATCH, LABELS, DIM = 5, 23, 7
WHERE_KERNELS_RUN = "cuda" if torch.cuda.is_available() else "cpu"


def inputs(seed=0, device="cpu", **more):
    torch.manual_seed(seed)
    vectors, weight, bias = (
        torch.randn(*shape).to(device).requires_grad_() for shape in ((BATCH, DIM), (LABELS, DIM), (LABELS,))
    )
    positives = torch.tensor([[0, 22, 3], [7, -1, -1], [-1, -1, -1], [8, 15, -1], [1, 2, 16]], device=device)
    tokens = Tokens(torch.zeros(BATCH, 1, dtype=torch.int32, device=device), torch.zeros(BATCH, 1, device=device))
    return vectors, weight, bias, Batch(tokens, positives, **{name: part.to(device) for name, part in more.items()})


def plain(vectors, weight, bias, batch):
    """Compute the loss over the whole score matrix at once."""
    truth = torch.zeros(BATCH, LABELS, device=vectors.device)
    for row, positives in enumerate(batch.positives):
        for place, label in enumerate(positives):
            if label != NO_LABEL:
                truth[row, label] = 1.0 if batch.targets is None else batch.targets[row, place]
    losses = functional.binary_cross_entropy_with_logits(vectors @ weight.T + bias, truth, reduction="none")
    return (losses if batch.weights is None else losses * batch.weights[:, None]).mean()


@pytest.mark.parametrize("chunk", [1, 8, 16, 23, 1000])
@pytest.mark.parametrize("more", [{}, {"targets": torch.rand(BATCH, 3)}, {"weights": torch.rand(BATCH)}])
def test_loss_and_gradients_are_those_of_the_plain_loss(chunk, more):
    ours, theirs = inputs(**more), inputs(**more)
    loss, expected = all_labels_loss(*ours, chunk=chunk), plain(*theirs)
    torch.testing.assert_close(loss, expected)
    (3 * loss).backward()  # a factor behind the loss must reach every gradient
    (3 * expected).backward()
    for mine, other in zip(ours[:3], theirs[:3], strict=True):
        torch.testing.assert_close(mine.grad, other.grad)


@pytest.fixture
def by_kernels(monkeypatch, interpreted):
    """As on a GPU, with products in full."""
    monkeypatch.setattr(losses, "_by_kernels", lambda vectors: True)
    for name in ("all_negative_loss", "input_gradients", "multiply_out"):
        monkeypatch.setattr(losses, name, partial(getattr(losses, name), precise=True))


@pytest.mark.usefixtures("by_kernels")
@pytest.mark.parametrize("learnt", [True, False])
@pytest.mark.parametrize("more", some_slow([{}, {"targets": torch.rand(BATCH, 3)}, {"weights": torch.rand(BATCH)}]))
def test_by_kernels_it_is_the_same_and_rows_that_are_learnt_have_their_gradient_as_factors(more, learnt):
    ours, theirs = (inputs(device=WHERE_KERNELS_RUN, **more) for _ in range(2))
    rows = ours[1] if learnt else 1.0 * ours[1]
    loss, expected = all_labels_loss(ours[0], rows, *ours[2:], chunk=8), plain(*theirs)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(loss, expected)
    by_rows = dense(take(ours[1]), LABELS) if learnt else ours[1].grad
    for mine, other in zip((ours[0].grad, by_rows, ours[2].grad), theirs[:3], strict=True):
        torch.testing.assert_close(mine, other.grad)


def test_gradients_agree_with_finite_differences():
    vectors, weight, bias, batch = inputs()

    def loss(vectors, weight, bias):
        wanted = Batch(batch.inputs, batch.positives)
        return all_labels_loss(vectors, weight, bias, wanted, chunk=8, precision=torch.float64)

    # float() inside the loss would spoil the differences, so a step that float32 can see is taken.
    torch.testing.assert_close(
        torch.autograd.functional.jacobian(lambda v: loss(v, weight, bias), vectors)[1, 2],
        (loss(nudged(vectors, 1e-2), weight, bias) - loss(nudged(vectors, -1e-2), weight, bias)) / 2e-2,
        rtol=1e-2,
        atol=1e-5,
    )


def nudged(vectors, amount):
    moved = vectors.detach().clone()
    moved[1, 2] += amount
    return moved


def test_half_precision_is_close():
    ours, theirs = inputs(), inputs()
    loss, expected = all_labels_loss(*ours, chunk=8, precision=torch.bfloat16), plain(*theirs)
    torch.testing.assert_close(loss, expected, rtol=2e-2, atol=1e-3)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(ours[1].grad, theirs[1].grad, rtol=5e-2, atol=2e-3)


def test_no_text_needs_a_label():
    vectors, weight, bias, batch = inputs()
    nothing = Batch(batch.inputs, torch.full((BATCH, 1), NO_LABEL))
    expected = functional.softplus(vectors @ weight.T + bias).mean()
    torch.testing.assert_close(all_labels_loss(vectors, weight, bias, nothing, chunk=8), expected)
