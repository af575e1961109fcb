"""Add labels to a saved model, remove labels from it, or train it on new texts.

Changes are listed in the model's facts, as `changes`; figures that were measured before are kept and marked so.
A calibration curve is dropped by every change, and fitted again by `update` and `calibrate`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from scipy.sparse import csr_array

from laconic.config import settings_of
from laconic.data.corpus import Corpus, Labels, Split
from laconic.data.dataset import Dataset, drawn
from laconic.data.evaluation_texts import TrainedOn, check_unseen
from laconic.data.label_texts import with_known_words
from laconic.data.prepare import label_texts, taught_labels
from laconic.data.sketch import TextSketch
from laconic.data.text import WordTable, word_table
from laconic.data.tokenizer import Tokenizer
from laconic.data.vocabulary import bags
from laconic.errors import DataError
from laconic.evaluation.dataset_view import DatasetView
from laconic.evaluation.evaluate import truth_in_numbers_of, truth_of
from laconic.methods.restore import move_ranker, restore_config, restore_ranker
from laconic.methods.validation import as_new_texts
from laconic.methods.wrappers.calibrate import fitted_calibration
from laconic.models.rankers import Ranker
from laconic.storage.facts import changes_of, uncalibrated, with_calibration, without_stale_curve
from laconic.storage.model_folder import SavedModel
from laconic.system.machine import torch_within_cores
from laconic.training.run import Run, fingerprint
from laconic.types import FIRST_WORD, UNKNOWN
from laconic.units import counted
from laconic.update.rankers import (
    Additions,
    Config,
    NewTexts,
    NewWords,
    fine_tune_ranker,
    with_labels,
    with_words,
    without_labels,
)

_SHOWN = 5  # names in a message
_MOST_HELD = 10_000  # held-out texts
_CPU = torch.device("cpu")


def add_labels(model: SavedModel, new: Labels, examples: Corpus | None = None) -> SavedModel:
    """Return the model with new labels, each described by its own text, by examples, or by both. Nothing is trained.

    Only examples with a new label are used, with all of their labels.
    """
    _check_new(model, new)
    labels = model.labels.joined(new)
    texts = _texts(model, labels, examples, needs_all=True)
    used = np.flatnonzero(np.diff(csr_array(texts.labels[:, len(model.labels) :]).indptr))
    texts = texts.rows(used)
    additions = _additions(model, labels, texts)
    _check_described(additions, new.names)
    ranker = with_labels(restore_ranker(model, torch.device("cpu")), additions)
    record = {
        "labels": len(new),
        "examples": len(texts),
        "words": int(np.diff(additions.label_texts.indptr).sum()),
        "unknown_words": int((additions.label_texts.indices == UNKNOWN).sum()),
    }
    changed = _changed(model, ranker, labels, _counts(model, texts), {"verb": "add-labels", **record})
    return changed if examples is None else _having_seen(changed, examples.split("train").rows(used))


def usable_labels(model: SavedModel, new: Labels, examples: Corpus | None = None) -> tuple[Labels, dict[str, str]]:
    """Return the labels that `add_labels` would take, and the others with what is wrong with each."""
    known = {*model.labels.names}
    refused = {name: "the model has it already" for name in new.names if name in known}
    new = _without(new, refused)
    labels = model.labels.joined(new)
    additions = _additions(model, labels, _texts(model, labels, examples, needs_all=True))
    unknown = "no word of its text is known to the model, and there is no example of it"
    blank = dict.fromkeys(_undescribed(additions, new.names), unknown)
    return _without(new, blank), refused | blank


def _without(labels: Labels, names: Collection[str]) -> Labels:
    return labels.at([at for at, name in enumerate(labels.names) if name not in names])


def remove_labels(model: SavedModel, names: Collection[str]) -> SavedModel:
    """Return the model without these labels; the others keep their order and their rows."""
    number = {name: at for at, name in enumerate(model.labels.names)}
    _check_known(number, names)
    kept = np.setdiff1d(np.arange(len(number)), [number[name] for name in names])
    if not len(kept):
        raise DataError(f"these are all of the model's {counted(len(number), 'label')}; leave at least one")
    ranker = without_labels(restore_ranker(model, torch.device("cpu")), torch.from_numpy(kept))
    record = {"verb": "remove-labels", "labels": len(number) - len(kept)}
    return _changed(model, ranker, model.labels.at(kept.tolist()), model.label_counts[kept], record)


@torch_within_cores()
def update(model: SavedModel, corpus: Corpus, config: Config, run: Run) -> SavedModel:
    """Return the model trained further on new texts, with known or new labels; an interrupted run is resumed."""
    corpus.check_labelled()
    if "class_weight" in model.facts:
        raise DataError(
            "the model was trained with class_weight, which an update does not apply; train it again on all texts"
        )
    new, before = _unknown_in(corpus, model), model
    labels = _with_attributes_of(model.labels.joined(new), corpus.labels)
    model, words = _with_new_words(model, labels, corpus)
    data = _texts(model, labels, corpus)
    begun = {"model": [model.facts["created"], len(changes_of(model.facts))], "config": settings_of(config)}
    run.begin({**begun, "data": fingerprint(data)})
    assert isinstance(data.inputs, csr_array)
    chosen = _held_out(data, config, len(model.labels))
    learn, held = (data.rows(np.flatnonzero(which)) for which in (~chosen, chosen))
    additions = _additions(model, labels, learn)
    _check_described(additions, new.names)
    ranker = with_words(restore_ranker(before, _CPU), words)
    ranker = with_labels(move_ranker(ranker, before, run.device), additions)
    ranker = fine_tune_ranker(ranker, NewTexts(learn=learn, held=held, config=config), run)
    new_texts = _as_new_texts(before, held, learn)
    calibration = _calibration(before, ranker, new_texts, corpus.split("train").rows(np.flatnonzero(chosen)))
    nothing = csr_array((0, data.inputs.shape[1]), dtype=np.float32)
    known = csr_array((len(labels), data.inputs.shape[1]), dtype=np.float32)
    # Rankers that store texts get the held-out ones too.
    ranker = with_labels(ranker, Additions(label_texts=nothing, known_texts=known, examples=held))
    record = {
        "verb": "update",
        "labels": len(new),
        "texts": len(data),
        "words": int(data.inputs.nnz),
        "new_words": words.count,
        "unknown_words": int((data.inputs.indices == UNKNOWN).sum()),
        "config": settings_of(config),
    }
    sizes = {"texts": len(data), "pairs": int(data.labels.nnz), "inputs": words.count}
    changed = _changed(model, ranker.cpu(), labels, _counts(model, data), record, sizes)
    changed = replace(changed, facts=with_calibration(changed.facts, calibration))
    return _having_seen(changed, corpus.split("train"))


def _as_new_texts(model: SavedModel, held: Dataset, learnt: Dataset) -> Dataset:
    """Return held-out texts as texts to come are read; words that the model knew before are known in them."""
    assert model.vocabulary is not None
    return replace(held, inputs=as_new_texts(held, learnt, FIRST_WORD + len(model.vocabulary.words)))


def _calibration(model: SavedModel, ranker: Ranker, held: Dataset, split: Split) -> dict[str, Any]:
    """Fit a curve on the texts that an update has held out; return it, or why there is none, as a model's fact."""
    seen = TrainedOn.of(model.facts, model.sketch).overlap(split)
    if seen is not None and seen.substantial:
        return uncalibrated(f"update changed the model; the texts that it held out: {seen}")
    found = fitted_calibration(ranker, held.inputs, truth_of(held))
    why = found.get("not_calibrated")
    return found if why is None else uncalibrated(f"update changed the model; {why}")


