"""DECAF's costs: the size and arithmetic of a finished model, and memory and time of its training."""

from __future__ import annotations

from laconic.methods.costs import ROW_BYTES, Cost, Machine, TrainingCosts, bag_reading, with_warm_up
from laconic.methods.decaf.config import Config

_LABEL_WORDS = 8  # words of a label's text, usually


def model_cost(config: Config, words: int, labels: int) -> Cost:
    dim, blocks = config.embedding, 2 * config.embedding * (config.embedding + 3)
    tables = 1 if config.lite or config.given_vectors or not config.own_vectors else 2  # of word vectors
    rows = {"clusters": config.clusters, "classifier": labels}
    scored = {"clusters": config.clusters, "classifier": _scored(config, labels)}
    return Cost(
        parameters={"embeddings": tables * words * dim, "blocks": blocks}
        | {name: count * (dim + 1) for name, count in rows.items()},
        macs={"embeddings": tables * config.length * dim, "blocks": blocks}
        | {name: count * dim for name, count in scored.items()},
    )


def training_costs(config: Config, machine: Machine, *, words: int, labels: int, texts: int) -> TrainingCosts:
    """Estimate memory (parameters with gradients and moments, texts of both kinds, a batch's scores) and time."""
    dim, batch, scored = config.embedding, config.batch_size, _scored(config, labels)
    optimiser = config.ranker.optimiser
    own = ROW_BYTES[optimiser] + (4 if optimiser == "adam" else 2)  # a refinement vector, its state and its gradient
    memory = (16 * words + own * labels) * dim + 36 * labels * dim + 16 * labels * _LABEL_WORDS
    memory += 4 * texts * (2 * config.length + _beam(config)) + 12 * batch * max(config.clusters, scored)
    label_texts = 16 * labels * _LABEL_WORDS * dim / machine.bandwidth  # forward and backward

    def step(rows: int, products: int) -> float:
        arithmetic = 6 * dim * (products + rows * dim) / machine.flops
        moved = (28 * (words + rows) + 80 * rows) * dim / machine.bandwidth
        return arithmetic + moved + label_texts + machine.launch

    over_clusters = config.surrogate.epochs * (not config.given_vectors) + config.shortlister.epochs
    epochs = over_clusters * step(config.clusters, batch * config.clusters)
    epochs += config.ranker.epochs * step(labels, batch * scored)
    costs = TrainingCosts(memory, -(-texts // batch) * epochs)
    return with_warm_up(costs, config.warm_up, bag_reading(words, config), texts=texts, machine=machine)


def _beam(config: Config) -> int:
    """Return the clusters whose labels are scored; where they are still to be chosen, clusters^0.6."""
    return min(config.beam or round(config.clusters**0.6), config.clusters)


def _scored(config: Config, labels: int) -> int:
    return _beam(config) * -(-labels // config.clusters)
