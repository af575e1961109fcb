"""Products in full precision, and for tensors on the CPU the references of the kernels in their place."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

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
    """Answer for tensors on the CPU by the references of the kernels."""
    monkeypatch.setattr(optimise, "HAS_KERNELS", True)
    monkeypatch.setattr(exact, "group_maxima", _by_device(exact.group_maxima, group_maxima_reference))
    for module in (exact, clusters):
        scores = _by_device(module.shortlist_scores, shortlist_scores_reference)
        monkeypatch.setattr(module, "shortlist_scores", scores)


def _by_device(kernel: Callable[..., Any], reference: Callable[..., Any]) -> Callable[..., Any]:
    def chosen(first: Tensor, *others: Any, **options: Any) -> Any:
        return (kernel if first.is_cuda else reference)(first, *others, **options)

    return chosen
