"""What training minimises: a batch in, a loss out."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from laconic.classifiers import Classifier, LinearClassifier
from laconic.encoders import Encoder
from laconic.kernels.shortlist import Shortlist
from laconic.losses import all_labels_loss, shortlist_loss
from laconic.shortlisters.clusters import Clusters, joined
from laconic.types import NO_LABEL, Batch, Inputs


class Task(nn.Module, ABC):
    tables: frozenset[str] = frozenset()  # parameters with a row for each word or label, of which a step uses some

    def rows(self) -> frozenset[str]:
        """Parameters that are rows of labels or clusters, each learnt for itself."""
        linear = [name for name, part in self.named_modules() if isinstance(part, LinearClassifier)]
        return frozenset(f"{name}.weight" for name in linear)

    @abstractmethod
    def forward(self, batch: Batch, progress: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """The loss; `progress` is the share of the training that is done."""

    @abstractmethod
    def encode(self, inputs: Inputs, progress: Float[Tensor, ""]) -> Float[Tensor, "heads batch dim"]:
        """The part of `forward` that is worth compiling: what each head multiplies its rows with."""


class AllLabels(Task):
    """Every text against every label (InceptionXML, section 4.3)."""

    tables = frozenset({"encoder.embedding.weight"})

    def __init__(
        self,
        encoder: Encoder,
        classifier: Classifier,
        *,
        dropout: float,
        chunk: int,
        precision: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.encoder, self.classifier = encoder, classifier
        self.dropout = nn.Dropout(dropout)
        self.chunk, self.precision = chunk, precision

    def forward(self, batch: Batch, progress: Float[Tensor, ""]) -> Float[Tensor, ""]:
        rows, biases = _all_rows(self.classifier)
        assert biases is not None
        with torch.autocast(rows.device.type, self.precision, enabled=self.precision != torch.float32):
            (vectors,) = self.encode(batch.inputs, progress)
        batch = _leaving_out(batch, vectors.float(), rows, biases)
        return all_labels_loss(vectors.float(), rows, biases, batch, chunk=self.chunk, precision=self.precision)

    def encode(self, inputs: Inputs, progress: Float[Tensor, ""]) -> Float[Tensor, "1 batch dim"]:
        return self.dropout(self.classifier.transform(self.encoder(inputs)))[None]


def _all_rows(classifier: Classifier) -> tuple[Float[Tensor, "labels dim"], Float[Tensor, "labels"] | None]:
    if isinstance(classifier, LinearClassifier):  # rows that are there already: a slice would copy their gradient
        return classifier.weight, classifier.bias
    every = slice(0, classifier.num_labels)
    return classifier.rows(every), classifier.biases(every)


@torch.no_grad()
def _leaving_out(
    batch: Batch,
    vectors: Float[Tensor, "batch dim"],
    rows: Float[Tensor, "labels dim"],
    biases: Float[Tensor, "labels"] | None,
) -> Batch:
    """The batch with its left-out pairs as true as they seem: a cross-entropy then has no slope there."""
    if batch.left_out is None:
        return batch
    some = batch.left_out.clamp(min=0)
    scores = (rows[some].float() @ vectors[:, :, None])[:, :, 0]
    seeming = (scores if biases is None else scores + biases[some]).sigmoid()
    own = (batch.positives != NO_LABEL).to(seeming.dtype) if batch.targets is None else batch.targets
    return batch._replace(
        positives=torch.cat([batch.positives, batch.left_out], dim=1), targets=torch.cat([own, seeming], dim=1)
    )


class Jointly(Task):
    """Every text against every cluster, and against the labels of its best clusters and of its true ones
    (InceptionXML+, section 5): two means, added up.

    Until `detached` of the training is done the encoder learns from the clusters alone.
    """

    tables = frozenset({"encoder.embedding.weight", "classifier.weight"})

    def __init__(
        self,
        encoder: Encoder,
        clusters: Clusters,
        classifier: LinearClassifier,
        *,
        top: int,
        dropouts: tuple[float, float],
        detached: float,
        chunk: int,
        precision: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.encoder, self.clusters, self.classifier = encoder, clusters, classifier
        self.cluster_dropout, self.dropout = map(nn.Dropout, dropouts)
        self.top, self.detached, self.chunk, self.precision = top, detached, chunk, precision

    def forward(self, batch: Batch, progress: Float[Tensor, ""]) -> Float[Tensor, ""]:
        meta, rows = self.clusters.classifier, self.classifier.weight
        assert meta.bias is not None
        with torch.autocast(rows.device.type, self.precision, enabled=self.precision != torch.float32):
            for_clusters, for_labels = self.encode(batch.inputs, progress).float()
        of_clusters = self._of_clusters(batch)
        shortlist = self.clusters.pick(for_clusters, of_clusters.positives, self.top)
        meta_loss = all_labels_loss(
            for_clusters, meta.weight, meta.bias, of_clusters, chunk=self.chunk, precision=self.precision
        )
        scores = self.top * shortlist.size  # the authors' mean is over room for clusters of the largest size
        return meta_loss + shortlist_loss(for_labels, rows, self.classifier.bias, batch, shortlist, over=scores)

    def encode(self, inputs: Inputs, progress: Float[Tensor, ""]) -> Float[Tensor, "2 batch dim"]:
        vectors = self.encoder(inputs)
        # The value is that of `vectors`; its gradient passes once enough is done, which no host need know.
        attached = vectors.detach() + (progress >= self.detached) * (vectors - vectors.detach())
        for_clusters = self.cluster_dropout(self.clusters.classifier.transform(vectors))
        return torch.stack([for_clusters, self.dropout(self.classifier.transform(attached))])

    def _of_clusters(self, batch: Batch) -> Batch:
        """The same texts with clusters as their labels."""
        true = self.clusters.of(batch.positives)
        targets = (true != NO_LABEL).float() if batch.targets is None else batch.targets
        positives, targets = joined(true, targets)
        return Batch(batch.inputs, positives, targets, batch.weights)


class Shortlisted(Task):
    """Every text against its own labels, its hard negatives and some random ones (DeepXML, module IV): a sum a text.

    A positive is never a negative, however it came among them. `likely` says how often each label is drawn; without
    it all are drawn alike.
    """

    tables = frozenset({"classifier.weight", "encoder.embedding.weight"})
    starts: Tensor
    shares: Tensor | None

    def __init__(
        self,
        encoder: Encoder,
        classifier: Classifier,
        *,
        random: int,
        likely: Float[Tensor, "labels"] | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self.classifier, self.random = encoder, classifier, random
        self.register_buffer("starts", torch.arange(classifier.num_labels + 1), persistent=False)
        shares = None if likely is None else (likely.double().cumsum(0) / likely.double().sum()).float()
        self.register_buffer("shares", shares, persistent=False)

    def forward(self, batch: Batch, progress: Float[Tensor, ""]) -> Float[Tensor, ""]:
        (vectors,) = self.encode(batch.inputs, progress)
        num_labels = self.classifier.num_labels
        hard = [] if batch.negatives is None else [batch.negatives]
        labels = torch.cat([batch.positives, *hard, self._drawn(len(vectors))], dim=1)
        picks, _ = joined(labels, torch.zeros_like(labels, dtype=torch.float32))
        # A label is a cluster of one; the place of no label comes after all of them.
        shortlist = Shortlist(torch.where(picks == NO_LABEL, num_labels, picks), self.starts, 1)
        return shortlist_loss(vectors, *_all_rows(self.classifier), batch, shortlist, over=1)

    def encode(self, inputs: Inputs, progress: Float[Tensor, ""]) -> Float[Tensor, "1 batch dim"]:
        return self.classifier.transform(self.encoder(inputs))[None]

    def _drawn(self, texts: int) -> Int[Tensor, "texts random"]:
        size, device = (texts, self.random), self.starts.device
        if self.shares is None:
            return torch.randint(self.classifier.num_labels, size, device=device)
        found = torch.searchsorted(self.shares, torch.rand(size, device=device), right=True)
        return found.clamp(max=self.classifier.num_labels - 1)


class Opened(Task):
    """Every text against the labels of clusters that were picked for it once (DECAF, module IV): a mean.

    Labels are numbered cluster by cluster, and a batch's negatives are the picked clusters. The clusters of missing
    positives are opened too or, where `missing` is False, what is missing teaches nothing, as in the published code.
    """

    tables = frozenset({"classifier.refinement"})
    starts: Tensor
    cluster_of: Tensor

    def __init__(
        self, encoder: Encoder, classifier: Classifier, starts: Int[Tensor, "bounds"], *, missing: bool = True
    ) -> None:
        super().__init__()
        self.encoder, self.classifier, self.missing = encoder, classifier, missing
        self.size = int(starts.diff().max())
        self.register_buffer("starts", starts, persistent=False)
        self.register_buffer("cluster_of", torch.repeat_interleave(starts.diff()), persistent=False)

    def forward(self, batch: Batch, progress: Float[Tensor, ""]) -> Float[Tensor, ""]:
        (vectors,) = self.encode(batch.inputs, progress)
        rows, biases = _all_rows(self.classifier)
        picks = self._opened(batch)
        if not self.missing:
            batch = batch._replace(positives=self._within(batch.positives, picks))
        if batch.left_out is not None:
            batch = batch._replace(left_out=self._within(batch.left_out, picks))
        batch = _leaving_out(batch, vectors, rows, biases)
        assert batch.negatives is not None
        scores = batch.negatives.shape[1] * self.size
        return shortlist_loss(vectors, rows, biases, batch, Shortlist(picks, self.starts, self.size), over=scores)

    def encode(self, inputs: Inputs, progress: Float[Tensor, ""]) -> Float[Tensor, "1 batch dim"]:
        return self.classifier.transform(self.encoder(inputs))[None]

    def _opened(self, batch: Batch) -> Int[Tensor, "batch k"]:
        assert batch.negatives is not None
        if not self.missing:
            return batch.negatives
        picks = torch.cat([batch.negatives, self._clusters(batch.positives)], dim=1)
        picks, _ = joined(picks, torch.zeros_like(picks, dtype=torch.float32))
        return torch.where(picks == NO_LABEL, len(self.starts) - 1, picks)  # one more than the last is none

    def _within(self, labels: Int[Tensor, "batch p"], picks: Int[Tensor, "batch k"]) -> Int[Tensor, "batch p"]:
        """Those labels whose clusters are opened; NO_LABEL for the others."""
        there = (self._clusters(labels)[:, :, None] == picks[:, None]).any(2)
        return torch.where(there, labels, NO_LABEL)

    def _clusters(self, labels: Int[Tensor, "batch p"]) -> Int[Tensor, "batch p"]:
        return torch.where(labels == NO_LABEL, NO_LABEL, self.cluster_of[labels.clamp(min=0)])
