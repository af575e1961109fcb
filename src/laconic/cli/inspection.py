"""The work of the verb `inspect`: describe data with the cost of training on it, or a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from laconic.analysis.plots import plot_label_frequencies, plot_lengths
from laconic.cli.data_tables import cost_table, facts_tables, reading_tables
from laconic.cli.model_tables import model_table, packed_table, sizes_table
from laconic.data.attributes import LabelAttributes
from laconic.data.corpus import Corpus
from laconic.data.dataset import label_counts
from laconic.data.describe import describe, text_lengths
from laconic.data.text import Splitter
from laconic.data.tokenizer import Tokenizer
from laconic.data.vectors import read_vectors
from laconic.data.vocabulary import VocabularyConfig
from laconic.methods.auto import Choice, choose, describe_situation
from laconic.methods.estimates import expected_costs, model_cost
from laconic.methods.wrappers.ensemble import ensemble_size, first_member
from laconic.packed.folder import open_packed
from laconic.predict.load import packed_of
from laconic.storage.manifest import PACKED, PACKED_MODEL, check_hashes
from laconic.storage.model_folder import read_model
from laconic.storage.sizes import bytes_of_parts
from laconic.system.files import bytes_in
from laconic.training.run import device_named


class Inspection(NamedTuple):
    """A description of data or of a model, for programs and for people."""

    facts: dict[str, Any]  # for those who want JSON
    shown: Sequence[Table | str]  # for people


def inspect_data(corpus: Corpus, *, length: int, vectors: Path | None, budget: float | None, device: str) -> Inspection:
    facts = describe(corpus, length=length)
    costs, choice = expected_costs(facts), _choice(corpus, budget, device)
    shown: list[Table | str] = [*facts_tables(facts), *reading_tables(facts), *([cost_table(costs)] if costs else [])]
    if choice is not None:
        shown.append(f"laconic train would choose {choice.why}")
    coverage = None if vectors is None else _coverage(vectors, corpus)
    if coverage is not None:
        shown.append(
            "{file}: {words:.1%} of the words have a vector, {occurrences:.1%} of their uses".format(**coverage)
        )
    chosen = None
    if choice is not None:
        chosen = {"method": choice.method, "seconds": round(choice.seconds, 1), "memory": choice.memory}
    return Inspection(asdict(facts) | {"costs": costs, "choice": chosen, "vectors": coverage}, shown)


def inspect_model(folder: Path, *, verify: bool) -> Inspection:
    if verify:
        check_hashes(folder)
    model = read_model(folder)
    cost = model_cost(first_member(model))
    if cost is not None:
        cost = _times(cost, ensemble_size(model))
    packed, place, parts = packed_of(folder), folder / PACKED, bytes_of_parts(folder)
    packed_parts = {} if packed is None else bytes_of_parts(place)
    answers = [] if packed is None else [packed_table(str(place), packed, bytes_in(place))]
    shown: list[Table | str] = [
        model_table(str(folder), model, cost),
        sizes_table(str(folder), parts),
        *answers,
        *([sizes_table(str(place), packed_parts)] if packed_parts else []),
        *["All files are intact (sha256)."] * verify,
    ]
    found = {"cost": cost, "packed": packed is not None, "kept_texts": 0 if packed is None else packed.num_kept}
    found |= {"parts": parts, "packed_parts": packed_parts}
    return Inspection({**model.facts, **found, **_attributes(model.labels.attributes)}, shown)


def inspect_packed(folder: Path, *, verify: bool) -> Inspection:
    if verify:
        check_hashes(folder, kind=PACKED_MODEL)
    packed, size = open_packed(folder), bytes_in(folder)
    facts = {name: fact for name, fact in packed.facts.items() if name != "ranker"}
    parts = bytes_of_parts(folder)
    shown: list[Table | str] = [packed_table(str(folder), packed, size), sizes_table(str(folder), parts)]
    shown += ["All files are intact (sha256)."] * verify
    found = {"bytes": size, "kept_texts": packed.num_kept, "parts": parts}
    return Inspection({**facts, **found, **_attributes(packed.label_attributes)}, shown)


def _attributes(attributes: LabelAttributes | None) -> dict[str, Any]:
    """Return the attributes of labels with their numbers of values and labels, if there are any."""
    return {} if attributes is None else {"label_attributes": attributes.summary()}


def _choice(corpus: Corpus, budget: float | None, device: str) -> Choice | None:
    """Return what training would choose here; None where there is nothing to train on."""
    name = "train" if "train" in corpus.splits else "all"
    if name not in corpus.splits or not corpus.splits[name].labels.nnz:
        return None
    gpu = device_named(device).type == "cuda"
    return choose(describe_situation(corpus, gpu=gpu, budget=budget, packing=True))


def plot_data(corpus: Corpus, folder: Path) -> None:
    """Draw text lengths and label frequencies of the training split."""
    training = next(iter(corpus.splits.values()))
    plot_label_frequencies(label_counts(training.labels), folder / "label-frequencies.png")
    if training.texts is not None:
        plot_lengths(text_lengths(training, Splitter()), folder / "sequence-lengths.png")


def _times(cost: Mapping[str, Any], members: int) -> dict[str, Any]:
    """Return the cost of training this many models."""
    parameters = {part: members * count for part, count in cost["parameters"].items()}
    return {**cost, "parameters": parameters, "gmacs": members * cost["gmacs"], "bytes": members * cost["bytes"]}


def _coverage(path: Path, corpus: Corpus) -> dict[str, Any]:
    tokenizer = Tokenizer.of(corpus.split("train").texts or (), Splitter(), VocabularyConfig())
    vectors = read_vectors(path, tokenizer.vocabulary)
    return {"file": path.name, "words": vectors.coverage, "occurrences": vectors.weighted_coverage}
