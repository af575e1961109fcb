"""A paper's tables and figures on any dataset, each beside what the paper prints.

A dataset is a folder of the Extreme Classification Repository, known by its name or its size, or any other data; what
the papers' datasets are trained with are their presets. Results are kept in benchmarks/results/ as they come: what is
there already is not trained once more.

    python -m benchmarks.papers inceptionxml --table 2 3 4 5 6 --data data/AmazonTitles-670K --vectors glove.txt
    python -m benchmarks.papers deepxml --table 4 6 --data debian-related --seeds 1 2 3
    python -m benchmarks.papers decaf --table 5 6 --data LF-AmazonTitles-131K --only HNSW
    python -m benchmarks.papers deepxml --part reranker --data yso-titles
    python -m benchmarks.papers decaf --table 6 --data debian-related --dry-run      what it would train, for how long
"""

from __future__ import annotations

import argparse
from pathlib import Path
from shutil import which
from typing import Any

from benchmarks._trainings import Job, side_by_side, stored
from benchmarks.common import DATA, RESULTS, data_folder
from benchmarks.papers.datasets import Dataset
from benchmarks.papers.estimates import seconds_of
from benchmarks.papers.figures import draw
from benchmarks.papers.report import shown
from benchmarks.papers.rows import ROWS, SHARED
from benchmarks.papers.work import Options, Working, jobs_of
from laconic.config import read_settings
from laconic.errors import UserError
from laconic.system.files import writing

GLOVE = DATA / "glove-6b-100d" / "glove.6B.100d.subset.txt.gz"  # for rows that want vectors, where none are given


def main(arguments: list[str] | None = None) -> None:
    options = parsed(arguments)
    if options.device == "cuda" and not options.dry_run and not which("nvidia-smi"):
        raise SystemExit("there is no GPU here; --device cpu trains on the CPU")  # torch may not be asked before a fork
    missing = [name for name in options.data if data_folder(name) is None]
    if missing:
        raise SystemExit(f"{', '.join(missing)}: not in {DATA} (set LACONIC_DATA) nor a folder")
    try:
        for what in options.what:
            made(what, options)
    except UserError as error:
        raise SystemExit(str(error)) from None


def made(what: str, options: argparse.Namespace) -> None:
    """Train what a table or figure wants, then write it."""
    source = SHARED.get((options.paper, what), what)
    name = f"{options.paper}_{source.replace(' ', '_')}" + (f"_{options.preset}" if options.preset else "")
    datasets = [Dataset(place, options.paper, options.preset) for place in options.data]
    vectors = options.vectors or (GLOVE if GLOVE.exists() else None)
    settings = Options(
        device=options.device,
        vectors=vectors,
        start_all=options.vectors is not None,
        epochs=options.epochs,
        overrides=read_settings(None, options.settings),
        rows=options.rows,
        texts=options.texts,
    )
    jobs = [
        job
        for data in datasets
        for job in jobs_of(
            [row for row in ROWS[options.paper][source](data) if chosen(row.name, options)],
            data,
            options.seeds,
            settings,
        )
    ]
    if options.dry_run:
        return planned(jobs, name, options)
    work = Working(options.paper, options.preset, settings)
    table = side_by_side(jobs, work, name, options.at_once, again=options.again, folder=options.results)
    found = {data: in_order(table.get(data.name, {}), data, source) for data in datasets}
    text = "\n\n".join(shown(options.paper, what, data, rows) for data, rows in found.items())
    page = f"{options.paper}_{what.replace(' ', '_')}" + (f"_{options.preset}" if options.preset else "")
    with writing(options.results / f"{page}.md") as file:
        file.write(f"{text}\n".encode())
    print(f"\n{text}")
    for data, rows in found.items():
        draw(options.paper, what, data, rows, options.results / "pictures")
    return None


def in_order(rows: dict[str, Any], data: Dataset, source: str) -> dict[str, Any]:
    """Return a dataset's rows in the order of the table."""
    names = [row.name for row in ROWS[data.paper][source](data)]
    return dict(sorted(rows.items(), key=lambda one: names.index(one[0]) if one[0] in names else len(names)))


def planned(jobs: list[Job], name: str, options: argparse.Namespace) -> None:
    """Say what would be trained, and about how many GPU seconds each training takes alone, where that is known."""
    done = stored(name, options.results)
    total = 0.0
    for job in jobs:
        there = str(job.seed) in done.get(job.dataset, {}).get(job.name, {}).get("runs", {})
        seconds = 0.0 if there and not options.again else seconds_of(job)
        total += seconds or 0.0
        shown = "done" if there and not options.again else "unknown" if seconds is None else f"{seconds:,.0f} s"
        print(f"{name}: {job.dataset}, {job.name}, seed {job.seed}: {shown}")
    print(f"{name}: {len(jobs)} trainings, about {total:,.0f} GPU seconds one after another")


def chosen(name: str, options: argparse.Namespace) -> bool:
    return (not options.only or any(one in name for one in options.only)) and not any(
        one in name for one in options.without
    )


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.papers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("paper", choices=sorted(ROWS))
    parser.add_argument("--table", type=int, nargs="+", default=[], help="numbers of the paper's tables")
    parser.add_argument("--figure", type=int, nargs="+", default=[], help="numbers of the paper's figures")
    parser.add_argument("--part", nargs="+", default=[], help="what has no number: choices, reranker, vectors")
    parser.add_argument("--data", nargs="+", required=True, help="names of datasets in LACONIC_DATA, or folders")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--at-once", type=int, default=1, help="trainings side by side")
    parser.add_argument("--only", nargs="+", default=[], help="rows with one of these in their names")
    parser.add_argument("--without", nargs="+", default=[], help="rows with none of these in their names")
    parser.add_argument("--vectors", type=Path, help="word vectors to start from, as the paper does (GloVe, fastText)")
    parser.add_argument("--set", dest="settings", nargs="*", default=[], help="settings of all rows, as for train")
    parser.add_argument("--epochs", type=int, default=0, help="of every stage, to see that it runs")
    parser.add_argument("--preset", default="", help="instead of the dataset's settings, such as laptop")
    parser.add_argument("--texts", type=int, default=0, help="training texts, drawn by chance; 0: all")
    parser.add_argument("--rows", type=int, default=0, help="first training and test texts, to see that it runs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON and markdown files")
    parser.add_argument("--again", action="store_true", help="train once more what the results have already")
    parser.add_argument("--dry-run", action="store_true", help="list the trainings and estimate their GPU seconds")
    options = parser.parse_args(arguments)
    options.what = (
        [f"table {one}" for one in options.table] + [f"figure {one}" for one in options.figure] + options.part
    )
    known: Any = [*ROWS[options.paper], *(what for paper, what in SHARED if paper == options.paper)]
    unknown = [what for what in options.what if what not in known]
    if unknown or not options.what:
        parser.error(
            f"{', '.join(unknown) or 'nothing'} asked of {options.paper}; there are {', '.join(dict.fromkeys(known))}"
        )
    return options


if __name__ == "__main__":
    main()
