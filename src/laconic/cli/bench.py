"""The verb `bench`: measure the speed of a packed model and what it costs in accuracy."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from laconic.cli.options import (
    DATA,
    METHOD,
    OUTPUT,
    AsJson,
    ColumnNames,
    Constants,
    JsonFile,
    KeepSelf,
    Separator,
    SplitName,
    err,
    out,
    print_results,
    read_corpus,
)
from laconic.cli.verb import argument, command, option
from laconic.errors import ConfigError
from laconic.units import counted

if TYPE_CHECKING:
    from laconic.analysis.bench import Config
    from laconic.data.corpus import Corpus

verbs = typer.Typer()


@command(
    verbs,
    group="Measure",
    example="laconic bench model test.csv --picture speed.png\n"
    "laconic bench model shop/ --against all --out peers.json",
)
def bench(
    names: Annotated[
        list[str],
        argument(
            "MODEL... DATA",
            "A model folder or a packed one (several with --against), then labelled data, as for evaluate.",
        ),
    ],
    against: Annotated[
        list[str] | None,
        option(
            METHOD,
            "--against NAME",
            "Train and compare with omikuji, pecos, napkinxc, fasttext, or all installed ones; may be repeated. none: "
            "compare our models with each other.",
        ),
    ] = None,
    k: Annotated[int, option(METHOD, "-k K", "Labels per text.", min=1)] = 5,
    split: SplitName = "test",
    texts: Annotated[int, option(DATA, "--texts N", "Largest number of texts to use.", min=1)] = 5000,
    singly: Annotated[int, option(DATA, "--singly N", "Texts to time one at a time.", min=1)] = 2000,
    columns: ColumnNames = None,
    separator: Separator = None,
    keep_self: KeepSelf = False,
    propensity: Constants = "",
    as_json: AsJson = False,
    json_file: JsonFile = None,
    markdown: Annotated[
        Path | None, option(OUTPUT, "--markdown FILE", "With --against: also write the table as markdown.")
    ] = None,
    picture: Annotated[
        Path | None, option(OUTPUT, "--picture FILE", "Also plot P@5 against latency (needs matplotlib).")
    ] = None,
) -> None:
    """Time a packed model from raw text to label names, and evaluate it, at several search widths.

    A model that was not packed is packed for this once. Other work on the machine makes the times worse.
    """
    from laconic.analysis.bench import Config
    from laconic.analysis.peers.contest import with_constants
    from laconic.data.evaluation_texts import evaluation_texts
    from laconic.data.sketch import seen_words
    from laconic.predict.load import trained_on
    from laconic.system.machine import usable_cores

    if len(names) < 2:
        raise typer.BadParameter("missing; name labelled data after the model, as for evaluate", param_hint="DATA")
    models, data = [Path(name) for name in names[:-1]], names[-1]
    places = _places(against)
    _check(models, markdown, picture, alone=not against)
    corpus = read_corpus(data, columns, separator, model=models[0], keep_self=keep_self, propensity=propensity)
    if propensity and not against:
        raise ConfigError("--propensity is for --against: the table of one model has no PSP; leave it out")
    known = [trained_on(model) for model in models]
    chosen = evaluation_texts(corpus, split, known)
    used, cores = chosen.corpus.sampled(chosen.split, texts).split(chosen.split), usable_cores()
    seen = [one.overlap(used) for one in known]
    words = f"{data}, {chosen}: {counted(len(used), 'text')}" + "".join(map(seen_words, seen, map(str, models)))
    config = Config(texts=texts, singly=singly, k=k)
    asked = _Asked(chosen.corpus, chosen.split, config, words, cores, silent=as_json)
    about: dict[str, Any] = {"data": data, "split": chosen.name, "texts": len(used), "cores": cores}
    overlaps = [None if one is None else one.as_json() for one in seen]
    if against:
        about |= {"models": list(map(str, models)), "seen_in_training": overlaps}
        about |= {"propensity": asdict(with_constants(corpus, models).constants())}
        found = _against(models, places, asked, markdown)
    else:
        about |= {"model": str(models[0]), "seen_in_training": overlaps[0]}
        found = _search_widths(models[0], asked, picture)
    print_results(about | found, as_json=as_json, to=json_file)


class _Asked(NamedTuple):
    """The texts and options that every model is timed with."""

    corpus: Corpus
    split: str
    config: Config
    words: str  # for people
    cores: int
    silent: bool  # no table: JSON is printed

    @property
    def all_cores(self) -> str:
        return counted(self.cores, "core")


def _places(against: Sequence[str] | None) -> list[str]:
    """Return the installed peers among the names given; names may be separated by commas."""
    from laconic.analysis.peers.libraries import chosen

    given = [name for names in against or () for name in names.split(",")]
    return chosen(given) if given not in ([], ["none"]) else []


def _check(models: Sequence[Path], markdown: Path | None, picture: Path | None, *, alone: bool) -> None:
    if alone and len(models) > 1:
        raise ConfigError(
            f"without --against one model is timed, but there are {len(models)} models; name one, or add --against"
        )
    if alone and markdown is not None:
        raise ConfigError("--markdown is for the table of --against; --out writes the results of one model")
    if not alone and picture is not None:
        raise ConfigError("--picture is for one model alone; leave out --against, or write --markdown")


def _search_widths(model: Path, asked: _Asked, picture: Path | None) -> dict[str, Any]:
    from laconic.analysis.bench import bench as points_of
    from laconic.analysis.bench import packed_folder
    from laconic.analysis.plots import plot_speed
    from laconic.cli.progress import progress
    from laconic.cli.tables import speed_table

    with packed_folder(model, asked.corpus) as folder, progress(err, "measuring", 1) as bar:
        points = points_of(
            folder,
            asked.corpus,
            asked.split,
            asked.config,
            lambda done, places: bar.update(bar.task_ids[0], completed=done, total=places),
        )
    how = f"one at a time on one thread, all together on {asked.all_cores}"
    if not asked.silent:
        out.print(speed_table(points, f"{model} on {asked.words}; {how}"))
    found = [point.as_json() for point in points]
    if picture is not None:
        plot_speed(found, picture)
        (err if asked.silent else out).print(f"{picture}")
    return {"places": found}


def _against(models: Sequence[Path], places: Sequence[str], asked: _Asked, markdown: Path | None) -> dict[str, Any]:
    from laconic.analysis.peers.contest import contest
    from laconic.analysis.peers.table import contest_markdown, contest_notes, contest_table
    from laconic.cli.progress import progress
    from laconic.system.files import writing

    with progress(err, "measuring", 1) as bar:
        entries = contest(
            models,
            places,
            asked.corpus,
            asked.split,
            asked.config,
            lambda name, done, count: bar.update(bar.task_ids[0], description=name, completed=done, total=count),
        )
    title = f"{asked.words}, one at a time on one thread; trained on {asked.all_cores}"
    for part in () if asked.silent else (contest_table(entries, title), *contest_notes(entries)):
        out.print(part, soft_wrap=isinstance(part, str))
    typed = "laconic " + shlex.join(sys.argv[1:])
    if markdown is not None:
        with writing(markdown) as file:
            file.write(contest_markdown(entries, title, typed).encode())
    return {"command": typed, "entries": [entry.as_json() for entry in entries]}
