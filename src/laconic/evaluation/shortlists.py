"""Measure shortlists: how many true labels they contain."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array

from laconic.data.dataset import Rows
from laconic.evaluation.evaluate import batches, device_of
from laconic.models.rankers import CandidatesRanker, ShortlistRanker
from laconic.types import NO_LABEL


@torch.inference_mode()
def shortlist_figures(ranker: ShortlistRanker, rows: Rows, labels: csr_array) -> dict[str, float]:
    """Return two percentages: texts whose best cluster has a true label, and true labels that are scored.

    Labels that the model does not have are beyond its reach and are not counted.
    """
    first_right, recall, texts = 0.0, 0.0, 0
    for which, inputs in batches(rows, device_of(ranker)):
        part = labels[which]
        text, label = part.nonzero()
        known = label < ranker.num_labels
        at = torch.from_numpy(text[known].astype(np.int64))
        clusters = ranker.clusters.of_places(ranker.places(torch.from_numpy(label[known].astype(np.int64)))).cpu()
        picked = ranker.picked(inputs).cpu()
        true = torch.zeros(part.shape[0], ranker.clusters.shard.total, dtype=torch.bool)
        true[at, clusters] = True
        opened = torch.zeros_like(true).scatter_(1, picked, True)
        counts, found = (torch.zeros(part.shape[0]) for _ in range(2))
        counts.index_add_(0, at, torch.ones(len(at)))
        found.index_add_(0, at, opened[at, clusters].float())
        recall += float((found / counts.clamp(min=1)).sum())
        first_right += float(true.gather(1, picked[:, :1]).sum())
        texts += int((counts > 0).sum())
    return {"cluster P@1": 100 * first_right / max(texts, 1), "shortlist recall": 100 * recall / max(texts, 1)}


@torch.inference_mode()
def shortlist_recall(ranker: CandidatesRanker, rows: Rows, labels: csr_array, size: int = 0) -> float:
    """Return the percentage of a text's true labels in its shortlist, the mean over texts that have any."""
    recall, texts = 0.0, 0
    for which, inputs in batches(rows, device_of(ranker)):
        found = ranker.shortlister(inputs, ranker.encoder(inputs), size or ranker.shortlister.size).labels.cpu().numpy()
        part = labels[which]
        text, place = np.nonzero(found != NO_LABEL)
        known = found[text, place] < part.shape[1]
        listed = csr_array((np.ones(known.sum()), (text[known], found[text, place][known])), shape=part.shape)
        counts = np.diff(part.indptr)
        recall += float((listed.multiply(part != 0).sum(axis=1)[counts > 0] / counts[counts > 0]).sum())
        texts += int((counts > 0).sum())
    return 100 * recall / max(texts, 1)
