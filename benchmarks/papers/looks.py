"""What else is measured of a trained model, by the names that rows give it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks._trainings import Figures, Material, evaluated, prefixed, scored
from benchmarks.papers.by_trees import trained_by_trees
from laconic.analysis.sweep import sweep
from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.data.tokenizer import inputs_of, shuffled
from laconic.evaluation.evaluate import (
    on_device,
    places_needed,
    rank_all,
    validation_figures,
)
from laconic.evaluation.metrics import judge, report
from laconic.evaluation.shortlists import shortlist_recall
from laconic.methods import trees
from laconic.methods.costs import Shape, inception_cost
from laconic.methods.deepxml import encode_all
from laconic.methods.result import Trained
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import Identity
from laconic.models.layers import Transfer
from laconic.models.rankers import CandidatesRanker, Ensemble, FlatRanker, Ranker, Reranker, ShortlistRanker
from laconic.models.shortlisters.labels import NearestLabels
from laconic.training.optimizer import Halving, Plan
from laconic.training.run import Run
from laconic.training.tasks import AllLabels
from laconic.types import NO_LABEL, Ranking

_ONE_BY_ONE, _WARM_UP = 200, 5  # texts whose time is taken
_SHUFFLES = 10
_SAMPLE = 2000  # texts whose shortlists are compared
_EXAMPLES = 5


@dataclass(frozen=True)
class Trainee:
    trained: Trained
    have: Material
    data: Dataset  # that it was trained on
    run: Run

    @property
    def ranker(self) -> Any:
        return self.trained.ranker

    @property
    def config(self) -> Any:
        return self.trained.config


def p_at(ranker: Ranker, rows: Any, of: Material) -> Figures:
    ranking = rank_all(ranker, rows, places_needed(of.truth, (5,)))
    figures = report(judge(ranking, of.truth.labels, leave_out=of.truth.leave_out), ks=(1, 3, 5))
    return {name: figures[name] for name in ("P@1", "P@3", "P@5")}


# InceptionXML


def product(one: Trainee) -> Figures:
    """Ranked by the product of both classifiers, as the authors' code prints too."""
    ranker = one.ranker
    other = ShortlistRanker(ranker.encoder, ranker.clusters, ranker.classifier, top=ranker.top, product=True)
    return prefixed("by the product", p_at(other, one.have.rows, one.have))


def shuffles(one: Trainee) -> Figures:
    runs = [p_at(one.ranker, shuffled(one.have.rows, seed), one.have) for seed in range(_SHUFFLES)]
    spreads = {name: [run[name] for run in runs] for name in runs[0]}
    means = {f"words shuffled: {name}": statistics.mean(values) for name, values in spreads.items()}
    return means | {f"words shuffled: {name} ±": statistics.stdev(values) for name, values in spreads.items()}


def swept(one: Trainee) -> Figures:
    return {"sweep": sweep(one.ranker, one.have.rows, one.have.truth)}


def history(one: Trainee) -> Figures:
    return {"history": one.trained.facts["training"]["epochs"]}


def costs(one: Trainee) -> Figures:
    """Multiply-accumulates and bytes from shapes, and the time of one text on the device."""
    ranker, config = one.ranker, one.config
    size = sum(tensor.nbytes for tensor in ranker.state_dict().values())
    found: Figures = {"GB": size / 2**30, "ms": milliseconds(ranker, one.have)}
    if getattr(config, "encoder", "") == "inception" and not getattr(config, "hidden", 0):
        sizes = {"words": ranker.num_ids, "labels": ranker.num_labels, "length": config.length, "dim": config.embedding}
        clusters = {"clusters": config.clusters, "top": ranker.top} if isinstance(ranker, ShortlistRanker) else {}
        if isinstance(ranker, FlatRanker | ShortlistRanker):
            found["GFLOPS"] = inception_cost(Shape(**sizes, **clusters)).gmacs
    return found


@torch.inference_mode()
def milliseconds(ranker: Ranker, have: Material) -> float:
    device = next(iter(ranker.state_dict().values())).device
    times = []
    for row in range(min(_ONE_BY_ONE + _WARM_UP, have.rows.shape[0])):
        inputs = on_device(inputs_of(have.rows[row : row + 1]), device)
        started = time.perf_counter()
        ranker.rank(inputs, 5).labels.cpu()
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times[_WARM_UP:] or times)


# DeepXML


def blend(one: Trainee) -> Figures:
    """The classifier alone and nearness alone."""
    kinds = {"nearness alone": 0.0, "classifier alone": 1.0}
    return {
        key: value
        for name, beta in kinds.items()
        for key, value in prefixed(name, scored(one.ranker.blended(beta), one.have)).items()
    }


