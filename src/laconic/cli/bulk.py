"""Run `predict` and `evaluate` on a cluster of Ray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from laconic.cli.options import err, out, print_note
from laconic.errors import ConfigError, install_hint
from laconic.units import counted

if TYPE_CHECKING:
    from laconic.predict.interface import RankRows

ENGINES = ("ray",)


def check_engine(engine: str, *, without: Mapping[str, object], within: Mapping[str, object]) -> None:
    """Refuse an unknown or missing engine, options that need one, and options that do not go with one."""
    wrong = next((name for name, value in (within if engine else without).items() if value), None)
    if engine and engine not in ENGINES:
        raise ConfigError(f"--engine must be {' or '.join(ENGINES)}, but is {engine!r}")
    if wrong is not None:
        remedy = "leave one of them out" if engine else "add --engine ray"
        raise ConfigError(f"{wrong} {'does not go with' if engine else 'needs'} --engine; {remedy}")
    if engine and find_spec(engine) is None:
        raise ConfigError(f"--engine {engine} needs {engine}, which is not installed; {install_hint(engine)}")


class InParts(NamedTuple):
    """How files are labelled in parts."""

    form: str  # of the files; empty: their endings tell it
    skip_bad: bool
    verify: bool
    address: str
    workers: int | None


def predict_in_parts(
    model: Path, files: Sequence[Path], to: Path | None, asked: Mapping[str, Any], how: InParts
) -> None:
    """Label files and folders into a folder of parts, and report what it holds; `asked` are values of a question."""
    from laconic.bulk.job import Job
    from laconic.bulk.labeller import Question, answering_folder, check_question, settled
    from laconic.bulk.ray_engine import answer_job
    from laconic.bulk.unit_reader import Wanted, check_columns
    from laconic.bulk.units import files_in, units_of
    from laconic.cli.progress import progress, waiting

    if to is None or not files:
        raise ConfigError("--engine needs files or folders of texts, and --out FOLDER to write to")
    question = settled(Question(**asked), model)
    folder = answering_folder(model, question, verify=how.verify)
    fields = check_question(folder, question, verify=how.verify)
    with waiting(err, "looking at the files"):
        units = units_of(files_in(files), how.form)
        check_columns(units[0], Wanted(question.column, fields))
    job = Job(folder=to.absolute(), model=folder.absolute(), question=question, units=units, skip_bad=how.skip_bad)
    with progress(err, "writing parts", len(units)) as bar:
        totals = answer_job(
            job, address=how.address, workers=how.workers, on_part=lambda part: bar.advance(bar.task_ids[0])
        )
    out.print(f"{to}: {counted(totals.rows, 'text')} in {counted(totals.parts, 'part')}", soft_wrap=True)
    if totals.bad:
        skipped = counted(totals.bad, "text was", "texts were")
        print_note(f"{skipped} skipped because of errors, which are listed in {to / '_bad'}")


def ranks_on(engine: str, model: Path, asked: Mapping[str, Any], address: str, workers: int | None) -> RankRows | None:
    """Return a function that ranks rows on a cluster, or None without an engine; `asked` are values of a question."""
    if not engine:
        return None
    from laconic.bulk.labeller import Question, settled
    from laconic.bulk.ray_ranks import RanksOnRay

    return RanksOnRay(model, settled(Question(**asked), model), address, workers)
