"""Choose the texts that a model is evaluated on: a split, or the held-out part of its training file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, UInt64

from laconic.data.corpus import Corpus, Split
from laconic.data.holdout import Holdout
from laconic.data.sketch import Overlap, TextSketch
from laconic.errors import ConfigError, DataError
from laconic.units import counted

_SAME_FILE = 0.5  # fraction of a file's texts that a model was trained on, from which it is the file of its training
_NAMES = {"all": "all texts", "held-out": "held-out texts"}


class TrainedOn(NamedTuple):
    """What is known of the texts that a model was trained on."""

    sketch: TextSketch | None  # None: the model does not tell
    holdout: Holdout | None  # None: nothing was cut off

    @staticmethod
    def of(facts: Mapping[str, Any], sketch: TextSketch | None) -> TrainedOn:
        return TrainedOn(sketch, Holdout.of_facts(facts))

    def overlap(self, split: Split) -> Overlap | None:
        """Count the texts of a split that the model was trained on; None: unknown."""
        hashes = None if self.sketch is None else split.hashes()
        return None if hashes is None or self.sketch is None else self.sketch.overlap(hashes)

    def rule_for(self, hashes: UInt64[np.ndarray, "texts"]) -> Holdout | None:
        """Return the rule by which texts were held out, if the texts with these hashes are those of the training."""
        if self.holdout is None or self.sketch is None:
            return None
        return self.holdout if self.sketch.overlap(hashes).share >= _SAME_FILE else None


UNTOLD = TrainedOn(None, None)


@dataclass(frozen=True, kw_only=True)
class EvaluationTexts:
    """A split of a corpus, under the name that people know it by."""

    corpus: Corpus
    split: str  # in the corpus
    name: str  # "all" and "held-out" of a single file

    @property
    def texts(self) -> Split:
        return self.corpus.split(self.split)

    def __str__(self) -> str:
        return _NAMES.get(self.name, self.name)


def evaluation_texts(corpus: Corpus, split_name: str, models: Sequence[TrainedOn] = ()) -> EvaluationTexts:
    """Choose the texts to evaluate these models on.

    Data without such a split may be what a model was trained on: then its rule says which texts were held out. A single
    file is evaluated whole otherwise.
    """
    parted = corpus if split_name in corpus.splits else as_trained(corpus, models)
    if split_name in parted.splits:
        cut = split_name == "test" and parted.holdout is not None
        return EvaluationTexts(corpus=parted, split=split_name, name="held-out" if cut else split_name)
    if list(corpus.splits) == ["all"]:
        return EvaluationTexts(corpus=corpus, split="all", name="all")
    corpus.split(split_name)  # says which there are
    raise AssertionError


def as_trained(corpus: Corpus, models: Sequence[TrainedOn]) -> Corpus:
    """Split the data as it was for the training of these models; as it is, where it is not that data.

    Held out is what was held out from all of them.
    """
    whole = [] if "test" in corpus.splits else [name for name in ("all", "train") if name in corpus.splits]
    split = corpus.splits[whole[0]] if whole else None
    hashes = None if split is None else split.hashes()
    if split is None or hashes is None:
        return corpus
    rules = [rule for model in models if (rule := model.rule_for(hashes)) is not None]
    held = reduce(np.logical_and, [_held_out(split, rule) for rule in rules], np.ones(len(hashes), dtype=bool))
    return _parted(corpus, held, rules[0]) if rules and held.any() else corpus


def _held_out(split: Split, rule: Holdout) -> Bool[np.ndarray, "texts"]:
    """Return which texts a rule holds out, by their groups where it was made for groups."""
    by = split.held_out_by() if rule.group else split.hashes()
    assert by is not None
    return rule.held_out(by)


def cut_test(corpus: Corpus, fraction: float, seed: int = 0) -> Corpus:
    """Cut a test split off the data: about this fraction of its texts, whatever their order."""
    if "test" in corpus.splits:
        raise ConfigError(f"{corpus.source}: it has a test split, so no other one can be cut off; leave --test out")
    hashes = corpus.split("train").held_out_by()
    if hashes is None:
        raise DataError(f"{corpus.source}: there are neither texts nor features to hold out")
    rule = Holdout.of(hashes, fraction, seed, corpus.group)
    return corpus if rule is None else _parted(corpus, rule.held_out(hashes), rule)


def _parted(corpus: Corpus, held: np.ndarray, rule: Holdout) -> Corpus:
    split = corpus.split("train")
    others = {name: other for name, other in corpus.splits.items() if name not in ("all", "train")}
    train, test = (split.rows(np.flatnonzero(rows)) for rows in (~held, held))
    return replace(corpus, splits={"train": train, **others, "test": test}, holdout=rule)


def is_of_training(known: TrainedOn, split: Split, name: str) -> bool:
    """Return whether a model was trained on these texts; where it does not tell, their split's name decides."""
    seen = known.overlap(split)
    return name in ("train", "all") if seen is None else seen.substantial


def check_unseen(corpus: Corpus, split_name: str, known: TrainedOn) -> None:
    """Refuse texts many of which the model was trained on."""
    split = corpus.split(split_name)
    seen = known.overlap(split)
    if seen is not None and seen.substantial:
        raise DataError(
            f"{corpus.source}: {counted(len(split), 'text')} of {split_name}, {seen}; give texts that the model was "
            "not trained on"
        )
