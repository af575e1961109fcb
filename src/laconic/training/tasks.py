"""Tasks: what training minimises, from a batch to a loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from laconic.data.shards import Shard
from laconic.kernels.triton.shortlist import Shortlist
from laconic.models.classifiers import Classifier, LabelText, LinearClassifier
from laconic.models.encoders import Encoder, TransformerEncoder
from laconic.models.shortlisters.clusters import Clusters, joined
from laconic.training.losses import all_labels_loss, shortlist_loss, weigh_positives
from laconic.types import NO_LABEL, Batch, Inputs


class Task(nn.Module, ABC):
    """Modules that are trained together, with their loss."""

    tables: frozenset[str] = frozenset()
    """Parameters with a row for each word or label, of which a step uses some."""
    compiles: bool = True
    """Whether `encode` is compiled on a GPU, which takes half a minute at first."""

    def rows(self) -> frozenset[str]:
        """Return the names of parameters with an independent row for each label or cluster."""
        parts = dict(self.named_modules())
        free = {f"{name}.weight" for name, part in parts.items() if isinstance(part, LinearClassifier)}
        refining = {name for name, part in parts.items() if isinstance(part, LabelText) and part.refinement is not None}
        return frozenset(free | {f"{name}.refinement" for name in refining})

    def pretrained(self) -> frozenset[str]:
        """Return the names of parameters of pre-trained encoders, which may have a learning rate of their own."""
        encoders = [(name, part) for name, part in self.named_modules() if isinstance(part, TransformerEncoder)]
        return frozenset(f"{name}.{inner}" for name, part in encoders for inner, _ in part.named_parameters())

    @abstractmethod
    def forward(self, batch: Batch, progress: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """Return the loss; `progress` is the fraction of training that is done."""

    @abstractmethod
    def encode(self, inputs: Inputs, progress: Float[Tensor, ""]) -> Float[Tensor, "heads batch dim"]:
        """Return the vectors that each head multiplies with its rows: the part of `forward` that is compiled."""


class AllLabels(Task):
    """The loss of every text with every label (InceptionXML, section 4.3).

    `label_weights` are those of labels' true pairs; without them all weigh 1.
    """

    tables = frozenset({"encoder.embedding.weight"})
    label_weights: Tensor | None

    def __init__(
        self,
        encoder: Encoder,
        classifier: Classifier,
        *,
        dropout: float,
        chunk: int,
        precision: torch.dtype = torch.float32,
        label_weights: Float[Tensor, "labels"] | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self.classifier = encoder, classifier
        self.dropout = nn.Dropout(dropout)
        self.chunk, self.precision = chunk, precision
        self.register_buffer("label_weights", label_weights, persistent=False)

    def forward(self, batch: Batch, progress: Float[Tensor, ""]) -> Float[Tensor, ""]:
        rows, biases = _all_rows(self.classifier)
        assert biases is not None
        with torch.autocast(rows.device.type, self.precision, enabled=self.precision != torch.float32):
            (encoded,) = self.encode(batch.inputs, progress)
        shard = self.classifier.shard
        vectors = shard.ranks.sum_gradients(encoded.float())
        lacking: Float[Tensor, ""] | float = 0.0
        if self.label_weights is not None:
            true = batch.positives.clamp(min=0)
            scores = _scores_of(true, vectors, rows, biases)
            batch, lacking = weigh_positives(batch, scores, self.label_weights[true], over=shard.total)
        batch = _neutralise_left_out(batch, vectors, rows, biases)
        loss = all_labels_loss(
            vectors, rows, biases, batch, chunk=self.chunk, precision=self.precision, over=shard.total
        )
        return shard.ranks.sum_losses(loss + lacking)

    def encode(self, inputs: Inputs, progress: Float[Tensor, ""]) -> Float[Tensor, "1 batch dim"]:
        return self.dropout(self.classifier.transform(self.encoder(inputs)))[None]


def _all_rows(classifier: Classifier) -> tuple[Float[Tensor, "labels dim"], Float[Tensor, "labels"] | None]:
    if isinstance(classifier, LinearClassifier):  # existing rows: a slice would copy their gradient
        return classifier.weight, classifier.bias
    every = slice(0, classifier.num_labels)
    return classifier.rows(every), classifier.biases(every)


@torch.no_grad()
def _neutralise_left_out(
    batch: Batch,
    vectors: Float[Tensor, "batch dim"],
    rows: Float[Tensor, "labels dim"],
    biases: Float[Tensor, "labels"] | None,
) -> Batch:
    """Return the batch with left-out pairs whose targets are their own predictions, so that their gradient is 0."""
    if batch.left_out is None:
        return batch
    predicted = _scores_of(batch.left_out.clamp(min=0), vectors, rows, biases).sigmoid()
    own = (batch.positives != NO_LABEL).to(predicted.dtype) if batch.targets is None else batch.targets
    return batch._replace(
        positives=torch.cat([batch.positives, batch.left_out], dim=1), targets=torch.cat([own, predicted], dim=1)
    )


@torch.no_grad()
def _scores_of(
    labels: Int[Tensor, "batch n"],
    vectors: Float[Tensor, "batch dim"],
    rows: Float[Tensor, "labels dim"],
    biases: Float[Tensor, "labels"] | None,
) -> Float[Tensor, "batch n"]:
    scores = (rows[labels].float() @ vectors[:, :, None])[:, :, 0]
    return scores if biases is None else scores + biases[labels]


def _holds(lists: Int[Tensor, "batch n"], labels: Int[Tensor, "batch k"]) -> Bool[Tensor, "batch k"]:
    """Return whether row r of the lists has each label of row r."""
    return (labels[:, :, None] == lists[:, None]).any(2)


def _unique(labels: Int[Tensor, "batch n"]) -> Int[Tensor, "batch n"]:
    """Return every label of a row once, padded with NO_LABEL."""
    return joined(labels, torch.zeros_like(labels, dtype=torch.float32))[0]


def _within(batch: Batch, picks: Int[Tensor, "batch k"], clusters_of: Callable[[Tensor], Tensor]) -> Batch:
    """Return the batch without positives and left-out labels whose clusters are not picked: they are not scored."""

    def kept(labels: Int[Tensor, "batch n"]) -> Int[Tensor, "batch n"]:
        return torch.where(_holds(picks, clusters_of(labels)), labels, NO_LABEL)

    left_out = None if batch.left_out is None else kept(batch.left_out)
    return batch._replace(positives=kept(batch.positives), left_out=left_out)


class ClustersAndLabels(Task):
    """The loss of every text with every cluster, and with the labels of its best and true clusters: a sum of two means.

    InceptionXML+, section 5. For the first `detached` of training the encoder learns from the clusters alone.
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
            encoded = self.encode(batch.inputs, progress)
        shard = meta.shard
        for_clusters, for_labels = shard.ranks.sum_gradients(encoded.float())
        of_clusters = self._of_clusters(batch)
        shortlist = self.clusters.pick(for_clusters, of_clusters.positives, self.top)
        of_clusters = _neutralise_left_out(of_clusters, for_clusters, meta.weight, meta.bias)
        meta_loss = all_labels_loss(
            for_clusters,
            meta.weight,
            meta.bias,
            of_clusters,
            chunk=self.chunk,
            precision=self.precision,
            over=shard.total,
        )
        batch = _within(batch, shortlist.picks, self.clusters.of)
        batch = _neutralise_left_out(batch, for_labels, rows, self.classifier.bias)
        scores = self.top * shortlist.size  # the authors' mean is over clusters padded to the largest size
        loss = shortlist_loss(for_labels, rows, self.classifier.bias, batch, shortlist, over=scores)
        return shard.ranks.sum_losses(meta_loss + loss)

    def encode(self, inputs: Inputs, progress: Float[Tensor, ""]) -> Float[Tensor, "2 batch dim"]:
        vectors = self.encoder(inputs)
        # Equal to `vectors`; the gradient passes from `detached` on, without asking the host.
        attached = vectors.detach() + (progress >= self.detached) * (vectors - vectors.detach())
        for_clusters = self.cluster_dropout(self.clusters.classifier.transform(vectors))
        return torch.stack([for_clusters, self.dropout(self.classifier.transform(attached))])

    def _of_clusters(self, batch: Batch) -> Batch:
        """Return the batch with clusters for labels; a cluster of left-out labels without a true one is left out."""
        true = self.clusters.of(batch.positives)
        targets = (true != NO_LABEL).float() if batch.targets is None else batch.targets
        positives, targets = joined(true, targets)
        left_out = None
        if batch.left_out is not None:
            left_out = _unique(self.clusters.of(batch.left_out))
            left_out = left_out.masked_fill(_holds(positives, left_out), NO_LABEL)
        return Batch(batch.inputs, positives, targets, batch.weights, left_out=left_out)


