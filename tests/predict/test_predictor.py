"""Allowed and blocked labels: whatever the way there, the answer is the full ranking less what is not permitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor

from laconic.config import Settings
from laconic.errors import ConfigError, DataError
from laconic.methods import config_of, train_model
from laconic.predict import predictor as module
from laconic.predict.predictor import Prediction, Predictor, RankerAmong
from laconic.rankers import Ranker
from laconic.run import Run
from laconic.types import NO_LABEL, Inputs, Ranking
from tests.planted import planted_texts, planted_vectors

NUM_LABELS = 30
NAMES = [f"L{label}" for label in range(NUM_LABELS)]
METHODS: dict[str, Settings] = {
    "nearest": {},
    "inceptionxml": {"epochs": 3, "embedding": 64, "length": 4, "batch_size": 32, "validation": 0.0},
}
WAYS = {"as it is": {}, "always wider": {"_FEW": 0}, "few at once": {"_SCORED_AT_ONCE": 1, "_RANKED_AT_ONCE": 40}}
CORPUS = planted_texts(num_labels=NUM_LABELS)
TEXTS = [*(CORPUS.split("test").texts or ())[:12], "", "xyzzy"]


@pytest.fixture(scope="module", params=METHODS)
def predictor(request: pytest.FixtureRequest) -> Predictor:
    config = config_of(request.param, METHODS[request.param])
    return Predictor(train_model(CORPUS, request.param, config, Run.unkept()), "cpu")


@pytest.fixture(params=WAYS)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in WAYS[request.param].items():
        monkeypatch.setattr(module, name, value)


def check(answers: list[list[Prediction]], full: list[list[Prediction]], permitted: set[str], k: int) -> None:
    """Labels of equal scores may come in any order."""
    for answer, everything in zip(answers, full, strict=True):
        left = [prediction for prediction in everything if prediction.label in permitted]
        assert len({label for label, _ in answer}) == len(answer) == min(k, len(left))
        np.testing.assert_allclose([score for _, score in answer], [score for _, score in left[:k]], rtol=1e-5)
        score_of = dict(left)
        np.testing.assert_allclose([score_of[label] for label, _ in answer], [score for _, score in answer], rtol=1e-5)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("k", [1, 5, NUM_LABELS + 3])
def test_permitted_labels_come_in_the_order_of_the_full_ranking(predictor: Predictor, k: int) -> None:
    full = predictor.predict(TEXTS, NUM_LABELS)
    generator = np.random.default_rng(k)
    for allowed, blocked in ((1, 0), (3, 0), (20, 0), (30, 0), (None, 1), (None, 12), (None, 29), (20, 12), (4, 29)):
        allow = None if allowed is None else [str(name) for name in generator.choice(NAMES, allowed, replace=False)]
        block = [str(name) for name in generator.choice(NAMES, blocked, replace=False)]
        permitted = set(NAMES if allow is None else allow) - set(block)
        check(predictor.predict(TEXTS, k, allow=allow, block=block), full, permitted, k)


def test_a_list_of_nothing_blocks_nothing_and_allows_nothing(predictor: Predictor) -> None:
    assert predictor.predict(TEXTS, block=[]) == predictor.predict(TEXTS) == predictor.predict(TEXTS, allow=NAMES)
    assert predictor.predict(TEXTS, allow=[]) == predictor.predict(TEXTS, block=NAMES) == [[]] * len(TEXTS)
    assert predictor.predict([], allow=["L1"]) == predictor.predict([], block=["L1"]) == []


def test_names_may_come_from_a_generator_and_twice(predictor: Predictor) -> None:
    assert predictor.predict(TEXTS, allow=(name for name in ("L1", "L2", "L1"))) == predictor.predict(
        TEXTS, allow=["L2", "L1"]
    )


@pytest.mark.parametrize("argument", ["allow", "block"])
def test_unknown_names_are_listed(predictor: Predictor, argument: str) -> None:
    def ask(names: Any) -> None:
        predictor.predict(TEXTS, 5, **{argument: names})

    with pytest.raises(ConfigError, match=rf"{argument} names labels that the model does not have: 'red'$"):
        ask(["L1", "red"])
    with pytest.raises(ConfigError, match=r"have: 'n0', 'n1', 'n2', 'n3', 'n4' and 3 more$"):
        ask([f"n{number}" for number in range(8)])
    with pytest.raises(ConfigError, match=rf"{argument} must be a list of label names, but is one string: 'L1'"):
        ask("L1")


def test_k_is_one_or_more(predictor: Predictor) -> None:
    with pytest.raises(ConfigError, match="k must be 1 or more, but is 0"):
        predictor.predict(TEXTS, 0, allow=["L1"])


def test_a_model_of_features_answers_no_texts() -> None:
    model = train_model(planted_vectors(), "nearest", config_of("nearest", {}), Run.unkept())
    with pytest.raises(DataError, match="trained on features"):
        Predictor(model, "cpu").predict(["text"], allow=["L1"])


class Shortlisting(Ranker):
    """Scores a label by the input's number for it, and finds only the first three labels by itself."""

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        self.num_labels = num_labels

    def rank(self, inputs: Inputs, k: int) -> Ranking:
        assert isinstance(inputs, Tensor)
        scores, labels = inputs[:, :3].sort(dim=1, descending=True)
        empty = (len(inputs), max(k - 3, 0))
        labels = torch.cat([labels[:, :k], torch.full(empty, NO_LABEL)], 1)
        return Ranking(labels, torch.cat([scores[:, :k], torch.zeros(empty)], 1))

    def score(self, inputs: Inputs, labels: Int[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        assert isinstance(inputs, Tensor)
        return inputs.gather(1, labels)


INPUTS = torch.tensor([[0.1, 0.3, 0.2, 0.9, 0.8, 0.7], [0.3, 0.2, 0.1, 0.7, 0.9, 0.8]])


def test_an_allowed_label_is_found_outside_the_shortlist() -> None:
    permitted = torch.tensor([True, False, False, False, True, False])
    labels, scores = RankerAmong(Shortlisting(6), permitted).rank(INPUTS, 2)
    assert labels.tolist() == [[4, 0], [4, 0]]
    torch.testing.assert_close(scores, torch.tensor([[0.8, 0.1], [0.9, 0.3]]))


def test_a_blocked_label_leaves_the_rest_of_the_shortlist() -> None:
    permitted = torch.tensor([True, False, True, True, True, True])
    labels, scores = RankerAmong(Shortlisting(6), permitted).rank(INPUTS, 3)
    assert labels.tolist() == [[2, 0, NO_LABEL], [0, 2, NO_LABEL]]
    torch.testing.assert_close(scores[:, :2], torch.tensor([[0.2, 0.1], [0.3, 0.1]]))


def test_the_scores_of_labels_are_the_rankers_own() -> None:
    labels = torch.tensor([[3, 0], [1, 5]])
    among = RankerAmong(Shortlisting(6), torch.ones(6, dtype=torch.bool))
    torch.testing.assert_close(among.score(INPUTS, labels), INPUTS.gather(1, labels))
