"""Packs a finished model, with texts to set its dials by where there are some, and measures what packing costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from laconic.checkpoint import SavedModel
from laconic.data.corpus import Corpus
from laconic.data.dataset import Rows
from laconic.data.text import Splitter
from laconic.data.tokenizer import Tokenizer
from laconic.evaluate import rank_all
from laconic.methods import restore_config, restore_ranker
from laconic.metrics.pairs import holds
from laconic.predict.answering import Answerer, inputs_of
from laconic.predict.packed import PackedModel
from laconic.predict.packing import packed
from laconic.predict.predictor import Predictor
from laconic.run import device_named

_TOLD = ("laconic", "method", "inputs", "sizes", "created", "data", "propensity", "calibration", "metrics")
_PROBES = 4000  # training texts by which dials are set
_JUDGED = 5000  # texts on which the cost is measured
_BEST = 5


class Cost(NamedTuple):
    """What a packed model's answers are worth, beside those of the model it was made from."""

    texts: int
    found: float  # of the model's best five labels, in percent
    before: float  # P@5
    after: float

    def facts(self) -> dict[str, Any]:
        return {"texts": self.texts, "found": self.found, "P@5 before": self.before, "P@5 after": self.after}


def pack(model: SavedModel, corpus: Corpus | None = None) -> PackedModel:
    """What the engine answers from. A corpus has training texts, by which dials are set."""
    config = restore_config(model)
    ranker = restore_ranker(model, device_named("cpu"))
    probes = None if corpus is None or "train" not in corpus.splits else _probes(model, config.text, corpus)
    return PackedModel(
        facts={name: model.facts[name] for name in _TOLD if name in model.facts},
        ranker=packed(ranker, None if probes is None else inputs_of(probes)),
        labels=model.labels.names,
        label_texts=model.labels.texts,
        splitter=config.text,
        vocabulary=model.vocabulary,
    )


def measured(packed_model: PackedModel, model: SavedModel, corpus: Corpus, split: str) -> tuple[PackedModel, Cost]:
    """The packed model with what packing has cost on the first texts of a split among its facts."""
    rows, truth = Predictor(model, "cpu").judged(corpus, split)
    rows = rows[:_JUDGED]
    known, answerer = min(_BEST, len(model.labels)), Answerer(packed_model)
    wanted = rank_all(restore_ranker(model, device_named("cpu")), rows, known).labels.numpy()
    found = answerer.rank_rows(rows, known).labels
    shared = (wanted[:, :, None] == found[:, None]).any(2)
    hits = [100 * float(holds(truth.labels[: len(wanted)], labels).sum(1).mean()) / _BEST for labels in (wanted, found)]
    cost = Cost(rows.shape[0], 100 * float(shared.mean()), *hits)
    return replace(packed_model, facts={**packed_model.facts, "packing": {"split": split, **cost.facts()}}), cost


def _probes(model: SavedModel, splitter: Splitter, corpus: Corpus) -> Rows:
    """Some training texts as the model reads them."""
    split = corpus.split("train")
    chosen = np.sort(np.random.default_rng(0).permutation(len(split))[:_PROBES])
    if model.vocabulary is not None:
        texts = split.texts or ()
        return Tokenizer(splitter, model.vocabulary).rows([texts[place] for place in chosen])
    assert split.features is not None
    return split.features[chosen]
