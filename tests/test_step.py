"""One training step: what it does on the CPU, and that a GPU's captured step does the same."""

import pytest
import torch

from laconic.data.resident import Resident
from laconic.methods.inceptionxml import Config, build
from laconic.training.optimizer import Adam, Plan
from laconic.training.step import Step
from laconic.training.tasks import AllLabels
from laconic.types import Tokens

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
TEXTS, WORDS, LABELS, LENGTH, BATCH = 40, 30, 50, 6, 8


@pytest.fixture(autouse=True)
def fast_products():
    """As `fit` has it while it trains."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


def parts(device, *, dropout=0.0, task_class=AllLabels):
    torch.manual_seed(0)
    ids = torch.randint(2, WORDS, (TEXTS, LENGTH), dtype=torch.int32)
    data = Resident(
        inputs=Tokens(ids.to(device), torch.ones(TEXTS, LENGTH, device=device)),
        starts=torch.arange(TEXTS, device=device) * 2,
        counts=torch.full((TEXTS,), 2, device=device),
        labels=torch.randint(LABELS, (2 * TEXTS,)).to(device),
        targets=None,
        weights=None,
        width=2,
    )
    encoder, classifier = build(Config(length=LENGTH, embedding=64, dropout=dropout), WORDS, LABELS)
    task = task_class(encoder, classifier, dropout=dropout, chunk=16).to(device).train()
    return task, data, Adam(dict(task.named_parameters()), Plan(epochs=4, batch_size=BATCH), 20)


def run(device, *, captured, steps=10):
    task, data, optimiser = parts(device)
    step = Step(task, data, optimiser)
    how = step.capture(BATCH) if captured else "eager"
    for rows in data.order(0, 0, BATCH).repeat(2, 1)[:steps].to(device):
        step(rows)
    return task, step, how


def test_training_lowers_the_loss():
    _, few, _ = run("cpu", captured=False, steps=1)
    _, many, _ = run("cpu", captured=False, steps=10)
    assert float(many.loss_sum) / 10 < float(few.loss_sum)


def test_a_loss_that_is_not_finite_changes_no_weight_and_is_remembered():
    task, data, optimiser = parts("cpu")
    step = Step(task, data, optimiser)
    rows = data.order(0, 0, BATCH)
    step(rows[0])
    before = {name: parameter.detach().clone() for name, parameter in task.named_parameters()}
    with torch.no_grad():
        task.classifier.bias[3] = torch.nan
    before["classifier.bias"][3] = torch.nan
    step(rows[1])
    step(rows[2])
    assert int(step.first_bad) == 1
    for name, parameter in task.named_parameters():
        torch.testing.assert_close(parameter.detach(), before[name], rtol=0, atol=0, equal_nan=True)


@on_gpu
def test_a_captured_step_does_what_an_eager_one_does():
    eager, _, _ = run("cuda", captured=False)
    captured, step, how = run("cuda", captured=True)
    assert how == "encoder compiled, step captured as a CUDA graph"
    assert int(step.first_bad) == -1
    for name, parameter in eager.named_parameters():
        torch.testing.assert_close(dict(captured.named_parameters())[name], parameter, rtol=2e-2, atol=2e-3)
    for name, buffer in eager.named_buffers():
        if "running" in name:
            torch.testing.assert_close(dict(captured.named_buffers())[name], buffer, rtol=2e-2, atol=2e-3)


@on_gpu
def test_the_gpu_learns_what_the_cpu_learns():
    _, cpu, _ = run("cpu", captured=False)
    _, gpu, _ = run("cuda", captured=True)
    assert float(gpu.loss_sum) == pytest.approx(float(cpu.loss_sum), rel=1e-2)


class Asking(AllLabels):
    """A task whose forward asks the host, which no capture survives."""

    def forward(self, batch, progress):
        loss = super().forward(batch, progress)
        assert loss.item() < 1e9
        return loss


@on_gpu
def test_a_step_that_cannot_be_captured_trains_all_the_same():
    task, data, optimiser = parts("cuda", dropout=0.2, task_class=Asking)
    step = Step(task, data, optimiser)
    assert step.capture(BATCH) == "eager on the GPU: the step could not be captured"
    for rows in data.order(0, 0, BATCH).to("cuda"):
        step(rows)
    assert int(step.first_bad) == -1
    assert float(step.loss_sum) > 0
