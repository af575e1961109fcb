"""Texts in, label names and scores out, from a model folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from laconic.checkpoint import SavedModel, read_model
from laconic.config import Settings
from laconic.data.corpus import Corpus
from laconic.data.dataset import Rows
from laconic.data.prepare import input_rows
from laconic.data.tokenizer import Tokenizer, shuffled
from laconic.errors import ConfigError, DataError, ModelError
from laconic.evaluate import Evaluation, Truth, evaluate, places_needed, rank_all, truth_in_numbers_of
from laconic.methods import restore_config, restore_ranker, with_settings
from laconic.metrics import Propensity, TrainingCounts
from laconic.rankers import Ranker
from laconic.run import device_named
from laconic.sweeping import Place, Point, sweep
from laconic.types import NO_LABEL, Inputs, Ranking, Tokens

_FEW = 1000  # labels that are scored one by one, or ranked beyond k, without a second thought
_SCORED_AT_ONCE = 1 << 16  # pairs of text and label; a classifier gathers a row of weights for each
_RANKED_AT_ONCE = 1 << 20  # pairs of text and label


class Prediction(NamedTuple):
    label: str
    score: float


class Predictor:
    """A finished model, ready to answer."""

    def __init__(self, model: SavedModel, device: str = "auto") -> None:
        self.facts, self.labels = model.facts, model.labels
        self._ranker = restore_ranker(model, device_named(device))
        if self._ranker.num_labels != len(model.labels):
            raise ModelError(f"the model ranks {self._ranker.num_labels} labels, but names {len(model.labels)}")
        if model.vocabulary is not None and self._ranker.num_ids not in (0, model.vocabulary.num_ids):
            raise ModelError(f"the model knows {self._ranker.num_ids} token ids, but has {model.vocabulary.num_ids}")
        config = restore_config(model)
        self._tokenizer = None if model.vocabulary is None else Tokenizer(config.text, model.vocabulary)
        self._label_texts = dict(zip(model.labels.names, model.labels.texts or (), strict=False))
        self._training = _training_counts(model)

    @staticmethod
    def open(
        folder: Path | str, *, device: str = "auto", verify: bool = False, settings: Settings | None = None
    ) -> Predictor:
        """`settings` overrule the model's own, for this once: how it answers, not what it has learnt."""
        model = read_model(Path(folder), verify=verify)
        return Predictor(model if not settings else with_settings(model, settings), device)

    def predict(
        self,
        texts: Sequence[str],
        k: int = 5,
        *,
        allow: Iterable[str] | None = None,
        block: Iterable[str] | None = None,
    ) -> list[list[Prediction]]:
        """The best k labels of each text, best first: of those in `allow` (None: all) without those in `block`."""
        if self._tokenizer is None:
            raise DataError("this model was trained on features, not on texts; `laconic evaluate` reads feature files")
        if k < 1:
            raise ConfigError(f"k must be 1 or more, but is {k}")
        rows = self._tokenizer.rows(texts)
        if allow is None and block is None:
            return self._named(rank_all(self._ranker, rows, min(k, len(self.labels))))
        permitted = self._permitted(allow, block)
        count = int(permitted.sum())
        if not count:
            return [[] for _ in texts]
        return self._named(rank_all(RankerAmong(self._ranker, permitted), rows, min(k, count)))

    def text_of(self, label: str) -> str:
        """What a label says of itself, where it says more than its name."""
        return self._label_texts.get(label, "")

    def evaluate(
        self,
        corpus: Corpus,
        split_name: str,
        on_batch: Callable[[int], None] = lambda done: None,
        *,
        shuffle: int | None = None,
    ) -> Evaluation:
        """Every metric on a split of the data, which may number its labels in its own way.

        `shuffle` is a seed: words come in another order, to see how much of it a model needs.
        """
        rows, truth = self._judged(corpus, split_name)
        if shuffle is not None:
            rows = self._shuffled(rows, shuffle)
        return evaluate(rank_all(self._ranker, rows, places_needed(truth), on_batch), truth)

    def sweep(self, corpus: Corpus, split_name: str, places: Sequence[Place] = ()) -> list[Point]:
        """What the model would be worth with its dial at each of these places, or all over it."""
        return sweep(self._ranker, *self._judged(corpus, split_name), places)

    def _judged(self, corpus: Corpus, split_name: str) -> tuple[Rows, Truth]:
        """A split as the model reads it, and what is true of it in the model's numbers."""
        split = corpus.split(split_name)
        names = corpus.labels.names
        truth = truth_in_numbers_of(self.labels.names, names, split.labels, split.leave_out, self._training)
        rows = input_rows(split, self._tokenizer)
        self._check_inputs(rows)
        return rows, truth

    def _shuffled(self, rows: Rows, seed: int) -> csr_array:
        if self._tokenizer is None or not isinstance(rows, csr_array):
            raise DataError("the words of features cannot be shuffled: they have no order")
        return shuffled(rows, seed)

    def _permitted(self, allow: Iterable[str] | None, block: Iterable[str] | None) -> Bool[Tensor, "labels"]:
        permitted = torch.full((len(self.labels),), allow is None)
        if allow is not None:
            permitted[self._numbers_of("allow", allow)] = True
        if block is not None:
            permitted[self._numbers_of("block", block)] = False
        return permitted

    def _numbers_of(self, argument: str, names: Iterable[str]) -> Int[Tensor, "n"]:
        if isinstance(names, str):
            raise ConfigError(f"{argument} must be a list of label names, but is one string: {names!r}")
        names = list(names)
        unknown = [name for name in names if name not in self._number]
        if unknown:
            shown = ", ".join(map(repr, unknown[:5])) + (f" and {len(unknown) - 5:,} more" if unknown[5:] else "")
            raise ConfigError(f"{argument} names labels that the model does not have: {shown}")
        return torch.tensor([self._number[name] for name in names], dtype=torch.int64)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.labels.names)}

    def _check_inputs(self, rows: Rows) -> None:
        wanted = self.facts["inputs"], self.facts["sizes"]["inputs"]
        kind = "text" if self._tokenizer else "sparse" if isinstance(rows, csr_array) else "dense"
        if (kind, rows.shape[1]) != wanted:
            raise DataError(
                f"the model reads {wanted[1]} {wanted[0]} inputs, but this data has {rows.shape[1]} {kind} ones"
            )

    def _named(self, ranking: Ranking) -> list[list[Prediction]]:
        names = self.labels.names
        return [
            [Prediction(names[label], score) for label, score in zip(*row, strict=True) if label != NO_LABEL]
            for row in zip(ranking.labels.tolist(), ranking.scores.tolist(), strict=True)
        ]


