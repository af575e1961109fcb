"""Packs a finished model; search widths are tuned on training texts where there are some.

Training texts stay in it only where somebody asks for that (`with_texts`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from scipy.sparse import csr_array

from laconic.data.corpus import Corpus
from laconic.data.evaluation_texts import TrainedOn, as_trained, is_of_training
from laconic.data.vocabulary import bags
from laconic.errors import DataError
from laconic.evaluation.dataset_view import DatasetView
from laconic.evaluation.metrics.pairs import relevant, truth_without_pairs
from laconic.export.rankers import OnPart, pack_ranker
from laconic.export.small import smaller
from laconic.methods.restore import restore_config, restore_ranker
from laconic.packed.engine.fusion import Fused
from laconic.packed.engine.texts import inputs_of
from laconic.packed.folder import PackedModel, write_in_place
from laconic.packed.kept_texts import KeptTexts
from laconic.storage.card import model_card
from laconic.storage.model_folder import CARD, SavedModel, check_free
from laconic.training.run import device_named

_TOLD = ("laconic", "method", "config", "ensemble", "class_weight", "inputs", "sizes", "created", "data", "propensity")
_MEASURED = ("calibration", "not_calibrated", "threshold", "metrics")
_OF_FOLDER = ("format", "storage")  # facts of a model folder, not of the model
_TUNING_TEXTS, _TUNING_TEXTS_ON_GPU = 28_000, 104_000  # training texts that trees are learnt from and widths tuned on


def pack(
    model: SavedModel,
    corpus: Corpus | None = None,
    device: str = "auto",
    on_part: OnPart = lambda done, parts: None,
) -> PackedModel:
    """Return the packed model; training texts of a corpus tune its search widths, and trees are learnt from them.

    `on_part` hears how many parts of the model are packed, and of how many.
    """
    ranker, learning = restore_ranker(model, device_named("cpu")), device_named(device)
    known = TrainedOn.of(model.facts, model.sketch)
    corpus = None if corpus is None else as_trained(corpus, [known])
    train = "" if corpus is None else _first_split(corpus, "train", "all")
    tuning_texts = None
    if corpus is not None and train and (train == "train" or is_of_training(known, corpus.split(train), train)):
        most = _TUNING_TEXTS_ON_GPU if learning.type == "cuda" else _TUNING_TEXTS
        tuning_texts = inputs_of(DatasetView.of(model).rows_and_truth(corpus.sampled(train, most), train)[0])
    packed = pack_ranker(ranker, tuning_texts, learning, on_part)
    return PackedModel(
        facts={name: model.facts[name] for name in (*_TOLD, *_MEASURED) if name in model.facts},
        ranker=smaller(packed) if isinstance(packed, Fused) else packed,
        labels=model.labels.names,
        label_texts=model.labels.texts,
        label_counts=model.label_counts,
        label_attributes=model.labels.attributes,
        splitter=restore_config(model).text,
        vocabulary=model.vocabulary,
        sketch=model.sketch,
    )


def write_alone(
    packed_model: PackedModel,
    folder: Path,
    *,
    facts: Mapping[str, Any],
    pictures: Mapping[str, Callable[[Path], None]] | None = None,
) -> None:
    """Write a packed model as the whole folder of a model, which then has no torch weights.

    `facts` are what the model says of itself. There is a model card, and an older model there is replaced.
    """
    check_free(folder)
    kept = {name: fact for name, fact in facts.items() if name not in _OF_FOLDER}
    kept = {**kept, **packed_model.facts}
    card = {CARD: partial(_write_card, facts=kept)}
    write_in_place(replace(packed_model, facts=kept), folder, {**card, **(pictures or {})})


def _write_card(path: Path, facts: Mapping[str, Any]) -> None:
    path.write_text(model_card(facts), encoding="utf-8")


def with_texts(packed_model: PackedModel, corpus: Corpus) -> PackedModel:
    """Add the training texts of its labels to a packed model, for explanations; users of the model can read them."""
    check_texts(corpus)
    if packed_model.vocabulary is None:
        raise DataError("this model reads features, not texts, so it has no texts to keep; leave --keep-texts out")
    view = DatasetView.of(packed_model)
    corpus = as_trained(corpus, [view.trained_on])
    train = _first_split(corpus, "train", "all")
    rows, truth = view.rows_and_truth(corpus, train)
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
    """Refuse data without training texts if they are to be kept."""
    train = _first_split(corpus, "train", "all")
    if not train or corpus.split(train).texts is None:
        raise DataError(f"{corpus.source}: it has no training texts to keep; leave --keep-texts out, or give others")


def _first_split(corpus: Corpus, *names: str) -> str:
    return next((name for name in names if len(corpus.splits.get(name, ()))), "")
