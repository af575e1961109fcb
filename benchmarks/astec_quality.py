"""Astec, its parts one by one, its re-ranker and ensembles, and XML-CNN and MACH beside it, on a GPU.

By the protocol of the figures of the authors' code: all training texts, fixed epochs, test split scored once, self
pairs kept, words `[a-z0-9+#]+`, random 300-d vectors; mean and deviation of seeds. Settings are the best of `choices`,
which come from a validation split.

    python -m benchmarks.astec_quality choices
    python -m benchmarks.astec_quality protocol table-4 table-6
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import Any

import torch

from benchmarks._trainings import WORDS, Figures, Job, Material, evaluated, material, prefixed, scored, side_by_side
from benchmarks.common import DATA, RESULTS, data_folder
from laconic.classifiers import LinearClassifier
from laconic.config import configure, preset_path, read_settings
from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.data.vectors import read_vectors
from laconic.encoders import Identity
from laconic.evaluate import shortlist_recall, validation_figures
from laconic.methods import METHODS, reranker
from laconic.methods.deepxml import encoded
from laconic.methods.trained import Trained
from laconic.optim import Halving, Plan
from laconic.rankers import CandidatesRanker, Ensemble, FlatRanker
from laconic.run import Run
from laconic.shortlisters.labels import NearestLabels
from laconic.tasks import AllLabels

SEEDS = (1, 2, 3)
PROTOCOL: dict[str, Any] = {"text": WORDS, "validation": 0.0, "batch_size": 256}
HELD = {"debian-related": 0.1, "npm-names-deps": 0.05, "yso-titles": 0.02}
GLOVE = DATA / "glove-6b-100d" / "glove.6B.100d.subset.txt.gz"
SHORT = {"surrogate.epochs": 3, "extreme.epochs": 2}  # of the ablations on yso-titles


EVERY = 1 << 24  # groups: more than there are labels, so that each label is one


def _rates(
    rate: float, epochs: int, last: float, more: int, *, after: float = 0.93, tuned: bool = False, **others: Any
) -> dict[str, Any]:
    """Of the surrogate task and of the extreme one; `count` of groups."""
    count = others.pop("count", 0)
    groups = "frequent" if count == EVERY else "clusters"
    surrogate = {"learning_rate": rate, "epochs": epochs, "groups": groups, "count": count}
    extreme = {"learning_rate": last, "epochs": more, "halve_after": after, "fine_tuned": tuned}
    return {"surrogate": surrogate, "extreme": extreme, **others}


EPOCHS = {"debian-related": 42, "npm-names-deps": 21}  # of InceptionXML
RERANKED = {"debian-related": 20, "npm-names-deps": 8, "yso-titles": 3}  # epochs
MIDDLE = {"after": 0.5}  # halved from the middle of the extreme task's epochs
CHOICES: dict[str, dict[str, dict[str, Any]]] = {  # surrogate's rate × epochs, extreme task's
    "yso-titles": {
        ".005 × 6, .002 × 6": _rates(0.005, 6, 0.002, 6),
        ".003 × 6, .002 × 6": _rates(0.003, 6, 0.002, 6),
        ".005 × 6, .002 × 4, all fine-tuned": _rates(0.005, 6, 0.002, 4, tuned=True),
        "every label, .005 × 6, .002 × 6": _rates(0.005, 6, 0.002, 6, count=EVERY),
        "every label, .003 × 7, .001 × 6": _rates(0.003, 7, 0.001, 6, count=EVERY),
        "every label, .003 × 6, .001 × 4, all fine-tuned": _rates(0.003, 6, 0.001, 4, tuned=True, count=EVERY),
        ".005 × 6, .003 × 6, halved from the middle": _rates(0.005, 6, 0.003, 6, **MIDDLE),
        ".01 × 6, .003 × 5, halved from the middle": _rates(0.01, 6, 0.003, 5, **MIDDLE),
        ".01 × 8, .003 × 5, halved from the middle": _rates(0.01, 8, 0.003, 5, **MIDDLE),
        ".005 × 6, .003 × 5, halved from the middle, dropout .25": _rates(0.005, 6, 0.003, 5, dropout=0.25, **MIDDLE),
        ".005 × 6, .003 × 5, halved from the middle, dropout .1": _rates(0.005, 6, 0.003, 5, dropout=0.1, **MIDDLE),
        ".01 × 6, .003 × 5, halved from the middle, dropout .25": _rates(0.01, 6, 0.003, 5, dropout=0.25, **MIDDLE),
        ".01 × 6, .003 × 5, halved from the middle, 8,192 groups": _rates(0.01, 6, 0.003, 5, count=8192, **MIDDLE),
        ".01 × 6, .003 × 5, batch 512": _rates(0.01, 6, 0.003, 5, batch_size=512, **MIDDLE),
        "longer: .01 × 10, .003 × 4, batch 512": _rates(0.01, 10, 0.003, 4, batch_size=512, **MIDDLE),
        "longer: .01 × 10, .003 × 4, dropout .35": _rates(0.01, 10, 0.003, 4, dropout=0.35, **MIDDLE),
        "longer: .02 × 10, .003 × 4, batch 512, dropout .35": _rates(
            0.02, 10, 0.003, 4, batch_size=512, dropout=0.35, **MIDDLE
        ),
    },
    "npm-names-deps": {
        ".01 × 12, .002 × 8": _rates(0.01, 12, 0.002, 8),
        ".005 × 12, .002 × 8": _rates(0.005, 12, 0.002, 8),
        "every label, .005 × 12, .002 × 8": _rates(0.005, 12, 0.002, 8, count=EVERY),
        ".01 × 12, .002 × 8, dropout .25": _rates(0.01, 12, 0.002, 8, dropout=0.25),
    },
    "debian-related": {
        ".01 × 20, .002 × 12": _rates(0.01, 20, 0.002, 12),
        ".005 × 20, .002 × 12": _rates(0.005, 20, 0.002, 12),
        ".01 × 20, .003 × 12, halved from the middle": _rates(0.01, 20, 0.003, 12, **MIDDLE),
        ".01 × 20, .002 × 12, all fine-tuned": _rates(0.01, 20, 0.002, 12, tuned=True),
        "every label, .005 × 20, .002 × 12": _rates(0.005, 20, 0.002, 12, count=EVERY),
        "every label, .003 × 24, .001 × 12, all fine-tuned": _rates(0.003, 24, 0.001, 12, tuned=True, count=EVERY),
        ".005 × 20, .002 × 16, all fine-tuned": _rates(0.005, 20, 0.002, 16, tuned=True),
        ".005 × 30, .002 × 12": _rates(0.005, 30, 0.002, 12),
        ".005 × 20, .002 × 12, dropout .35": _rates(0.005, 20, 0.002, 12, dropout=0.35),
        ".005 × 20, .001 × 20, all fine-tuned": _rates(0.005, 20, 0.001, 20, tuned=True),
    },
}
PARTS: dict[str, dict[str, Any]] = {  # Table 6: one part changed at a time
    "Astec": {},
    "encoder: CNN": {"encoder": "cnn", "length": 16, "surrogate.learning_rate": 0.001},
    "encoder: MLP": {"encoder": "mlp", "surrogate.learning_rate": 0.002},
    "encoder: Inception": {"encoder": "inception", "length": 16},
    "surrogate: unsupervised (GloVe)": {"surrogate.groups": "none", "vectors": str(GLOVE), "embedding": 100},
    "surrogate: random": {"surrogate.groups": "random"},
    "surrogate: selection": {"surrogate.groups": "frequent"},
    "negatives: uniform": {"extreme.negatives": "uniform", "extreme.random": 650},
    "negatives: unigram": {"extreme.negatives": "unigram", "extreme.random": 650},
    "negatives: nearest labels alone": {"extreme.random": 0, "shortlist.neighbours": 0, "shortlist.centroids": 500},
    "shortlist: learnt clusters": {"shortlister": "clusters", "beta": 0.9},
    "shortlist: centroids not smoothed": {"clustering.walks": 0},
    "all fine-tuned": {"extreme.fine_tuned": True},
}
RECAST: dict[str, tuple[str, str, dict[str, Any]]] = {  # Table 4: method, preset of astec, settings as published
    "XML-CNN": ("xml-cnn", "xml-cnn", {"epochs": 20}),
    "MACH": ("mach", "mach", {"members": 8, "epochs": 12, "learning_rate": 0.003}),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="+", choices=sorted(JOBS))
    parser.add_argument("--data", nargs="+", default=list(HELD))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--at-once", type=int, default=12)
    parser.add_argument("--only", default="", help="trainings with this in their names")
    parser.add_argument("--whole", action="store_true", help="forget the results of trainings that are not done now")
    options = parser.parse_args()
    if options.device == "cuda" and not which("nvidia-smi"):  # asking torch would spoil the processes to come
        print("no GPU here, left out")
        return
    there = [name for name in options.data if data_folder(name) is not None]
    for what in options.what:
        jobs = [job for name in there for job in JOBS[what](name) if options.only in job.name]
        for job in jobs:
            of(job)
        with tempfile.TemporaryDirectory() as folder:
            work = Working(what, options.device, Path(folder))
            name = f"astec_{what.replace('-', '_')}"
            side_by_side(jobs, work, name, options.at_once)
            if what == "protocol":
                members = [Job(name, "ensemble of 3", 0, {}) for name in there]
                side_by_side(
                    members, Together(options.device, Path(folder)), "astec_ensembles", options.at_once
                )


def of(job: Job) -> Material:
    return material(job.data, with_label_texts=bool(job.settings.get("label_texts")))


def choices(name: str) -> list[Job]:
    return [Job(name, one, 1, settings | {"validation": HELD[name]}) for one, settings in CHOICES[name].items()]


def chosen(name: str) -> dict[str, Any]:
    """The best settings on the validation split, with the shares and the last epoch that were best for them.

    As published the encoder is frozen; settings that fine-tune it are there for comparison.
    """
    found = json.loads((RESULTS / "astec_choices.json").read_text())[name]
    frozen = [one for one in found if not CHOICES[name][one]["extreme"]["fine_tuned"]]
    best = max(frozen, key=lambda one: found[one]["nDCG@5"]["mean"])
    blend = {share: found[best][share]["mean"] for share in ("beta", "votes")}
    tried, epochs = CHOICES[name][best]["extreme"], round(found[best]["epoch"]["mean"])
    after = min(1.0, tried["halve_after"] * tried["epochs"] / epochs)  # so that the rate falls when it did
    return merged(CHOICES[name][best], {**blend, "extreme.epochs": epochs, "extreme.halve_after": after})


def protocol(name: str) -> list[Job]:
    plain = [Job(name, "Astec", seed, chosen(name)) for seed in SEEDS]
    if name == "yso-titles":
        return plain
    beside = Job(name, "InceptionXML", SEEDS[0], {"length": 16, "epochs": EPOCHS[name]}, "inceptionxml")
    if name != "debian-related":
        return [*plain, beside]
    return [*plain, beside] + [
        Job(name, "Astec, 100 by label texts", seed, chosen(name) | {"label_texts": 100}) for seed in SEEDS
    ]


def table_6(name: str) -> list[Job]:
    if name != "yso-titles":
        return []
    base = chosen(name)
    parts = PARTS if GLOVE.exists() else {one: part for one, part in PARTS.items() if "GloVe" not in one}
    return [Job(name, one, SEEDS[0], merged(base, SHORT | part)) for one, part in parts.items()]


def table_4(name: str) -> list[Job]:
    if name != "debian-related":
        return []
    base = chosen(name)
    recast = [
        Job(name, f"{one} in DeepXML", SEEDS[0], merged(base, flat(read_settings(preset_path("astec", preset), []))))
        for one, (_, preset, _) in RECAST.items()
    ]
    published = [
        Job(name, f"{one} as published", SEEDS[0], settings, method) for one, (method, _, settings) in RECAST.items()
    ]
    return [*recast, *published]


JOBS = {"choices": choices, "protocol": protocol, "table-4": table_4, "table-6": table_6}


def merged(settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Settings with some changed; `group.name` is one of a group."""
    settings = dict(settings)
    for key, value in changes.items():
        group, _, name = key.rpartition(".")
        settings |= {name: value} if not group else {group: {**settings.get(group, {}), name: value}}
    return settings


def flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Groups written as `group.name`."""
    parts = [
        flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        for key, value in settings.items()
    ]
    return {key: value for part in parts for key, value in part.items()}


class Working:
    """What is done with a job, in a process of its own."""

    def __init__(self, what: str, device: str, folder: Path) -> None:
        self.what, self.device, self.folder = what, device, folder

    def __call__(self, job: Job) -> Figures:
        have, method, run = of(job), METHODS[job.method], Run.unkept(self.device)
        config = configure(method.config, _for(job) | {"seed": job.seed} | job.settings)
        data = have.prepared.data
        if config.vectors:
            data = with_vectors(data, Path(config.vectors), have)
        trained = method.train(data, config, run)
        found = told(trained)
        if self.what == "choices":
            return found | on_validation(trained, data)
        ranker = trained.ranker.to(run.device)
        found |= scored(ranker, have)
        if self.what == "protocol":
            found["quantiles"] = evaluated(ranker, have).as_json()["quantiles"]
        if isinstance(ranker, CandidatesRanker):
            found["shortlist recall"] = shortlist_recall(ranker, have.rows, have.truth.labels)
        if isinstance(ranker, CandidatesRanker) and (self.what == "protocol" or job.name == "Astec"):
            found |= prefixed("nearness alone", scored(ranker.blended(0.0), have))
            found |= prefixed("classifier alone", scored(ranker.blended(1.0), have))
        if job.name == "Astec" and self.what == "table-6":
            found |= prefixed("1-vs-all linear", scored(linear(ranker, data, trained.config, run), have))
        if self.what == "protocol" and job.name == "Astec":
            torch.save((trained.config, ranker.state_dict()), self.folder / f"{job.data}-{job.seed}.pt")
            found["shortlist recall by kind"] = recalls(ranker, data, have)
            again = reranker.train(data, trained, reranker.Config(epochs=RERANKED[job.data]), run)
            found |= prefixed("re-ranked", scored(again.ranker.to(run.device), have))
        return found


def _for(job: Job) -> dict[str, Any]:
    """The protocol; a method of its own has its own batch size."""
    return PROTOCOL if job.method == "astec" else {**PROTOCOL, "batch_size": 0}


def recalls(ranker: CandidatesRanker, data: Dataset, have: Material) -> dict[str, float]:
    """What else the same vectors could give: the share of true labels in a shortlist of 500."""
    near, vectors = ranker.shortlister, encoded(ranker.encoder, data.inputs, ranker.beta.device).to(ranker.beta.device)
    assert isinstance(near, NearestLabels)
    kinds = {
        "centroids alone": {"neighbours": 0, "centroids": 500},
        "300 neighbours": {"neighbours": 300},
        "20 centres for the most frequent": {"centres": 20, "frequent": 0.0004 if len(data) > 100_000 else 0.005},
    }
    found = {}
    for name, changes in kinds.items():
        other = NearestLabels.of(vectors, data.labels, replace(near.nearness, **changes), seed=0)
        shortlist = CandidatesRanker(ranker.encoder, other, ranker.classifier, beta=0.0).to(vectors.device)
        found[name] = shortlist_recall(shortlist, have.rows, have.truth.labels)
    return found


class Together:
    """The three of the protocol as one."""

    def __init__(self, device: str, folder: Path) -> None:
        self.device, self.folder = device, folder

    def __call__(self, job: Job) -> Figures:
        members = []
        for seed in SEEDS:
            config, tensors = torch.load(self.folder / f"{job.data}-{seed}.pt", weights_only=False, map_location="cpu")
            members.append(METHODS["astec"].restore(config, tensors))
        return scored(Ensemble(members).to(self.device), of(job))


def told(trained: Trained) -> Figures:
    history = trained.facts["training"]
    stages = {name: history[name] for name in ("surrogate", "epochs") if isinstance(history.get(name), list)}
    seconds = {name: sum(epoch["seconds"] for epoch in stage) for name, stage in stages.items()}
    return {
        "seconds of steps": float(sum(seconds.values())),
        "seconds of the surrogate": float(seconds.get("surrogate", 0)),
        "losses": {name: [round(epoch["loss"], 6) for epoch in stage] for name, stage in stages.items()},
    }


def on_validation(trained: Trained, data: Dataset) -> Figures:
    ranker, epochs = trained.ranker, trained.facts["training"]["epochs"]
    assert isinstance(ranker, CandidatesRanker)
    _, held = data.split(trained.config.validation, trained.config.seed)
    blends = trained.facts["training"]["blends"]
    best = max(epochs, key=lambda epoch: epoch["score"])
    return {
        **{name: float(value) for name, value in validation_figures(ranker, held).items()},
        "epoch": float(best["epoch"]),
        "beta": float(trained.config.beta),
        "votes": float(trained.config.votes),
        "blends": blends,
        "by epoch": [[round(figure, 2) for figure in epoch["figures"].values()] for epoch in epochs],
        "shortlist recall": shortlist_recall(ranker, held.inputs, held.labels),
    }


def linear(ranker: CandidatesRanker, data: Dataset, config: Any, run: Run) -> FlatRanker:
    """1-vs-all over the same vectors, without a transform: what Table 6 calls DiSMEC."""
    vectors = encoded(ranker.encoder, data.inputs, run.device)
    classifier = LinearClassifier(ranker.encoder.dim, data.num_labels)
    classifier.start_from(torch.from_numpy(data.label_counts / len(data)))
    task = AllLabels(Identity(ranker.encoder.dim), classifier, dropout=0.0, chunk=65_536).to(run.device)
    extreme = config.extreme
    plan = Plan(
        epochs=extreme.epochs,
        batch_size=config.batch_size,
        learning_rate=extreme.learning_rate,
        schedule=Halving(after=0.7),
    )
    run.fit("linear", task, Resident.of(replace(data, inputs=vectors.numpy()), 0, run.device), plan)
    return FlatRanker(ranker.encoder, classifier).to(run.device).eval()


def with_vectors(data: Dataset, path: Path, have: Material) -> Dataset:
    assert have.prepared.tokenizer is not None
    return replace(data, word_vectors=read_vectors(path, have.prepared.tokenizer.vocabulary))


if __name__ == "__main__":
    main()
