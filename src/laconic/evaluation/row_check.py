"""Check that rows are such as a model was trained on. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laconic.data.dataset import Rows
from laconic.errors import DataError
from laconic.storage.facts import ModelFacts
from laconic.system.sparse import csr_array


def check_rows(rows: Rows, facts: Mapping[str, Any], *, reads_texts: bool) -> None:
    """Refuse rows of another kind or width than those that the model was trained on."""
    about = ModelFacts(facts)
    wanted = about.inputs, about.sizes["inputs"]
    kind = "text" if reads_texts else "sparse" if isinstance(rows, csr_array) else "dense"
    if (kind, rows.shape[1]) != wanted:
        raise DataError(
            f"the model reads {wanted[1]} {wanted[0]} inputs, but this data has {rows.shape[1]} {kind} ones"
        )
