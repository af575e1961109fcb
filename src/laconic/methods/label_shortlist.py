"""Module II of DeepXML: make a shortlister from the vectors of training texts, or restore it from tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor, nn

from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.errors import DataError
from laconic.methods import siamese
from laconic.methods.common import remember_tree, seeded, tensors_under
from laconic.models.classifiers import LinearClassifier
from laconic.models.clustering import LabelTree
from laconic.models.clustering.groups import of_tree
from laconic.models.encoders import Encoder, Identity
from laconic.models.shortlisters.base import Shortlister
from laconic.models.shortlisters.clusters import Clusters, OfClusters
from laconic.models.shortlisters.label_texts import WithLabelTexts
from laconic.models.shortlisters.labels import NearestLabels, Nearness
from laconic.models.shortlisters.space import NearestInSpace
from laconic.training.optimizer import Plan
from laconic.training.run import Run
from laconic.training.tasks import AllLabels

SHORTLISTERS = ("nearest", "clusters", "siamese")


@dataclass(frozen=True, kw_only=True)
class Shortlisting:
    """How a shortlister is made and restored."""

    kind: str  # nearest: labels near the text; clusters: labels of learnt clusters; siamese: labels near by their texts
    nearness: Nearness
    label_texts: int  # shortlist entries for labels whose own texts are near
    transform: Callable[[int], nn.Module]  # before the clusters' classifier, for vectors of that width
    clusters: Callable[[Dataset], LabelTree]
    plan: Callable[[], Plan]  # of the clusters' classifier
    space: siamese.Config  # of siamese
    seed: int

    def make(self, data: Dataset, vectors: Float[Tensor, "texts dim"], run: Run) -> Shortlister:
        if self.label_texts and data.label_inputs is None:
            raise DataError("label_texts needs labels with texts, but this data has none; leave label_texts at 0")
        shortlister: Shortlister
        if self.kind == "clusters":
            shortlister = self._train(data, vectors, run)
        elif self.kind == "siamese":
            space = siamese.learn_space(data, self.space, run, "shortlister").to(run.device)
            shortlister = NearestInSpace(space, self.nearness.size, self.space.temperature)
        else:
            shortlister = NearestLabels.of(vectors.to(run.device), data.labels, self.nearness, self.seed)
        if data.label_inputs is None or not self.label_texts:
            return shortlister
        return WithLabelTexts.of(shortlister, self.label_texts, data.label_inputs, run.device)

    def restore(self, tensors: Mapping[str, Tensor], encoder: Encoder, num_labels: int) -> Shortlister:
        """Restore a shortlister after checking that its tensors fit the encoder and the labels."""
        name = "shortlister.others" if self.label_texts else "shortlister"
        shortlister: Shortlister
        if self.kind == "clusters":
            tree = LabelTree(order=tensors[f"{name}.clusters.order"], starts=tensors[f"{name}.clusters.starts"])
            tree.check()
            if len(tree.order) != num_labels:
                raise ValueError(f"{name}.clusters.order has {len(tree.order)} labels, classifier.weight {num_labels}")
            shortlister = self._over(tree, encoder.dim)
        elif self.kind == "siamese":
            space = siamese.restore(self.space, tensors_under(tensors, f"{name}.siamese."))
            if space.num_labels != num_labels:
                raise ValueError(f"{name}.siamese has {space.num_labels} labels, classifier.weight {num_labels}")
            shortlister = NearestInSpace(space, self.nearness.size, self.space.temperature)
        else:
            shortlister = NearestLabels.of_tensors(tensors, name, self.nearness, num_labels)
            if shortlister.centres.shape[1] != encoder.dim:
                raise ValueError(f"{name}.centres are {shortlister.centres.shape[1]} wide, vectors {encoder.dim}")
        if not self.label_texts:
            return shortlister
        return WithLabelTexts.of_tensors(tensors, "shortlister", shortlister, self.label_texts, encoder.num_ids)

    def _train(self, data: Dataset, vectors: Float[Tensor, "texts dim"], run: Run) -> OfClusters:
        """Train a classifier over clusters of labels, as in InceptionXML+, but on fixed vectors."""
        tree = remember_tree(run, "shortlister-tree", lambda: self.clusters(data))
        with seeded(self.seed):
            shortlister = self._over(tree, vectors.shape[1]).to(run.device)
        classifier = shortlister.clusters.classifier
        grouped = replace(data.relabelled(of_tree(tree)), inputs=vectors.numpy())
        task = AllLabels(Identity(vectors.shape[1]), classifier, dropout=0.0, chunk=65_536).to(run.device)
        run.fit("shortlister", task, Resident.of(grouped, 0, run.device), self.plan())
        return shortlister

    def _over(self, tree: LabelTree, dim: int) -> OfClusters:
        classifier = LinearClassifier(dim, tree.num_clusters, transform=self.transform(dim))
        return OfClusters(Clusters(classifier, tree), self.nearness.size)


def with_neighbour_weight(shortlister: Shortlister, neighbour_weight: float) -> Shortlister:
    """Return the shortlister with another weight of neighbours, if it uses any."""
    if isinstance(shortlister, WithLabelTexts):
        return shortlister.over(with_neighbour_weight(shortlister.others, neighbour_weight))
    if isinstance(shortlister, NearestLabels):
        return shortlister.with_neighbour_weight(neighbour_weight)
    return shortlister
