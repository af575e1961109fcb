"""Compares two models on the same texts: metrics, confidence of their difference, and texts where they differ.

As the papers' tables of examples (DeepXML, Table 7; DECAF, Table 3): right and wrong are told apart, and labels are
marked that training never saw together with another true label of the text, or hardly saw at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from scipy.sparse import csr_array

from laconic.data.corpus import Corpus, Labels
from laconic.data.evaluation_texts import UNTOLD, TrainedOn
from laconic.data.prepare import label_texts
from laconic.data.sketch import Overlap
from laconic.errors import ConfigError, DataError
from laconic.evaluation.evaluate import Truth, places_needed, truth_in_numbers_of
from laconic.evaluation.metrics import (
    Judged,
    Propensity,
    Ratio,
    TrainingCounts,
    bootstrap,
    judge,
    per_text,
    ranking_of,
    relevant,
    without_pairs,
)
from laconic.predict.predictor import Predictor
from laconic.storage.model_folder import SavedModel, read_model
from laconic.types import NO_LABEL, Ranking
from laconic.units import counted

_BATCH = 1024  # texts whose answers are held as names; all answers are held as numbers


@dataclass(frozen=True, kw_only=True)
class Config:
    """How many texts and labels are shown."""

    n: int = 10  # texts that are shown
    k: int = 5  # labels of an answer
    seed: int = 0  # of the order among texts that differ alike, and of the intervals

    def __post_init__(self) -> None:
        for name, least in (("n", 0), ("k", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be {least} or more, but is {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Contender:
    """A model and the name it is shown under."""

    name: str
    predictor: Predictor
    training: TrainingCounts  # in the model's own numbers
    trained_on: TrainedOn = UNTOLD

    @classmethod
    def of(cls, name: str, model: SavedModel, device: str = "auto") -> Contender:
        predictor = Predictor(model, device)
        training = predictor.view.training
        assert training is not None  # a model that was not packed has them
        return cls(name=name, predictor=predictor, training=training, trained_on=predictor.trained_on)

    @classmethod
    def open(cls, folder: Path, device: str = "auto") -> Contender:
        return cls.of(str(folder), read_model(folder), device)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A metric of both models in percent, and their difference with its 95 % bootstrap interval."""

    models: tuple[float, float]
    difference: float
    interval: tuple[float, float]


class Tally(NamedTuple):
    """The number of texts on which each model is right."""

    only_first: int
    only_second: int
    both: int
    neither: int


@dataclass(frozen=True, kw_only=True)
class Marked:
    """A label and how it relates to a text."""

    label: str
    text: str  # of its own
    right: bool
    tail: bool
    unseen_together: bool | None  # with any other true label of the text; None: nobody can tell, or there is no other
    score: float | None = None  # None: it is no answer but the truth


@dataclass(frozen=True, kw_only=True)
class Example:
    """A text with its true labels and the labels of both models."""

    row: int  # in the split, from 0
    text: str
    true: list[Marked]
    answers: tuple[list[Marked], list[Marked]]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The result of comparing two models."""

    models: tuple[str, str]
    texts: int
    k: int
    figures: dict[str, Figure]
    right: dict[int, Tally]  # by 1 and by k: whether any of so many first labels is true
    more_right: tuple[int, int]  # texts on which each model has more right labels than the other, of the first k
    examples: list[Example]
    coded: bool  # names are codes: people read the labels' texts
    notes: list[str]
    propensity: Propensity  # the constants of PSP
    seen: tuple[Overlap | None, Overlap | None]  # texts that each model was trained on; None: nobody can tell

    def as_json(self) -> dict[str, Any]:
        found = asdict(self) | {"right": {f"@{k}": tally._asdict() for k, tally in self.right.items()}}
        del found["seen"]
        return found | {"seen_in_training": [None if seen is None else seen.as_json() for seen in self.seen]}


def compare(
    contenders: tuple[Contender, Contender],
    corpus: Corpus,
    split_name: str,
    config: Config,
    on_batch: Callable[[int], None] = lambda done: None,
) -> Comparison:
    """Compare two models on a split of the data; labels are matched by name."""
    split = corpus.split(split_name)
    texts = split.texts
    if texts is None:
        raise DataError(f"{corpus.source}: models are compared on texts, but this data has none")
    number = _numbers(contenders, corpus)
    truth = _truth(contenders, corpus, split_name, number)
    rankings = [_ranking(one.predictor, texts, number, truth, config.k, on_batch) for one in contenders]
    first, second = (judge(ranking, truth.labels, leave_out=truth.leave_out) for ranking in rankings)
    more = second.hits[:, : config.k].sum(axis=1) - first.hits[:, : config.k].sum(axis=1)
    rows = _chosen(more, config)
    shown = [Ranking(*(part[rows, : config.k] for part in ranking)) for ranking in rankings]
    true = [first.truth.indices[first.truth.indptr[row] : first.truth.indptr[row + 1]] for row in rows]
    seen = np.concatenate([*true, *(ranking.labels.numpy().ravel() for ranking in shown)])
    marker = _Marker.of(contenders, corpus, number, truth, seen)
    return Comparison(
        models=(contenders[0].name, contenders[1].name),
        texts=len(texts),
        k=config.k,
        figures=_figures(first, second, truth, config),
        right={k: _tally(first, second, k) for k in dict.fromkeys((1, config.k))},
        more_right=(int((more < 0).sum()), int((more > 0).sum())),
        examples=[
            Example(
                row=row,
                text=texts[row],
                true=marker.truth(true[place]),
                answers=(marker.answer(shown[0], place, true[place]), marker.answer(shown[1], place, true[place])),
            )
            for place, row in enumerate(rows)
        ],
        coded=label_texts(Labels(names=corpus.labels.names)) is None,
        notes=_notes(contenders, corpus, first.truth, number),
        propensity=corpus.propensity or contenders[0].training.propensity,
        seen=(contenders[0].trained_on.overlap(split), contenders[1].trained_on.overlap(split)),
    )


def _numbers(contenders: Sequence[Contender], corpus: Corpus) -> dict[str, int]:
    """Assign a number to every label of the data and of both models; the data's labels keep their numbers."""
    number = {name: i for i, name in enumerate(corpus.labels.names)}
    for contender in contenders:
        for name in contender.predictor.labels.names:
            number.setdefault(name, len(number))
    return number


