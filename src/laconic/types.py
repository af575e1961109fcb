"""Values that every package uses. Axis words: batch, length, k (ranked labels), p (positives), dim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtyping import Float, Int

if TYPE_CHECKING:
    from torch import Tensor

PAD = 0  # token id after the last word of a text
UNKNOWN = 1  # token id of a word that the vocabulary does not have
FIRST_WORD = 2  # token id of the vocabulary's first word
NO_LABEL = -1  # ragged rows of labels end in it


class Tokens(NamedTuple):
    """Texts as word ids in reading order, PAD at the end; weights add up, per word, to the text's tf-idf."""

    ids: Int[Tensor, "batch length"]
    """Word ids; PAD after the last word."""
    weights: Float[Tensor, "batch length"]
    """Weights of the words, which add up, per word, to the text's tf-idf."""


if TYPE_CHECKING:
    Inputs = Tokens | Float[Tensor, "batch dim"]  # dense features and cached vectors are inputs too
else:

    def __getattr__(name: str) -> Any:
        """Build the type of inputs on request: packed models answer without torch."""
        if name == "Inputs":
            from torch import Tensor

            return Tokens | Float[Tensor, "batch dim"]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Ranking(NamedTuple):
    """Labels best first, with their scores: a shortlist or a prediction. Short rows end in NO_LABEL."""

    labels: Int[Tensor, "batch k"]
    """Label numbers, best first; NO_LABEL after the last label."""
    scores: Float[Tensor, "batch k"]
    """Scores of these labels."""


class Batch(NamedTuple):
    """Texts to learn from, in fixed shapes: rows of positives end in NO_LABEL."""

    inputs: Inputs
    """The texts, as tokens or dense vectors."""
    positives: Int[Tensor, "batch p"]
    """True labels of each text; NO_LABEL after the last."""
    targets: Float[Tensor, "batch p"] | None = None
    """How true each positive is. None: all of them wholly."""
    weights: Float[Tensor, "batch"] | None = None
    """How much each text counts. None: all alike."""
    negatives: Int[Tensor, "batch n"] | None = None
    """Labels that are easily mistaken for the positives, and some of the positives."""
    left_out: Int[Tensor, "batch q"] | None = None
    """Labels that are neither true nor false of a text."""
