"""PECOS's XR-Linear: a label tree of linear rankers (Yu et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse import csr_array, csr_matrix

from laconic.analysis.peers.features import WORDS, Features
from laconic.analysis.peers.peer import Examples, Rank, ranked
from laconic.packed.engine.texts import Ranked


@dataclass(frozen=True, kw_only=True)
class Pecos:
    """PECOS's XR-Linear."""

    name: str = "PECOS, XR-Linear"
    module: str = "pecos"
    install: str = "pip install --no-deps libpecos"  # what else it asks for is for transformers
    how: str = f"pecos XLinearModel.train({WORDS}, C=Indexer.gen(LabelEmbeddingFactory.create(...))); predict()"

    def train(self, examples: Examples, folder: Path, threads: int) -> None:
        _make_it_run_with_numpy_2()
        from pecos.xmc import Indexer, LabelEmbeddingFactory
        from pecos.xmc.xlinear.model import XLinearModel

        features = Features.of(examples.texts)
        features.write(folder)
        rows, labels = features.rows(examples.texts), csr_matrix(examples.labels, dtype=np.float32)
        clusters = Indexer.gen(LabelEmbeddingFactory.create(labels, rows), threads=threads)
        XLinearModel.train(rows, labels, C=clusters, threads=threads).save(str(folder / "tree"))

    def open(self, folder: Path) -> Rank:
        _make_it_run_with_numpy_2()
        from pecos.xmc.xlinear.model import XLinearModel

        features, model = Features.read(folder), XLinearModel.load(str(folder / "tree"), is_predict_only=True)

        def rank(texts: Sequence[str], k: int) -> Ranked:
            return _ranked(model.predict(features.rows(texts), only_topk=k, threads=1), k)

        return rank


XR_LINEAR = Pecos()


class _Numpy1:
    """numpy, with the `copy=False` of version 1: copy only where it cannot be avoided."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def array(values: Any, dtype: Any = None, copy: bool = True) -> Any:
        return np.array(values, dtype=dtype) if copy else np.asarray(values, dtype=dtype)


def _make_it_run_with_numpy_2() -> None:
    """Write into PECOS what numpy 2 and scipy 1.14 took away, for libpecos 1.2 was written before both."""
    if not hasattr(scipy.sparse.sputils, "get_index_dtype"):
        scipy.sparse.sputils.get_index_dtype = scipy.sparse.get_index_dtype
    from pecos.utils import smat_util

    smat_util.np = _Numpy1()


def _ranked(scores: csr_array | csr_matrix, k: int) -> Ranked:
    rows = []
    for first, last in zip(scores.indptr[:-1], scores.indptr[1:], strict=True):
        pairs = zip(scores.indices[first:last].tolist(), scores.data[first:last].tolist(), strict=True)
        rows.append(sorted(pairs, key=lambda pair: -pair[1]))
    return ranked(rows, k)
