"""DECAF's modules, one function each, and the rows of label texts that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor, nn

from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.data.shards import Shard
from laconic.data.vocabulary import bags
from laconic.evaluation.evaluate import validation_figures
from laconic.methods.common import clusters_of_labels, frequencies, remember_tree, seeded, start_encoder
from laconic.methods.decaf.config import Config, Module, plan_of, probed_clusters, ranker_plan
from laconic.methods.deepxml import encode_all
from laconic.methods.warm_up import warm_up
from laconic.models.classifiers import LabelText, LinearClassifier
from laconic.models.classifiers.label_text import FixedTexts, Texts
from laconic.models.clustering import LabelTree, cluster_vectors, texts_of_labels
from laconic.models.clustering.groups import of_tree
from laconic.models.encoders import Encoder, Identity, SumEncoder
from laconic.models.layers import DocumentBlock
from laconic.models.rankers import ShortlistRanker
from laconic.models.shortlisters.clusters import Clusters, label_shard
from laconic.system.ranks import ALONE, Ranks
from laconic.training.loop import TrainState
from laconic.training.run import Run
from laconic.training.tasks import AllLabels, PickedClusters

_ROWS = ("weight", "bias")  # tensors of a classifier that have a row for each label
CHUNK = 65_536  # clusters scored at a time
Words = Float[Tensor, "ids dim"]


class Shortlister(NamedTuple):
    """The result of module II."""

    words: Words
    length: int  # words read per text
    clusters: Clusters  # whose classifier reads sums of these word vectors
    tree: LabelTree
    state: TrainState | None  # None: nothing was trained


def learn_words(data: Dataset, config: Config, run: Run) -> tuple[Words, TrainState | None]:
    """Train module I: word vectors that make a text similar to the texts of its labels' clusters."""
    encoder = _initial_words(data, config).to(run.device)
    if config.given_vectors:
        return encoder.embedding.weight.detach(), None
    warm_up("warm-up", encoder, data, config.warm_up, config, run)
    make_tree = partial(clusters_of_labels, data, config.clusters, config.clustering, config.seed)
    tree = remember_tree(run, "surrogate-tree", make_tree)
    grouped = data.relabelled(of_tree(tree))
    texts = _cluster_texts(data, tree, config)
    rows = None if texts is None else _texts(texts, encoder, encoder.embedding.weight)
    free = None if rows is not None else _random_rows(tree.num_clusters, config)
    classifier = _classifier(rows, free, config, config.surrogate, bias=config.prior)
    if config.prior:
        classifier.start_from(frequencies(grouped))
    task = AllLabels(encoder, classifier, dropout=0.0, chunk=CHUNK).to(run.device)
    resident = Resident.of(grouped, config.length, run.device)
    state = run.fit("surrogate", task, resident, plan_of(config, config.surrogate))
    return encoder.embedding.weight.detach(), state


def learn_shortlister(data: Dataset, words: Words, config: Config, run: Run) -> Shortlister:
    """Train module II: clusters of labels by the word vectors of their texts, and a row for each."""
    tree = remember_tree(run, "shortlister-tree", lambda: _tree_by_words(data, words, config))
    grouped = data.relabelled(of_tree(tree))
    encoder, seen = _reader(grouped, words, config, run)
    texts = _cluster_texts(data, tree, config)
    start = None if not config.refinement else _start(texts, Shard.whole(tree.num_clusters), words, config)
    apart = texts is not None and config.cluster_text == "apart"
    own = _placed_texts(data, tree, config) if apart else texts
    rows = None if own is None else _texts(own, encoder, words)
    starts = tree.starts if apart else None
    classifier = _classifier(rows, start, config, config.shortlister, bias=config.bias, starts=starts)
    if config.prior and config.bias:
        classifier.start_from(frequencies(grouped))
    task = AllLabels(encoder, classifier, dropout=0.0, chunk=CHUNK).to(run.device)
    resident = Resident.of(seen, config.length, run.device)
    state = run.fit("shortlister", task, resident, plan_of(config, config.shortlister))
    learnt = encoder.embedding.weight.detach() if isinstance(encoder, SumEncoder) else words
    clusters = Clusters(classifier.materialised(), tree).to(run.device).eval()
    return Shortlister(learnt, config.length, clusters, tree, state)


