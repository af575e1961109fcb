"""Datasets: what becomes of pairs that are left out when labels are grouped."""

import numpy as np
from scipy.sparse import csr_array

from laconic.data.dataset import Dataset


def test_a_group_of_left_out_labels_alone_is_left_out():
    labels = csr_array(np.array([[1, 0, 0, 0], [0, 0, 1, 0]], dtype=np.float32))
    left_out = csr_array(np.array([[0, 1, 0, 1], [0, 0, 0, 1]], dtype=bool))
    mapping = csr_array(np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float32))
    data = Dataset(inputs=np.zeros((2, 1), dtype=np.float32), labels=labels, leave_out=left_out)
    grouped = data.relabelled(mapping)
    assert grouped.leave_out is not None
    assert grouped.leave_out.toarray().tolist() == [[0, 1], [0, 0]]
    assert data.relabelled(mapping).labels.toarray().tolist() == [[1, 0], [0, 1]]
