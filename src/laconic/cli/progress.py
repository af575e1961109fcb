"""Bars that show on a terminal how far something is, and nothing elsewhere. Quick to import."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from laconic.units import counted


def counting(console: Console) -> Progress:
    """For tasks that know how much there is to do."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def progress(console: Console, title: str, total: int) -> Iterator[Progress]:
    """A bar with the time left."""
    with counting(console) as bar:
        bar.add_task(title, total=total)
        yield bar


@contextmanager
def reading_progress(console: Console, size: int | None) -> Iterator[Callable[[int, int], None]]:
    """The same for what is read to its end, however many texts that is: called with how many more there were, and how
    much of the whole has been read.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[shown]}"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("answering", total=size, texts=0, shown="")

        def advance(texts: int, position: int) -> None:
            texts += bar.tasks[0].fields["texts"]
            bar.update(task, completed=position, texts=texts, shown=counted(texts, "text"))

        yield advance
