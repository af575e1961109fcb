"""Products in full precision, and without a GPU the references of the kernels in their place."""

from collections.abc import Iterator

import pytest
import torch

from laconic.predict.gpu import clusters, exact, optimise
from tests.kernel_references import group_maxima_reference, shortlist_scores_reference


@pytest.fixture(autouse=True)
def _precise() -> Iterator[None]:
    """Take no fewer bits than float32 has, as a GPU's convolutions do unless it is told."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


@pytest.fixture(autouse=True)
def _references(monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():
        monkeypatch.setattr(optimise, "HAS_KERNELS", True)
        monkeypatch.setattr(exact, "group_maxima", group_maxima_reference)
        for module in (exact, clusters):
            monkeypatch.setattr(module, "shortlist_scores", shortlist_scores_reference)