def learn_ranker(
    data: Dataset,
    held: Dataset,
    shortlister: Shortlister,
    picks: Int[Tensor, "texts beam"],
    config: Config,
    run: Run,
) -> tuple[ShortlistRanker, TrainState]:
    """Train modules III and IV; `held` chooses the epoch, and where it is empty the last is kept.

    Of several ranks, each has a range of clusters with their labels.
    """
    tree = shortlister.tree
    clusters = Shard.even(run.ranks, tree.num_clusters, "cluster")
    labels = label_shard(clusters, tree.starts)
    placed = data.renumbered(tree.places().numpy())  # inside, a cluster is a range of labels
    encoder, seen = _reader(placed, shortlister.words, config, run)
    classifier = label_rows(placed, encoder, shortlister.words, config, labels)
    task = PickedClusters(encoder, classifier, tree.starts, missing=config.missing, clusters=clusters).to(run.device)

    def ranker() -> ShortlistRanker:
        words = encoder.embedding.weight if isinstance(encoder, SumEncoder) else None
        return finish(shortlister, words, classifier.materialised(), config, run.ranks)

    resident = Resident.of(seen, config.length, run.device, clusters.numbered(picks), shard=labels)
    validate = (lambda: validation_figures(ranker(), held)) if len(held) else None
    state = run.fit("ranker", task, resident, ranker_plan(config), validate=validate)
    return ranker(), state


def label_rows(data: Dataset, encoder: Encoder, words: Words, config: Config, shard: Shard | None = None) -> LabelText:
    """Build module III: every label's row starts from its text. With a shard, it has the rows of its labels."""
    shard = shard or Shard.whole(data.num_labels)
    every = _label_texts(data, config)
    texts = None if every is None else every[shard.own]
    start = None if not config.refinement else _start(texts, shard, words, config)
    rows = None if texts is None else _texts(texts, encoder, words)
    classifier = _classifier(rows, start, config, config.ranker, bias=config.bias, shard=shard)
    if config.prior and config.bias:
        classifier.start_from(frequencies(data))
    return classifier


@torch.no_grad()
def finish(
    shortlister: Shortlister, words: Words | None, classifier: LinearClassifier, config: Config, ranks: Ranks = ALONE
) -> ShortlistRanker:
    """Return the ranker for prediction: rows alone, without label texts. `words` are its own vectors, if it has any.

    Of several ranks, each has the rows of its clusters and of their labels.
    """
    own = Shard.even(ranks, shortlister.tree.num_clusters, "cluster").own
    of_shard = {f"classifier.{name}": shortlister.clusters.classifier.state_dict()[name][own] for name in _ROWS}
    of_clusters = shortlister.clusters.classifier.transform if config.own_vectors else classifier.transform
    first = [shortlister.words] * (config.own_vectors or words is None)
    table = torch.cat([*first, *([] if words is None else [words])], dim=1)
    parts: dict[str, Mapping[str, Tensor]] = {
        "encoder.embedding.": {"weight": table},
        "clusters.": {**shortlister.clusters.state_dict(), **of_shard},
        "clusters.classifier.transform.": {key: one.clone() for key, one in of_clusters.state_dict().items()},
        "classifier.": classifier.state_dict(),
    }
    tensors = {name + key: tensor.detach() for name, part in parts.items() for key, tensor in part.items()}
    with torch.device("meta"):
        ranker = build(config, tensors, ranks)
    ranker.load_state_dict(tensors, assign=True)
    return ranker.eval()


def build(config: Config, tensors: Mapping[str, Tensor], ranks: Ranks = ALONE) -> ShortlistRanker:
    """Build a ranker that fits these tensors. Of two tables of word vectors, side by side, each head reads its own."""
    tree = LabelTree(order=tensors["clusters.order"], starts=tensors["clusters.starts"])
    num_ids, width = tensors["encoder.embedding.weight"].shape
    num_labels, dim = tensors["classifier.weight"].shape
    clusters = Shard.even(ranks, tree.num_clusters, "cluster")
    labels = label_shard(clusters, tree.starts)
    if num_labels != len(labels) or width not in (dim, 2 * dim):
        raise ValueError(
            f"{num_labels} rows of {dim} numbers do not fit {len(labels)} labels and word vectors of {width}"
        )
    heads = [
        LinearClassifier(dim, shard.total, transform=DocumentBlock(dim, dropout=0.0, first=first), shard=shard)
        for shard, first in ((clusters, 0), (labels, width - dim))
    ]
    encoder = SumEncoder(num_ids=num_ids, length=config.length, embedding=width)
    top = probed_clusters(config, tree.num_clusters, config.answer_beam or config.beam) or tree.num_clusters
    return ShortlistRanker(encoder, Clusters(heads[0], tree), heads[1], top=top, product=True)


