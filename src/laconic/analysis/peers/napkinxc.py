"""napkinXC's probabilistic label tree (Jasinska-Kobus et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from laconic.analysis.peers.features import WORDS, Features
from laconic.analysis.peers.peer import Examples, Rank, ranked
from laconic.packed.engine.texts import Ranked


@dataclass(frozen=True, kw_only=True)
class NapkinXC:
    """napkinXC's PLT."""

    name: str = "napkinXC, PLT"
    module: str = "napkinxc"
    install: str = "pip install napkinxc"
    how: str = f"napkinxc.models.PLT(folder, seed=0).fit({WORDS}, labels); predict_proba()"

    def train(self, examples: Examples, folder: Path, threads: int) -> None:
        from napkinxc.models import PLT

        features = Features.of(examples.texts)
        features.write(folder)
        model = PLT(str(folder / "tree"), threads=threads, seed=0)
        model.fit(features.rows(examples.texts), csr_matrix(examples.labels, dtype=np.float32))

    def open(self, folder: Path) -> Rank:
        from napkinxc.models import PLT

        features, model = Features.read(folder), PLT(str(folder / "tree"), threads=1)
        model.load()

        def rank(texts: Sequence[str], k: int) -> Ranked:
            return ranked(model.predict_proba(features.rows(texts), top_k=k), k)

        return rank


LABEL_TREE = NapkinXC()
