"""Texts in many languages: the default, label trees and another library, by the language of the question.

Trained on all languages, on English alone, and on each language alone; asked in each. Texts of debian-related-languages
have the sides of debian-related, so that no package is on both. Pairs of a text with itself are left out.

    python -m benchmarks.languages
    python -m benchmarks.languages --device cpu --budget 2m --texts 40000 --on all en --systems default trees peer
    python -m benchmarks.languages --device cpu --systems trees peer --rows 2000

With --rows figures go to results/languages_tried.json, else to results/languages.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks._trainings import Figures, earlier_commands, stored
from benchmarks.common import data_folder, save
from laconic.analysis.peers.libraries import is_installed
from laconic.analysis.peers.napkinxc import LABEL_TREE
from laconic.analysis.peers.omikuji import BONSAI
from laconic.analysis.peers.peer import Examples
from laconic.data import sources
from laconic.data.corpus import Corpus
from laconic.evaluation.evaluate import Truth, evaluate, places_needed, rank_all
from laconic.evaluation.metrics import TrainingCounts
from laconic.methods.auto import choose, describe_situation
from laconic.methods.registry import config_of
from laconic.methods.train import train_model
from laconic.predict.predictor import Predictor
from laconic.system.machine import usable_cores
from laconic.training.run import Run
from laconic.types import Ranking
from laconic.units import seconds_of

DATA = "debian-related-languages"
SHOWN = ("P@1", "P@5", "PSP@5", "tail R@10")
READING = {"words": {"vocabulary": {"subwords": 0}}, "sub-words": {"vocabulary": {"subwords": 1 << 18}}}
SYSTEMS = ("default", "default, words", "default, sub-words", "trees", "trees, sub-words", "trees, stemmed", "peer")
TREES: dict[str, dict[str, Any]] = {
    "trees": {},
    "trees, sub-words": READING["sub-words"],
    "trees, stemmed": {"text": {"language": "auto"}},
}
_FEWEST = 60  # test texts of a language that is reported
_ALONE = 300  # training texts of a language that is trained alone


@dataclass(frozen=True)
class Material:
    corpus: Corpus
    train: np.ndarray  # languages of the training texts
    test: np.ndarray


class Made(NamedTuple):
    name: str  # the parts of the default, or another library
    rank: Callable[[int], Ranking]  # the test texts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=DATA, help="name of the data, or path of its folder")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--on", nargs="+", choices=["all", "en", "alone"], default=["all", "en", "alone"])
    parser.add_argument("--alone", nargs="+", default=[], help="languages that are learnt alone, by any system")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget", default="", help="of the default, as for train")
    parser.add_argument(
        "--texts", type=int, default=0, help="about so many training texts: some packages in all languages"
    )
    parser.add_argument("--rows", type=int, default=0, help="so many training and test texts, to see that it runs")
    parser.add_argument("--name", default="languages")
    options = parser.parse_args()
    folder = data_folder(options.data)
    if folder is None:
        print(f"{options.data} is not here, left out")
        return
    have = read(folder, options.rows)
    have = of_some_packages(have, options.texts) if options.texts else have
    name = options.name + "_tried" * bool(options.rows)
    table, earlier = stored(name), earlier_commands(name)  # a training may have a run of its own
    for on, system in [(on, system) for on in options.on for system in options.systems]:
        if on == "alone" and system not in TREES and not options.alone:
            continue  # there are many languages
        for language in (options.alone or languages_alone(have)) if on == "alone" else [on]:
            rows = np.arange(len(have.train)) if on == "all" else np.flatnonzero(have.train == language)
            asked = [language] if on == "alone" else None
            table.setdefault(system, {})[language if on == "alone" else f"on {on}"] = measured(
                have, system, rows, options, asked
            )
            save(name, table | {"earlier commands": earlier}, quietly=True)


def read(folder: Path, rows: int) -> Material:
    """Read the data with the language of each text; some rows of it for a trial."""
    corpus, found = sources.read(str(folder)), {}
    for name in ("train", "test"):
        with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            found[name] = np.array([json.loads(line)["lang"] for line in file])
        assert len(found[name]) == len(corpus.split(name)), "a text without labels was left out"
        if rows:
            some = np.sort(np.random.default_rng(0).permutation(len(found[name]))[:rows])
            found[name] = found[name][some]
            corpus = replace(corpus, splits={**corpus.splits, name: corpus.split(name).rows(some)})
    return Material(corpus, found["train"], found["test"])


def of_some_packages(have: Material, texts: int) -> Material:
    """Return about so many training texts, those of some packages in all their languages, and as much of the tests."""
    fraction, splits, found = texts / len(have.train), {}, {}
    for name, languages in (("train", have.train), ("test", have.test)):
        split = have.corpus.split(name)
        _, packages = np.unique(np.array(split.ids, dtype=str), return_inverse=True)
        chosen = np.flatnonzero(np.random.default_rng(0).random(packages.max() + 1)[packages] < fraction)
        splits[name], found[name] = split.rows(chosen), languages[chosen]
    return Material(replace(have.corpus, splits={**have.corpus.splits, **splits}), found["train"], found["test"])


def languages_alone(have: Material) -> list[str]:
    counts, tested = Counter(have.train), Counter(have.test)
    return [one for one, count in counts.most_common() if count >= _ALONE and tested[one] >= _FEWEST]


def measured(have: Material, system: str, rows: np.ndarray, options: Any, asked: Sequence[str] | None) -> Figures:
    """Train on some texts and return figures by the language of the test texts."""
    train, test = have.corpus.split("train").rows(rows), have.corpus.split("test")
    among = np.arange(len(test)) if asked is None else np.flatnonzero(np.isin(have.test, asked))
    corpus = replace(have.corpus, splits={"train": train, "test": test.rows(among)})
    started = perf_counter()
    made = by_peer(corpus) if system == "peer" else by_model(corpus, system, options.device, options.budget)
    seconds = perf_counter() - started
    truth = truth_of(corpus)
    ranking = made.rank(places_needed(truth))
    found: Figures = {
        "seconds": round(seconds, 1),
        "system": made.name,
        "all": figures(ranking, truth, np.arange(len(among))),
    }
    for language, count in Counter(have.test[among]).most_common():
        if count >= _FEWEST or options.rows:
            found[language] = figures(ranking, truth, np.flatnonzero(have.test[among] == language))
    said = {
        name: {key: round(value, 1) for key, value in own.items()}
        for name, own in found.items()
        if isinstance(own, Mapping)
    }
    print(f"[{perf_counter():.0f}] {made.name}, {len(rows):,} texts, {seconds:.0f} s: {json.dumps(said)}", flush=True)
    return found


def by_model(corpus: Corpus, system: str, device: str, budget: str) -> Made:
    name = system
    if system not in TREES:
        seconds = seconds_of(budget) if budget else None
        choice = choose(describe_situation(corpus, gpu=device == "cuda", budget=seconds))
        print(choice.why, flush=True)
        name, method, settings = choice.why.partition(";")[0], choice.method, dict[str, Any](choice.settings)
        settings |= READING.get(system.removeprefix("default, "), {})
    else:
        method, settings = "trees", TREES[system]
    model = train_model(corpus, method, config_of(method, settings), Run.unkept(device if method != "trees" else "cpu"))
    predictor = Predictor(model, device if method != "trees" else "cpu")
    rows, _ = predictor.view.rows_and_truth(corpus, "test")
    return Made(name, lambda k: rank_all(predictor.ranker, rows, k))


def by_peer(corpus: Corpus) -> Made:
    """Train omikuji or, where it is not installed, napkinXC."""
    peer = BONSAI if is_installed(BONSAI) else LABEL_TREE
    split = corpus.split("train")
    labels = split.labels if split.leave_out is None else split.labels - split.labels.multiply(split.leave_out)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model"
        place.mkdir()
        peer.train(Examples(list(split.texts or ()), labels.tocsr()), place, usable_cores())
        answer = peer.open(place)

    def rank(k: int) -> Ranking:
        found = answer(list(corpus.split("test").texts or ()), k)
        return Ranking(torch.from_numpy(found.labels), torch.from_numpy(found.scores))

    return Made(peer.name, rank)


def truth_of(corpus: Corpus) -> Truth:
    test = corpus.split("test")
    training = TrainingCounts.of(corpus.split("train").labels, propensity=corpus.constants())
    return Truth(labels=test.labels, leave_out=test.leave_out, training=training)


def figures(ranking: Ranking, truth: Truth, rows: np.ndarray) -> dict[str, float]:
    some = torch.from_numpy(rows)
    own = Ranking(ranking.labels[some], ranking.scores[some])
    left = None if truth.leave_out is None else truth.leave_out[rows]
    metrics = evaluate(own, replace(truth, labels=truth.labels[rows], leave_out=left)).metrics
    return {name: float(metrics[name]) for name in SHOWN if name in metrics} | {"texts": len(rows)}


if __name__ == "__main__":
    main()
