"""fastText with hierarchical softmax (Joulin et al. 2017): a bag of words over a tree of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile

from laconic.analysis.peers.features import SPLITTER
from laconic.analysis.peers.peer import Examples, Rank, ranked
from laconic.packed.engine.texts import Ranked

_LABEL = "__label__"


@dataclass(frozen=True, kw_only=True)
class FastText:
    """fastText's classifier."""

    name: str = "fastText, hierarchical softmax"
    module: str = "fasttext"
    install: str = "pip install fasttext-wheel"
    settings: Mapping[str, int] = field(default_factory=lambda: {"epoch": 25})  # its own 5 are too few for rare labels

    @property
    def how(self) -> str:
        settings = "".join(f", {name}={value}" for name, value in self.settings.items())
        return f"fasttext.train_supervised(words, loss='hs'{settings}); predict()"

    def train(self, examples: Examples, folder: Path, threads: int) -> None:
        from fasttext import train_supervised

        labels = [f"{_LABEL}{label}" for label in examples.labels.indices]
        with NamedTemporaryFile("w", dir=folder.parent, encoding="utf-8") as file:  # it learns from files alone
            for text, (first, last) in zip(examples.texts, pairwise(examples.labels.indptr), strict=True):
                file.write(f"{' '.join(labels[first:last])} {_line(text)}\n")
            file.flush()
            model = train_supervised(file.name, loss="hs", thread=threads, verbose=0, **self.settings)
        model.save_model(str(folder / "model.bin"))

    def open(self, folder: Path) -> Rank:
        from fasttext import load_model

        model = load_model(str(folder / "model.bin"))

        def rank(texts: Sequence[str], k: int) -> Ranked:
            # A list, also of one text: given a string, it calls numpy in a way that numpy 2 refuses.
            labels, scores = model.predict([_line(text) for text in texts], k)
            return ranked(map(_numbered, labels, scores), k)

        return rank


HIERARCHICAL = FastText()


def _line(text: str) -> str:
    """Write an example as fastText reads it, with words as in the other libraries' features."""
    return " ".join(SPLITTER.words(text))


def _numbered(labels: Sequence[str], scores: Sequence[float]) -> list[tuple[int, float]]:
    pairs = zip(labels, scores, strict=True)
    return [(int(label.removeprefix(_LABEL)), float(score)) for label, score in pairs]