def recalls(one: Trainee) -> Figures:
    """What other shortlists of 500 the same vectors could give."""
    near, device = one.ranker.shortlister, one.ranker.beta.device
    assert isinstance(near, NearestLabels)
    vectors = encode_all(one.ranker.encoder, one.data.inputs, device).to(device)
    kinds: dict[str, dict[str, Any]] = {
        "centroids alone": {"neighbours": 0, "centroids": 500},
        "300 neighbours": {"neighbours": 300},
        "20 centres for the most frequent": {"centres": 20, "frequent": 0.0004 if len(one.data) > 100_000 else 0.005},
    }
    found = {}
    for name, changes in kinds.items():
        other = NearestLabels.of(vectors, one.data.labels, replace(near.nearness, **changes), seed=0)
        shortlist = CandidatesRanker(one.ranker.encoder, other, one.ranker.classifier, beta=0.0).to(device)
        found[name] = shortlist_recall(shortlist, one.have.rows, one.have.truth.labels)
    return {"shortlist recall by kind": found}


def quantiles(one: Trainee) -> Figures:
    return {"quantiles": evaluated(one.ranker, one.have).as_json()["quantiles"]}


def base(one: Trainee) -> Figures:
    """What is re-ranked, from the same training."""
    assert isinstance(one.ranker, Reranker)
    return prefixed("base", scored(one.ranker.base, one.have))


def alphas(one: Trainee) -> Figures:
    """The weight that was chosen, and nDCG@5 on the validation split by weight."""
    return {"alpha": float(one.ranker.alpha), "alphas": dict(one.trained.facts["reranking"].get("alphas", {}))}


def every_label(one: Trainee) -> Figures:
    """Rows and transfer learnt against every label instead of a shortlist."""
    return scored(against_all(one, Transfer(one.ranker.encoder.dim, dropout=one.config.dropout)), one.have)


def linear(one: Trainee) -> Figures:
    """Rows alone, learnt against every label over the frozen vectors: what Table 6 calls DiSMEC."""
    return scored(against_all(one, None), one.have)


def against_all(one: Trainee, transform: torch.nn.Module | None) -> FlatRanker:
    encoder, run, config = one.ranker.encoder, one.run, one.config
    vectors = encode_all(encoder, one.data.inputs, run.device)
    classifier = LinearClassifier(encoder.dim, one.data.num_labels, transform=transform)
    classifier.start_from(torch.from_numpy(one.data.label_counts / len(one.data)))
    task = AllLabels(Identity(encoder.dim), classifier, dropout=0.0, chunk=65_536).to(run.device)
    plan = Plan(
        epochs=config.extreme.epochs,
        batch_size=config.batch_size,
        learning_rate=config.extreme.learning_rate,
        schedule=Halving(after=0.7),
        seed=config.seed,
    )
    run.fit("linear", task, Resident.of(replace(one.data, inputs=vectors.numpy()), 0, run.device), plan)
    return FlatRanker(encoder, classifier).to(run.device).eval()


def forest(one: Trainee) -> Figures:
    """Label trees over the frozen vectors: what Table 6 calls Parabel."""
    encoder = one.ranker.encoder
    vectors = [encode_all(encoder, rows, one.run.device).numpy() for rows in (one.data.inputs, one.have.rows)]
    grown = trees.build(replace(one.data, inputs=vectors[0]), trees.Config(fan_out=2, pairs=0, seed=one.config.seed))
    return scored(grown, replace(one.have, rows=vectors[1]))


@torch.no_grad()
def overlap(one: Trainee) -> Figures:
    """Shortlists by the vectors before transfer and after it, the mean share that both have."""
    before, after = _both_vectors(one)
    near = one.ranker.shortlister
    assert isinstance(near, NearestLabels)
    lists = [
        NearestLabels.of(vectors, one.data.labels, near.nearness, 0)(vectors[:_SAMPLE], vectors[:_SAMPLE], near.size)
        for vectors in (before, after)
    ]
    return {"overlap of shortlists": 100 * shared(lists[0], lists[1])}


def shared(one: Ranking, other: Ranking) -> float:
    """Return the share of one's labels that the other has, over all texts."""
    ordered = torch.cat([one.labels, other.labels], 1).sort(dim=1).values
    both = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NO_LABEL)
    return float(both.sum() / (one.labels != NO_LABEL).sum().clamp(min=1))


@torch.no_grad()
def theorem_1(one: Trainee) -> Figures:
    """How far transfer moves vectors and cosines, beside the bounds (λ by singular values; our layer has a bias)."""
    before, after = _both_vectors(one)
    transfer = one.ranker.classifier.transform
    norm, bias = float(torch.linalg.svdvals(transfer.weight())[0]), float(transfer.bias.norm())
    lengths = before.norm(dim=1).clamp(min=1e-12)
    moved = (after - before).norm(dim=1) / lengths
    # A label with few texts has the tightest bound; cosines of texts with their own labels.
    text, label = (torch.from_numpy(part.astype("int64")).to(before.device) for part in one.data.labels.nonzero())
    counts = torch.from_numpy(one.data.label_counts).to(before.device)
    old, new = (_cosines(vectors, text, label, one.data.num_labels) for vectors in (before, after))
    epsilon = (1 + norm * counts[label].sqrt()) ** 2 - 1
    within = (new >= old / (1 + epsilon) - 1e-5) & (new <= old + epsilon + 1e-5)
    return {
        "theorem 1: λ": norm,
        "theorem 1: length of the bias": bias,
        "theorem 1: largest ‖x̂ − v‖ / ‖v‖": float(moved.max()),
        "theorem 1: mean ‖x̂ − v‖ / ‖v‖": float(moved.mean()),
        "theorem 1: mean change of a cosine": float((new - old).abs().mean()),
        "theorem 1: largest change of a cosine": float((new - old).abs().max()),
        "theorem 1: % of pairs within the bounds": 100 * float(within.float().mean()),
        "theorem 1: median ε": float(epsilon.median()),
    }


