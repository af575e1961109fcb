"""What methods would cost on some data, from shapes alone, and what a model costs."""

from __future__ import annotations

from typing import Any

from laconic.data.describe import DataFacts
from laconic.errors import ConfigError, ModelError
from laconic.methods import astec, inceptionxml, inceptionxml_plus
from laconic.methods.costs import (
    CPU,
    GPU,
    Shape,
    gpu_memory,
    inception_cost,
    staged_memory,
    staged_seconds,
    training_memory,
    training_seconds,
)
from laconic.methods.decaf import recipe as decaf
from laconic.methods.decaf.costs import needs
from laconic.methods.inceptionxml_plus import HEADS
from laconic.methods.restore import restore_config
from laconic.storage.model_folder import SavedModel
from laconic.types import FIRST_WORD


def expected_costs(facts: DataFacts) -> dict[str, dict[str, Any]]:
    """Of every method's default model, by name; nothing where none can be trained."""
    first = next(iter(facts.splits.values()))
    if first.words is None or not facts.labels.labels or not first.texts:
        return {}
    texts, labels, usual = first.texts, facts.labels.labels, first.words.usual_tokens
    flat = inceptionxml.sized(inceptionxml.Config(), texts, usual)
    plus = inceptionxml_plus.sized(inceptionxml_plus.Config(), texts, labels, usual)
    words = first.words.vocabulary + FIRST_WORD
    shape = Shape(words=words, labels=labels, length=flat.length, dim=flat.embedding)
    clustered = Shape(
        words=words, labels=labels, length=plus.length, dim=plus.embedding, clusters=plus.clusters, top=plus.top
    )
    return {
        "inceptionxml": _expected(shape, texts, flat.epochs, flat.batch_size, min(flat.chunk, labels)),
        "inceptionxml+": _expected(clustered, texts, plus.epochs, plus.batch_size, 0),
        "astec": _expected_of_astec(words, labels, texts, usual, pairs=round(facts.labels.texts_per_label * labels)),
        "decaf": _expected_of_decaf(words, labels, texts, usual),
    }


def model_cost(model: SavedModel) -> dict[str, Any] | None:
    """What a finished model costs to answer one text; None where that is not known from its shapes."""
    tensors, config = model.tensors, restore_config(model)
    known = "encoder.word_attention.weight.matrix" in tensors and not hasattr(config, "reranker")
    plain = not getattr(config, "hidden", 0) and not getattr(config, "bias", False)
    if not known or not plain or getattr(config, "heads", HEADS[0]) != HEADS[0]:
        return None
    clusters = len(tensors["clusters.starts"]) - 1 if "clusters.starts" in tensors else 0
    top = min(getattr(config, "answer_top", 0) or clusters, clusters)
    try:
        words, dim = tensors["encoder.embedding.weight"].shape
        length, _ = tensors["encoder.word_attention.weight.matrix"].shape
        return _cost(Shape(words=words, labels=len(model.labels), length=length, dim=dim, clusters=clusters, top=top))
    except (KeyError, ValueError, ConfigError) as error:
        raise ModelError(f"the model's tensors are not those of its method: {error}") from None


def _expected(shape: Shape, texts: int, epochs: int, batch: int, chunk: int) -> dict[str, Any]:
    times = {
        name: training_seconds(shape, texts=texts, epochs=epochs, batch=batch, machine=machine)
        for name, machine in {"gpu": GPU, "cpu_core": CPU}.items()
    }
    memory = training_memory(shape, batch=batch, chunk=chunk)
    on_gpu = gpu_memory(shape, batch=batch)
    bytes_needed = {"training_bytes": memory, "gpu_bytes": on_gpu}
    return _cost(shape) | {"epochs": epochs, **bytes_needed, "training_seconds": times}


def _expected_of_astec(words: int, labels: int, texts: int, usual: int, pairs: int) -> dict[str, Any]:
    config = astec.sized(astec.Config(), texts, labels, usual, pairs)
    shape = astec.staged_shape(config, words, labels, texts)
    epochs, dim = (config.surrogate.epochs, config.extreme.epochs), config.embedding
    parameters = {"embeddings": words * dim, "transform": dim * (dim + 1), "classifier": labels * (dim + 1)}
    index = (labels + texts * shape.neighbours) * dim  # vectors that a text is compared with
    macs = config.length * dim + dim * dim + index + config.shortlist.size * dim
    return {
        "parameters": parameters,
        "gmacs": macs / 1e9,
        "bytes": 4 * (sum(parameters.values()) + index),
        "length": config.length,
        "epochs": sum(epochs),
        "training_bytes": staged_memory(shape),
        "training_seconds": {
            name: staged_seconds(shape, epochs=epochs, machine=machine)
            for name, machine in {"gpu": GPU, "cpu_core": CPU}.items()
        },
    }


def _expected_of_decaf(words: int, labels: int, texts: int, usual: int) -> dict[str, Any]:
    config = decaf.sized(decaf.Config(), texts, labels, usual)
    times = {
        name: needs(config, words, labels, texts, machine) for name, machine in {"gpu": GPU, "cpu_core": CPU}.items()
    }
    of_any = times["gpu"]
    return {
        "parameters": of_any.parameters,
        "gmacs": of_any.macs / 1e9,
        "bytes": 4 * sum(of_any.parameters.values()),
        "length": config.length,
        "epochs": config.epochs,
        "training_bytes": of_any.memory,
        "training_seconds": {name: needed.seconds for name, needed in times.items()},
    }


def _cost(shape: Shape) -> dict[str, Any]:
    cost = inception_cost(shape)
    return {"parameters": dict(cost.parameters), "gmacs": cost.gmacs, "bytes": cost.bytes, "length": shape.length}
