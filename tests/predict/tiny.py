"""The smallest packed model there can be: a weight for every pair of token and label, and some tokens to know."""

from dataclasses import dataclass

import numpy as np

from laconic.data.hashes import text_hashes
from laconic.data.sketch import TextSketch
from laconic.data.text import Splitter
from laconic.data.tokenizer import Tokenizer
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import ModelError
from laconic.kernels.checks import check_array, check_finite
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.engine.texts import Inputs, Ranked, Texts
from laconic.packed.folder import PackedModel
from laconic.types import NO_LABEL

KNOWN = ["red rose in a garden", "white rose", "blue sea", "deep blue ocean", "red sea red"]
NAMES = ["flower", "water", "red\nthings", "größe", "", "sea", "l6", "l7", "l8", "l9", "l10", "l11"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Weights(PackedRanker):
    """Ranks by the sum of what a text's tokens, or features, are worth to each label; finds only `found` labels."""

    weights: np.ndarray  # float32, tokens × labels
    found: int

    def __post_init__(self) -> None:
        check_array(self.weights, "weights", np.float32, (None, None))
        check_finite(self.weights, "weights")

    @property
    def num_labels(self) -> int:
        return self.weights.shape[1]

    def all_scores(self, inputs: Inputs) -> np.ndarray:
        if not isinstance(inputs, Texts):
            return inputs @ self.weights
        if len(inputs.ids) and int(inputs.ids.max()) >= len(self.weights):
            raise ModelError("there is no such token")
        parts = [inputs.part(text, text + 1) for text in range(inputs.size)]
        with np.errstate(over="ignore", invalid="ignore"):  # a file that was tampered with may have huge numbers
            scores = [(self.weights[one.ids] * one.weights[:, None]).sum(0) for one in parts]
        return np.array(scores, dtype=np.float32).reshape(len(parts), self.num_labels)

    def rank(self, inputs: Inputs, k: int) -> Ranked:
        scores = self.all_scores(inputs)
        best = (-scores[:, : self.found]).argsort(axis=1, kind="stable")[:, :k]
        missing = ((0, 0), (0, k - best.shape[1]))
        return Ranked(
            np.pad(best, missing, constant_values=NO_LABEL),
            np.pad(np.take_along_axis(scores, best, 1), missing).astype(np.float32),
        )

    def score(self, inputs: Inputs, labels: np.ndarray) -> np.ndarray:
        scores = np.take_along_axis(self.all_scores(inputs), labels.clip(0), 1)
        return np.where(labels == NO_LABEL, 0, scores).astype(np.float32)

    def with_beam(self, beam: int) -> "Weights":
        return self

    def exact(self) -> "Weights":
        return self


KINDS = {"Weights": Weights}


def facts(inputs="text", width=0):
    return {
        "laconic": "0",
        "method": "nearest",
        "inputs": inputs,
        "sizes": {"labels": len(NAMES), "inputs": width},
        "created": "today",
        "packing": {"agreement": 0.999},
    }


def packed(config=VocabularyConfig(), splitter=Splitter(), found=len(NAMES)):  # noqa: B008 - they are frozen
    """A model of texts."""
    vocabulary = Tokenizer.of(KNOWN, splitter, config).vocabulary
    return PackedModel(
        facts=facts(width=vocabulary.num_ids),
        ranker=ranker(vocabulary.num_ids, found),
        labels=NAMES,
        label_texts=[f"about {name}" for name in NAMES],
        splitter=splitter,
        vocabulary=vocabulary,
        sketch=TextSketch.of(text_hashes(["a red rose", "a blue sea"])),
    )


def packed_features(width=4):
    """A model of dense features."""
    return PackedModel(facts=facts("dense", width), ranker=ranker(width, len(NAMES)), labels=NAMES, vocabulary=None)


def ranker(tokens, found):
    weights = np.random.default_rng(0).normal(size=(tokens, len(NAMES))).astype(np.float32)
    return Weights(weights=weights, found=found)
