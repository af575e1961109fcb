"""What every method's ranker must keep to, on planted data. A new method is tested by its line in METHODS."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from laconic.config import Settings, configure
from laconic.data.corpus import Split
from laconic.data.prepare import prepare
from laconic.data.tokenizer import Tokenizer
from laconic.errors import ModelError
from laconic.methods.registry import METHODS, Method, ensemble_of
from laconic.models.rankers import Ranker
from laconic.training.run import Run
from laconic.types import NO_LABEL, Ranking, Tokens
from tests.planted import planted_texts, share_of_right_first_labels
from tests.variants import some_slow

SETTINGS: dict[str, Settings] = {  # by method: what makes it small enough for a test
    "trees": {"fan_out": 2, "leaf": 2, "beam": 3},
    "astec": {
        "epochs": 60,
        "embedding": 32,
        "length": 6,
        "batch_size": 16,
        "learning_rate": 0.05,
        "dropout": 0.1,
        "shortlist": {"size": 9, "centroids": 8, "neighbours": 5, "neighbour_power": 3.0},
        "extreme": {"random": 2},
        "surrogate": {"count": 8},
        "clustering": {"walks": 10},
    },
    "decaf": {
        "epochs": 24,
        "embedding": 32,
        "length": 6,
        "batch_size": 16,
        "learning_rate": 0.1,
        "clusters": 4,
        "beam": 3,
        "surrogate": {"dropout": 0.2},
    },
    "mach": {
        "members": 4,
        "buckets": 6,
        "epochs": 12,
        "embedding": 32,
        "length": 6,
        "batch_size": 16,
        "learning_rate": 0.03,
        "dropout": 0.1,
    },
    "xml-cnn": {"epochs": 8, "embedding": 16, "length": 6, "batch_size": 16, "learning_rate": 0.005},
    "inceptionxml+": {
        "epochs": 30,
        "embedding": 32,
        "length": 6,
        "batch_size": 16,
        "learning_rate": 0.02,
        "clusters": 4,
        "top": 3,
    },
    "siamese": {"epochs": 30, "embedding": 32, "length": 6, "batch_size": 32, "rounds": 1},
    "inceptionxml": {"epochs": 30, "embedding": 64, "length": 6, "batch_size": 16, "learning_rate": 0.02},
}
RERANKER: Settings = {  # over any of them
    "epochs": 10,
    "embedding": 32,
    "length": 6,
    "batch_size": 16,
    "learning_rate": 0.05,
    "dropout": 0.1,
    "encoder": "bag",
    "size": 8,
}
FUSION: dict[str, Any] = {"width": 6, "hidden": 16, "epochs": 60, "neighbours": 8}
SLOW = ("inceptionxml+", "mach", "xml-cnn")  # made of the parts of others; their own tests have what differs
RANKERS: list[Any] = [  # of which method, how many members, with what over each
    *((name, 1, {}) for name in METHODS if name not in SLOW),
    *(pytest.param((name, 1, {}), marks=pytest.mark.slow) for name in SLOW),
    pytest.param(("inceptionxml", 2, {}), marks=pytest.mark.slow),
    ("nearest", 1, {"reranker": RERANKER}),
    pytest.param(("inceptionxml", 2, {"reranker": RERANKER}), marks=pytest.mark.slow),
    ("astec", 1, {"fusion": FUSION}),
    pytest.param(("inceptionxml", 2, {"reranker": RERANKER, "fusion": FUSION}), marks=pytest.mark.slow),
]
NUM_LABELS = 12


class Trained(NamedTuple):
    method: Method
    config: Any
    ranker: Ranker
    tokenizer: Tokenizer
    test: Split

    @property
    def inputs(self) -> Tokens:
        assert self.test.texts is not None
        return self.tokenizer.tokens(self.test.texts)


@pytest.fixture(scope="module", params=RANKERS, ids=lambda one: f"{one[1]} {one[0]} {'+'.join(one[2])}".strip())
def trained(request: pytest.FixtureRequest) -> Trained:
    name, members, over = request.param
    method = ensemble_of(name, members, over=over)
    changes = ({"epochs": 15} if members > 1 else {}) | ({"validation": 0.2} if "fusion" in over else {})
    config = configure(method.config, SETTINGS.get(name, {}) | changes | over)
    corpus = planted_texts(num_labels=NUM_LABELS, with_label_texts=True)
    data, tokenizer = prepare(corpus, config.text, config.vocabulary)
    assert tokenizer is not None
    return Trained(method, config, method.train(data, config, Run.unkept()).ranker, tokenizer, corpus.split("test"))


def same(one: Ranking, other: Ranking) -> bool:
    return torch.equal(one.labels, other.labels) and torch.allclose(one.scores, other.scores, rtol=1e-5, atol=1e-7)


def test_planted_labels_are_found(trained: Trained) -> None:
    labels = trained.ranker.rank(trained.inputs, 5).labels.numpy()
    assert share_of_right_first_labels(labels, trained.test.labels) > 0.9


def test_the_scores_of_a_ranking_are_those_of_its_labels(trained: Trained) -> None:
    labels, scores = trained.ranker.rank(trained.inputs, 7)
    torch.testing.assert_close(trained.ranker.score(trained.inputs, labels), scores)
    backwards = trained.ranker.score(trained.inputs, labels.flip(1).contiguous())
    torch.testing.assert_close(backwards, scores.flip(1))


def test_labels_come_best_first_and_none_of_them_twice(trained: Trained) -> None:
    labels, scores = trained.ranker.rank(trained.inputs, NUM_LABELS)
    assert (scores[:, :-1] >= scores[:, 1:]).all()
    assert labels.sort(dim=1).values.tolist() == [list(range(NUM_LABELS))] * len(labels)


def test_fewer_labels_are_the_first_of_more(trained: Trained) -> None:
    few, many = trained.ranker.rank(trained.inputs, 3), trained.ranker.rank(trained.inputs, 8)
    assert same(few, Ranking(many.labels[:, :3], many.scores[:, :3]))
    assert trained.ranker.rank(trained.inputs, 0).labels.shape == (len(many.labels), 0)


def test_rows_end_in_no_label_where_labels_give_out(trained: Trained) -> None:
    labels, scores = trained.ranker.rank(trained.inputs, NUM_LABELS + 3)
    assert labels.shape == scores.shape == (len(trained.test), NUM_LABELS + 3)
    assert (labels[:, :NUM_LABELS] != NO_LABEL).all()
    assert (labels[:, NUM_LABELS:] == NO_LABEL).all()


def test_texts_that_say_nothing_are_answered(trained: Trained) -> None:
    for texts in ([""], ["", "xyzzy", "!?"], ["xyzzy"]):
        labels, scores = trained.ranker.rank(trained.tokenizer.tokens(texts), 5)
        assert labels.shape == (len(texts), 5)
        assert ((labels >= 0) & (labels < NUM_LABELS)).all()
        assert scores.isfinite().all()


def test_no_texts_have_no_rows(trained: Trained) -> None:
    inputs = trained.tokenizer.tokens([])
    assert trained.ranker.rank(inputs, 5).labels.shape == (0, 5)
    assert trained.ranker.score(inputs, torch.zeros((0, 2), dtype=torch.int64)).shape == (0, 2)


def test_a_text_is_answered_alone_as_in_a_batch(trained: Trained) -> None:
    together = trained.ranker.rank(trained.inputs, 5)
    for row, text in enumerate(trained.test.texts or ()):
        alone = trained.ranker.rank(trained.tokenizer.tokens([text]), 5)
        assert alone.labels[0].tolist() == together.labels[row].tolist()
        torch.testing.assert_close(alone.scores[0], together.scores[row])


@pytest.mark.slow  # tests of the methods compare two trainings too
def test_the_same_data_gives_the_same_ranker(trained: Trained) -> None:
    corpus = planted_texts(num_labels=NUM_LABELS, with_label_texts=True)
    data = prepare(corpus, trained.config.text, trained.config.vocabulary).data
    again = trained.method.train(data, trained.config, Run.unkept()).ranker
    assert same(again.rank(trained.inputs, 5), trained.ranker.rank(trained.inputs, 5))


def test_a_restored_ranker_is_the_same_ranker(trained: Trained) -> None:
    tensors = {name: tensor.clone() for name, tensor in trained.ranker.state_dict().items()}
    restored = trained.method.restore(trained.config, tensors)
    assert restored.num_labels == NUM_LABELS
    assert same(restored.rank(trained.inputs, 5), trained.ranker.rank(trained.inputs, 5))
    assert restored.state_dict().keys() == tensors.keys()


def some(state: dict[str, Tensor], most: int) -> dict[str, Tensor]:
    """Of many tensors so many, from first to last."""
    names = [name for name in state if not name.endswith("num_batches_tracked")]  # torch does without it
    return {name: state[name] for name in names[:: 1 + len(names) // most]}


@pytest.mark.parametrize("most", some_slow([4, 1000]))
def test_a_missing_tensor_is_refused_by_name(trained: Trained, most: int) -> None:
    state = trained.ranker.state_dict()
    for name in some(state, most):
        with pytest.raises(
            ModelError, match=re.sub(r"^((base|nearest|combiner|trees(?=\.(trees|words|ids|pairs)\b))\.)*", "", name)
        ):
            trained.method.restore(trained.config, {other: state[other] for other in state if other != name})


def damaged(tensor: Tensor, generator: np.random.Generator) -> list[Tensor]:
    """The tensor with one value, its shape or its type as it never can be."""
    values = [torch.nan, torch.inf] if tensor.is_floating_point() else [-1, 10**6, torch.iinfo(tensor.dtype).max]
    if tensor.dtype in (torch.int8, torch.uint8):  # any byte may be a weight; steps are damaged elsewhere
        values = []
    wrong = []
    for value in values:
        copy = tensor.clone()
        copy.view(-1)[int(generator.integers(tensor.numel()))] = value
        wrong.append(copy)
    return [*wrong, tensor[None], tensor.to(torch.bfloat16), tensor.reshape(-1)[0]]


@pytest.mark.parametrize("most", some_slow([4, 15]))
def test_a_damaged_tensor_is_refused(trained: Trained, most: int) -> None:
    generator = np.random.default_rng(0)
    state = trained.ranker.state_dict()
    for name, tensor in some(state, most).items():
        if not tensor.ndim:  # a counter may be any number
            continue
        for wrong in damaged(tensor, generator):
            with pytest.raises(ModelError):
                trained.method.restore(trained.config, state | {name: wrong})


@pytest.mark.parametrize("most", some_slow([4, 15]))
def test_tensors_cut_short_are_refused_or_read_within_their_bounds(trained: Trained, most: int) -> None:
    state = trained.ranker.state_dict()
    for name, tensor in some(state, most).items():
        if not tensor.ndim:
            continue
        for kept in (0, 1, len(tensor) // 2, len(tensor) - 1):
            try:
                ranker = trained.method.restore(trained.config, state | {name: tensor[:kept]})
            except ModelError:
                continue
            if ranker.num_ids != trained.ranker.num_ids:  # whoever opens it sees that the vocabulary does not fit
                continue
            labels, scores = ranker.rank(trained.inputs, 5)
            assert ((labels >= NO_LABEL) & (labels < NUM_LABELS)).all()
            assert scores.isfinite().all()