def _both_vectors(one: Trainee) -> tuple[Tensor, Tensor]:
    """The training texts' vectors before transfer and after it."""
    before = encode_all(one.ranker.encoder, one.data.inputs, one.run.device).to(one.run.device)
    transfer = one.ranker.classifier.transform.eval()
    return before, torch.cat([transfer(part) for part in torch.split(before, 4096)])


def _cosines(vectors: Tensor, text: Tensor, label: Tensor, labels: int) -> Tensor:
    """Of each text and the centroid of each of its labels."""
    sums = torch.zeros(labels, vectors.shape[1], device=vectors.device)
    for part in torch.split(torch.arange(len(text), device=text.device), 1 << 20):
        sums.index_add_(0, label[part], vectors[text[part]])
    units, centres = functional.normalize(vectors, dim=1), functional.normalize(sums, dim=1)
    parts = torch.split(torch.arange(len(text), device=text.device), 1 << 20)
    return torch.cat([(units[text[part]] * centres[label[part]]).sum(1) for part in parts])


# DECAF


def sizes(one: Trainee) -> Figures:
    """Of the first member, the first two, and so on."""
    assert isinstance(one.ranker, Ensemble)
    members = one.ranker.rankers()
    found: Figures = {}
    for size in range(1, len(members)):
        part = members[0] if size == 1 else Ensemble(members[:size])
        found |= prefixed(f"{size} instance{'s' * (size > 1)}", scored(part, one.have))
    return found


def beam(one: Trainee) -> Figures:
    """What the shortlister finds by beam, and Theorem 3.1."""
    first = (one.trained.facts.get("members") or [one.trained.facts])[0]["training"]
    if "recall_by_beam" not in first:
        return {}
    told = {"beam": float(one.config.beam), "clusters": float(one.config.clusters)}
    return told | {"recall by beam": first["recall_by_beam"], "Theorem 3.1": first["theorem_3_1"]}


def examples(one: Trainee) -> Figures:
    """The best five labels of a few test texts: true, true but never seen with another of the truth, or not true."""
    corpus, k = one.have.corpus, places_needed(one.have.truth, (5,))
    split, names = corpus.split("test"), corpus.labels.texts or corpus.labels.names
    ranking = rank_all(one.ranker, one.have.rows, k)
    together = (one.data.labels.T @ one.data.labels).tocsr()
    found = {}
    hits = torch.from_numpy(judge(ranking, split.labels, leave_out=split.leave_out).hits[:, :5].sum(1))
    for row in hits.sort(descending=True, stable=True).indices[:_EXAMPLES].tolist():
        truth = split.labels[[row]].indices
        text = split.texts[row] if split.texts is not None else f"test text {row}"
        shown = []
        for label in ranking.labels[row, :5].tolist():
            seen = together[[label]].toarray()[0][[other for other in truth if other != label]].any()
            kind = "not true" if label not in truth else "true" if seen else "true, never seen with the others"
            shown.append({"label": names[label], "kind": kind})
        found[text] = shown
    return {"examples": found}


def validation(one: Trainee) -> Figures:
    """What the settings give on the texts that they are chosen by, with the weights and epoch that were best there."""
    _, held = one.data.split(one.config.validation, one.config.seed)
    epochs = one.trained.facts["training"]["epochs"]
    best = max(epochs, key=lambda epoch: epoch["score"])
    found: Figures = {name: float(value) for name, value in validation_figures(one.ranker, held).items()}
    for name in ("beta", "votes", "beam"):
        found |= {name: float(getattr(one.config, name))} if hasattr(one.config, name) else {}
    blends = {"blends": one.trained.facts["training"]["blends"]} if "blends" in one.trained.facts["training"] else {}
    by_epoch = [[round(figure, 2) for figure in epoch["figures"].values()] for epoch in epochs]
    return found | {"epoch": float(best["epoch"]), "by epoch": by_epoch, **blends}


LOOKS: dict[str, Callable[[Trainee], Figures]] = {
    "product": product,
    "shuffles": shuffles,
    "sweep": swept,
    "history": history,
    "costs": costs,
    "blend": blend,
    "recalls": recalls,
    "quantiles": quantiles,
    "base": base,
    "alphas": alphas,
    "every label": every_label,
    "linear": linear,
    "forest": forest,
    "overlap": overlap,
    "theorem 1": theorem_1,
    "sizes": sizes,
    "shortlist": beam,
    "examples": examples,
    "validation": validation,
}
TRAINERS: dict[str, Callable[[Dataset, Any, Run], Trained]] = {"by trees": trained_by_trees}