def _truth(contenders: Sequence[Contender], corpus: Corpus, split_name: str, number: Mapping[str, int]) -> Truth:
    """Return the truth by which both models are evaluated.

    Training counts are the data's, or else the first model's; propensity constants are the user's, or else the first
    model's.
    """
    split, names = corpus.split(split_name), corpus.labels.names
    propensity = corpus.propensity or contenders[0].training.propensity
    if "train" in corpus.splits:
        counted = TrainingCounts.of(corpus.splits["train"].labels, propensity=propensity)
        training = counted.with_unseen(len(number) - len(names))
    else:
        counts = np.zeros(len(number), dtype=np.int64)
        counts[[number[name] for name in contenders[0].predictor.labels.names]] = contenders[0].training.per_label
        training = replace(contenders[0].training, per_label=counts, propensity=propensity)
    return truth_in_numbers_of(list(number), names, split.labels, split.leave_out, training)


def _ranking(
    predictor: Predictor,
    texts: Sequence[str],
    number: Mapping[str, int],
    truth: Truth,
    k: int,
    on_batch: Callable[[int], None],
) -> Ranking:
    """Rank with a model in the common numbers, without the pairs to leave out."""
    width = places_needed(truth, _ks(k))
    parts = [ranking_of([], width)]
    for begin in range(0, len(texts), _BATCH):
        answers = predictor.predict(texts[begin : begin + _BATCH], width)
        parts.append(ranking_of([[(number[label], score) for label, score in answer] for answer in answers], width))
        on_batch(len(answers))
    ranking = Ranking(*(torch.cat(several) for several in zip(*parts, strict=True)))
    return ranking if truth.leave_out is None else without_pairs(ranking, truth.leave_out)


def _ks(k: int) -> tuple[int, ...]:
    return tuple(sorted({1, 5, 10, k}))


def _figures(first: Judged, second: Judged, truth: Truth, config: Config) -> dict[str, Figure]:
    one, other = (per_text(judged, truth.training, ks=_ks(config.k)) for judged in (first, second))
    names = dict.fromkeys(("P@1", f"P@{config.k}", "nDCG@5", "PSP@5", "tail R@10"))
    # The truth is the same, so the difference is a ratio too, and resampling it draws the same texts for both models.
    differences = {name: Ratio(other[name].gained - one[name].gained, one[name].possible) for name in names}
    intervals = bootstrap(differences, seed=config.seed)
    return {
        name: Figure(
            models=(one[name].percent(), other[name].percent()),
            difference=differences[name].percent(),
            interval=intervals[name],
        )
        for name in names
    }


def _tally(first: Judged, second: Judged, k: int) -> Tally:
    one, other = (judged.hits[:, :k].any(axis=1) for judged in (first, second))
    counts = (one & ~other, other & ~one, one & other, ~one & ~other)
    return Tally(*(int(count.sum()) for count in counts))


