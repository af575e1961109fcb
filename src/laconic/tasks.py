"""What training minimises: a batch in, a loss out."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from laconic.classifiers import LinearClassifier
from laconic.encoders import Encoder
from laconic.losses import all_labels_loss
from laconic.types import Batch, Inputs


class Task(nn.Module, ABC):
    @abstractmethod
    def forward(self, batch: Batch) -> Float[Tensor, ""]: ...

    @abstractmethod
    def encode(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        """The part of `forward` that is worth compiling."""


class AllLabels(Task):
    """Every text against every label (InceptionXML, section 4.3)."""

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

    def forward(self, batch: Batch) -> Float[Tensor, ""]:
        rows, biases = self.classifier.weight, self.classifier.bias
        with torch.autocast(rows.device.type, self.precision, enabled=self.precision != torch.float32):
            vectors = self.encode(batch.inputs)
        return all_labels_loss(vectors.float(), rows, biases, batch, chunk=self.chunk, precision=self.precision)

    def encode(self, inputs: Inputs) -> Float[Tensor, "batch dim"]:
        return self.dropout(self.classifier.transform(self.encoder(inputs)))
