"""Watchers that report training in lines of text: to a terminal, to the log, and to the cell of a notebook."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from html import escape
from typing import Any

from laconic.training.loop import EpochFacts
from laconic.units import counted, human_bytes, human_seconds

log = logging.getLogger(__name__)
_REFRESH = 0.2  # seconds between two pictures of a progress bar in a notebook


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


def watcher_for(verbose: bool) -> LineWatcher:
    """Return a watcher that logs every line at the level INFO and, if verbose, shows it as well.

    In a notebook the last lines and a progress bar are shown in the cell; elsewhere lines are printed.
    """
    if not verbose:
        return LineWatcher(log.info)
    if _in_notebook():
        cell = _Cell()
        return LineWatcher(cell.add, cell.advance)
    return LineWatcher(_print)


def _print(line: str) -> None:
    log.info(line)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _in_notebook() -> bool:
    """Return whether this runs in a notebook; IPython is not imported for those who do not use it."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and hasattr(shell, "kernel")


class _Cell:
    """The last lines and a progress bar in the cell of a notebook."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.bar, self.at = "", 0.0
        self.shown: Any = None  # what IPython updates; None before it shows anything

    def add(self, line: str) -> None:
        log.info(line)
        self.lines.append(line)
        self._show()

    def advance(self, stage: str, done: int, steps: int) -> None:
        self.bar = f'{escape(stage)} <progress value="{done}" max="{steps}"></progress> {done:,} / {steps:,}'
        if time.monotonic() - self.at >= _REFRESH:
            self._show()

    def _show(self) -> None:
        display: Any = sys.modules["IPython"].display
        self.at = time.monotonic()
        content = display.HTML(f"<pre>{escape(chr(10).join(self.lines[-12:]))}</pre>{self.bar}")
        if self.shown is None:
            self.shown = display.display(content, display_id=True)
        else:
            self.shown.update(content)
