"""The texts, truth and metrics that are the same for all models of a contest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from laconic.analysis.peers.peer import Examples
from laconic.data.corpus import Corpus
from laconic.errors import DataError
from laconic.evaluation.evaluate import Truth, places_needed, truth_in_numbers_of
from laconic.evaluation.metrics import TrainingCounts, judge, ranking_of, relevant, report

FIGURES = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@5", "tail R@10")
_KS = (1, 3, 5, 10)


@dataclass(frozen=True, kw_only=True, eq=False)
class Exam:
    """Texts to label, training texts, and the truth."""

    texts: Sequence[str]
    names: Sequence[str]  # of labels
    examples: Examples  # for those who have yet to learn
    truth: Truth  # in the data's numbers

    @classmethod
    def of(cls, corpus: Corpus, split_name: str, most: int) -> Exam:
        """Draw at most this many texts of a split at random."""
        examples, training = _examples(corpus, split_name)
        split = corpus.sampled(split_name, most).split(split_name)
        if not split.texts:
            raise DataError(f"{corpus.source}: the split {split_name!r} has no texts to measure with")
        truth = Truth(labels=split.labels, leave_out=split.leave_out, training=training)
        return cls(texts=split.texts, names=corpus.labels.names, examples=examples, truth=truth)

    @property
    def places(self) -> int:
        """Return how many labels to ask for."""
        return places_needed(self.truth, _KS)

    def figures(self, labels: Int[np.ndarray, "texts places"]) -> dict[str, float]:
        """Return metrics in percent of answers given as label numbers."""
        return _figures(labels, self.truth)

    def figures_of_names(self, answers: Sequence[Sequence[str]]) -> dict[str, float]:
        """Return metrics in percent of answers given as label names, which the data may not have."""
        number = {name: i for i, name in enumerate(self.names)}
        rows = [[(number.setdefault(name, len(number)), 0.0) for name in names] for names in answers]
        return _figures(ranking_of(rows, self.places).labels.numpy(), self._among(number))

    def _among(self, number: Mapping[str, int]) -> Truth:
        """Return the truth with further labels after the data's own."""
        training = self.truth.training
        training = None if training is None else training.with_unseen(len(number) - len(self.names))
        return truth_in_numbers_of(list(number), self.names, self.truth.labels, self.truth.leave_out, training=training)


def _figures(labels: Int[np.ndarray, "texts places"], truth: Truth) -> dict[str, float]:
    figures = report(judge(labels, truth.labels, leave_out=truth.leave_out), truth.training, ks=_KS)
    return {name: figures[name] for name in FIGURES}


def _examples(corpus: Corpus, split_name: str) -> tuple[Examples, TrainingCounts]:
    """Return the training texts that have words and labels; all of them are counted."""
    if "train" not in corpus.splits or split_name == "train":
        raise DataError(
            f"{corpus.source}: peers are trained here and asked about other texts, so there must be a split 'train' "
            f"beside the one that is asked; it has {', '.join(corpus.splits)}, and {split_name!r} is asked"
        )
    split = corpus.splits["train"]
    if split.texts is None:
        raise DataError(f"{corpus.source}: peers learn from raw texts, but this data has features alone")
    labels, texts = relevant(split.labels), split.texts
    useful = [row for row in np.flatnonzero(np.diff(labels.indptr)).tolist() if texts[row].strip()]
    if not useful:
        raise DataError(f"{corpus.source}: no training text has a label, so there is nothing to learn from")
    training = TrainingCounts.of(split.labels, propensity=corpus.constants())
    return Examples([texts[row] for row in useful], labels[useful]), training
