"""What a training of DECAF takes, from shapes alone: memory from above, time to a factor of a few."""

from __future__ import annotations

from dataclasses import dataclass, replace

from laconic.data.dataset import Dataset
from laconic.methods.costs import Machine, training_machine
from laconic.methods.decaf.config import Config
from laconic.training.run import Run

_LABEL_WORDS = 8  # that a label's text usually has


@dataclass(frozen=True, kw_only=True)
class Needs:
    memory: int  # bytes
    seconds: float
    parameters: dict[str, int]  # of a finished model
    macs: int  # of one answer


def needs(config: Config, words: int, labels: int, texts: int, machine: Machine) -> Needs:
    """Of a config with all its sizes; a beam that is still to be found is taken for clusters^0.6."""
    dim, clusters, batch = config.embedding, config.clusters, config.batch_size
    beam = min(config.beam or round(clusters**0.6), clusters)
    scored = beam * -(-labels // clusters)
    sets = 1 if config.lite or config.given_vectors or not config.own_vectors else 2  # of word vectors
    blocks = 2 * dim * (dim + 3)
    parameters = {
        "embeddings": sets * words * dim,
        "blocks": blocks,
        "clusters": clusters * (dim + 1),
        "classifier": labels * (dim + 1),
    }
    # Weight, gradient and moments; of every label's text nine numbers more a dimension, its words among them.
    memory = 16 * (words + labels) * dim + 36 * labels * dim + 16 * labels * _LABEL_WORDS
    memory += 4 * texts * (2 * config.length + beam) + 12 * batch * max(clusters, scored)
    return Needs(
        memory=memory,
        seconds=_seconds(config, words, labels, texts, scored, machine),
        parameters=parameters,
        macs=sets * config.length * dim + blocks + (clusters + scored) * dim,
    )


def _seconds(config: Config, words: int, labels: int, texts: int, scored: int, machine: Machine) -> float:
    dim, clusters, batch = config.embedding, config.clusters, config.batch_size
    texts_read = 16 * labels * _LABEL_WORDS * dim / machine.bandwidth  # words of all labels' texts, and back

    def step(rows: int, products: int) -> float:
        arithmetic = 6 * dim * (products + rows * dim) / machine.flops
        moved = (28 * (words + rows) + 80 * rows) * dim / machine.bandwidth
        return arithmetic + moved + texts_read + machine.launch

    meta, last = step(clusters, batch * clusters), step(labels, batch * scored)
    epochs = (config.surrogate.epochs * (not config.given_vectors) + config.shortlister.epochs, config.ranker.epochs)
    return -(-texts // batch) * (epochs[0] * meta + epochs[1] * last)


def announce(config: Config, data: Dataset, run: Run) -> None:
    machine = training_machine(run.device)

    def of(**changes: int) -> Needs:
        changed = replace(config, **changes)  # type: ignore[arg-type]  # all are whole numbers
        return needs(changed, data.inputs.shape[1], data.num_labels, len(data), machine)

    narrow = min(config.embedding, 128)
    remedies = {
        "--set embedding=128": of(embedding=narrow).memory,
        "--set embedding=64 and --set beam=50": of(embedding=min(narrow, 64), beam=min(config.beam or 50, 50)).memory,
    }
    run.announce(of().memory, of().seconds, remedies)
