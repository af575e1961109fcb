"""What training minimises: a batch in, a loss out."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from laconic.classifiers import LinearClassifier
from laconic.encoders import Encoder
from laconic.kernels.shortlist import Shortlist
from laconic.losses import all_labels_loss, shortlist_loss
from laconic.shortlisters.clusters import Clusters, joined
from laconic.types import NO_LABEL, Batch, Inputs


class Task(nn.Module, ABC):
    tables: frozenset[str] = frozenset()  # parameters with a row for each word or label, of which a step uses some

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
        classifier: LinearClassifier,
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
        rows, biases = self.classifier.weight, self.classifier.bias
        assert biases is not None
        with torch.autocast(rows.device.type, self.precision, enabled=self.precision != torch.float32):
            (vectors,) = self.encode(batch.inputs, progress)
        return all_labels_loss(vectors.float(), rows, biases, batch, chunk=self.chunk, precision=self.precision)

    def encode(self, inputs: Inputs, progress: Float[Tensor, ""]) -> Float[Tensor, "1 batch dim"]:
        return self.dropout(self.classifier.transform(self.encoder(inputs)))[None]


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
        classifier: LinearClassifier,
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
        return shortlist_loss(vectors, self.classifier.weight, self.classifier.bias, batch, shortlist, over=1)

    def encode(self, inputs: Inputs, progress: Float[Tensor, ""]) -> Float[Tensor, "1 batch dim"]:
        return self.classifier.transform(self.encoder(inputs))[None]

    def _drawn(self, texts: int) -> Int[Tensor, "texts random"]:
        size, device = (texts, self.random), self.starts.device
        if self.shares is None:
            return torch.randint(self.classifier.num_labels, size, device=device)
        found = torch.searchsorted(self.shares, torch.rand(size, device=device), right=True)
        return found.clamp(max=self.classifier.num_labels - 1)
