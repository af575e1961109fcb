"""Labels that come later: how well they are found from their texts alone, and what an update costs the old ones.

`hidden` hides 5 % of the labels that have 3 test occurrences or more, trains without them, adds them from their texts
alone, and compares recall@10 on their test pairs with that of a training that had them. With `--labels N`, N labels are
drawn instead of all that both splits have, and results/label_changes_hidden_N.json keeps the figures. `update` trains
on four fifths of the texts (by a hash of their ids), updates with the rest, and compares P@1 before and after.
`--method combined` is the model that training chooses by itself.

    python -m benchmarks.label_changes hidden update --method astec --preset laptop
    python -m benchmarks.label_changes hidden --labels 1000 --draws 3 --data debian-related yso-titles \
        --method combined --device cuda
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from benchmarks.common import RESULTS, data_folder, save
from laconic.config import configure, preset_path, read_settings
from laconic.data.corpus import Corpus, Labels
from laconic.data.label_texts import with_known_words
from laconic.data.prepare import input_rows
from laconic.data.sources import read
from laconic.data.tokenizer import Tokenizer
from laconic.evaluation.evaluate import Truth, places_needed, rank_all, truth_in_numbers_of
from laconic.evaluation.metrics import judge, report
from laconic.methods.auto import choose, config_for, describe_situation
from laconic.methods.registry import config_of
from laconic.methods.restore import restore_config, restore_ranker
from laconic.methods.train import train_model
from laconic.storage.model_folder import SavedModel
from laconic.training.run import Run, device_named
from laconic.types import NO_LABEL, Ranking
from laconic.units import seconds_of
from laconic.update.model import add_labels, update
from laconic.update.rankers import Config

SHARE, LEAST = 0.05, 3  # of labels that are hidden, and how often each must be in the test split
PLACES = 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="+", choices=("hidden", "update"))
    parser.add_argument("--data", nargs="+", default=["debian-related"])
    parser.add_argument("--method", default="astec", help='or "combined": what training chooses by itself')
    parser.add_argument("--budget", default="", help="of combined, as for train")
    parser.add_argument("--preset", default="")
    parser.add_argument("--set", action="append", default=[], help="a setting of the method")
    parser.add_argument("--teach", action="append", default=[], help="a setting of the update")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0, help="of the first draw of hidden labels")
    parser.add_argument("--draws", type=int, default=1, help="of hidden labels")
    parser.add_argument("--labels", type=int, default=0, help="hidden labels in a draw")
    options = parser.parse_args()
    for data in options.data:
        folder = data_folder(data)
        if folder is None:
            print(f"{data}: not here, left out")
            continue
        corpus = read(str(folder))
        for what in options.what:
            (measure_hidden if what == "hidden" else measure_updated)(data, corpus, options)


def measure_hidden(data: str, corpus: Corpus, options: argparse.Namespace) -> None:
    whole = _trained(corpus, corpus, options)  # for all draws
    kept = f"label_changes_hidden_{options.labels}" if options.labels else "label_changes_hidden"
    for seed in range(options.seed, options.seed + options.draws):
        _save_beside(kept, data, _called(options, f"seed {seed}" * (seed > 0)), hidden(corpus, options, seed, whole))


def measure_updated(data: str, corpus: Corpus, options: argparse.Namespace) -> None:
    _save_beside("label_changes_update", data, _called(options), updated(corpus, options))


def _called(options: argparse.Namespace, seed: str = "") -> str:
    return " ".join(filter(None, [options.method, options.preset, *options.set, seed]))


def hidden(corpus: Corpus, options: argparse.Namespace, seed: int, whole: SavedModel) -> dict[str, Any]:
    """Return figures of a model before and after labels are added, and of `whole`, which was trained with them."""
    names = hidden_labels(corpus, seed, options.labels)
    texts = dict(zip(corpus.labels.names, corpus.labels.texts or [], strict=False))
    kept = [name for name in corpus.labels.names if name not in {*names}]
    without = _trained(restricted(corpus, np.arange(len(corpus.split("train"))), kept), corpus, options)
    started = time.perf_counter()
    told = _with_known_words(without, [texts.get(name, name) for name in names])  # others cannot be added, nor found
    new = Labels(names=names, texts=[texts[name] for name in names] if texts else None).at(told)
    added = add_labels(without, new)
    seconds = time.perf_counter() - started
    models = {"without": without, "added": added, "trained": whole}
    found = {name: _figures(model, corpus, names, options.device) for name, model in models.items()}
    return {
        "hidden labels": len(names),
        "of them added": len(new),
        "seconds to add": round(seconds, 1),
        **found,
        "added / trained": round(found["added"]["recall@10"] / max(found["trained"]["recall@10"], 1e-9), 3),
    }


def updated(corpus: Corpus, options: argparse.Namespace) -> dict[str, Any]:
    ids = corpus.split("train").ids or [str(row) for row in range(len(corpus.split("train")))]
    late = np.array([zlib.crc32((id or "").encode()) % 5 == 0 for id in ids])
    counts = np.diff(csr_array(corpus.split("train").labels[~late]).tocsc().indptr)
    old = [name for name, count in zip(corpus.labels.names, counts, strict=True) if count]
    before = _trained(restricted(corpus, np.flatnonzero(~late), old), corpus, options)
    new = restricted(corpus, np.flatnonzero(late), list(corpus.labels.names))
    config = configure(Config, read_settings(None, options.teach))
    started = time.perf_counter()
    after = update(before, new, config, Run.unkept(options.device))
    seconds = time.perf_counter() - started
    models = {"before": before, "updated": after, "trained on all": _trained(corpus, corpus, options)}
    found = {name: _figures_of_old(model, corpus, old, options.device) for name, model in models.items()}
    sizes = {"old texts": int((~late).sum()), "new texts": int(late.sum()), "old labels": len(old)}
    more = {"new labels": len(after.labels) - len(old), "seconds to update": round(seconds, 1)}
    return {**sizes, **more, **found}


def hidden_labels(corpus: Corpus, seed: int, count: int = 0) -> list[str]:
    """So many labels that both splits have; 0: a fraction of those that the test split has often enough."""
    tested, trained = (np.diff(corpus.split(name).labels.tocsc().indptr) for name in ("test", "train"))
    often = np.flatnonzero((tested >= (1 if count else LEAST)) & (trained > 0))
    drawn = np.random.default_rng(seed).choice(often, count or round(SHARE * len(often)), replace=False)
    return [corpus.labels.names[label] for label in np.sort(drawn)]


def restricted(corpus: Corpus, rows: np.ndarray, names: Sequence[str]) -> Corpus:
    """Some training texts with some labels; a text without any of them is left out."""
    number = {name: at for at, name in enumerate(corpus.labels.names)}
    columns, split, texts = [number[name] for name in names], corpus.split("train"), corpus.labels.texts
    rows = rows[np.diff(csr_array(split.labels[rows][:, columns]).indptr) > 0]
    assert split.texts is not None
    part = replace(
        split,
        labels=csr_array(split.labels[rows][:, columns]),
        texts=[split.texts[row] for row in rows],
        ids=None if split.ids is None else [split.ids[row] for row in rows],
        leave_out=None if split.leave_out is None else csr_array(split.leave_out[rows][:, columns]),
    )
    labels = Labels(names=list(names), texts=None if texts is None else [texts[column] for column in columns])
    return replace(corpus, splits={"train": part}, labels=labels)


def _trained(corpus: Corpus, whole: Corpus, options: argparse.Namespace) -> SavedModel:
    """Train on a corpus; what is combined is chosen for the whole one, so that all models are of one kind."""
    if options.method == "combined":
        budget = seconds_of(options.budget) if options.budget else None
        choice = choose(describe_situation(whole, gpu=options.device != "cpu", budget=budget))
        _, chosen = config_for(choice, read_settings(None, options.set))
        return train_model(corpus, choice.method, chosen, Run.unkept(options.device))
    preset = preset_path(options.method, options.preset) if options.preset else None
    config = config_of(options.method, read_settings(preset, options.set))
    return train_model(corpus, options.method, config, Run.unkept(options.device))


def _figures(model: SavedModel, corpus: Corpus, names: Sequence[str], device: str) -> dict[str, float]:
    """Of all labels, and recall of these: pooled, and the mean over labels; and how many of ten places they take."""
    ranking, truth = _ranked(model, corpus, device)
    number = {name: at for at, name in enumerate(model.labels.names)}
    wanted = np.array([number.get(name, NO_LABEL - 1) for name in names])
    metrics = report(judge(ranking, truth.labels, leave_out=truth.leave_out), ks=(1, 5))
    hits, pairs = _recalled(ranking, truth, wanted)
    taken = np.isin(ranking.labels[:, :PLACES].numpy(), wanted).sum() / len(ranking.labels)
    return {
        "P@1": round(metrics["P@1"], 2),
        "P@5": round(metrics["P@5"], 2),
        "recall@10": round(100 * hits.sum() / max(pairs.sum(), 1), 2),
        "mean recall@10 of a label": round(100 * float(np.mean(hits[pairs > 0] / pairs[pairs > 0])), 2)
        if pairs.any()
        else 0.0,
        "places of ten": round(float(taken), 3),
    }


def _recalled(ranking: Ranking, truth: Truth, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How often each of these labels is among the first ten of its texts, and how many texts it has."""
    left_out = csr_array(truth.labels.shape, dtype=bool) if truth.leave_out is None else truth.leave_out
    place = {label: at for at, label in enumerate(wanted.tolist())}
    hits, pairs = np.zeros(len(wanted)), np.zeros(len(wanted))
    for row in range(truth.labels.shape[0]):
        out = {*left_out[[row]].indices.tolist()}
        true = [label for label in truth.labels[[row]].indices.tolist() if label in place and label not in out]
        if true:
            first = [label for label in ranking.labels[row].tolist() if label not in out][:PLACES]
            for label in true:
                pairs[place[label]] += 1
                hits[place[label]] += label in first
    return hits, pairs