def sum_of(words: Words, length: int) -> SumEncoder:
    with torch.device("meta"):
        encoder = SumEncoder(num_ids=len(words), length=length, embedding=words.shape[1])
    encoder.embedding.weight = nn.Parameter(words.clone())
    return encoder


def _initial_words(data: Dataset, config: Config) -> SumEncoder:
    with seeded(config.seed):
        encoder = SumEncoder(num_ids=data.inputs.shape[1], length=config.length, embedding=config.embedding)
    start_encoder(encoder, config, data)
    return encoder


def _reader(data: Dataset, words: Words, config: Config, run: Run) -> tuple[Encoder, Dataset]:
    """Return an encoder that starts with these word vectors, and its data; frozen vectors are summed once per text."""
    encoder = sum_of(words, config.length).to(run.device)
    if not (config.lite or config.given_vectors):
        return encoder, data
    return Identity(encoder.dim), replace(data, inputs=encode_all(encoder, data.inputs, run.device).numpy())


def _tree_by_words(data: Dataset, words: Words, config: Config) -> LabelTree:
    """Cluster labels by the sums, over a label's texts, of the texts' word vectors."""
    table = words.cpu().numpy()
    centroids = texts_of_labels(data) @ (bags(data.inputs) @ table)
    return cluster_vectors(torch.from_numpy(centroids).to(words.device), config.clusters, config.seed)


def _label_texts(data: Dataset, config: Config) -> csr_array | None:
    """Return label texts as bags of words of length 1; None where there are none or they are not used."""
    return None if data.label_inputs is None or not config.label_text else bags(data.label_inputs)


def _placed_texts(data: Dataset, tree: LabelTree, config: Config) -> csr_array | None:
    texts = _label_texts(data, config)
    return None if texts is None else texts[tree.order.numpy()]


def _cluster_texts(data: Dataset, tree: LabelTree, config: Config) -> csr_array | None:
    """Return the sum of label texts of every cluster; normalised to length 1 where they are taken together."""
    texts = _label_texts(data, config)
    if texts is None:
        return None
    summed = csr_array(of_tree(tree).T @ texts)
    if config.cluster_text == "together":
        norms = np.sqrt(summed.power(2).sum(axis=1))
        summed.data /= np.repeat(np.where(norms == 0, 1, norms), np.diff(summed.indptr)).astype(np.float32)
    return summed


def _texts(texts: csr_array, encoder: Encoder, words: Words) -> Texts | FixedTexts:
    if isinstance(encoder, SumEncoder):
        return Texts(texts, encoder.embedding)
    return FixedTexts(_sums(texts, words))


def _sums(texts: csr_array, words: Words) -> Float[Tensor, "texts dim"]:
    return torch.from_numpy(texts @ words.cpu().numpy())


def _start(texts: csr_array | None, shard: Shard, words: Words, config: Config) -> Float[Tensor, "rows dim"]:
    """Return the initial refinement vectors of a shard: sums of its texts' word vectors, or random ones."""
    if texts is None or config.start == "random":
        return _random_rows(shard.total, config)[shard.own]
    return _sums(texts, words)


def _random_rows(rows: int, config: Config) -> Float[Tensor, "rows dim"]:
    with seeded(config.seed):
        return nn.init.kaiming_uniform_(torch.empty(rows, config.embedding))


def _classifier(
    texts: Texts | FixedTexts | None,
    refinement: Float[Tensor, "rows dim"] | None,
    config: Config,
    module: Module,
    *,
    bias: bool,
    starts: Int[Tensor, "bounds"] | None = None,
    shard: Shard | None = None,
) -> LabelText:
    with seeded(config.seed):
        transform = DocumentBlock(config.embedding, dropout=module.dropout)
        return LabelText(texts, refinement, transform, dropout=module.dropout, bias=bias, starts=starts, shard=shard)