@torch_within_cores()
def calibrate(model: SavedModel, corpus: Corpus, split_name: str, device: torch.device = _CPU) -> SavedModel:
    """Return the model with a curve that is fitted on a split of texts that it was not trained on."""
    check_unseen(corpus, split_name, TrainedOn.of(model.facts, model.sketch))
    rows, truth = DatasetView.of(model).rows_and_truth(corpus, split_name)
    found = fitted_calibration(restore_ranker(model, device), rows, truth)
    if "not_calibrated" in found:
        raise DataError(f"{corpus.source}: split {split_name}: {found['not_calibrated']}")
    return replace(model, facts=with_calibration(model.facts, found))


def _with_attributes_of(labels: Labels, listed: Labels) -> Labels:
    """Return the labels with the attributes of those that other data lists with attributes."""
    given = zip(listed.names, listed.attribute_values(), strict=True)
    return labels.with_attributes({name: values for name, values in given if values})


def _tokenizer(model: SavedModel) -> Tokenizer:
    if model.vocabulary is None:
        raise DataError(
            "this model reads features, not texts: labels can be removed from it, but train it again to add any"
        )
    return Tokenizer(restore_config(model).text, model.vocabulary)


def _with_new_words(model: SavedModel, labels: Labels, corpus: Corpus) -> tuple[SavedModel, NewWords]:
    """Return the model with the words of new texts and of new labels in its vocabulary, unless its size was set."""
    tokenizer, split, settings = _tokenizer(model), corpus.split("train"), restore_config(model).vocabulary
    known, own = tokenizer.vocabulary, label_texts(labels) or [""] * len(labels)
    new_labels = own[len(model.labels) :]
    table = word_table([*(split.texts or ()), *new_labels], tokenizer.splitter)
    grown = known if settings.size else known.extended(table, settings.min_count)
    return replace(model, vocabulary=grown), NewWords.of(known, grown, table, _around(model, labels, corpus, table))