def _chosen(more: Int[np.ndarray, "batch"], config: Config) -> list[int]:
    """Return the texts that differ most, alternating between those where either model is better."""
    order = np.random.default_rng(config.seed).permutation(len(more))  # of those that differ alike
    order = order[np.argsort(-np.abs(more[order]), kind="stable")]
    sides = (order[more[order] < 0][: config.n].tolist(), order[more[order] > 0][: config.n].tolist())
    return [row for turn in zip_longest(*sides) for row in turn if row is not None][: config.n]


def _notes(contenders: Sequence[Contender], corpus: Corpus, truth: csr_array, number: Mapping[str, int]) -> list[str]:
    notes = []
    if "train" not in corpus.splits:
        notes.append(
            f"{corpus.source} has no train split: labels never seen together are not marked; PSP and the tail are by "
            f"the training of {contenders[0].name}"
        )
    first, second = (contender.training.propensity for contender in contenders)
    if corpus.propensity is None and first != second:
        notes.append(
            f"{contenders[1].name} has other propensity constants (A = {second.a}, B = {second.b}); PSP of both is by "
            f"those of {contenders[0].name} (A = {first.a}, B = {first.b})"
        )
    occurring = np.unique(truth.indices)
    for contender in contenders:
        known = np.zeros(len(number), dtype=bool)
        known[[number[name] for name in contender.predictor.labels.names]] = True
        if missing := int((~known[occurring]).sum()):
            notes.append(
                f"{contender.name} does not have {missing:,} of the {counted(len(occurring), 'label')} of these texts"
            )
    return notes


@dataclass(frozen=True, kw_only=True, eq=False)
class _Marker:
    """Describes labels by their numbers for display."""

    names: Sequence[str]
    own_text: Callable[[str], str]
    tail: Bool[np.ndarray, "labels"]
    together: _Together | None

    @classmethod
    def of(
        cls,
        contenders: Sequence[Contender],
        corpus: Corpus,
        number: Mapping[str, int],
        truth: Truth,
        labels: Int[np.ndarray, "n"],
    ) -> _Marker:
        assert truth.training is not None
        names, train, texts = list(number), corpus.splits.get("train"), corpus.labels.texts or ()

        def own_text(name: str) -> str:
            """Return a label's own text from the data, or else from a model."""
            known = texts[number[name]] if number[name] < len(texts) else ""
            return next(filter(None, (known, *(one.predictor.text_of(name) for one in contenders))), "")

        together = None
        if train is not None:
            together = _Together.of(truth_in_numbers_of(names, corpus.labels.names, train.labels).labels, labels)
        return cls(names=names, own_text=own_text, tail=truth.training.tail(), together=together)

    def truth(self, true: Int[np.ndarray, "p"]) -> list[Marked]:
        return self._marked(true, [None] * len(true), true)

    def answer(self, ranking: Ranking, place: int, true: Int[np.ndarray, "p"]) -> list[Marked]:
        labels, scores = ranking.labels[place], ranking.scores[place]
        ranked = labels != NO_LABEL
        return self._marked(labels[ranked].numpy(), scores[ranked].tolist(), true)

    def _marked(
        self, labels: Int[np.ndarray, "n"], scores: Sequence[float | None], true: Int[np.ndarray, "p"]
    ) -> list[Marked]:
        unseen = [None] * len(labels) if self.together is None else self.together.never(labels, true)
        return [
            Marked(
                label=self.names[label],
                text=self.own_text(self.names[label]),
                right=label in true,
                tail=bool(self.tail[label]),
                unseen_together=never,
                score=score,
            )
            for label, score, never in zip(labels.tolist(), scores, unseen, strict=True)
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Together:
    """Which of a few labels share a training text; for all labels there would be too many pairs."""

    labels: Int[np.ndarray, "n"]  # rising
    common: csr_array  # n × n: how many training texts have both

    @classmethod
    def of(cls, training: csr_array, labels: Int[np.ndarray, "..."]) -> _Together:
        few = np.unique(labels[labels != NO_LABEL])
        texts = relevant(training)[:, few].astype(bool).astype(np.int64)
        return cls(labels=few, common=csr_array(texts.T @ texts))

    def never(self, labels: Int[np.ndarray, "n"], true: Int[np.ndarray, "p"]) -> list[bool | None]:
        """Return whether each label shares no training text with any other true label; None if there is no other."""
        rows, columns = np.searchsorted(self.labels, labels), np.searchsorted(self.labels, true)
        others = labels[:, None] != true
        seen = (self.common[rows][:, columns].toarray() > 0) & others
        return [not row.any() if other.any() else None for row, other in zip(seen, others, strict=True)]
