"""Progress bars on a terminal; without a terminal a line for each stage that took long. Quick to import."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from laconic.units import counted

SHORT = 3.0  # seconds of a stage that are not worth a line
_REMEMBERED = 600.0  # seconds of a stage by which the time left is estimated; steps of packing may take a minute

if TYPE_CHECKING:
    from laconic.training.watchers import LineWatcher


@contextmanager
def _shown(bar: Progress) -> Iterator[Progress]:
    """Show a display while it is used; without a terminal it is not even begun, since rich may end it with a line."""
    with nullcontext(bar) if bar.disable else bar:
        yield bar


def counting(console: Console) -> Progress:
    """Return a progress display for tasks of known size."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
        speed_estimate_period=_REMEMBERED,
    )


@contextmanager
def progress(console: Console, title: str, total: int | None = None) -> Iterator[Progress]:
    """Show one bar with the time left; `total` None: whoever updates it says how much there is to do."""
    with _timed(console, title), _shown(counting(console)) as bar:
        bar.add_task(title, total=total)
        yield bar


@contextmanager
def _timed(console: Console, title: str) -> Iterator[None]:
    """Print how long a stage took, where there is no terminal that shows its bar, and it took long."""
    began = monotonic()
    yield
    if not console.is_terminal and (seconds := monotonic() - began) >= SHORT:
        console.print(f"{title}: {seconds:.1f} s", soft_wrap=True)


@contextmanager
def reading_progress(console: Console, size: int | None) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of reading a file of unknown length.

    Yield a function of the texts just read and of the position reached in the file.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[shown]}"), TimeRemainingColumn())
    with _shown(Progress(*columns, console=console, transient=True, disable=not console.is_terminal)) as bar:
        task = bar.add_task("answering", total=size, texts=0, shown="")

        def advance(texts: int, position: int) -> None:
            texts += bar.tasks[0].fields["texts"]
            bar.update(task, completed=position, texts=texts, shown=counted(texts, "text"))

        yield advance


@contextmanager
def byte_progress(console: Console, title: str) -> Iterator[Callable[[int, int], None]]:
    """Show the bytes that are moved; yield a function of those that were, and of all."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with _shown(Progress(*columns, console=console, transient=True, disable=not console.is_terminal)) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


@contextmanager
def waiting(console: Console, title: str) -> Iterator[None]:
    """Show that something goes on whose end is unknown, and for how long it has."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    display = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with _timed(console, title), _shown(display) as bar:
        bar.add_task(title, total=None)
        yield


@contextmanager
def reading_data(console: Console, data: str) -> Iterator[None]:
    """Show how many bytes of a dataset's files are read; where it is no file or folder, that it is being read."""
    from laconic.data.formats.lines import READ

    place, title = Path(data), f"reading {data}"
    files = [one for one in place.iterdir() if one.is_file()] if place.is_dir() else [place] if place.is_file() else []
    size = sum(one.stat().st_size for one in files)
    if not size:
        with waiting(console, title):
            yield
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    display = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with _timed(console, title), _shown(display) as bar:
        task = bar.add_task(title, total=size)

        def advance(count: int) -> None:  # the first bytes of a file are read twice
            bar.update(task, completed=min(size, bar.tasks[0].completed + count))

        token = READ.set(advance)
        try:
            yield
        finally:
            READ.reset(token)


@contextmanager
def training_display(console: Console, *, is_announced: bool = False) -> Iterator[LineWatcher]:
    """Report on a run: a progress bar on a terminal, and a line per stage everywhere; epochs go to the log.

    `is_announced` says that the time and memory of the whole run were announced before.
    """
    from laconic.training.watchers import LineWatcher, log

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with _shown(Progress(*columns, console=console, transient=True, disable=not console.is_terminal)) as bar:
        task = bar.add_task("training", total=None)

        def advance(what: str, fraction: float | None) -> None:
            if fraction is None:  # a stage begins
                bar.reset(task, description=what, total=None)
            else:
                bar.update(task, description=what, total=1.0, completed=fraction)

        report = partial(bar.console.print, soft_wrap=True)
        yield LineWatcher(report, advance, log.info, is_announced=is_announced)
