"""What a run of an encoder with a row for each label will take, told before it begins, and what would make it fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from laconic.methods.costs import Shape, gpu_memory, training_machine, training_memory, training_seconds
from laconic.training.run import Run


def announce(config: Any, shape: Shape, texts: int, run: Run, *, chunk: int, small_batch: int) -> None:
    """`chunk` labels are scored at a time on a CPU; `small_batch` is what is advised where memory is short."""
    gpu = run.device.type == "cuda"
    machine = training_machine(run.device)
    seconds = training_seconds(shape, texts=texts, epochs=config.epochs, batch=config.batch_size, machine=machine)

    def needed(batch: int, dim: int, optimiser: str = config.optimiser) -> int:
        own, batch = replace(shape, dim=min(shape.dim, dim)), min(config.batch_size, batch)
        if gpu:
            return gpu_memory(own, batch=batch, optimiser=optimiser)
        return training_memory(own, batch=batch, chunk=chunk)

    whole = config.batch_size, shape.dim
    remedies = {"--set optimiser=adam-bf16": needed(*whole, "adam-bf16")} if gpu else {}
    remedies |= {
        f"--set batch_size={small_batch}": needed(small_batch, shape.dim),
        "--set embedding=128": needed(config.batch_size, 128),
        "--set embedding=64 and --set batch_size=32": needed(32, 64),
    }
    run.announce(needed(*whole), seconds * (1 + config.refit), remedies)
