"""Batches in fixed shapes, however many labels a text has."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from laconic.data import resident
from laconic.data.dataset import Dataset
from laconic.data.resident import Resident, bounded
from laconic.types import NO_LABEL

CPU = torch.device("cpu")


def data_of(counts: list[int], num_labels: int) -> Dataset:
    """Texts of so many labels, the lowest numbers: label 0 is the most frequent."""
    labels = csr_array(np.arange(num_labels) < np.array(counts)[:, None], dtype=np.float32)
    return Dataset(inputs=np.ones((len(counts), 2), dtype=np.float32), labels=labels)


def test_one_text_of_very_many_labels_does_not_widen_every_batch() -> None:
    resident = Resident.of(data_of([3] * 300 + [2000], 2000), 0, CPU)
    assert resident.width == 256
    assert resident.take(torch.arange(4)).positives.shape == (4, 256)


def test_the_rarest_labels_of_a_wide_text_are_learnt() -> None:
    kept = bounded(data_of([3] * 300 + [2000], 2000).labels)
    assert kept[[300]].indices.tolist() == list(range(3, 259))
    assert (kept[:300] != data_of([3] * 300, 2000).labels).nnz == 0


def test_what_is_not_learnt_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    resident._warn_once.cache_clear()
    with caplog.at_level(logging.WARNING, "laconic.data.resident"):
        for _ in range(2):  # stages of a run
            bounded(data_of([3] * 300 + [2000], 2000).labels)
    assert caplog.text.count("texts with more than 256 labels: 1") == 1
    assert "1744 pairs are not" in caplog.text


@pytest.mark.parametrize("counts", [[3] * 300 + [256], [400] * 300, [0] * 5, []], ids=["few", "all", "none", "nothing"])
def test_data_whose_texts_are_alike_is_learnt_whole(counts: list[int], caplog: pytest.LogCaptureFixture) -> None:
    labels = data_of(counts, 500).labels
    assert bounded(labels) is labels
    assert not caplog.text


def test_a_batch_has_every_label_of_its_texts_and_then_no_label() -> None:
    batch = Resident.of(data_of([2, 0, 3], 5), 0, CPU).take(torch.tensor([2, 1]))
    assert batch.positives.tolist() == [[0, 1, 2], [NO_LABEL] * 3]
