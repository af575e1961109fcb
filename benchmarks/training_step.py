"""A whole InceptionXML training step at the shape of AmazonTitles-670K, on a GPU: milliseconds and peak memory.

Batch 128, 32 words, 670,091 labels, fp32 Adam. Floor: 28 bytes a parameter of optimiser traffic at the copy bandwidth
measured in the same run. Synthetic data made on the device.

    python -m benchmarks.training_step
"""

from __future__ import annotations

import statistics

import torch

from benchmarks.common import save
from laconic.data.resident import Resident
from laconic.methods.inceptionxml import Config, build
from laconic.training.optimizer import Adam, Plan
from laconic.training.step import Step
from laconic.training.tasks import AllLabels
from laconic.types import Tokens

TEXTS, WORDS, LABELS, LENGTH, BATCH, PER_TEXT = 485_176, 66_667, 670_091, 32, 128, 6
STEPS = 60


def main() -> None:
    if not torch.cuda.is_available():
        print("no GPU here, left out")
        return
    figures: dict[str, object] = {"gpu": torch.cuda.get_device_name(), "authors_code_ms": 102.8, "limit_ms": 8}
    figures["copy_gigabytes_per_second"] = round(copy_bandwidth() / 1e9)
    for precision in ("fp32", "bf16"):
        figures[precision] = measure(precision, captured=True)
    figures["fp32, eager"] = measure("fp32", captured=False)
    save("training_step", figures)


def measure(precision: str, *, captured: bool) -> dict[str, object]:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.set_float32_matmul_precision("high")
    data = synthetic()
    config = Config(length=LENGTH, precision=precision)
    with torch.device("cuda"):
        encoder, classifier = build(config, WORDS, LABELS)
    types = {"fp32": torch.float32, "bf16": torch.bfloat16}
    task = AllLabels(encoder, classifier, dropout=0.5, chunk=config.chunk, precision=types[precision]).cuda().train()
    optimiser = Adam(dict(task.named_parameters()), Plan(epochs=1, batch_size=BATCH), STEPS + 20)
    step = Step(task, data, optimiser)
    how = step.capture(BATCH) if captured else "eager"
    order = data.order(0, 0, BATCH).cuda()
    times = [timed(step, order[i]) for i in range(STEPS)][10:]
    peak = torch.cuda.max_memory_allocated()
    parameters = sum(parameter.numel() for parameter in task.parameters())
    return {
        "how": how,
        "milliseconds": round(statistics.median(times), 2),
        "floor_milliseconds": round(parameters * 28 / copy_bandwidth() * 1e3, 2),
        "max_memory_allocated": peak,
        "loss": round(float(step.loss_sum) / STEPS, 6),
    }


def synthetic() -> Resident:
    device = torch.device("cuda")
    ids = torch.randint(2, WORDS, (TEXTS, LENGTH), dtype=torch.int32, device=device)
    return Resident(
        inputs=Tokens(ids, torch.ones(1, 1, device=device).expand(TEXTS, LENGTH)),
        starts=torch.arange(TEXTS, device=device) * PER_TEXT,
        counts=torch.full((TEXTS,), PER_TEXT, device=device),
        labels=torch.randint(LABELS, (TEXTS * PER_TEXT,), device=device),
        targets=None,
        weights=None,
        width=PER_TEXT,
    )


def timed(step: Step, rows: torch.Tensor) -> float:
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begun.record()
    step(rows)
    ended.record()
    torch.cuda.synchronize()
    return float(begun.elapsed_time(ended))


def copy_bandwidth() -> float:
    """Bytes a second, read and written."""
    source = torch.empty(1 << 28, device="cuda")
    target = torch.empty_like(source)
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(3):
        begun.record()
        target.copy_(source)
        ended.record()
    torch.cuda.synchronize()
    return 2 * source.nbytes / begun.elapsed_time(ended) * 1e3


if __name__ == "__main__":
    main()
