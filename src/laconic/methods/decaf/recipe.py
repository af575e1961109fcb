"""DECAF: labels' own texts in the classifier, over a learnt shortlister of many small clusters (section 3).

    1. surrogate    word vectors that make texts similar to the texts of their labels' clusters
    2. shortlister  new clusters, by those word vectors, each with a row of its own; the beam that finds enough labels
    3. transfer     every label's row starts from its text
    4. ranker       rows of text and refinement, against the labels of each text's best clusters

Defaults are those of the code behind the paper's figures (docs/papers/decaf.md lists the differences); what depends
on the size of the data is 0 and chosen by `with_sizes`. The paper's ablations are in ablations.py.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.errors import DataError, ModelError
from laconic.methods.common import restore_module, usual_words
from laconic.methods.costs import report_costs
from laconic.methods.decaf.ablations import nearest_labels, restore_candidates, theorem_3_1
from laconic.methods.decaf.beam import best_clusters, recall_by_beam, recall_of, smallest_beam, true_ranks
from laconic.methods.decaf.config import Config, probed_clusters, ranker_plan, with_sizes
from laconic.methods.decaf.costs import training_costs
from laconic.methods.decaf.modules import Words, build, learn_ranker, learn_shortlister, learn_words
from laconic.methods.result import Trained
from laconic.methods.wrappers.ensemble import with_seed
from laconic.models.clustering import LabelTree
from laconic.models.rankers import CandidatesRanker, Ensemble, ShortlistRanker
from laconic.models.shortlisters.nearest import tensor_of
from laconic.training.loop import check_optimiser
from laconic.training.run import Run

__all__ = ["Config", "restore", "train", "train_members", "with_sizes"]

logger = logging.getLogger(__name__)
_ALWAYS = 64  # clusters that may be probed however few there are
_SAMPLE = 10_000  # training texts for measuring recall where none are held out
_REMEDIES = ({"embedding": 128}, {"embedding": 64, "beam": 50})


def train(data: Dataset, config: Config, run: Run) -> Trained:
    config = _checked_sizes(config, data)
    check_optimiser(ranker_plan(config), run.device)  # before the modules that come first
    _report_costs(config, data, run)
    learn, held = data.split(config.validation, config.seed)
    words, state = learn_words(learn, config, run)
    trained = _instance(learn, held, words, config, run)
    surrogate = {} if state is None else {"surrogate": state.history}
    return trained._replace(facts={"training": {**trained.facts["training"], **surrogate}})


def train_members(members: int, data: Dataset, config: Config, run: Run) -> Trained:
    """Train an ensemble whose members share the word vectors of the surrogate task, and nothing else."""
    config = _checked_sizes(config, data)
    check_optimiser(ranker_plan(config), run.device)
    _report_costs(config, data, run.member(0, of=members))
    learn, held = data.split(config.validation, config.seed)
    words, state = learn_words(learn, config, run)
    trained: list[Trained] = []
    for number in range(members):
        one = _instance(learn, held, words, with_seed(config, number), run.member(number, of=members))
        assert isinstance(one.config, Config)
        config = replace(config, beam=one.config.beam, answer_beam=one.config.answer_beam)  # the first chooses
        one.ranker.cpu()  # so that the next one has the device for itself
        trained.append(one)
    facts: dict[str, Any] = {
        "ensemble": members,
        "members": [{"seed": one.config.seed, **one.facts} for one in trained],
    }
    if state is not None:
        facts["training"] = {"surrogate": state.history}
    return Trained(Ensemble([one.ranker for one in trained]), config, facts)


def restore(config: Config, tensors: Mapping[str, Tensor]) -> ShortlistRanker | CandidatesRanker:
    """Restore the ranker from its state_dict, whose shapes give its sizes."""
    if "shortlister.centres" in tensors:
        return restore_candidates(config, tensors)
    order, starts = (tensor_of(tensors, f"clusters.{name}", torch.int64) for name in ("order", "starts"))
    if order.ndim != 1 or starts.ndim != 1:
        raise ModelError("the model's tensors clusters.order and clusters.starts must be lists; fetch it again")
    LabelTree(order=order, starts=starts).check()
    return restore_module("decaf", lambda: build(config, tensors), tensors)


def _checked_sizes(config: Config, data: Dataset) -> Config:
    if not isinstance(data.inputs, csr_array):
        raise DataError(
            "decaf reads words, but this data has dense features; --method astec --encoder dense would work"
        )
    if data.label_inputs is None and config.label_text:
        if not config.refinement:
            raise DataError("refinement=false leaves rows to labels' texts, but this data has none; leave it at true")
        logger.info("labels have no texts: rows are trained without them, as with label_text=false")
    return with_sizes(config, len(data), data.num_labels, usual_words(data.inputs))


def _report_costs(config: Config, data: Dataset, run: Run) -> None:
    labels = -(-data.num_labels // run.ranks.world)  # of one rank
    sizes = {"words": data.inputs.shape[1], "labels": labels, "texts": len(data)}
    report_costs(run, config, partial(training_costs, **sizes), _REMEDIES)


def _instance(learn: Dataset, held: Dataset, words: Words, config: Config, run: Run) -> Trained:
    """Train modules II to IV."""
    make = nearest_labels if config.shortlist == "nearest" else learn_shortlister
    shortlister = make(learn, words, config, run)
    measured = held if config.recall_on == "held-out" and len(held) else _sample(learn, config.seed)
    ranks = run.remember("ranks", lambda: {"ranks": true_ranks(shortlister, measured, run.device)})["ranks"]
    count = shortlister.tree.num_clusters
    most = min(count, max(_ALWAYS, round(config.most_opened * count)))
    taken = probed_clusters(config, count, config.beam) or min(smallest_beam(ranks, config.recall), most)
    found = 100 * float((ranks < taken).float().mean())
    logger.info("probing %d of %d clusters, which hold %.1f %% of true labels", taken, count, found)
    if not config.beam and taken == most and found < 100 * config.recall:
        logger.info("more would take too long; for a recall of %.0f %%, raise most_opened", 100 * config.recall)
    beam = min(config.beam, config.clusters) or -(-taken * config.clusters // count)
    config = replace(config, beam=beam, answer_beam=min(config.answer_beam or beam, config.clusters))
    picks = run.remember("picks", lambda: {"clusters": best_clusters(shortlister, learn, taken, run.device)})[
        "clusters"
    ]
    ranker, state = learn_ranker(learn, held, shortlister, picks, config, run)
    training = {
        "best_epoch": state.best_epoch,
        "epochs": state.history,
        **({} if shortlister.state is None else {"shortlister": shortlister.state.history}),
        "recall_by_beam": recall_by_beam(ranks, count),
        "theorem_3_1": theorem_3_1(learn.labels, recall_of(learn.labels, picks, shortlister.tree)),
    }
    return Trained(ranker, config, {"training": training})


def _sample(data: Dataset, seed: int) -> Dataset:
    if len(data) <= _SAMPLE:
        return data
    return data.rows(np.sort(np.random.default_rng(seed).permutation(len(data))[:_SAMPLE]))
