"""siamese: texts and label texts in one learnt space; a text's labels are those whose own texts are nearest to it.

One encoder (models/encoders/unit.py, or a pre-trained transformer) reads both. It is trained by contrast: of the labels
drawn for a batch of texts, each text is to be nearest to its own. Later rounds add hard negatives, the wrong labels
that are nearest to a text (NGAME). Labels that no training text has can be found too, by their text alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from laconic.config import Bounds
from laconic.data.dataset import Dataset
from laconic.data.label_texts import with_known_words
from laconic.data.resident import Resident
from laconic.data.subwords import MOST_BUCKETS, grams_of
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import ConfigError, DataError
from laconic.evaluation.evaluate import batches, validation_figures
from laconic.evaluation.metrics.pairs import holds
from laconic.methods.common import (
    build_transformer,
    choose_batch_size,
    choose_epochs,
    choose_length,
    encoded,
    label_tokens,
    restore_module,
    seeded,
    start_encoder,
    usual_words,
)
from laconic.methods.config import NEURAL_BOUNDS, TRANSFORMER, MethodConfig, PretrainedConfig
from laconic.methods.costs import Machine, TrainingCosts, report_costs
from laconic.methods.result import Trained
from laconic.methods.transformer import encoder_plan
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import ENCODERS, Encoder, SpellingEncoder, UnitEncoder, UnitVectors
from laconic.models.encoders.unit import Spelling
from laconic.models.siamese_ranker import SiameseRanker, label_vectors
from laconic.training.loop import tf32_products
from laconic.training.run import Run
from laconic.training.tasks_siamese import Contrast
from laconic.types import FIRST_WORD, NO_LABEL

_MOST_GRAMS = 40  # of a word
_USUAL_GRAMS = 12
_SEARCH = 2.5  # operations for each number of a vector that a text is compared with
_USUAL = 2000  # texts that say how large scores are
_ALL_WORDS = 64  # that a space of another method reads: titles are shorter
_REMEDIES = ({"embedding": 64}, {"embedding": 64, "grams": 4096})


@dataclass(frozen=True, kw_only=True)
class Config(PretrainedConfig):
    """Settings of siamese."""

    bounds: ClassVar[Bounds] = {
        **NEURAL_BOUNDS,
        "grams": (0, MOST_BUCKETS),
        "temperature": (1e-3, 10),
        "correction": (-2, 2),
        "positives": (1, 100),
        "hard": (0, 100),
        "nearest": (1, 1000),
        "rounds": (1, 100),
    }

    batch_size: int = 0
    """Texts per training step, whose labels are each other's negatives. 0: 1,024, fewer for small data."""
    learning_rate: float = 0.005
    """Learning rate of Adam."""
    embedding: int = 256
    """Dimensions of the space."""
    dropout: float = 0.1
    """Probability that a word is left out of a text in training."""
    grams: int = 1 << 18
    """Most buckets for hashed character 3- and 4-grams of words, from which rare words learn. 0: whole words alone."""
    temperature: float = 0.03
    """Divisor of cosines in the softmax. Symbol: τ (NGAME)."""
    correction: float = 0.0
    """Weight of the log of a label's frequency in its logit in training: above 0, scores favour rare labels."""
    positives: int = 1
    """True labels of a text that are drawn in a step."""
    hard: int = 1
    """Hard negatives per text in a step. 0: the labels of a batch alone."""
    nearest: int = 20
    """Nearest wrong labels of a text among which hard negatives are drawn."""
    rounds: int = 3
    """Times that the hard negatives are found anew. The first stage has none."""
    vocabulary: VocabularyConfig = VocabularyConfig(sublinear=True)
    encoder: str = ""
    """Folder of a pre-trained transformer that encodes texts and label texts. Empty: words and character n-grams."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder in ENCODERS:
            raise ConfigError(
                f"encoder must be the folder of a pre-trained transformer for siamese, but is {self.encoder!r}; leave "
                "it out for siamese's own, of words and character n-grams"
            )
        if self.encoder and self.transformer.frozen:
            raise ConfigError("transformer.frozen leaves siamese nothing to learn: leave it out")


def train(data: Dataset, config: Config, run: Run) -> Trained:
    learn, held = data.split(config.validation, config.seed)
    config = with_sizes(config, learn)
    sizes = {"words": data.inputs.shape[1], "labels": data.num_labels, "texts": len(data)}
    report_costs(run, config, partial(training_costs, **sizes), _REMEDIES)
    return Trained(fit(learn, held, config, run, "siamese"), config)


def suits(data: Dataset) -> bool:
    """Return whether the data has what is learnt from: words, and labels with texts."""
    named = data.label_inputs is not None and with_known_words(data.label_inputs).any()
    return isinstance(data.inputs, csr_array) and bool(named)


def with_sizes(config: Config, data: Dataset) -> Config:
    """Return the config with a value wherever the data decides; refuse data without words or label texts."""
    if not isinstance(data.inputs, csr_array):
        raise DataError("siamese reads words, but this data has dense features; --method nearest would work")
    if not suits(data):
        raise DataError("siamese wants labels with texts, but this data has none; --method trees would work")
    return sized(config, len(data), usual_words(data.inputs))


def sized(config: Config, texts: int, usual: int) -> Config:
    """Return the config with a value wherever the numbers of texts and of their words decide."""
    return replace(
        config,
        epochs=choose_epochs(config.epochs, texts, 0.5),
        batch_size=choose_batch_size(config.batch_size, texts, 1024),
        length=choose_length(config.length, usual, encoder=config.encoder or "bag"),
    )


def training_costs(config: Config, machine: Machine, *, words: int, labels: int, texts: int) -> TrainingCosts:
    """Estimate memory, and the time of all steps and of the searches for hard negatives."""
    dim, batch = config.embedding, config.batch_size
    others = batch * (config.positives + config.hard)
    memory = (
        16 * (words + config.grams) * dim
        + 4 * labels * dim
        + 24 * batch * others
        + 4 * texts * (2 * config.length + config.nearest)
    )
    if config.encoder == TRANSFORMER:
        memory += 4 * 10 * config.transformer.layers * dim * config.length * (batch + others)
    seconds = stage_seconds(config, machine, words=words, labels=labels, texts=texts)
    return TrainingCosts(memory, sum(seconds.values()))


def stage_seconds(
    config: Config, machine: Machine, *, words: int, labels: int, texts: int, name: str = "siamese"
) -> dict[str, float]:
    """Estimate the time of each stage, by its name in a run, which begins with `name`."""
    dim, batch, found = config.embedding, config.batch_size, {}
    search = _SEARCH * texts * labels * dim / machine.flops
    for number, epochs in enumerate(_stages(config)):
        others = batch * (config.positives + config.hard * (number > 0))
        met = min(words, (batch + others) * config.length)
        step = 6 * batch * others * dim / machine.flops + machine.launch
        if config.encoder == TRANSFORMER:
            layers = config.transformer.layers * (4 * dim + 2 * config.transformer.inner) * dim
            step += 6 * layers * config.length * (batch + others) / machine.flops
        step += (28 * _USUAL_GRAMS * met * dim + 40 * batch * others) / machine.bandwidth
        found[f"{name}-{number}"] = epochs * -(-texts // batch) * step
        if number:
            found[f"{name}-negatives-{number}"] = search
    return found


def fit(data: Dataset, held: Dataset, config: Config, run: Run, name: str) -> SiameseRanker:
    """Train the encoder and return the ranker of all labels; `held` chooses the last stage's epoch, where there is any.

    Files of the run begin with `name`.
    """
    assert data.label_inputs is not None
    encoder = _started(data, config).to(run.device)
    task = Contrast(
        encoder,
        label_tokens(data, config.length),
        torch.from_numpy(np.log(np.maximum(data.label_counts, 1) / max(data.labels.nnz, 1)).astype(np.float32)),
        temperature=config.temperature,
        correction=config.correction,
        positives=config.positives,
        hard=config.hard,
        dropout=config.dropout,
    ).to(run.device)
    stages = _stages(config)
    for number, epochs in enumerate(stages):
        negatives = None
        if number:
            make = partial(_nearest_wrong, encoder, data, config, run.watcher.advanced)
            negatives = run.remember(f"{name}-negatives-{number}", make)["labels"]
        last = number == len(stages) - 1
        validate = (lambda: validation_figures(_ranker(encoder, data, config), held)) if last and len(held) else None
        resident = Resident.of(data, config.length, run.device, negatives)
        plan = config.plan(epochs=epochs, seed=config.seed + number, lazy=True, **encoder_plan(config))
        run.fit(f"{name}-{number}", task, resident, plan, validate=validate)
    return _ranker(encoder, data, config)


def space_config(width: int, config: MethodConfig) -> Config:
    """Return the settings of a space that serves another method; texts are not cut but in its training."""
    rounds = Config.rounds if config.fusion is None else config.fusion.rounds
    return Config(
        embedding=width,
        seed=config.seed,
        vocabulary=config.vocabulary,
        length=_ALL_WORDS,
        rounds=max(1, rounds),
        hard=Config.hard if rounds else 0,
    )


def learn_space(data: Dataset, config: Config, run: Run, name: str) -> SiameseRanker:
    """Train a space that serves another method, or take it from the run, where files of its training are removed."""
    # On a GPU, training takes time for every place of a word: it has no more of them than most texts have words.
    sized, nothing = with_sizes(replace(config, length=0), data), data.rows(np.arange(0))
    learnt = run.remember(
        f"{name}-space-{config.embedding}", lambda: fit(data, nothing, sized, run, f"{name}-siamese").state_dict()
    )
    run.forget(f"{name}-siamese-")
    return restore(config, learnt)


def restore(config: Config, tensors: Mapping[str, Tensor]) -> SiameseRanker:
    def make() -> SiameseRanker:
        rows, dim = tensors["classifier.weight"].shape
        encoder: Encoder
        if config.encoder == TRANSFORMER:
            encoder = UnitVectors(build_transformer(config, tensors["encoder.encoder.embedding.weight"].shape[0]))
        else:
            num_ids = tensors["encoder.embedding.weight"].shape[0]
            encoder = UnitEncoder(num_ids=num_ids, length=config.length, embedding=dim)
        return SiameseRanker(encoder, LinearClassifier(dim, rows))

    return restore_module("siamese", make, tensors)


def _stages(config: Config) -> list[int]:
    """Return the epochs of each stage: two fifths without hard negatives, the rest in rounds."""
    if not config.hard or config.epochs < 2:
        return [config.epochs]
    first = max(1, round(0.4 * config.epochs))
    rounds = min(config.rounds, config.epochs - first)
    return [first, *(len(part) for part in np.array_split(np.arange(config.epochs - first), rounds))]


def _started(data: Dataset, config: Config) -> Encoder:
    """Return the encoder as training starts with it."""
    with seeded(config.seed):
        if config.encoder == TRANSFORMER:
            transformer = build_transformer(config, data.inputs.shape[1])
            start_encoder(transformer, config, data)
            return UnitVectors(transformer)
        encoder = _spelling_encoder(data, config)
    start_encoder(encoder, config, data)
    return encoder


def _spelling_encoder(data: Dataset, config: Config) -> SpellingEncoder:
    letters = sum(map(len, data.words or ()))
    buckets = min(config.grams, 1 << (4 * letters).bit_length())  # fewer for little data: most would be empty
    return SpellingEncoder(
        num_ids=data.inputs.shape[1],
        length=config.length,
        embedding=config.embedding,
        spelling=_spelling(data, buckets),
        buckets=max(1, buckets),
    )


def _spelling(data: Dataset, buckets: int) -> Spelling:
    """Return the n-grams of all token ids, of a long word the first ones; ids that are no words have none."""
    counts, numbers = np.zeros(data.inputs.shape[1], dtype=np.int64), np.zeros(1, dtype=np.int32)
    if data.words is not None and buckets:
        grams = grams_of(data.words, buckets)
        lengths = np.diff(grams.starts)
        place = np.arange(len(grams.buckets)) - np.repeat(grams.starts[:-1], lengths)
        numbers = np.append(grams.buckets[place < _MOST_GRAMS], 0).astype(np.int32)  # never empty
        counts[FIRST_WORD : FIRST_WORD + len(lengths)] = np.minimum(lengths, _MOST_GRAMS)
    return Spelling(torch.from_numpy(np.concatenate([[0], counts.cumsum()])), torch.from_numpy(numbers))


def _ranker(encoder: Encoder, data: Dataset, config: Config) -> SiameseRanker:
    """Return the ranker of the encoder as it is now."""
    assert data.label_inputs is not None
    folded = encoder.folded() if isinstance(encoder, SpellingEncoder) else encoder.eval()
    device = next(folded.parameters()).device
    has_text = with_known_words(data.label_inputs)
    own = encoded(folded, data.label_inputs, device)
    few = np.random.default_rng(config.seed).permutation(len(data))[:_USUAL]
    texts = encoded(folded, data.inputs if not has_text.all() else data.inputs[:0], device)
    vectors = label_vectors(own, has_text, texts, data.labels if len(texts) else data.labels[:0])
    return SiameseRanker.of(folded, vectors, config.temperature, encoded(folded, data.inputs[few], device))


@torch.no_grad()
def _nearest_wrong(
    encoder: Encoder,
    data: Dataset,
    config: Config,
    advance: Callable[[float], None] = lambda fraction: None,
) -> dict[str, Tensor]:
    """Return the nearest labels of each text that are neither true nor left out; NO_LABEL where there are fewer."""
    ranker = _ranker(encoder, data, config)
    device, found = ranker.labels.weight.device, []
    for part, inputs in batches(data.inputs, device):
        with tf32_products():  # which are a little less nearest does not matter
            labels = ranker.rank(inputs, min(2 * config.nearest, data.num_labels)).labels.cpu().numpy()
        apart = holds(data.labels[part], labels)
        if data.leave_out is not None:
            apart |= holds(data.leave_out[part], labels)
        order = np.argsort(apart, axis=1, kind="stable")[:, : config.nearest]
        wrong = np.where(np.take_along_axis(apart, order, 1), NO_LABEL, np.take_along_axis(labels, order, 1))
        found.append(torch.from_numpy(wrong.astype(np.int32)))
        advance(min(1.0, part.stop / len(data)))
    return {"labels": torch.cat(found)}
