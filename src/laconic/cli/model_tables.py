"""Tables that describe a model, or a packed one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from laconic.cli.tables import attribute_rows, plain_table
from laconic.data.attributes import LabelAttributes
from laconic.data.vocabulary import Vocabulary
from laconic.packed.folder import PackedModel
from laconic.predict.packing_cost import Cost
from laconic.storage.card import SHOWN, fused_channels, score_rows, theorem_rows
from laconic.storage.model_folder import SavedModel
from laconic.units import counted, human_bytes, plural


def model_table(name: str, model: SavedModel, cost: Mapping[str, Any] | None) -> Table:
    facts, sizes = model.facts, model.facts["sizes"]
    table = plain_table(name)
    table.add_row("method", facts["method"])
    if reranker := facts["config"].get("reranker"):
        table.add_row("re-ranker", f"{reranker.get('encoder')}, of the best {reranker.get('size')} labels")
    if extra := facts["config"].get("extra_texts"):
        table.add_row("labels' own texts", f"trained on, others above a fraction of {extra.get('threshold')}")
    if fusion := facts["config"].get("fusion"):
        table.add_row("fused with", fused_channels(fusion))
    if "ensemble" in facts:
        table.add_row("members", f"{facts['ensemble']}, whose scores are averaged")
    if weights := facts.get("class_weight"):
        table.add_row("class weights", weights if isinstance(weights, str) else f"of {counted(len(weights), 'label')}")
    table.add_row("trained on", f"{facts['data']['name']}: {counted(sizes['texts'], 'text')}")
    table.add_row("labels", f"{len(model.labels):,}")
    _add_attributes(table, model.labels.attributes)
    table.add_row("words", _words(model.vocabulary))
    table.add_row("tensors", human_bytes(sum(tensor.nbytes for tensor in model.tensors.values())))
    if cost is not None:
        for part, count in cost["parameters"].items():
            table.add_row(f"parameters, {part}", f"{count:,}")
        table.add_row("one text", f"{cost['gmacs']:.4f} GMACs at {counted(cost['length'], 'word')}")
    for metric in SHOWN:
        if metric in facts.get("metrics", {}).get("metrics", {}):
            table.add_row(f"{metric} ({facts['metrics']['split']})", f"{facts['metrics']['metrics'][metric]:.1f}")
    for name, value in (theorem_rows(facts) | score_rows(facts)).items():
        table.add_row(name, value)
    table.add_row("made", facts["created"])
    return table


def packed_table(name: str, packed: PackedModel, size: int) -> Table:
    facts, table = packed.facts, plain_table(name)
    table.add_row("packed", facts["method"])
    table.add_row("labels", f"{len(packed.labels):,}")
    _add_attributes(table, packed.label_attributes)
    table.add_row("words", _words(packed.vocabulary))
    table.add_row(
        "training texts",
        f"{packed.num_kept:,} {plural(packed.num_kept, 'is', 'are')} kept" if packed.num_kept else "are not kept",
    )
    table.add_row("files", human_bytes(size))
    for name, value in (packing_rows(facts) | score_rows(facts)).items():
        table.add_row(name, value)
    table.add_row("model made", facts["created"])
    return table


def sizes_table(name: str, parts: Mapping[str, int]) -> Table:
    """Show what takes the room in a folder."""
    table, whole = plain_table(f"{name}: {human_bytes(sum(parts.values()))}"), max(1, sum(parts.values()))
    table.add_column(justify="right")
    for part, size in parts.items():
        table.add_row(part, human_bytes(size), f"{100 * size / whole:.0f} %")
    return table


def _add_attributes(table: Table, attributes: LabelAttributes | None) -> None:
    for name, values in attribute_rows({} if attributes is None else attributes.summary()).items():
        table.add_row(name, values)


def packing_rows(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the measured cost of packing; nothing if it was not measured."""
    cost = Cost.of_facts(facts.get("packing"))
    if cost is None:
        return {}
    rows = {"of the model's best five": f"{cost.found:.2f} % on {cost.words}"}
    if cost.precision is not None:
        rows["P@5"] = f"{cost.precision.after:.2f} (model: {cost.precision.before:.2f})"
    return rows


def _words(vocabulary: Vocabulary | None) -> str:
    return "none: it reads features" if vocabulary is None else f"{len(vocabulary.words):,}"