class Shortlisted(Task):
    """The loss of every text with its labels, hard negatives and random ones (DeepXML, module IV): a sum per text.

    Positives among the negatives are removed, and left-out labels are not scored. `likely` is how often each of all
    labels is drawn; without it all are equally likely. Of several ranks, each has the labels of its shard alone, and
    all draw the same random ones.
    """

    tables = frozenset({"classifier.weight", "encoder.embedding.weight"})
    starts: Tensor
    cumulative: Tensor | None

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
        cumulative = None if likely is None else (likely.double().cumsum(0) / likely.double().sum()).float()
        self.register_buffer("cumulative", cumulative, persistent=False)

    def forward(self, batch: Batch, progress: Float[Tensor, ""]) -> Float[Tensor, ""]:
        (encoded,) = self.encode(batch.inputs, progress)
        shard, num_labels = self.classifier.shard, self.classifier.num_labels
        vectors = shard.ranks.sum_gradients(encoded)
        hard = [] if batch.negatives is None else [batch.negatives]
        labels = torch.cat([batch.positives, *hard, shard.numbered(self._draw(len(vectors)))], dim=1)
        if batch.left_out is not None:
            labels = labels.masked_fill(_holds(batch.left_out, labels), NO_LABEL)
        picks = _unique(labels)
        # Every label is a cluster of its own; NO_LABEL becomes an empty one after the last.
        shortlist = Shortlist(torch.where(picks == NO_LABEL, num_labels, picks), self.starts, 1)
        loss = shortlist_loss(vectors, *_all_rows(self.classifier), batch, shortlist, over=1)
        return shard.ranks.sum_losses(loss)

    def encode(self, inputs: Inputs, progress: Float[Tensor, ""]) -> Float[Tensor, "1 batch dim"]:
        return self.classifier.transform(self.encoder(inputs))[None]

    def _draw(self, texts: int) -> Int[Tensor, "texts random"]:
        """Draw labels of all ranks for each text."""
        size, device, total = (texts, self.random), self.starts.device, self.classifier.shard.total
        if self.cumulative is None:
            return torch.randint(total, size, device=device)
        found = torch.searchsorted(self.cumulative, torch.rand(size, device=device), right=True)
        return found.clamp(max=total - 1)


