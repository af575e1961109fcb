"""Packs a finished model, with texts to set its dials by where there are some, and measures what packing costs.

Training texts stay in it only where somebody asks for that (`with_texts`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from scipy.sparse import csr_array

from laconic.checkpoint import SavedModel
from laconic.data.corpus import Corpus, Split
from laconic.data.evaluation_texts import TrainedOn, as_trained, evaluation_texts
from laconic.data.vocabulary import bags
from laconic.errors import DataError
from laconic.evaluate import Truth, places_needed, rank_all
from laconic.machine import usable_cores
from laconic.methods import restore_config, restore_ranker
from laconic.metrics import judge, report
from laconic.metrics.pairs import relevant, truth_without_pairs
from laconic.predict.answering import Answerer, inputs_of
from laconic.predict.judging import Judging
from laconic.predict.kept_texts import KeptTexts
from laconic.predict.packed import PackedModel
from laconic.predict.packing import packed
from laconic.run import device_named
from laconic.types import NO_LABEL

_TOLD = ("laconic", "method", "config", "ensemble", "inputs", "sizes", "created", "data", "propensity")
_MEASURED = ("calibration", "not_calibrated", "metrics")
_PROBES = 28_000  # training texts from which trees are learnt, and by which dials are set
_JUDGED = 5000  # texts on which the cost is measured
_BEST = 5
_PRECISIONS = ("P@5 before", "P@5 after")
TRAINING = "training texts"


class Precision(NamedTuple):
    """P@5 of a model, and of what was packed of it."""

    before: float
    after: float


class Cost(NamedTuple):
    """What a packed model's answers are worth, beside those of the model it was made from."""

    split: str  # or TRAINING
    texts: int
    found: float  # of the model's best five labels, in percent
    precision: Precision | None  # None: on training texts, it would say more of memory than of what was learnt

    @property
    def words(self) -> str:
        """Return what it was measured on, for people."""
        of = {TRAINING: "training texts", "held-out": "held-out texts"}.get(self.split, f"texts of {self.split}")
        return f"{self.texts:,} {of}"

    def facts(self) -> dict[str, Any]:
        figures = {} if self.precision is None else dict(zip(_PRECISIONS, self.precision, strict=True))
        return {"split": self.split, "texts": self.texts, "found": self.found, **figures}

    @staticmethod
    def of_facts(facts: Any) -> Cost | None:
        """Read what `facts` wrote; None where it is not there."""
        match facts:
            case {"split": str(split), "texts": int(texts), "found": float(found), **others}:
                match others:
                    case {"P@5 before": float(before), "P@5 after": float(after)}:
                        return Cost(split, texts, found, Precision(before, after))
                return Cost(split, texts, found, None)
        return None


def pack(model: SavedModel, corpus: Corpus | None = None, device: str = "auto") -> PackedModel:
    """Return what the engine answers from. A corpus has training texts, by which dials are set; trees are learnt from
    them on the device.
    """
    ranker = restore_ranker(model, device_named("cpu"))
    known = TrainedOn.of(model.facts, model.sketch)
    corpus = None if corpus is None else as_trained(corpus, [known])
    train = "" if corpus is None else _first_split(corpus, "train", "all")
    probes = None
    if corpus is not None and train and (train == "train" or _is_of_training(known, corpus.split(train), train)):
        probes = inputs_of(Judging.of_model(model).judged(corpus.sampled(train, _PROBES), train)[0])
    return PackedModel(
        facts={name: model.facts[name] for name in (*_TOLD, *_MEASURED) if name in model.facts},
        ranker=packed(ranker, probes, device_named(device)),
        labels=model.labels.names,
        label_texts=model.labels.texts,
        label_counts=model.label_counts,
        splitter=restore_config(model).text,
        vocabulary=model.vocabulary,
        sketch=model.sketch,
    )


def with_texts(packed_model: PackedModel, corpus: Corpus) -> PackedModel:
    """The packed model with the training texts of its labels, for those who ask why: whoever has it can read them."""
    check_texts(corpus)
    if packed_model.vocabulary is None:
        raise DataError("this model reads features, not texts, so it has no texts to keep; leave --keep-texts out")
    judging = Judging.of_packed(packed_model)
    corpus = as_trained(corpus, [judging.trained_on])
    train = _first_split(corpus, "train", "all")
    rows, truth = judging.judged(corpus, train)
    assert isinstance(rows, csr_array)  # as texts are read
    pairs = relevant(truth.labels) if truth.leave_out is None else truth_without_pairs(truth.labels, truth.leave_out)
    own = csr_array(pairs[:, : len(packed_model.labels)])
    if not own.nnz:
        raise DataError(
            f"{corpus.source}: none of its training texts has a label of the model, so there is nothing to keep; give "
            "the data that the model was trained on"
        )
    return replace(packed_model, kept_texts=KeptTexts.of(corpus.split(train).texts or (), bags(rows), own))


def check_texts(corpus: Corpus) -> None:
    """Refuses data without training texts where they are to be kept."""
    train = _first_split(corpus, "train", "all")
    if not train or corpus.split(train).texts is None:
        raise DataError(f"{corpus.source}: it has no training texts to keep; leave --keep-texts out, or give others")


def measured(
    packed_model: PackedModel, model: SavedModel, corpus: Corpus, split: str, device: str = "cpu"
) -> tuple[PackedModel, Cost]:
    """The packed model with what packing has cost on some texts of a split among its facts; the model itself answers
    on the device.
    """
    judging, some = Judging.of_model(model), corpus.sampled(split, _JUDGED)
    rows, truth = judging.judged(some, split)
    places = places_needed(truth, (_BEST,))
    wanted = rank_all(restore_ranker(model, device_named(device)), rows, places).labels.numpy()
    found = Answerer(packed_model, usable_cores()).rank_rows(rows, places).labels
    best = wanted[:, :_BEST]
    shared = (best[:, :, None] == found[:, None, :_BEST]).any(2)[best != NO_LABEL]
    agreement = 100 * float(shared.mean())
    if _is_of_training(judging.trained_on, some.split(split), split):
        cost = Cost(TRAINING, len(best), agreement, None)
    else:
        name = evaluation_texts(corpus, split).name
        cost = Cost(name, len(best), agreement, Precision(*(_precision(labels, truth) for labels in (wanted, found))))
    return replace(packed_model, facts={**packed_model.facts, "packing": cost.facts()}), cost


def split_to_judge(corpus: Corpus) -> str:
    """That which training has seen least of; empty: there are no texts at all."""
    return _first_split(corpus, "test", "valid", "train", "all")


def _is_of_training(known: TrainedOn, split: Split, name: str) -> bool:
    """Return whether a model was trained on these texts; where it does not tell, their split's name decides."""
    seen = known.overlap(split)
    return name in ("train", "all") if seen is None else seen.substantial


def _precision(labels: Int[np.ndarray, "texts k"], truth: Truth) -> float:
    """P@5, in percent."""
    return report(judge(labels, truth.labels, leave_out=truth.leave_out), ks=(_BEST,))[f"P@{_BEST}"]


def _first_split(corpus: Corpus, *names: str) -> str:
    return next((name for name in names if len(corpus.splits.get(name, ()))), "")
