"""The interface of a predictor, whether it runs a model folder with torch or a packed model without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from laconic.data.corpus import Corpus
from laconic.data.evaluation_texts import TrainedOn
from laconic.packed.folder import PackedModel
from laconic.predict.explain import Explained
from laconic.predict.prediction import Answer, Prediction

if TYPE_CHECKING:
    from laconic.evaluation.evaluate import Evaluation


@runtime_checkable
class TextPredictor(Protocol):
    """What the command line and the estimator use of a predictor."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return what is recorded about the model and its training."""

    @property
    def labels(self) -> Sized:
        """Return the labels that it knows."""

    @property
    def packed(self) -> PackedModel | None:
        """Return the packed model that it runs; None if it runs the model itself."""

    @property
    def trained_on(self) -> TrainedOn:
        """Return what is recorded about the training texts."""

    def predict(
        self,
        texts: Sequence[str],
        k: int = 5,
        *,
        allow: Iterable[str] | None = None,
        block: Iterable[str] | None = None,
    ) -> list[list[Prediction]]:
        """Return the best k labels of each text, best first: those in `allow` (None: all) without those in `block`."""

    def answer(
        self,
        texts: Sequence[str],
        k: int = 5,
        *,
        allow: Iterable[str] | None = None,
        block: Iterable[str] | None = None,
    ) -> list[Answer]:
        """Return the predictions of each text with the number of words that the model knows."""

    def explained(self, text: str, predictions: Sequence[Prediction]) -> list[Explained]:
        """Explain predictions by the text's words; only packed models can."""

    def known_words(self, texts: Sequence[str]) -> list[int]:
        """Count the words of each text that the model knows."""

    def text_of(self, label: str) -> str:
        """Return a label's own text; empty if it has none."""

    def evaluate(
        self,
        corpus: Corpus,
        split_name: str,
        on_batch: Callable[[int], None] = lambda done: None,
        *,
        shuffle: int | None = None,
    ) -> Evaluation:
        """Evaluate all metrics on a split of the data."""