class RankerAmong(Ranker):
    """Ranks as another ranker does, but no label that is not permitted; k is at most the number of those that are."""

    def __init__(self, ranker: Ranker, permitted: Bool[Tensor, "labels"]) -> None:
        super().__init__()
        self.ranker, self.permitted, self.num_labels = ranker, permitted, ranker.num_labels

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        permitted = int(self.permitted.sum())
        forbidden = self.num_labels - permitted
        if permitted <= min(forbidden, _FEW):
            return self._of_scores(inputs, k)
        return self._of_rankings(inputs, k, k + min(forbidden, _FEW))

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        return self.ranker.score(inputs, labels)

    def _of_scores(self, inputs: Inputs, k: int) -> Ranking:
        """Scores all that is permitted, which also finds labels that no shortlist would have."""
        numbers, parts = self.permitted.nonzero().flatten(), []
        for part in _parts(inputs, _SCORED_AT_ONCE // len(numbers)):
            labels = numbers.to(part[0].device).repeat(_size(part), 1)
            scores, order = self.ranker.score(part, labels).sort(dim=1, descending=True, stable=True)
            parts.append(Ranking(labels.gather(1, order[:, :k]), scores[:, :k]))
        return _joined(parts)

    def _of_rankings(self, inputs: Inputs, k: int, width: int) -> Ranking:
        """Ranks more than k labels and drops what is not permitted; where fewer than k are left, ranks more still."""
        width, parts = min(width, self.num_labels), []
        for part in _parts(inputs, _RANKED_AT_ONCE // width):
            labels, scores = self.ranker.rank(part, width)
            kept = self.permitted.to(labels.device)[labels] & (labels != NO_LABEL)
            first = kept.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :k]
            best = Ranking(labels.masked_fill(~kept, NO_LABEL).gather(1, first), scores.gather(1, first))
            short = (best.labels == NO_LABEL).any(1)
            if width < self.num_labels and short.any():
                best.labels[short], best.scores[short] = self._of_rankings(_rows(part, short), k, 8 * width)
            parts.append(best)
        return _joined(parts)


def _parts(inputs: Inputs, size: int) -> Iterator[Inputs]:
    for first in range(0, _size(inputs), max(size, 1)):
        yield _rows(inputs, slice(first, first + max(size, 1)))


def _size(inputs: Inputs) -> int:
    return len(inputs.ids if isinstance(inputs, Tokens) else inputs)


def _rows(inputs: Inputs, rows: slice | Bool[Tensor, "batch"]) -> Inputs:
    return Tokens(*(part[rows] for part in inputs)) if isinstance(inputs, Tokens) else inputs[rows]


def _joined(parts: Sequence[Ranking]) -> Ranking:
    return Ranking(torch.cat([part.labels for part in parts]), torch.cat([part.scores for part in parts]))


def scored(model: SavedModel, corpus: Corpus, split_name: str, device: str) -> tuple[SavedModel, Evaluation]:
    """A model that knows its own figures on a split, and the figures."""
    evaluation = Predictor(model, device).evaluate(corpus, split_name)
    figures = {"split": split_name, "metrics": evaluation.metrics, "intervals": evaluation.intervals}
    return replace(model, facts={**model.facts, "metrics": figures}), evaluation


def _training_counts(model: SavedModel) -> TrainingCounts:
    match model.facts:
        case {
            "inputs": str(),
            "sizes": {"texts": int(texts), "inputs": int()},
            "propensity": {"a": float(a), "b": float(b)},
        }:
            return TrainingCounts(per_label=model.label_counts, texts=texts, propensity=Propensity(a=a, b=b))
    raise ModelError(
        "model.json lacks the number of training texts or the propensity's constants; copy the model again"
    )
