"""The fused ranker against torch's, and the network that weighs against torch's combiner."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from laconic.export.rankers import pack_ranker
from laconic.kernels.checks import for_kernels
from laconic.models.fusion.evidence import numbers_of
from laconic.models.fusion.network import Combiner, TreeOrder
from laconic.models.fusion.order import Ordering
from laconic.models.fusion.ranker import FusedRanker
from laconic.models.nearest_ranker import NearestRanker
from laconic.packed.engine.fusion import Fused
from laconic.packed.engine.fusion_kernels import Layers, sigmoid, weigh
from laconic.packed.engine.neighbours import Neighbours
from laconic.packed.engine.texts import Texts
from laconic.types import NO_LABEL
from tests.combining.test_order import forest
from tests.engine.making import mapped, numbers
from tests.engine.test_neighbours import LABELS, by_words, torch_inputs
from tests.variants import some_slow

WIDTH = 8


def combiner(seed: int = 0, rankers: int = 1) -> Combiner:
    torch.manual_seed(seed)
    made = Combiner(numbers_of(rankers), WIDTH)
    made.standardise(torch.randn(50, numbers_of(rankers)) * 3)
    return made


def fused(
    width: int = 4, tail: float = 0.0, *, second: bool = False, ordered: int = 0
) -> tuple[Fused, FusedRanker, Texts]:
    """Over `nearest` with other settings, so that base and neighbours differ; a second ranker may stand for trees."""
    _, ranker, asked = by_words()
    _, base, _ = by_words(neighbours=3, label_text=0.0)
    trees = by_words(neighbours=5, label_text=2.0)[1] if second else None
    frequency = torch.from_numpy(np.log1p(np.arange(LABELS, dtype=np.float32)))
    weighing = combiner(rankers=1 + second)
    weighing.order = TreeOrder.of(Ordering(forest(), ordered, 0.5, -1.0)) if ordered else None
    whole = FusedRanker(base, ranker, weighing, frequency, width=width, tail=tail, trees=trees)
    part = pack_ranker(whole)
    assert isinstance(part, Fused)
    return part, whole, asked


@torch.no_grad()
@pytest.mark.parametrize("tail", some_slow([0.0, 0.7, -2.0]))
@pytest.mark.parametrize("width", some_slow([1, 4, 99], 2))
@pytest.mark.parametrize(("second", "ordered"), [(False, 0), (True, 0), (True, 3)])
def test_the_fused_ranker_is_torch_s(width: int, tail: float, second: bool, ordered: int) -> None:
    part, ranker, asked = fused(width, tail, second=second, ordered=ordered)
    inputs = torch_inputs(asked)
    for k in (0, 1, 5, LABELS, LABELS + 3):
        found, expected = part.rank(asked, k), ranker.rank(inputs, k)
        np.testing.assert_allclose(found.scores, expected.scores.numpy(), atol=2e-5)
        np.testing.assert_allclose(part.score(asked, found.labels), found.scores, atol=1e-6)
        there = np.diff(expected.scores.numpy(), prepend=2, append=-1)  # where no rounding can change the order
        clear = np.minimum(-there[:, :-1], -there[:, 1:]) > 1e-4
        assert np.array_equal(found.labels[clear], expected.labels.numpy()[clear])
    labels = np.tile([3, NO_LABEL, 11, 3], (asked.size, 1))
    np.testing.assert_allclose(part.score(asked, labels), ranker.score(inputs, torch.from_numpy(labels)), atol=2e-5)


def test_its_dial_is_turned_as_torch_s_is() -> None:
    part, ranker, asked = fused()
    with torch.no_grad():
        expected = ranker.with_tail(1.5).rank(torch_inputs(asked), 5)
    np.testing.assert_allclose(part.with_tail(1.5).rank(asked, 5).scores, expected.scores.numpy(), atol=2e-5)


@torch.no_grad()
@pytest.mark.parametrize("rankers", [1, 2, 3])
def test_what_is_weighed_is_the_combiner_s_answer(rankers: int) -> None:
    network, found = combiner(3, rankers), 5 * numbers(4, 9, numbers_of(rankers))
    found[2] *= 100  # far from what is usual
    names = {"first": network.first, "second": network.second}
    arrays = {name: getattr(network, name).numpy() for name in ("mean", "deviation")}
    arrays["last"] = network.last.weight.numpy()[0]
    arrays |= {name: part.weight.numpy().T.copy() for name, part in names.items()}
    arrays |= {f"{name}_bias": part.bias.numpy() for name, part in names.items()}
    layers = Layers(**{name: for_kernels(array) for name, array in arrays.items()})
    scores = np.zeros((4, 9), dtype=np.float32)
    for one, into in zip(found, scores, strict=True):
        weigh(layers, one, into)
    expected = (network(torch.from_numpy(found)) - network.last.bias).numpy()
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=2e-5)


def test_the_sigmoid_is_right_to_a_millionth() -> None:
    scores = np.concatenate([np.linspace(-20, 20, 20_001), [-1e30, 1e30, -np.inf, np.inf, 0]]).astype(np.float32)
    with np.errstate(over="ignore"):
        expected = 1 / (1 + np.exp(-scores.astype(np.float64)))
    found = np.array([sigmoid(score) for score in scores])
    assert np.abs(found - expected).max() <= 1e-6


def test_threads_do_not_disturb_each_other() -> None:
    part, _, asked = fused()
    expected = part.rank(asked, 5)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: part.rank(asked, 5), range(24)))
    assert all(np.array_equal(answer.labels, expected.labels) for answer in answers)
    assert all(np.array_equal(answer.scores, expected.scores) for answer in answers)


def test_it_stays_as_it_is_while_the_model_learns_on() -> None:
    part, ranker, asked = fused()
    expected = part.rank(asked, 5)
    with torch.no_grad():
        for parameter in ranker.combiner.parameters():
            parameter.add_(1)
    assert np.array_equal(part.rank(asked, 5).scores, expected.scores)


def test_mapped_arrays_answer_the_same(folder: Path) -> None:
    part, ranker, asked = fused()
    assert np.array_equal(mapped(part, folder).rank(asked, 7).scores, part.rank(asked, 7).scores)
    assert isinstance(ranker.nearest, NearestRanker)
    assert isinstance(part.exact().with_beam(3).nearest, Neighbours)
