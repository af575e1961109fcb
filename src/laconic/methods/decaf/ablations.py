"""DECAF's ablation with nearest labels in place of module II (Table 5), and the terms of its Theorem 3.1.

With shortlist=nearest every label is a cluster of its own, and its row is the centroid of its texts' vectors. All else
is as with learnt clusters, so the two differ by their shortlists alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log

import torch
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn import functional

from laconic.data.dataset import Dataset
from laconic.methods.common import restore_module, seeded
from laconic.methods.decaf.config import Config
from laconic.methods.decaf.modules import Shortlister, Words, sum_of
from laconic.methods.deepxml import encode_all
from laconic.models.classifiers import LinearClassifier
from laconic.models.clustering import LabelTree
from laconic.models.encoders import SumEncoder
from laconic.models.layers import DocumentBlock
from laconic.models.rankers import CandidatesRanker
from laconic.models.shortlisters.centres import label_centres
from laconic.models.shortlisters.clusters import Clusters
from laconic.models.shortlisters.labels import NearestLabels
from laconic.training.run import Run


@torch.no_grad()
def nearest_labels(data: Dataset, words: Words, config: Config, run: Run) -> Shortlister:
    """Return a shortlister that ranks labels by the cosine of their centroid and a text's vector.

    A text's vector is ReLU(E x): the output of an untrained document block.
    """
    with seeded(config.seed):
        block = DocumentBlock(words.shape[1], dropout=0.0).to(run.device)
    vectors = block(encode_all(sum_of(words, config.length).to(run.device), data.inputs, run.device).to(run.device))
    units = functional.normalize(vectors, dim=1)
    centres, _ = label_centres(units, data.labels, more=0, frequent=1.0, seed=config.seed)
    with torch.device(run.device):
        classifier = LinearClassifier(words.shape[1], data.num_labels, transform=block)
    classifier.weight.copy_(centres)
    tree = LabelTree(order=torch.arange(data.num_labels), starts=torch.arange(data.num_labels + 1))
    return Shortlister(words, config.length, Clusters(classifier, tree).to(run.device).eval(), tree, None)


def restore_candidates(config: Config, tensors: Mapping[str, Tensor]) -> CandidatesRanker:
    """Restore a model of earlier versions, which searched nearest labels with the ranker's own vectors."""

    def make() -> CandidatesRanker:
        num_ids, dim = tensors["encoder.embedding.weight"].shape
        num_labels, _ = tensors["classifier.weight"].shape
        encoder = SumEncoder(num_ids=num_ids, length=config.length, embedding=dim)
        shortlister = NearestLabels.of_tensors(tensors, "shortlister", config.nearness, num_labels)
        if shortlister.centres.shape[1] != dim:
            raise ValueError(f"shortlister.centres are {shortlister.centres.shape[1]} wide, word vectors {dim}")
        classifier = LinearClassifier(dim, num_labels, transform=DocumentBlock(dim, dropout=0.0))
        return CandidatesRanker(encoder, shortlister, classifier, beta=0.0)

    ranker = restore_module("decaf", make, tensors, {name for name in tensors if name.startswith("shortlister.")})
    with torch.no_grad():
        return ranker.blended(1.0).eval()


def theorem_3_1(labels: csr_array, recall: float) -> dict[str, float]:
    """Return the terms of the paper's bound: up to a constant, s (1 − r) ln(1 / (s (1 − r))).

    It bounds how far training on shortlists leads from the best loss on all labels.
    """
    sparsity = int((labels.data != 0).sum()) / (labels.shape[0] * labels.shape[1])
    missed = sparsity * (1 - recall)
    return {"sparsity": sparsity, "recall": recall, "bound": missed * log(1 / missed) if missed else 0.0}
