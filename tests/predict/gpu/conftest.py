"""Products in full precision: a GPU's convolutions have fewer bits unless it is told."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _precise() -> Iterator[None]:
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before
