"""Estimate what methods would cost on some data, and what a finished model costs per text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from laconic.data.describe import DataFacts
from laconic.errors import ConfigError, ModelError
from laconic.methods import astec, inceptionxml, inceptionxml_plus
from laconic.methods.costs import (
    CPU,
    GPU,
    Cost,
    Machine,
    Shape,
    TrainingCosts,
    gpu_memory,
    inception_cost,
    training_memory,
    training_seconds,
)
from laconic.methods.decaf import config as decaf
from laconic.methods.decaf.costs import model_cost as decaf_cost
from laconic.methods.decaf.costs import training_costs
from laconic.methods.flat import with_sizes
from laconic.methods.inception_ablations import HEADS
from laconic.methods.restore import restore_config
from laconic.storage.model_folder import SavedModel
from laconic.types import FIRST_WORD


def expected_costs(facts: DataFacts) -> dict[str, dict[str, Any]]:
    """Estimate the costs of methods with their default settings, by name; empty where none can be trained."""
    first = next(iter(facts.splits.values()))
    if first.words is None or not facts.labels.labels or not first.texts:
        return {}
    texts, labels, usual = first.texts, facts.labels.labels, first.words.usual_tokens
    flat = with_sizes(inceptionxml.Config(), texts, usual)
    plus = inceptionxml_plus.with_sizes(inceptionxml_plus.Config(), texts, labels, usual)
    words = first.words.vocabulary + FIRST_WORD
    shape = inceptionxml.shape_of(flat, words, labels)
    clustered = inceptionxml_plus.shape_of(plus, words, labels)
    return {
        "inceptionxml": _expected(shape, texts, flat.epochs, flat.batch_size, min(flat.chunk, labels)),
        "inceptionxml+": _expected(clustered, texts, plus.epochs, plus.batch_size, 0),
        "astec": _expected_of_astec(words, labels, texts, usual, pairs=round(facts.labels.texts_per_label * labels)),
        "decaf": _expected_of_decaf(words, labels, texts, usual),
    }


def model_cost(model: SavedModel) -> dict[str, Any] | None:
    """Return the cost of predicting one text; None where it cannot be derived from the model's shapes."""
    tensors, config = model.tensors, restore_config(model)
    known = "encoder.word_attention.weight.matrix" in tensors and config.reranker is None
    plain = not getattr(config, "hidden", 0) and not getattr(config, "bias", False)
    if not known or not plain or getattr(config, "heads", HEADS[0]) != HEADS[0]:
        return None
    clusters = len(tensors["clusters.starts"]) - 1 if "clusters.starts" in tensors else 0
    top = min(getattr(config, "answer_top", 0) or clusters, clusters)
    try:
        words, dim = tensors["encoder.embedding.weight"].shape
        length, _ = tensors["encoder.word_attention.weight.matrix"].shape
        shape = Shape(words=words, labels=len(model.labels), length=length, dim=dim, clusters=clusters, top=top)
    except (KeyError, ValueError, ConfigError) as error:
        raise ModelError(f"the model's tensors are not those of its method: {error}") from None
    return _cost(inception_cost(shape), length)


def _expected(shape: Shape, texts: int, epochs: int, batch: int, chunk: int) -> dict[str, Any]:
    memory = training_memory(shape, batch=batch, chunk=chunk)

    def costs(machine: Machine) -> TrainingCosts:
        seconds = training_seconds(shape, texts=texts, epochs=epochs, batch=batch, machine=machine)
        return TrainingCosts(memory, seconds)

    model = _cost(inception_cost(shape), shape.length)
    return {**model, **_training(epochs, costs), "gpu_bytes": gpu_memory(shape, batch=batch)}


def _expected_of_astec(words: int, labels: int, texts: int, usual: int, pairs: int) -> dict[str, Any]:
    config = astec.with_sizes(astec.Config(), texts, labels, usual, pairs)
    dim = config.embedding
    parameters = {"embeddings": words * dim, "transform": dim * (dim + 1), "classifier": labels * (dim + 1)}
    index = (labels + texts * astec.has_neighbours(config)) * dim  # vectors that a text is compared with
    macs = config.length * dim + dim * dim + index + config.shortlist.size * dim
    return {
        "parameters": parameters,
        "gmacs": macs / 1e9,
        "bytes": 4 * (sum(parameters.values()) + index),
        "length": config.length,
        **_training(config.epochs, partial(astec.training_costs, config, words=words, labels=labels, texts=texts)),
    }


def _expected_of_decaf(words: int, labels: int, texts: int, usual: int) -> dict[str, Any]:
    config = decaf.with_sizes(decaf.Config(), texts, labels, usual)
    costs = partial(training_costs, config, words=words, labels=labels, texts=texts)
    return {**_cost(decaf_cost(config, words, labels), config.length), **_training(config.epochs, costs)}


def _training(epochs: int, costs: Callable[[Machine], TrainingCosts]) -> dict[str, Any]:
    seconds = {name: costs(machine).seconds for name, machine in {"gpu": GPU, "cpu_core": CPU}.items()}
    return {"epochs": epochs, "training_bytes": costs(CPU).memory, "training_seconds": seconds}


def _cost(cost: Cost, length: int) -> dict[str, Any]:
    return {"parameters": dict(cost.parameters), "gmacs": cost.gmacs, "bytes": cost.bytes, "length": length}
