"""omikuji: label trees in Rust, after Parabel (Prabhu et al. 2018) or Bonsai (Khandagale et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile

from scipy.sparse import csr_array, csr_matrix

from laconic.analysis.peers.features import WORDS, Features
from laconic.analysis.peers.peer import Examples, Rank, ranked
from laconic.packed.engine.texts import Ranked


@dataclass(frozen=True, kw_only=True)
class Omikuji:
    """A label tree of omikuji."""

    name: str
    settings: Mapping[str, int | bool] = field(default_factory=dict)  # those that are not omikuji's own defaults
    module: str = "omikuji"
    install: str = "pip install omikuji"

    @property
    def how(self) -> str:
        settings = "".join(f", {name}={value}" for name, value in self.settings.items())
        return f"omikuji.Model.train_on_data({WORDS}{settings}); predict(beam_size=10)"

    def train(self, examples: Examples, folder: Path, threads: int) -> None:
        from omikuji import Model

        features = Features.of(examples.texts)
        features.write(folder)
        settings = Model.default_hyper_param()
        for name, value in self.settings.items():
            setattr(settings, name, value)
        with NamedTemporaryFile("w", dir=folder.parent, encoding="ascii") as file:  # it learns from files alone
            file.writelines(_lines(features.rows(examples.texts), examples.labels))
            file.flush()
            model = Model.train_on_data(file.name, settings, n_threads=threads)
        model.save(str(folder / "trees"))

    def open(self, folder: Path) -> Rank:
        from omikuji import Model

        features, model = Features.read(folder), Model.load(str(folder / "trees"))
        model.init_prediction_thread_pool(1)

        def rank(texts: Sequence[str], k: int) -> Ranked:
            rows = features.rows(texts)
            pairs = [*zip(rows.indices.tolist(), rows.data.tolist(), strict=True)]
            bounds = pairwise(rows.indptr.tolist())
            return ranked((model.predict(pairs[first:last], top_k=k) for first, last in bounds), k)

        return rank


PARABEL = Omikuji(name="omikuji, Parabel-like")
BONSAI = Omikuji(name="omikuji, Bonsai-like", settings={"cluster_balanced": False, "cluster_k": 100, "max_depth": 3})


def _lines(features: csr_matrix, labels: csr_array) -> Iterator[str]:
    """Write examples in the format of the Extreme Classification Repository."""
    yield f"{features.shape[0]} {features.shape[1]} {labels.shape[1]}\n"
    values = [f"{id}:{value:.6g}" for id, value in zip(features.indices, features.data, strict=True)]
    names = list(map(str, labels.indices))
    for (begin, end), (first, last) in zip(pairwise(features.indptr), pairwise(labels.indptr), strict=True):
        yield f"{','.join(names[first:last])} {' '.join(values[begin:end])}\n"