class PickedClusters(Task):
    """The loss of every text with the labels of clusters that were picked for it before (DECAF, module IV): a mean.

    Labels are numbered cluster by cluster, and a batch's negatives are the picked clusters. Clusters of missing
    positives are added or, where `missing` is False, missing positives are ignored, as in the published code. Of
    several ranks, each has the clusters of a shard, and batches of these clusters and their labels alone.
    """

    tables = frozenset({"classifier.refinement"})
    starts: Tensor
    cluster_of: Tensor

    def __init__(
        self,
        encoder: Encoder,
        classifier: Classifier,
        starts: Int[Tensor, "bounds"],
        *,
        missing: bool = True,
        clusters: Shard | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self.classifier, self.missing = encoder, classifier, missing
        self.size = int(starts.diff().max())
        clusters = clusters or Shard.whole(len(starts) - 1)
        own = starts[clusters.first : clusters.last + 1] - starts[clusters.first]
        self.register_buffer("starts", own, persistent=False)
        self.register_buffer("cluster_of", torch.repeat_interleave(own.diff()), persistent=False)

    def forward(self, batch: Batch, progress: Float[Tensor, ""]) -> Float[Tensor, ""]:
        (encoded,) = self.encode(batch.inputs, progress)
        ranks = self.classifier.shard.ranks
        vectors = ranks.sum_gradients(encoded)
        rows, biases = _all_rows(self.classifier)
        picks = self._picks(batch)
        batch = _neutralise_left_out(_within(batch, picks, self._clusters), vectors, rows, biases)
        assert batch.negatives is not None
        scores = batch.negatives.shape[1] * self.size
        loss = shortlist_loss(vectors, rows, biases, batch, Shortlist(picks, self.starts, self.size), over=scores)
        return ranks.sum_losses(loss)

    def encode(self, inputs: Inputs, progress: Float[Tensor, ""]) -> Float[Tensor, "1 batch dim"]:
        return self.classifier.transform(self.encoder(inputs))[None]

    def _picks(self, batch: Batch) -> Int[Tensor, "batch k"]:
        assert batch.negatives is not None
        picks = batch.negatives
        if self.missing:
            picks = _unique(torch.cat([picks, self._clusters(batch.positives)], dim=1))
        return torch.where(picks == NO_LABEL, len(self.starts) - 1, picks)  # one past the last is empty

    def _clusters(self, labels: Int[Tensor, "batch p"]) -> Int[Tensor, "batch p"]:
        return torch.where(labels == NO_LABEL, NO_LABEL, self.cluster_of[labels.clamp(min=0)])
