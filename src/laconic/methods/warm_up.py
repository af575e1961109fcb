"""Start from label texts: train an encoder by contrast of texts and label texts, and start label rows from its vectors.

Both are off unless settings ask for them (`warm_up`, `row_start`). The contrast is that of siamese, with the method's
own encoder and the layer before its rows.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from laconic.data.dataset import Dataset
from laconic.data.label_texts import with_known_words
from laconic.data.resident import Resident
from laconic.errors import DataError
from laconic.methods.common import choose_batch_size, encoded, label_tokens
from laconic.methods.config import NeuralConfig, WarmUp
from laconic.methods.transformer import encoder_plan
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import Encoder, Transformed, UnitVectors
from laconic.training.run import Run
from laconic.training.tasks_siamese import Contrast
from laconic.types import NO_LABEL

WARM_UP_BATCH = 1024  # texts, where there are enough
_DROPOUT = 0.1  # of words; for encoders that weight words
_USUAL = 2000  # texts that say how long vectors are


def check_label_texts(data: Dataset, settings: WarmUp, row_start: float = 0.0) -> None:
    """Refuse settings that need label texts where the data has none."""
    if not settings.epochs and not row_start:
        return
    if data.label_inputs is None or not with_known_words(data.label_inputs).any():
        wanted = "warm_up.epochs" if settings.epochs else "row_start"
        raise DataError(f"{wanted} needs labels with texts, but this data has none; leave {wanted} at 0")


def warm_up(stage: str, encoder: Encoder, data: Dataset, settings: WarmUp, config: NeuralConfig, run: Run) -> None:
    """Train the encoder so that a text's vector is nearest, by its cosine, to those of its labels' texts.

    The encoder is on the run's device. Nothing is done where the settings have no epochs.
    """
    if not settings.epochs:
        return
    check_label_texts(data, settings)
    task = Contrast(
        UnitVectors(encoder),
        label_tokens(data, config.length),
        torch.zeros(data.num_labels),
        temperature=settings.temperature,
        dropout=_DROPOUT,
    ).to(run.device)
    plan = config.plan(
        epochs=settings.epochs,
        batch_size=choose_batch_size(settings.batch_size, len(data), WARM_UP_BATCH),
        learning_rate=settings.learning_rate or config.learning_rate,
        lazy=True,
        **encoder_plan(config),
    )
    run.fit(stage, task, Resident.of(data, config.length, run.device), plan)


@torch.no_grad()
def start_rows(
    classifier: LinearClassifier, encoder: Encoder, data: Dataset, score: float, device: torch.device
) -> None:
    """Start the rows of labels from the vectors of their texts; rows of labels without a text stay as they are.

    For a text whose vector has the direction of a label's row and a usual length, the label scores `score` above its
    bias. The mean of all label vectors is taken off, so that a text's scores are not above the biases in the mean.
    Nothing is done where the score is 0. Of several ranks, each starts its own rows.
    """
    if not score:
        return
    check_label_texts(data, WarmUp(), score)
    assert data.label_inputs is not None
    reader = before_rows(encoder, classifier).eval()
    named = with_known_words(data.label_inputs)
    vectors = encoded(reader, data.label_inputs[named], device)
    some = np.linspace(0, len(data) - 1, min(_USUAL, len(data))).astype(np.int64)
    length = encoded(reader, data.inputs[some], device).norm(dim=1).mean()
    rows = functional.normalize(vectors - vectors.mean(0), dim=1) * (score / length.clamp(min=1e-6))
    numbers = classifier.shard.numbered(torch.from_numpy(np.flatnonzero(named)).to(device))
    there = numbers != NO_LABEL
    classifier.weight[numbers[there]] = rows[there].to(classifier.weight.dtype)


def before_rows(encoder: Encoder, classifier: LinearClassifier) -> Encoder:
    """Return the encoder with the layer before the classifier's rows: its vectors are what rows are multiplied with."""
    return Transformed(encoder, classifier.transform, classifier.weight.shape[1])
