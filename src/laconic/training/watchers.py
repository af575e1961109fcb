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
_SHORT = 3.0  # seconds of a stage without epochs that are not worth a line
_SILENCE = 30.0  # seconds without a line after which an epoch has one


class LineWatcher:
    """Passes a line per stage to `report`, one per epoch to `detail`, and progress to `advance`.

    `advance` gets what is going on, and the fraction of the stage that is done; None where a stage begins. A line per
    epoch goes to `report` too where nothing was reported for half a minute. `is_announced` says that the time and
    memory of the whole run were announced before.
    """

    def __init__(
        self,
        report: Callable[[str], None],
        advance: Callable[[str, float | None], None] = lambda what, fraction: None,
        detail: Callable[[str], None] | None = None,
        *,
        is_announced: bool = False,
    ) -> None:
        self.said, self.advance, self.detail = report, advance, detail or report
        self.is_announced = is_announced
        self.stage, self.epochs, self.steps, self.done = "training", 0, 0, 0
        self.last: EpochFacts | None = None
        self.began_at = self.said_at = time.monotonic()

    def report(self, line: str) -> None:
        self.said(line)
        self.said_at = time.monotonic()

    def planned(self, memory: int, seconds: float) -> None:
        if not self.is_announced:
            self.report(f"Estimated: {human_bytes(memory)} of memory, {human_seconds(seconds)}")

    def entered(self, stage: str) -> None:
        self.stage, self.epochs, self.last = stage, 0, None
        self.advance(stage, None)

    def began(self, how: str, epochs: int, steps: int, done: int) -> None:
        self.epochs, self.steps, self.done = epochs, epochs * steps, done
        resumed = ", done before" if done == self.steps else f", resumed at epoch {done // steps + 1}"
        sizes = f"{counted(epochs, 'epoch')} of {counted(steps, 'step')}"
        line = f"{self.stage}: {sizes}, {how}" + (resumed if done else "")
        (self.report if done else self.detail)(line)
        self._advance()

    def stepped(self) -> None:
        self.done += 1
        self._advance()

    def advanced(self, fraction: float) -> None:
        self.advance(self.stage, fraction)

    def ended(self, facts: EpochFacts) -> None:
        self.last = facts
        line = f"epoch {facts.epoch}/{self.epochs}: {_figures(facts)}, {facts.seconds:.1f} s"
        quiet = self.detail is not self.said and time.monotonic() - self.said_at >= _SILENCE
        (self.report if quiet else self.detail)(f"{self.stage}, {line}" if quiet else line)

    def exited(self, seconds: float) -> None:
        if self.last is None and seconds < _SHORT:
            return
        trained = "" if self.last is None else f"{counted(self.last.epoch, 'epoch')}, {_figures(self.last)}, "
        self.report(f"[{_clock(time.monotonic() - self.began_at)}] {self.stage}: {trained}{seconds:.1f} s")

    def noted(self, line: str) -> None:
        self.report(line)

    def _advance(self) -> None:
        epoch = min(self.epochs, 1 + self.done * self.epochs // max(1, self.steps))
        self.advance(f"{self.stage}, epoch {epoch}/{self.epochs}", self.done / max(1, self.steps))


def _figures(facts: EpochFacts) -> str:
    figures = ", ".join(f"{name} {figure:.2f}" for name, figure in facts.figures.items())
    return f"loss {facts.loss:.6f}" + (f", validation {figures}" if figures else "")


def _clock(seconds: float) -> str:
    """Return minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


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

    def advance(self, what: str, fraction: float | None) -> None:
        value = "" if fraction is None else f' value="{fraction:.4f}"'
        self.bar = f'{escape(what)} <progress{value} max="1"></progress>'
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
