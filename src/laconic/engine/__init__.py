"""The CPU forward pass over packed arrays; PARTS are the kinds of parts that a packed model may be made of."""

from __future__ import annotations

from laconic.engine.blended import Blended
from laconic.engine.buckets import Buckets
from laconic.engine.candidates import Candidates
from laconic.engine.cells import Cells
from laconic.engine.encoders import Given, Inception, Layered, Summed, Windows
from laconic.engine.fused import Fused
from laconic.engine.joined import Averaged, Reranked
from laconic.engine.near_labels import NearLabels
from laconic.engine.neighbours import Neighbours
from laconic.engine.pairs import Pairs
from laconic.engine.parts import Part
from laconic.engine.rows import Rows
from laconic.engine.search import Searched
from laconic.engine.shortlists import ClusterLabels, WordLabels
from laconic.engine.transforms import Layer, Unchanged
from laconic.engine.trees import Trees

_ENCODERS = (Given, Inception, Layered, Summed, Windows, Layer, Unchanged)
_SHORTLISTS = (NearLabels, ClusterLabels, WordLabels)
_RANKERS = (Searched, Candidates, Blended, Buckets, Averaged, Reranked, Neighbours, Trees, Fused)
PARTS: dict[str, type[Part]] = {
    kind.__name__: kind for kind in (*_ENCODERS, Rows, Cells, Pairs, *_SHORTLISTS, *_RANKERS)
}
