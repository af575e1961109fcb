"""The CPU inference engine over packed arrays; PARTS lists the parts that a packed model may consist of."""

from __future__ import annotations

from laconic.packed.engine.blend import Blended
from laconic.packed.engine.buckets import Buckets
from laconic.packed.engine.candidates import Candidates
from laconic.packed.engine.cells import Cells
from laconic.packed.engine.composite import Averaged, Reranked
from laconic.packed.engine.encoders import Given, Inception, Layered, Summed, Unit, Windows
from laconic.packed.engine.fusion import Fused, TreeOrder
from laconic.packed.engine.near_labels import NearLabels
from laconic.packed.engine.neighbours import Neighbours
from laconic.packed.engine.nibble_rows import NibbleRows
from laconic.packed.engine.pairs import Pairs
from laconic.packed.engine.parts import Part
from laconic.packed.engine.rows import Rows
from laconic.packed.engine.search import Searched
from laconic.packed.engine.shortlists import ClusterLabels, WordLabels
from laconic.packed.engine.space_labels import SpaceLabels
from laconic.packed.engine.transformer import Pieces, Transformer
from laconic.packed.engine.transforms import Layer, Unchanged
from laconic.packed.engine.trees import Trees

_ENCODERS = (Given, Inception, Layered, Summed, Unit, Windows, Transformer, Pieces, Layer, Unchanged)
_SHORTLISTS = (NearLabels, ClusterLabels, WordLabels, SpaceLabels)
_RANKERS = (Searched, Candidates, Blended, Buckets, Averaged, Reranked, Neighbours, Trees, Fused)
PARTS: dict[str, type[Part]] = {
    kind.__name__: kind for kind in (*_ENCODERS, Rows, NibbleRows, Cells, Pairs, TreeOrder, *_SHORTLISTS, *_RANKERS)
}