def _figures_of_old(model: SavedModel, corpus: Corpus, old: Sequence[str], device: str) -> dict[str, float]:
    """P@1 among old labels alone, and with all."""
    ranking, truth = _ranked(model, corpus, device, places=100)
    number = {name: at for at, name in enumerate(model.labels.names)}
    known = np.zeros(truth.labels.shape[1], dtype=bool)
    known[[number[name] for name in old]] = True
    metrics = report(judge(ranking, truth.labels, leave_out=truth.leave_out), ks=(1, 5))
    labels = ranking.labels.clone()
    labels[~torch.from_numpy(known)[labels.clamp(min=0)]] = NO_LABEL
    order = (labels == NO_LABEL).long().sort(dim=1, stable=True).indices
    among = Ranking(labels.gather(1, order), ranking.scores.gather(1, order))
    true = csr_array(truth.labels.multiply(known[None]))
    true.eliminate_zeros()
    of_old = report(judge(among, true, leave_out=truth.leave_out), ks=(1, 5))
    return {
        "P@1 among old labels": round(of_old["P@1"], 2),
        "P@5 among old labels": round(of_old["P@5"], 2),
        "P@1": round(metrics["P@1"], 2),
        "P@5": round(metrics["P@5"], 2),
    }


def _ranked(model: SavedModel, corpus: Corpus, device: str, places: int = PLACES) -> tuple[Ranking, Truth]:
    ranker, split = restore_ranker(model, device_named(device)), corpus.split("test")
    assert model.vocabulary is not None
    rows = input_rows(split, Tokenizer(restore_config(model).text, model.vocabulary))
    truth = truth_in_numbers_of(model.labels.names, corpus.labels.names, split.labels, split.leave_out)
    return rank_all(ranker, rows, min(places_needed(truth, (places,)), len(model.labels))), truth


def _with_known_words(model: SavedModel, texts: Sequence[str]) -> list[int]:
    assert model.vocabulary is not None
    rows = Tokenizer(restore_config(model).text, model.vocabulary).rows(texts)
    return np.flatnonzero(with_known_words(rows)).tolist()


def _save_beside(name: str, data: str, method: str, figures: dict[str, Any]) -> None:
    """Keeps what other methods have found."""
    path = RESULTS / f"{name}.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known = {key: value for key, value in known.items() if key not in ("command", "machine")}
    known.setdefault(data, {})[method] = figures
    save(name, known)


if __name__ == "__main__":
    main()
