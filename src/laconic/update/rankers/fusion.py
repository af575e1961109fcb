"""Change the labels of a fused ranker."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from laconic.models.fusion.ranker import FusedRanker
from laconic.training.run import Run
from laconic.update.rankers.additions import Additions
from laconic.update.rankers.fine_tune import NewTexts, fine_tune_ranker
from laconic.update.rankers.rankers import with_labels, without_labels

_PAIRS = 0.75  # fraction of training pairs; the higher, the more of the first ten places new labels have


@without_labels.register
def _(ranker: FusedRanker, kept: Int[Tensor, "kept"]) -> FusedRanker:
    base, near = without_labels(ranker.base, kept), without_labels(ranker.nearest, kept)
    trees = None if ranker.trees is None else without_labels(ranker.trees, kept)
    space = None if ranker.siamese is None else without_labels(ranker.siamese, kept)
    own = None if ranker.transformer is None else without_labels(ranker.transformer, kept)
    return ranker.of(base, near, ranker.frequency[kept.to(ranker.frequency.device)], trees, space, own).eval()


@with_labels.register
def _(ranker: FusedRanker, additions: Additions) -> FusedRanker:
    """Add labels to all channels; the combining network stays: it uses frequencies, words and ranks, not labels."""
    base, near = with_labels(ranker.base, additions), with_labels(ranker.nearest, additions)
    trees = None if ranker.trees is None else with_labels(ranker.trees, additions)
    space = None if ranker.siamese is None else with_labels(ranker.siamese, additions)
    known = functional.pad(ranker.frequency.expm1(), (0, additions.num_new))
    frequency = (known + torch.from_numpy(additions.examples.label_counts)).log1p().float()
    if space is not None:
        without = additions.examples.label_counts[additions.num_known :] == 0
        frequency[additions.num_known :][torch.from_numpy(without)] = usual_frequency(ranker.frequency)
    own = None if ranker.transformer is None else with_labels(ranker.transformer, additions)
    return ranker.of(base, near, frequency, trees, space, own).eval()


def usual_frequency(frequency: Float[Tensor, "labels"]) -> Float[Tensor, ""]:
    """Return the log frequency for labels of which only the text is known.

    Three quarters of all training pairs are of labels that are at most so frequent. A label's text hardly says how
    frequent the label is, and a frequency of 0 would make the network take a new label for one that no text has.
    """
    if not len(frequency):
        return frequency.new_zeros(())
    ordered = frequency.sort().values
    pairs = ordered.double().expm1().round().cumsum(0)
    return ordered[torch.searchsorted(pairs, _PAIRS * pairs[-1])]


@fine_tune_ranker.register
def _(ranker: FusedRanker, texts: NewTexts, run: Run) -> FusedRanker:
    trees = None if ranker.trees is None else fine_tune_ranker(ranker.trees, texts, run)
    base = fine_tune_ranker(ranker.base, texts, run)
    return ranker.of(base, ranker.nearest, ranker.frequency, trees, ranker.siamese, ranker.transformer)