def _around(model: SavedModel, labels: Labels, corpus: Corpus, table: WordTable) -> csr_array:
    """Return texts, and then new labels, in known words: each text with what its labels say of themselves."""
    tokenizer, own = _tokenizer(model), label_texts(labels) or [""] * len(labels)
    split, names = corpus.split("train"), corpus.labels.names
    rows, of_labels = tokenizer.vocabulary.tokens(table), tokenizer.rows(own)
    truth = truth_in_numbers_of(labels.names, names, taught_labels(split.labels, split.leave_out), None)
    pairs = csr_array(truth.labels[:, : len(labels)] != 0, dtype=np.float32)
    pairs.resize(len(table.lengths), len(labels))
    return csr_array(bags(rows) + pairs @ bags(of_labels))


def _texts(model: SavedModel, labels: Labels, corpus: Corpus | None, *, needs_all: bool = False) -> Dataset:
    """Return the corpus's training texts as the model reads them, with labels in the numbers of these."""
    tokenizer = _tokenizer(model)
    if corpus is None:
        none = csr_array((0, len(labels)), dtype=np.float32)
        return Dataset(inputs=tokenizer.rows([]), labels=none, ordered=True)
    split, names = corpus.split("train"), corpus.labels.names
    if split.texts is None:
        raise DataError(f"{corpus.source}: the model reads texts, but this data has none")
    strange = sorted({*names} - {*labels.names}) if needs_all else []
    if strange:
        raise DataError(
            f"{corpus.source}: {_named(strange)} are neither labels of the model nor new ones; add them to the list of "
            "new labels, or take them out of the examples"
        )
    truth = truth_in_numbers_of(labels.names, names, taught_labels(split.labels, split.leave_out), split.leave_out)
    every = slice(0, len(labels))
    return Dataset(
        inputs=tokenizer.rows(split.texts),
        labels=csr_array(truth.labels[:, every]),
        leave_out=None if truth.leave_out is None else csr_array(truth.leave_out[:, every]),
        weights=split.weights,
        groups=split.group_numbers(),
        ordered=True,
    )


def _additions(model: SavedModel, labels: Labels, examples: Dataset) -> Additions:
    """Return the labels' own texts, as training reads them; empty for known labels that training never saw."""
    tokenizer, own = _tokenizer(model), label_texts(labels) or [""] * len(labels)
    known = [text if count else "" for text, count in zip(own, model.label_counts, strict=False)]
    return Additions(
        label_texts=tokenizer.rows(own[len(known) :]), known_texts=tokenizer.rows(known), examples=examples
    )


