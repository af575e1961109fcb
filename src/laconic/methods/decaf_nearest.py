"""DECAF without its own shortlister: a text is scored with the labels whose centroids are nearest to it (Table 5).

There is no module II. Word vectors go on learning with the rows, so labels are looked up anew when that is done.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from laconic.classifiers import LinearClassifier
from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.encoders import SumEncoder
from laconic.evaluate import shortlist_recall, validation_figures
from laconic.layers import DocumentBlock
from laconic.methods.decaf_modules import Words, label_rows, sum_of
from laconic.methods.decaf_settings import Config, plan_of
from laconic.methods.deepxml import encoded, shortlists_of
from laconic.methods.parts import filled
from laconic.methods.trained import Trained
from laconic.rankers import CandidatesRanker
from laconic.run import Run
from laconic.shortlisters.labels import NearestLabels
from laconic.tasks import Shortlisted


def train_by_nearest(learn: Dataset, held: Dataset, words: Words, config: Config, run: Run) -> Trained:
    """Modules III and IV on shortlists of nearest labels; `held` chooses the epoch."""
    encoder = sum_of(words, config.length).to(run.device)

    def nearest() -> tuple[NearestLabels, Tensor]:
        vectors = encoded(encoder, learn.inputs, run.device)
        return NearestLabels.of(vectors.to(run.device), learn.labels, config.nearness, config.seed), vectors

    def shortlists() -> dict[str, Tensor]:
        shortlister, vectors = nearest()
        return {"labels": shortlists_of(shortlister, learn, vectors)}

    negatives = run.remember("negatives", shortlists)["labels"]
    classifier = label_rows(learn, encoder, words, config)
    task = Shortlisted(encoder, classifier, random=0).to(run.device)

    def ranker() -> CandidatesRanker:
        found = CandidatesRanker(encoder, nearest()[0], classifier.materialised(), beta=1.0)
        return found.to(run.device).eval()

    resident = Resident.of(learn, config.length, run.device, negatives)
    validate = (lambda: validation_figures(ranker(), held)) if len(held) else None
    state = run.fit("ranker", task, resident, plan_of(config, config.ranker), validate=validate)
    done = ranker()
    facts: dict[str, object] = {"best_epoch": state.best_epoch, "epochs": state.history}
    if len(held):
        facts["shortlist_recall"] = shortlist_recall(done, held.inputs, held.labels)
    return Trained(done, config, {"training": facts})


def restore_by_nearest(config: Config, tensors: Mapping[str, Tensor]) -> CandidatesRanker:
    def make() -> CandidatesRanker:
        num_ids, dim = tensors["encoder.embedding.weight"].shape
        num_labels, _ = tensors["classifier.weight"].shape
        encoder = SumEncoder(num_ids=num_ids, length=config.length, embedding=dim)
        shortlister = NearestLabels.of_tensors(tensors, "shortlister", config.nearness, num_labels)
        if shortlister.centres.shape[1] != dim:
            raise ValueError(f"shortlister.centres are {shortlister.centres.shape[1]} wide, word vectors {dim}")
        classifier = LinearClassifier(dim, num_labels, transform=DocumentBlock(dim, dropout=0.0))
        return CandidatesRanker(encoder, shortlister, classifier, beta=0.0)

    ranker = filled("decaf", make, tensors, {name for name in tensors if name.startswith("shortlister.")})
    with torch.no_grad():
        return ranker.blended(1.0).eval()
