"""The command line's verb bench: how quick a packed model is, and what that costs. Nothing is computed here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

verbs = typer.Typer()
out, err = Console(highlight=False, markup=False), Console(stderr=True, highlight=False, markup=False)


@verbs.command()
def bench(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder, or a packed one.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Texts with known labels, as for evaluate.")],
    split: Annotated[str, typer.Option(help="Which split of the data.")] = "test",
    texts: Annotated[int, typer.Option(metavar="N", help="Of the split, at most so many.", min=1)] = 5000,
    singly: Annotated[int, typer.Option(metavar="N", help="Ask so many one by one.", min=1)] = 2000,
    k: Annotated[int, typer.Option("-k", help="How many labels.", min=1)] = 5,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw P@5 against the time of a text (needs matplotlib).")
    ] = None,
    keep_self: Annotated[
        bool, typer.Option("--keep-self", help="Keep pairs of a text with itself, and filtered pairs.")
    ] = False,
    table: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="CSV, TSV, Parquet: as for train.")
    ] = None,
) -> None:
    """Time a packed model from raw text to label names, and score it, at every place of its dial.

    A model that was not packed is packed for this once. Other work on the machine makes the times worse.
    """
    from laconic.bars import progress
    from laconic.benching import Config, packed_folder
    from laconic.benching import bench as points_of
    from laconic.config import configure, read_settings
    from laconic.data.formats.tabular import Columns
    from laconic.data.sources import read
    from laconic.display import speed_table
    from laconic.files import writing
    from laconic.plots import plot_speed
    from laconic.predict.answering import usable_cores

    corpus = read(data, configure(Columns, read_settings(None, table or [])))
    corpus = corpus.keeping_self_pairs() if keep_self else corpus
    with packed_folder(model, corpus) as folder, progress(err, "measuring", 1) as bar:
        points = points_of(
            folder,
            corpus,
            split,
            Config(texts=texts, singly=singly, k=k),
            lambda done, places: bar.update(bar.task_ids[0], completed=done, total=places),
        )
    used, cores = min(texts, len(corpus.split(split))), usable_cores()
    how = f"one at a time on one thread, all together on {cores} core" + "s" * (cores > 1)
    out.print(speed_table(points, f"{model} on {data}, {split}: {used:,} texts; {how}"))
    found = [point.as_json() for point in points]
    if json_file is not None:
        about = {"model": str(model), "data": data, "split": split, "texts": used, "cores": cores, "places": found}
        with writing(json_file) as file:
            file.write(json.dumps(about, indent=2).encode() + b"\n")
    if picture is not None:
        plot_speed(found, picture)
        out.print(f"{picture}")
