"""A watcher that reports training in lines of text, for a terminal, a log or a notebook."""

from __future__ import annotations

from collections.abc import Callable

from laconic.training.loop import EpochFacts
from laconic.units import counted, human_bytes, human_seconds


class LineWatcher:
    """Passes lines to `report`, one per stage and epoch, and each step's progress to `advance`.

    `advance` gets the stage's name, the steps that are done, and the steps that there are.
    """

    def __init__(
        self, report: Callable[[str], None], advance: Callable[[str, int, int], None] = lambda stage, done, steps: None
    ) -> None:
        self.report, self.advance, self.stages = report, advance, 0

    def planned(self, memory: int, seconds: float) -> None:
        self.report(f"Estimated: {human_bytes(memory)} of memory, {human_seconds(seconds)}")

    def began(self, how: str, epochs: int, steps: int, done: int) -> None:
        self.epochs, self.stages, self.steps, self.done = epochs, self.stages + 1, epochs * steps, done
        self.stage = f"Stage {self.stages}"
        resumed = ", done before" if done == self.steps else f", resumed at epoch {done // steps + 1}"
        stage = f"{self.stage}: {counted(epochs, 'epoch')} of {counted(steps, 'step')}, {how}"
        self.report(stage + (resumed if done else ""))
        self.advance(self.stage, done, self.steps)

    def stepped(self) -> None:
        self.done += 1
        self.advance(self.stage, self.done, self.steps)

    def ended(self, facts: EpochFacts) -> None:
        figures = ", ".join(f"{name} {figure:.2f}" for name, figure in facts.figures.items())
        score = f", validation {figures}" if figures else ""
        self.report(f"epoch {facts.epoch}/{self.epochs}: loss {facts.loss:.6f}{score}, {facts.seconds:.1f} s")