def _unknown_in(corpus: Corpus, model: SavedModel) -> Labels:
    """Return the labels of new texts that the model does not have."""
    counts, known = np.diff(corpus.split("train").labels.tocsc().indptr), {*model.labels.names}
    return corpus.labels.at([at for at, name in enumerate(corpus.labels.names) if counts[at] and name not in known])


def _held_out(data: Dataset, config: Config, known: int) -> Bool[np.ndarray, "texts"]:
    """Choose texts to hold out, groups as a whole; every new label keeps an example to train on."""
    size = min(round(len(data) * config.validation), _MOST_HELD)
    order, size = drawn(len(data), size, config.seed, data.groups)
    chosen = np.zeros(len(data), dtype=bool)
    chosen[order[:size]] = True
    pairs = csr_array(data.labels[:, known:] != 0)
    missing = np.flatnonzero(csr_array(pairs[~chosen]).sum(axis=0) == 0)
    needed = np.diff(csr_array(pairs[:, missing]).indptr) > 0
    return chosen & ~(needed if data.groups is None else np.isin(data.groups, data.groups[needed]))


def _counts(model: SavedModel, texts: Dataset) -> Int[np.ndarray, "labels"]:
    counts: Int[np.ndarray, "labels"] = texts.label_counts.astype(model.label_counts.dtype)
    counts[: len(model.labels)] += model.label_counts
    return counts


def _changed(
    model: SavedModel,
    ranker: Ranker,
    labels: Labels,
    counts: Int[np.ndarray, "labels"],
    record: Mapping[str, Any],
    more: Mapping[str, int] | None = None,
) -> SavedModel:
    sizes = {**model.facts["sizes"], "labels": len(labels)}
    sizes |= {name: sizes[name] + count for name, count in (more or {}).items()}
    change = {**record, "date": datetime.now(UTC).isoformat(timespec="seconds")}
    facts = without_stale_curve({**model.facts, "sizes": sizes, "changes": [*changes_of(model.facts), change]})
    return replace(model, facts=facts, tensors=ranker.state_dict(), labels=labels, label_counts=counts)


def _having_seen(model: SavedModel, split: Split) -> SavedModel:
    """Return the model with more training texts in its sketch, if it has one."""
    hashes = None if model.sketch is None else split.hashes()
    if hashes is None or model.sketch is None:
        return model
    return replace(model, sketch=model.sketch.merged(TextSketch.of(hashes)))


def _check_new(model: SavedModel, new: Labels) -> None:
    known = {*model.labels.names}
    if there := [name for name in new.names if name in known]:
        raise DataError(f"the model has {_named(there)} already; leave them out, or remove them first")
    if not len(new):
        raise DataError("there is no new label; name at least one")


def _check_described(additions: Additions, names: Sequence[str]) -> None:
    """Refuse labels with neither a known word nor an example: they could only be guessed."""
    if blank := _undescribed(additions, names):
        raise DataError(
            f"{_named(blank)}: no word of their texts is known to the model, and there are no examples of them; give "
            "them texts in the model's words, or examples"
        )


def _undescribed(additions: Additions, names: Sequence[str]) -> list[str]:
    """Return the new labels that have neither a known word in their text nor an example."""
    examples = additions.examples.label_counts[additions.num_known :]
    blank = ~with_known_words(additions.label_texts) & (examples == 0)
    return [name for name, is_blank in zip(names, blank, strict=True) if is_blank]


def _check_known(number: Mapping[str, int], names: Collection[str]) -> None:
    unknown = [name for name in names if name not in number]
    if unknown:
        near = get_close_matches(unknown[0], number, n=3)
        hint = f"; near {unknown[0]!r} are {_named(near)}" if near else ""
        raise DataError(f"the model has no labels {_named(unknown)}{hint}")
    if not names:
        raise DataError("there is no label to remove; name at least one")


def _named(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (f" and {len(names) - _SHOWN:,} more" if names[_SHOWN:] else "")
